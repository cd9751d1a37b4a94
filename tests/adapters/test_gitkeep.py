from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gitkit
import pytest
from gitkit import commit, sha

from afk.adapters import git
from afk.errors import GitError


def test_dirt_is_named_path_by_path(clone: Path) -> None:
    """R47: what the agent did not commit is seen, new files in new directories one by one."""
    commit(clone, "start", {".gitignore": "*.log\n", "kept": "1\n", "gone": "1\n", "was here": "long enough\n" * 9})
    assert git.dirty_paths(clone) == []
    gitkit.write(clone, {"kept": "2\n", "new/a b": "", "new/ä\nbreak": "", "x.log": "ignored"})
    (clone / "gone").unlink()
    gitkit.git(clone, "mv", "was here", "is here")
    assert sorted(git.dirty_paths(clone)) == ["gone", "is here", "kept", "new/a b", "new/ä\nbreak", "was here"]


def test_looking_at_the_tree_does_not_lock_the_index(clone: Path) -> None:
    """An agent's own `git add` must never fail because we looked."""
    os.utime(clone / "README.md", (1, 1))  # same content, other time: git would like to refresh the index
    before = (clone / ".git" / "index").read_bytes()
    assert git.dirty_paths(clone) == []
    assert (clone / ".git" / "index").read_bytes() == before
    gitkit.git(clone, "status")
    assert (clone / ".git" / "index").read_bytes() != before


def test_uncommitted_work_is_committed_whole_whatever_hooks_say(clone: Path) -> None:
    """R17, R47: a rescue is not refused by a hook, and asks for no signature."""
    gitkit.hook(clone, "pre-commit", "exit 1")
    gitkit.git(clone, "config", "commit.gpgSign", "true")
    gitkit.git(clone, "config", "gpg.program", "false")
    commit_before = sha(clone)
    assert git.commit_all(clone, "nothing to do") is None
    (clone / "README.md").unlink()
    gitkit.write(clone, {"sub/new": "x\n", "sub/-dash": "x\n"})
    made = git.commit_all(clone / "sub", "wip: #7")
    assert made == sha(clone) != commit_before
    assert git.touched_files(clone, commit_before, made) == ["README.md", "sub/-dash", "sub/new"]
    assert git.dirty_paths(clone) == []


