"""Git LFS in a worktree: pointers stand for files until somebody fetches them (R13).

Our git never fetches on the way (`GIT_LFS_SKIP_SMUDGE`): it would cost minutes for each worktree. What LFS's `pre-push`
hook would send is sent by `upload`, as no hook runs for our pushes.
"""

from __future__ import annotations

from pathlib import Path

from afk.adapters.git import NewEntry
from afk.adapters.gitrun import run, run_remote
from afk.errors import GitError

__all__ = ["download", "is_pointer", "pointers", "tracked", "upload"]

# Source: git-lfs, docs/spec.md, "The Pointer".
_POINTER = "version https://git-lfs.github.com/spec/v1\n"
_POINTER_MAX_BYTES = 1024
_TRANSFER_S = 900.0


def is_pointer(repo: Path, entry: NewEntry) -> bool:
    """Whether this blob stands for content that LFS keeps elsewhere."""
    if entry.size_bytes >= _POINTER_MAX_BYTES:
        return False
    return run(repo, "cat-file", "blob", entry.sha).stdout.startswith(_POINTER)


def tracked(worktree: Path) -> list[str]:
    """The files whose content LFS keeps, as far as the index tells."""
    asked = ("grep", "--cached", "--files-with-matches", "-z", "--extended-regexp", "-e", f"^{_POINTER.rstrip()}$")
    found = run(worktree, *asked, check=False).stdout.split("\0")
    return [path for path in found if path and _is_small(worktree, path)]


def _is_small(worktree: Path, path: str) -> bool:
    """A text about LFS may quote a pointer; only a pointer begins with it, and ends soon."""
    blob = run(worktree, "cat-file", "blob", f":{path}", check=False).stdout
    return len(blob) < _POINTER_MAX_BYTES and blob.startswith(_POINTER)


def pointers(worktree: Path) -> list[str]:
    """The files there that are pointers now, their content not fetched."""
    return [path for path in tracked(worktree) if _is_pointer_file(worktree / path)]


def _is_pointer_file(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_POINTER)) == _POINTER.encode()
    except OSError:
        return False


def download(worktree: Path, url: str) -> None:
    """Put the content of HEAD's files in place of their pointers. Raises `GitError` and what `run_remote` raises."""
    _demand_lfs(worktree)
    run_remote(worktree, url, "lfs", "pull", timeout_s=_TRANSFER_S, env={"GIT_LFS_SKIP_SMUDGE": "0"})


def upload(worktree: Path, url: str, branch: str) -> None:
    """Send the content that the branch's pointers stand for; what the server has is not sent again."""
    _demand_lfs(worktree)
    run_remote(worktree, url, "lfs", "push", url, branch, timeout_s=_TRANSFER_S)


def _demand_lfs(worktree: Path) -> None:
    if run(worktree, "lfs", "version", check=False).returncode != 0:
        raise GitError("git lfs is not installed, and afk.landing.lfs is pull", hint="apt-get install git-lfs")
