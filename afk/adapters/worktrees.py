"""Making and removing an attempt's worktree: each is there completely or not at all, and only what is ours is touched.

Whose a worktree is stands in git's own lock on it (`afk wZ2R4-142-a1 (pid …, host …)`), which is written before the
first file is checked out. It survives every crash, keeps `git worktree prune` away, and is what a retry goes by:
leftovers are recognised by this record, never by their name. A lock of a living process, of another machine or of a
person is never broken (R04).
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from afk.adapters import git
from afk.adapters.files import write_atomic
from afk.adapters.git import WorktreeEntry
from afk.adapters.gitrun import HALF_MADE
from afk.adapters.process import Identity, identity_of, is_alive
from afk.errors import AfkError, GitError

__all__ = ["Removal", "WorktreeOwner", "add", "delete_tree", "remove", "take_over"]

_ADD_S = 900.0  # a large tree on a slow disk; the measured cost is 1.2 s for 50,000 files

# What git says because another git works on the same worktrees at this moment; for ref locks it waits itself. Second:
# the directory `worktrees` vanishes with the last worktree in it, just when ours is to be made there.
_CONTENTION = re.compile(
    rf"{HALF_MADE.pattern}"
    r"|could not create (leading )?director(y|ies) of '.*': (No such file or directory|File exists)"
)
_PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


@dataclass(frozen=True, slots=True)
class WorktreeOwner:
    """The attempt and the process a worktree was made for, as text in the reason of git's lock and back."""

    attempt: str
    process: Identity
    host: str

    @classmethod
    def ourselves(cls, attempt: str) -> WorktreeOwner:
        return cls(attempt, identity_of() or Identity(os.getpid(), "", ""), socket.gethostname())

    @classmethod
    def parse(cls, reason: str | None) -> WorktreeOwner | None:
        """None for a reason that `afk` did not write."""
        found = _REASON.match(reason or "")
        return cls(found[1], Identity(int(found[2]), found[3], found[4]), found[5]) if found else None

    def __str__(self) -> str:
        who = self.process
        return f"afk {self.attempt} (pid {who.pid}, start {who.pid_start_time}, boot {who.boot_id}, host {self.host})"

    def yields_to(self, attempt: str) -> bool:
        """Whether this process may act on it for `attempt`: same attempt, same machine, and the maker is us or dead."""
        if self.attempt != attempt or self.host != socket.gethostname():
            return False
        return self.process == identity_of() or not is_alive(self.process)


_REASON = re.compile(r"afk (\S+) \(pid (\d+), start (\S*), boot (\S*), host (.*)\)\Z")


@dataclass(frozen=True, slots=True)
class Removal:
    """`gone`: there is no worktree at the path now. `reason` says why it was left, or what could not be deleted."""

    gone: bool
    reason: str = ""


# ── Making ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def add(repo: Path, path: Path, branch: str, sha: str, owner: str) -> None:
    """A worktree at `path` on the new branch `branch` at `sha`, locked for the attempt `owner`; or nothing.

    What an earlier try of the same attempt left is put right once: an untouched worktree is taken over, anything else
    is set aside beside `path`, never deleted. No configuration is written, no hook runs, and others may add at the
    same time. Raises `GitError` with git's words, or `DiskFull`; then neither directory, registration nor
    branch is left.
    """
    if _settle_leftovers(repo, path, branch, sha, owner):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    for pause_s in _PAUSES_S:
        try:
            _add_or_undo(repo, path, branch, sha, owner)
        except GitError as error:
            if not _CONTENTION.search(error.message):
                raise
            time.sleep(pause_s * random.uniform(0.5, 1.5))
        else:
            return
    _add_or_undo(repo, path, branch, sha, owner)


def _add_or_undo(repo: Path, path: Path, branch: str, sha: str, owner: str) -> None:
    lock = ("--lock", "--reason", str(WorktreeOwner.ourselves(owner)))
    try:
        git.run(repo, *_ADD, *lock, "-b", branch, "--", str(path.absolute()), sha, timeout_s=_ADD_S, again=False)
    except BaseException as error:
        _undo(repo, path, owner, error)
        if "already exists" not in str(error):  # somebody else made a branch of that name at this moment
            _undo_branch(repo, branch, sha, error)
        raise


_ADD = ("worktree", "add", "--no-track")


def _undo(repo: Path, path: Path, owner: str, error: BaseException) -> None:
    try:
        removal = remove(repo, path, owner=owner)
    except (AfkError, OSError) as second:
        removal = Removal(False, str(second))
    if removal.reason:
        error.add_note(f"and it could not be undone: {removal.reason}")


def _undo_branch(repo: Path, branch: str, sha: str, error: BaseException) -> None:
    try:
        git.delete_branch(repo, branch, sha)
    except AfkError as second:
        error.add_note(f"and the branch {branch} could not be removed: {second.message}")


def _settle_leftovers(repo: Path, path: Path, branch: str, sha: str, owner: str) -> bool:
    """The four cases of directory × registration (R02, R03), then the branch (R08). True: a whole worktree is there."""
    entry, is_there = _entry(repo, path), os.path.lexists(path)
    if entry is not None:
        _demand_ours(entry, owner)
    if entry is not None and is_there and _is_untouched(entry, branch, sha):
        take_over(repo, path, owner)
        return True
    if is_there:
        _set_aside(repo, path, registered=entry is not None)
    if entry is not None:
        _deregister(repo, path)
    _clear_branch(repo, branch, sha)
    return False


def _demand_ours(entry: WorktreeEntry, owner: str) -> None:
    reason = _why_not_ours(entry, owner)
    if reason:
        raise GitError(reason, hint="git worktree list --verbose")