def test_a_rescue_works_without_an_identity(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    gitkit.write(clone, {"new": "x\n"})
    assert git.commit_all(clone, "wip")
    assert gitkit.log(clone, "HEAD^!", form="%an <%ae>") == ["afk <afk@localhost>"]


def test_a_patch_brings_everything_back_and_touches_nothing(clone: Path, tmp_path: Path) -> None:
    commit(clone, "start", {"kept": "1\n", "gone": "1\n", "binary": bytes(range(256)), "staged": "1\n"})
    assert not git.save_patch(clone, tmp_path / "none.patch")
    assert not (tmp_path / "none.patch").exists()
    fresh = gitkit.clone(str(clone), tmp_path / "fresh")
    gitkit.write(
        clone, {"kept": "2\n", "binary": b"\0\xff\0", "new/untracked": "x\n", "new/bin": b"\0\1", "staged": "2\n"}
    )
    gitkit.git(clone, "add", "staged")
    (clone / "gone").unlink()
    (clone / "link").symlink_to("kept")
    before = _all_but_objects(clone)
    assert git.save_patch(clone, tmp_path / "work.patch")
    assert _all_but_objects(clone) == before
    gitkit.git(fresh, "apply", "--binary", str(tmp_path / "work.patch"))
    assert _files(fresh) == _files(clone)
    assert [path.name for path in tmp_path.glob(".*")] == []


def _all_but_objects(repo: Path) -> dict[str, bytes]:
    return {name: data for name, data in gitkit.contents(repo).items() if not name.startswith(".git/objects/")}


def _files(repo: Path) -> dict[str, bytes]:
    return {name: data for name, data in gitkit.contents(repo).items() if not name.startswith(".git/")}


def test_a_patch_of_a_branch_without_a_commit_and_of_a_conflict_can_be_saved(clone: Path, tmp_path: Path) -> None:
    start = sha(clone)
    theirs = commit(clone, "theirs", {"README.md": "theirs\n"})
    gitkit.git(clone, "checkout", "-q", "-B", "work", start)
    commit(clone, "ours", {"README.md": "ours\n"})
    git.merge_into_worktree(clone, theirs, "merge")
    assert git.save_patch(clone, tmp_path / "conflict.patch")
    assert "+<<<<<<< HEAD" in (tmp_path / "conflict.patch").read_text()
    assert git.unmerged_paths(clone) == ["README.md"]
    gitkit.git(clone, "merge", "--abort")
    gitkit.git(clone, "checkout", "-q", "--orphan", "empty")
    assert git.save_patch(clone, tmp_path / "orphan.patch")
    assert "+ours" in (tmp_path / "orphan.patch").read_text()


def test_commits_are_bundled_and_read_back_where_the_base_is(clone: Path, tmp_path: Path) -> None:
    """R60: what could not be pushed is kept in a file."""
    base = sha(clone)
    fresh = gitkit.clone(str(clone), tmp_path / "fresh")
    gitkit.git(clone, "checkout", "-q", "-b", "afk/wAAAA/1-x")
    tip = commit(clone, "work", {"a": "1\n"})
    before = gitkit.refs(clone)
    git.bundle(clone, tmp_path / "by-ref.bundle", base, "refs/heads/afk/wAAAA/1-x")
    git.bundle(clone, tmp_path / "by-sha.bundle", base, tip)
    assert gitkit.refs(clone) == before
    gitkit.git(fresh, "fetch", "-q", str(tmp_path / "by-ref.bundle"), "refs/heads/afk/wAAAA/1-x:refs/heads/a")
    gitkit.git(fresh, "fetch", "-q", str(tmp_path / "by-sha.bundle"), f"refs/afk/bundle/{tip}:refs/heads/b")
    assert sha(fresh, "a") == sha(fresh, "b") == tip
    with pytest.raises(GitError, match="empty bundle"):
        git.bundle(clone, tmp_path / "empty.bundle", tip, tip)
    assert gitkit.refs(clone) == before


# ── A person's checkout ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_checkout_in_which_nothing_happened_looks_the_same(clone: Path) -> None:
    gitkit.write(clone, {"README.md": "dirty\n", "new": "x", "big": b"0" * 1_100_000})
    (clone / "link").symlink_to("nowhere")
    before = git.snapshot_checkout(clone)
    gitkit.write(clone, {".red/tmp/workers/x": "ours", ".red/config.yaml": "afk: {}"})
    assert git.changed_paths(before, git.snapshot_checkout(clone)) == []
    assert git.snapshot_checkout(clone) == before
    assert git.snapshot_checkout(clone / ".red") == before


def test_each_thing_an_agent_may_do_to_a_persons_checkout_is_named(clone: Path) -> None:
    """R22: also a change inside a file that was dirty before, which `git status` alone does not show."""
    commit(clone, "start", {"tracked": "1\n", "dirty": "1\n", "staged": "1\n"})
    gitkit.write(clone, {"dirty": "2\n", "untracked": "x\n", "staged": "2\n"})
    (clone / "link").symlink_to("a")
    (clone / "mode").write_text("x")
    before = git.snapshot_checkout(clone)
    assert (before.head, before.branch) == (sha(clone), "refs/heads/main")
    assert [path for path, _ in before.dirty] == ["dirty", "link", "mode", "staged", "untracked"]

    def seen() -> list[str]:
        return git.changed_paths(before, git.snapshot_checkout(clone))

    assert seen() == []
    gitkit.write(clone, {"dirty": "3\n", "untracked": "y\n", "tracked": "2\n", "brand new": ""})
    (clone / "link").unlink()
    (clone / "link").symlink_to("b")
    gitkit.git(clone, "add", "staged")
    assert seen() == ["brand new", "dirty", "link", "staged", "tracked", "untracked"]
    gitkit.git(clone, "checkout", "-q", "-b", "elsewhere")
    assert "HEAD" in seen()


def test_a_checkout_without_a_commit_or_a_branch_has_a_snapshot_too(clone: Path, tmp_path: Path) -> None:
    gitkit.git(tmp_path, "init", "-q", "new")
    gitkit.write(tmp_path / "new", {"a": "x"})
    fresh = git.snapshot_checkout(tmp_path / "new")
    assert (fresh.head, fresh.branch, [path for path, _ in fresh.dirty]) == (None, "refs/heads/main", ["a"])
    gitkit.git(clone, "checkout", "-q", "--detach")
    assert git.snapshot_checkout(clone).branch is None


FULL_DISK = """
import sys
from pathlib import Path
from afk.adapters import git
from afk.errors import DiskFull
repo, disk = Path(sys.argv[1]), Path(sys.argv[2])
try:
    git.save_patch(repo, disk / "work.patch")
except DiskFull as error:
    print(type(error).__name__, [path.name for path in disk.iterdir()])
"""


@pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0,
    reason="needs the right to mount a small disk",
)
def test_a_full_disk_under_git_is_named(clone: Path, tmp_path: Path) -> None:
    """R20: ENOSPC inside git is the same error as our own, and half a patch is not taken for one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    gitkit.write(clone, {"large": os.urandom(1_000_000)})
    script = 'set -e; mount -t tmpfs -o size=64k none "$1"; shift; exec "$@"'
    argv = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        str(disk),
        sys.executable,
        "-c",
        FULL_DISK,
        str(clone),
        str(disk),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "DiskFull []\n"
