"""The folder that all of a person's checkouts on this machine share: `afk-UID` in the directory for temporary files.

Nothing in it is needed after a boot. Names in that directory are anybody's, so a folder that is not ours is not used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["host_folder", "own_folder"]


def host_folder(environ: Mapping[str, str]) -> Path | None:
    """Made when it is absent; None where somebody else has that name or there is no room: then nothing is shared."""
    parent = Path(environ.get("TMPDIR") or tempfile.gettempdir())
    return own_folder(parent / f"afk-{os.getuid()}")


def own_folder(path: Path) -> Path | None:
    """A folder that nobody but us can look into or replace, made when it is absent; None when that cannot be had."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return path if ours else None
