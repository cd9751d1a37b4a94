"""What a watcher sees of a worktree's refs without asking git: every change, and nothing when there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import gitkit
import pytest

from afk.adapters.refwatch import look_of_refs

REF = "refs/heads/afk/wTEST/7-do-it"


@pytest.fixture
def worktree(clone: Path, tmp_path: Path) -> Path:
    path = tmp_path / "worktree"
    gitkit.git(clone, "worktree", "add", "-q", "-b", REF.removeprefix("refs/heads/"), str(path))
    return path


CHANGES: dict[str, Callable[[Path], object]] = {
    "a commit": lambda worktree: gitkit.commit(worktree, "more", {"more.txt": "more\n"}),
    "another branch": lambda worktree: gitkit.git(worktree, "switch", "-q", "-c", "other"),
    "a detached HEAD": lambda worktree: gitkit.git(worktree, "switch", "-q", "--detach"),
    "the branch moved from elsewhere": lambda worktree: gitkit.git(
        worktree, "update-ref", REF, gitkit.git(worktree, "commit-tree", "HEAD^{tree}", "-m", "x")
    ),
    "packed refs": lambda worktree: gitkit.git(worktree, "pack-refs", "--all"),
    "another repository": lambda worktree: (worktree / ".git").write_text("gitdir: /nowhere\n"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_seen(worktree: Path, change: str) -> None:
    """L26: what is not looked at is not pushed."""
    before = look_of_refs(worktree, REF)
    assert before is not None
    assert look_of_refs(worktree, REF) == before
    CHANGES[change](worktree)
    assert look_of_refs(worktree, REF) != before


def test_a_commit_on_the_branch_that_the_agent_went_to_is_seen(worktree: Path) -> None:
    """Also a detached one."""
    for how in (["-c", "other"], ["--detach"]):
        gitkit.git(worktree, "switch", "-q", *how)
        before = look_of_refs(worktree, REF)
        gitkit.commit(worktree, "more", {f"{how[0]}.txt": "more\n"})
        assert look_of_refs(worktree, REF) != before


@pytest.mark.parametrize("head", [None, b"ref: \0\n", b"ref: " + b"x" * 5000, b"\xff"])
def test_what_is_no_worktree_is_left_to_git(worktree: Path, head: bytes | None) -> None:
    file = Path(gitkit.git(worktree, "rev-parse", "--absolute-git-dir")) / "HEAD"
    file.unlink()
    if head is not None:
        file.write_bytes(head)
    look_of_refs(worktree, REF)
    (worktree / ".git").unlink()
    assert look_of_refs(worktree, REF) is None
    os.mkfifo(worktree / ".git")
    assert look_of_refs(worktree, REF) is None
