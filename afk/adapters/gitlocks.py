"""Lock files of a git that died: git never removes one, and whoever meets it later fails.

A `kill -9` or a power cut in the middle of `git commit`, `update-ref` or `worktree add` leaves `X.lock` beside the
file X that was to be replaced. Only locks where `afk` and its agents write are looked at, and one goes only when nobody
who could have made it lives: no git of this user in this repository, and no process at all that has it open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil

from afk.adapters import git
from afk.adapters.worktrees import WorktreeOwner

__all__ = ["clear", "clear_of_remote", "clear_of_worktree"]

_OUR_REFS = ("refs/afk", "refs/heads/afk")
_SHARED = ("packed-refs.lock", "packed-refs.new")  # who deletes a ref takes them
_SHARED_DISKS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "fuse",
    "ceph",
    "gfs",
    "ocfs",
    "lustre",
    "afs",
    "beegfs",
    "gpfs",
    "virtiofs",
)
_LOOKS, _PAUSE_S = 20, 0.1
_BORN_LATER_S = 1.0  # times of files and of processes come from clocks of different grain


@dataclass(frozen=True, slots=True)
class _Lock:
    path: Path
    inode: int
    made_at_s: float


def clear(repo: Path) -> list[Path]:
    """Remove dead locks of everything that is ours in the repository; the paths that went.

    A lock whose maker lives is waited for, 2 s at most, and stays then. Raises `GitError` where no repository is.
    """
    common = git.common_dir(repo)
    return _clear(common, lambda: _ours(common))


def clear_of_remote(url: str, base: str) -> list[Path]:
    """The same in a remote that is a folder of this machine: what our pushes write there, the branch `base` included.

    Nothing where it is anything else, or on a disk that other machines write to.
    """
    folder = _folder_of(url)
    if folder is None or not (folder / "objects").is_dir() or _is_shared_disk(folder):
        return []
    return _clear(folder, lambda: [*_our_refs(folder), folder / f"refs/heads/{base}.lock"])


def clear_of_worktree(worktree: Path, branch: str) -> list[Path]:
    """The same for one worktree whose agent has ended, and its branch; nothing when there is no worktree any more."""
    if not (worktree / ".git").exists():
        return []
    own = Path(git.run(worktree, "rev-parse", "--absolute-git-dir").stdout.removesuffix("\n"))
    shared = git.common_dir(worktree)
    return _clear(shared, lambda: [*own.glob("*.lock"), *shared.glob(f"refs/heads/{branch}.lock")])


def _ours(common: Path) -> list[Path]:
    found = _our_refs(common)
    for administration in (common / "worktrees").glob("*"):
        if _is_ours(administration):
            found += administration.glob("*.lock")
    return found


def _our_refs(common: Path) -> list[Path]:
    found = [path for folder in _OUR_REFS for path in (common / folder).rglob("*.lock")]
    return found + [common / name for name in _SHARED]


def _folder_of(url: str) -> Path | None:
    """Of a `file://` address or an absolute path; a bare repository, or the `.git` of a checkout."""
    parts = urlsplit(url)
    if not (parts.scheme == "file" and parts.netloc in ("", "localhost")) and not url.startswith("/"):
        return None
    folder = Path(unquote(parts.path) if parts.scheme else url)
    return folder / ".git" if (folder / ".git").is_dir() else folder


def _is_shared_disk(folder: Path) -> bool:
    real = str(folder.resolve())
    mounts = psutil.disk_partitions(all=True)
    under = [
        mount for mount in mounts if real == mount.mountpoint or real.startswith(mount.mountpoint.rstrip("/") + "/")
    ]
    kind = max(under, key=lambda mount: len(mount.mountpoint)).fstype if under else ""
    return kind.startswith(_SHARED_DISKS)


def _is_ours(administration: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        return WorktreeOwner.parse((administration / "locked").read_text().strip()) is not None
    return False


def _clear(common: Path, find: Callable[[], list[Path]]) -> list[Path]:
    gone: list[Path] = []
    for _ in range(_LOOKS):
        locks = list(_looked_at(find()))
        if not locks:
            break
        places = [str(place) for place in _places(common)]
        for lock in locks:
            if not _may_be_held(lock, places) and _same(lock):
                lock.path.unlink(missing_ok=True)
                gone.append(lock.path)
        time.sleep(_PAUSE_S)
    return gone


def _looked_at(paths: Sequence[Path]) -> Iterator[_Lock]:
    """Those that are there and belong to us; another user's are not ours to judge."""
    for path in paths:
        with suppress(OSError):
            facts = path.lstat()
            if facts.st_uid == os.geteuid():
                yield _Lock(path, facts.st_ino, facts.st_mtime)


def _same(lock: _Lock) -> bool:
    return lock in _looked_at([lock.path])


def _places(common: Path) -> Iterator[Path]:
    """Where a git that works on this repository can stand."""
    yield common
    if common.name == ".git":
        yield common.parent
    # Not `git worktree list`: it fails on the half made entries that a dead git leaves.
    for pointer in common.glob("worktrees/*/gitdir"):
        with suppress(OSError, UnicodeDecodeError):
            yield Path(pointer.read_text().rstrip("\n")).parent


def _may_be_held(lock: _Lock, places: Sequence[str]) -> bool:
    """Whether somebody lives who was there when it was made, and is a git in this repository or has it open."""
    for process in psutil.process_iter(["pid", "uids", "name", "create_time"]):
        told = process.info
        if told["uids"] is None or told["uids"].effective != os.geteuid():
            continue
        if told["create_time"] > lock.made_at_s + _BORN_LATER_S:
            continue
        if (told["name"] or "").startswith("git") and _stands_in(process, places):
            return True
        if _has_open(told["pid"], lock):
            return True
    return False


def _stands_in(process: psutil.Process, places: Sequence[str]) -> bool:
    try:
        here = process.cwd()
    except psutil.NoSuchProcess:
        return False
    except psutil.Error:
        return True
    return any(here == place or here.startswith(f"{place}/") for place in places)


def _has_open(pid: int, lock: _Lock) -> bool:
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if descriptor.readlink() == lock.path:
                    return True
    return False
