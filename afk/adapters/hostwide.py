"""The folder that a person's checkouts on this machine share: `afk-UID` in the directory for temporary files.

Nothing in it is needed after a boot. Names in that directory are anybody's, so a folder that is not ours is not used.
Runs that are started with another TMPDIR share another folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

__all__ = ["host_folder", "own_folder"]


def host_folder(environ: Mapping[str, str]) -> Path | None:
    """Made when it is absent; None where somebody else has that name or there is no room: then nothing is shared."""
    name, parent = f"afk-{os.getuid()}", Path(environ.get("TMPDIR") or "/tmp")
    if not parent.is_absolute():  # it would mean another place to each program
        parent = Path("/tmp")
    if parent.parent.name == name:  # an afk inside an agent or a check: its TMPDIR is a seat of the outer one
        return own_folder(parent.parent)
    return own_folder(parent / name)


def own_folder(path: Path) -> Path | None:
    """A folder that nobody but us can look into or replace, made when it is absent; None when that cannot be had."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return path if ours else None
