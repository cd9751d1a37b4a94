"""Two renames that Python has no name for: exchange two files, and rename only where nothing is.

Linux does both in one step (`renameat2`). Elsewhere, and on file systems that lack it, the nearest sequence of steps
takes their place; its gaps are named with each function.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

__all__ = ["exchange", "rename_new"]

_AT_FDCWD: Final = -100
_RENAME_NOREPLACE: Final = 1
_RENAME_EXCHANGE: Final = 2
_UNSUPPORTED: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


def exchange(one: Path, other: Path) -> None:
    """Each name gets the other's file at the same instant, so that nothing that was there can be lost unseen.

    Without the system's help a file renamed to `other` between two of our steps would be lost; what is written into
    the file that is there is not, for that very file comes out. Raises: OSError.
    """
    if _renameat2(one, other, _RENAME_EXCHANGE):
        return
    kept = one.with_name(f"{one.name}.kept")
    kept.hardlink_to(other)
    one.replace(other)
    kept.replace(one)


def rename_new(source: Path, target: Path) -> bool:
    """Whether `target` was free and is now what `source` was.

    Without the system's help an empty directory made at this moment would be replaced. Raises: OSError.
    """
    try:
        if not _renameat2(source, target, _RENAME_NOREPLACE):
            if target.exists():
                return False
            source.rename(target)
    except FileExistsError:
        return False
    return True


def _renameat2(source: Path, target: Path, flags: int) -> bool:
    """False when kernel, C library or file system cannot do it."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if function(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(source), None, str(target))
