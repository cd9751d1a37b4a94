"""Which lock files of a dead git go, and which never do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gitkit
import pytest

from afk.adapters import gitlocks, worktrees

OURS = ("refs/heads/afk/wX/1-a.lock", "refs/afk/landings/1.lock", "packed-refs.lock", "worktrees/worktree/HEAD.lock")
THEIRS = ("index.lock", "HEAD.lock", "config.lock", "refs/heads/main.lock", "worktrees/side/index.lock")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A checkout with a worktree of ours and one of a person."""
    origin = gitkit.make_origin(tmp_path / "origin.git", {"a.txt": "a\n"})
    repo = gitkit.clone(gitkit.url(origin), tmp_path / "repo")
    worktrees.add(repo, tmp_path / "ours/worktree", "afk/wX/1-a", gitkit.sha(repo), owner="wX-1-a1")
    gitkit.git(repo, "worktree", "add", "-q", str(tmp_path / "side"))
    return repo


def lock(repo: Path, name: str) -> Path:
    path = repo / ".git" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_what_a_dead_git_left_where_we_work_goes_and_a_persons_locks_stay(repo: Path) -> None:
    ours = [lock(repo, name) for name in OURS]
    theirs = [lock(repo, name) for name in THEIRS]
    assert sorted(gitlocks.clear(repo)) == sorted(ours)
    assert not any(path.exists() for path in ours)
    assert all(path.exists() for path in theirs)


def test_after_a_run_the_locks_of_its_worktree_and_its_branch_go(repo: Path, tmp_path: Path) -> None:
    mine = [lock(repo, "worktrees/worktree/index.lock"), lock(repo, "refs/heads/afk/wX/1-a.lock")]
    others = [lock(repo, "packed-refs.lock"), lock(repo, "refs/heads/afk/wX/2-b.lock")]
    assert sorted(gitlocks.clear_of_worktree(tmp_path / "ours/worktree", "afk/wX/1-a")) == sorted(mine)
    assert all(path.exists() for path in others)


def test_a_worktree_that_is_gone_has_no_locks(repo: Path, tmp_path: Path) -> None:
    assert gitlocks.clear_of_worktree(tmp_path / "nowhere", "afk/wX/1-a") == []


def test_the_lock_of_a_git_that_lives_is_left_to_it(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L10: who holds it is asked of the kernel."""
    monkeypatch.setattr(gitlocks, "_LOOKS", 2)
    worktree, ready, go = tmp_path / "ours/worktree", tmp_path / "ready", tmp_path / "go"
    editor = f"touch {ready}; while [ ! -e {go} ]; do sleep 0.02; done; echo text >"
    (worktree / "a.txt").write_text("other\n")
    commit = subprocess.Popen(["git", "commit", "-qa"], cwd=worktree, env=os.environ | {"GIT_EDITOR": editor})
    gitkit.wait_until(ready.exists, "the editor")
    held = list((repo / ".git/worktrees/worktree").glob("*.lock"))
    assert held
    assert gitlocks.clear(repo) == []
    assert all(path.exists() for path in held)
    go.touch()
    assert commit.wait() == 0


def test_the_lock_of_a_git_that_was_killed_goes(repo: Path, tmp_path: Path) -> None:
    worktree, ready = tmp_path / "ours/worktree", tmp_path / "ready"
    (worktree / "a.txt").write_text("other\n")
    editor = f"touch {ready}; sleep 3600; :"
    commit = subprocess.Popen(
        ["git", "commit", "-qa"], cwd=worktree, env=os.environ | {"GIT_EDITOR": editor}, start_new_session=True
    )
    gitkit.wait_until(ready.exists, "the editor")
    os.killpg(commit.pid, signal.SIGKILL)
    commit.wait()
    assert gitlocks.clear(repo)
    gitkit.commit(worktree, "works again")


def test_a_lock_that_another_program_has_open_is_left_to_it(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor with a git of its own, say."""
    monkeypatch.setattr(gitlocks, "_LOOKS", 2)
    path, ready = repo / ".git/packed-refs.lock", tmp_path / "ready"
    program = f"import time; f = open({str(path)!r}, 'x'); open({str(ready)!r}, 'x'); time.sleep(3600)"
    other = subprocess.Popen([sys.executable, "-c", program])
    gitkit.wait_until(ready.exists, "the other program")
    assert gitlocks.clear(repo) == []
    other.kill()
    other.wait()
    assert gitlocks.clear(repo) == [path]


def test_a_remote_that_is_a_folder_here_is_freed_too(repo: Path, tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    (origin / "refs/afk/claims").mkdir(parents=True)
    ours = [origin / "refs/afk/claims/3.lock", origin / "refs/heads/main.lock"]
    theirs = origin / "refs/heads/feature.lock"
    for path in (*ours, theirs):
        path.touch()
    assert sorted(gitlocks.clear_of_remote(gitkit.url(origin), "main")) == sorted(ours)
    assert theirs.exists()


@pytest.mark.parametrize("url", ["git@example.invalid:a/b.git", "https://example.invalid/a.git", "file://nas/a", "x"])
def test_a_remote_elsewhere_is_left_alone(url: str) -> None:
    assert gitlocks.clear_of_remote(url, "main") == []


def test_a_disk_that_other_machines_write_to_is_left_alone(repo: Path, tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    path = origin / "packed-refs.lock"
    path.touch()
    told = [SimpleNamespace(mountpoint="/", fstype="ext4"), SimpleNamespace(mountpoint=str(tmp_path), fstype="nfs4")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gitlocks.psutil, "disk_partitions", lambda all: told)
        assert gitlocks.clear_of_remote(str(origin), "main") == []
    assert gitlocks.clear_of_remote(str(origin), "main") == [path]
