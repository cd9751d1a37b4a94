"""Opening a file that an agent may have put something else in the place of: a pipe, a device, a link to a secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

__all__ = ["open_regular", "read_regular"]


def open_regular(path: Path) -> BinaryIO:
    """Open for reading what is a plain file by itself; never waits, never follows a link in the last place.

    Raises `FileNotFoundError` for everything else, so that it counts as not there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise FileNotFoundError(f"{path} is no plain file: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(f"{path} is no plain file")
    return os.fdopen(descriptor, "rb", buffering=0)


def read_regular(path: Path, limit_bytes: int) -> str | None:
    """The text of at most so many bytes, what is not UTF-8 replaced; None where there is no plain file."""
    try:
        with open_regular(path) as file:
            return file.read(limit_bytes).decode("utf-8", "replace")
    except OSError:
        return None
