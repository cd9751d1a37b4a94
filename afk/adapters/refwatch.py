"""Whether a worktree's refs may have changed, for watchers that ask several times a second: no process, no library.

It only says when to look. What is there is for git to say (`git.rev_parse`), which also refuses to be led astray.
"""

# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os
from pathlib import Path

from afk.adapters.regular import read_regular

__all__ = ["look_of_refs"]

_MOST_BYTES = 4096


def look_of_refs(worktree: Path, ref: str) -> tuple[object, ...] | None:
    """Differs from an earlier one when HEAD, what it is on, or the full `ref` was written since; None: it cannot tell.

    Git replaces each of these files by another one. Source: gitrepository-layout(5), "worktrees"; reftable too.
    """
    pointer = read_regular(worktree / ".git", _MOST_BYTES)
    if pointer is None or not pointer.startswith("gitdir: "):
        return None
    # Plain strings: pathlib would make half of the cost of a look.
    administration = os.path.join(worktree, pointer.removeprefix("gitdir: ").rstrip("\n"))
    common = os.path.dirname(os.path.dirname(administration))
    head = read_regular(Path(administration, "HEAD"), _MOST_BYTES)
    if head is None:
        return None
    files = [f"{common}/{ref}", f"{common}/packed-refs"]
    files += [f"{common}/reftable/tables.list", f"{administration}/reftable/tables.list"]
    if head.startswith("ref: ") and head != f"ref: {ref}\n":
        files.append(f"{common}/{head.removeprefix('ref: ').strip()}")
    return pointer, head, *(_state(file) for file in files)


def _state(file: str) -> tuple[int, ...] | None:
    try:
        found = os.lstat(file)
    except (OSError, ValueError):  # not there; or an agent wrote a HEAD that names no file
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
