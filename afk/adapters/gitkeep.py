"""Keeping work that would otherwise be lost, and telling whether a checkout is still what it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from afk.adapters.files import disk_errors
from afk.adapters.gitrun import committer, run

__all__ = [
    "CheckoutSnapshot",
    "bundle",
    "changed_paths",
    "commit_all",
    "dirty_paths",
    "save_patch",
    "snapshot_checkout",
]

HASHED_MAX_BYTES = 1024 * 1024


def dirty_paths(worktree: Path) -> list[str]:
    """Everything `git status` would show there, untracked files one by one, submodules included; empty = clean."""
    options = ("--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames")
    return [entry[3:] for entry in run(worktree, "status", *options).stdout.split("\0") if entry]


def commit_all(worktree: Path, message: str) -> str | None:
    """Commit whatever is there on the branch that is checked out, to keep it; None when there was nothing (R47).

    No hook judges it and nothing signs it: this is a rescue, and the validation comes later.
    """
    if not dirty_paths(worktree):
        return None
    run(worktree, "add", "--all", "--", ":/")
    options = ("--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "--allow-empty-message")
    run(worktree, "commit", *options, "--file=-", input=message.encode(), env=committer(worktree))
    return run(worktree, "rev-parse", "HEAD").stdout.strip()


def save_patch(worktree: Path, path: Path) -> bool:
    """Write all that differs from HEAD, untracked and binary files included, as a patch for `git apply --binary`.

    Index and tree are left as they are. False, and no file, when there is nothing to save. Raises `DiskFull`.
    """
    if not dirty_paths(worktree):
        return False
    target = path.absolute()
    try:
        with disk_errors(target), _index_copy(worktree, target.with_name(f".{target.name}.index")) as index:
            env = {"GIT_INDEX_FILE": str(index)}
            run(worktree, "add", "--all", "--", ":/", env=env)
            # Not `--output=FILE`: git does not notice there that the disk is full, and ends well with half a patch.
            run(worktree, "diff-index", *_PATCH, _head_or_nothing(worktree), env=env, output=target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return True


_PATCH = ("-p", "--cached", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")


@contextmanager
def _index_copy(worktree: Path, copy: Path) -> Iterator[Path]:
    """A copy keeps what git knows about unchanged files; an empty index would read every one of them again."""
    index = Path(run(worktree, "rev-parse", "--path-format=absolute", "--git-path", "index").stdout[:-1])
    try:
        if index.exists():
            shutil.copyfile(index, copy)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _head_or_nothing(worktree: Path) -> str:
    head = run(worktree, "rev-parse", "--verify", "--quiet", "HEAD", check=False).stdout.strip()
    return head or run(worktree, "hash-object", "-t", "tree", "--stdin").stdout.strip()


def bundle(repo: Path, path: Path, base: str | None, tip: str) -> None:
    """Write the commits of `tip` that `base` lacks to a file that `git fetch FILE` reads where `base` is present.

    `tip` is a full ref, which keeps its name inside, or a sha; `base` None writes its whole history. Raises `GitError`
    when there is no such commit.
    """
    lacking = () if base is None else (f"^{base}",)
    with _as_ref(repo, tip) as ref:
        run(repo, "bundle", "create", "--quiet", str(path.absolute()), ref, *lacking, timeout_s=300)


@contextmanager
def _as_ref(repo: Path, tip: str) -> Iterator[str]:
    """git bundles refs only; a sha gets one for the time being."""
    if tip.startswith("refs/"):
        yield tip
        return
    ref = f"refs/afk/bundle/{tip}"
    run(repo, "update-ref", ref, tip)
    try:
        yield ref
    finally:
        run(repo, "update-ref", "-d", ref)


# ── A person's checkout ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class CheckoutSnapshot:
    """`head` None = no commit yet, `branch` None = detached; `dirty` holds (path, fingerprint) of all that differs
    from HEAD, index and working tree both."""

    head: str | None
    branch: str | None
    dirty: tuple[tuple[str, str], ...]


def snapshot_checkout(repo: Path) -> CheckoutSnapshot:
    """What a person has in this checkout now, `.red/` and ignored files left out (R22).

    Costs one `git status` and the reading of dirty files up to 1 MiB each; of larger ones size and time count.
    """
    options = ("--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--", ":/", ":(top,exclude).red")
    entries = filter(None, run(repo, "status", *options).stdout.split("\0"))
    top = Path(run(repo, "rev-parse", "--show-toplevel").stdout[:-1])
    return CheckoutSnapshot(
        run(repo, "rev-parse", "--verify", "--quiet", "HEAD", check=False).stdout.strip() or None,
        run(repo, "symbolic-ref", "--quiet", "HEAD", check=False).stdout.strip() or None,
        tuple(sorted(_fingerprinted(top, entry) for entry in entries)),
    )


def changed_paths(before: CheckoutSnapshot, after: CheckoutSnapshot) -> list[str]:
    """What became dirty, clean or different between two snapshots, sorted; a moved HEAD or branch shows as `HEAD`."""
    paths = {path for path, _ in set(before.dirty) ^ set(after.dirty)}
    moved = (before.head, before.branch) != (after.head, after.branch)
    return sorted(paths | ({"HEAD"} if moved else set()))


# How many fields stand before the path. Source: git-status(1), "Porcelain Format Version 2".
_FIELDS = {"1": 8, "u": 10, "?": 1}


def _fingerprinted(top: Path, entry: str) -> tuple[str, str]:
    *state, path = entry.split(" ", _FIELDS[entry[0]])
    seen = hashlib.sha256(" ".join(state).encode())
    seen.update(_content(top / path))
    return path, seen.hexdigest()


def _content(path: Path) -> bytes:
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            return os.fsencode(path.readlink())
        if stat.S_ISREG(found.st_mode) and found.st_size <= HASHED_MAX_BYTES:
            return path.read_bytes()
    except OSError as error:
        return repr(error.errno).encode()
    return repr((found.st_mode, found.st_size, found.st_mtime_ns)).encode()