def _why_not_ours(entry: WorktreeEntry, owner: str) -> str:
    held_by = WorktreeOwner.parse(entry.locked)
    if held_by is not None and held_by.yields_to(owner):
        return ""
    if entry.locked is None:
        return f"the worktree {entry.path} was not made by afk"
    return f"the worktree {entry.path} is locked: {entry.locked or 'no reason given'}"


def _is_untouched(entry: WorktreeEntry, branch: str, sha: str) -> bool:
    if (entry.branch, entry.head) != (f"refs/heads/{branch}", sha):
        return False
    try:
        return not git.dirty_paths(entry.path)
    except GitError:  # a checkout that was killed half way
        return False


def _set_aside(repo: Path, path: Path, *, registered: bool) -> None:
    """Out of the way, with whatever work is in it; a directory that is no worktree of ours stays (R05)."""
    if not registered and path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
        path.rmdir()
        return
    if path.is_symlink() or (not registered and not _is_worktree_of(repo, path)):
        raise GitError(f"{path} is in the way and was not made by afk", hint=f"ls -la {path}")
    path.rename(_beside(path, "left"))


def _is_worktree_of(repo: Path, path: Path) -> bool:
    """Whether the directory says of itself that it belongs to this repository, even if git has forgotten it."""
    administration = _administration(path)
    return administration is not None and administration.parent == git.common_dir(repo) / "worktrees"


def _administration(path: Path) -> Path | None:
    """Where a worktree's `.git` file points to. Source: gitrepository-layout(5), "gitfile"."""
    try:
        text = (path / ".git").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return Path(os.path.normpath(path / text.removeprefix("gitdir: ").strip())) if text.startswith("gitdir: ") else None


def _clear_branch(repo: Path, branch: str, sha: str) -> None:
    if not git.delete_branch(repo, branch, sha):
        raise GitError(
            f"branch {branch} exists already and is not just a leftover of {sha}", hint=f"git log -3 {branch}"
        )


def take_over(repo: Path, path: Path, owner: str) -> None:
    """Put our own process into the lock of a worktree whose maker died. Raises `GitError` when it is not ours."""
    entry = _entry(repo, path)
    if entry is None:
        raise GitError(f"git knows no worktree at {path}", hint="git worktree list")
    _demand_ours(entry, owner)
    # git can only unlock and lock again, and a crash in between would leave a worktree that is nobody's.
    administration = Path(git.run(entry.path, "rev-parse", "--absolute-git-dir").stdout.removesuffix("\n"))
    write_atomic(administration / "locked", f"{WorktreeOwner.ourselves(owner)}\n")


# ── Removing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def remove(repo: Path, path: Path, *, owner: str) -> Removal:
    """Remove the worktree that was made at `path` for the attempt `owner`, with everything uncommitted in it.

    Its branch stays. Anything else at that path, a lock that is not ours, a worktree of another owner: left as it is,
    with the reason. May be called again after a crash, and is quick for whoever waits: the name is free at once.
    Raises `GitError` when git will not forget it.
    """
    entry = _entry(repo, path)
    if entry is None:
        _sweep(path)
        if os.path.lexists(path):
            return Removal(False, f"{path} is not a worktree that git knows of, and is left as it is")
        return Removal(True)
    reason = _why_not_ours(entry, owner) or _why_not_its_directory(repo, entry, path)
    if reason:
        return Removal(False, reason)
    if path.exists():
        path.rename(_beside(path, "gone"))
    _deregister(repo, path)
    return Removal(True, _sweep(path))


def _why_not_its_directory(repo: Path, entry: WorktreeEntry, path: Path) -> str:
    """A directory that took the place of the registered one, by a link or by moving another worktree there (R21)."""
    if path.is_symlink():
        return f"{path} is a symbolic link now, and is left as it is"
    administration = _administration(path)
    if administration is None or administration.parent != git.common_dir(repo) / "worktrees":
        return ""
    with suppress(OSError):
        if Path((administration / "gitdir").read_text().strip()).parent == entry.path:
            return ""
    return f"{path} belongs to another worktree ({administration.name}), and is left as it is"


def _entry(repo: Path, path: Path) -> WorktreeEntry | None:
    """Found by the real path of its parent, so that a link in the way to it does not hide it, or a link at its end."""
    real = Path(os.path.realpath(path.parent), path.name)
    return next((entry for entry in git.worktree_list(repo)[1:] if entry.path in (path, real)), None)


def _deregister(repo: Path, path: Path) -> None:
    """Forget this one entry, whose directory is gone by now; never a `git worktree prune`, which takes others along."""
    git.run(repo, "worktree", "remove", "--force", "--force", "--", str(path.absolute()))


def _beside(path: Path, word: str) -> Path:
    return path.with_name(f"{path.name}.{word}-{uuid4().hex[:8]}")


def _sweep(path: Path) -> str:
    """Delete what `remove` renamed, now or before a crash; a reason when something resists."""
    reasons = [reason for gone in path.parent.glob(f"{path.name}.gone-*") if (reason := delete_tree(gone))]
    return "; ".join(reasons)


def delete_tree(directory: Path) -> str:
    """Delete a directory of ours, folders without write permission included; what resisted, or ""."""
    try:
        shutil.rmtree(directory)
    except PermissionError:
        _make_deletable(directory)
        shutil.rmtree(directory, ignore_errors=True)
    except OSError as error:
        return f"{directory} could not be deleted: {error.strerror}"
    return f"{directory} could not be deleted" if directory.exists() else ""


def _make_deletable(directory: Path) -> None:
    """Package caches are fond of directories without write permission."""
    for folder, _, _ in os.walk(directory):
        with suppress(OSError):
            Path(folder).chmod(0o700)
