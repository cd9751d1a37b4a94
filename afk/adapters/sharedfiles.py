"""Files that editors and several programs write at once: read whole, numbered, or changed without losing a save.

What is written here is on the disk when the function returns, and no reader ever sees half of it.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from errno import EACCES, ELOOP, ENOENT, ENOTDIR, ENXIO
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from afk.adapters.issuefile import BrokenFile
from afk.adapters.rename import exchange
from afk.errors import TrackerError

__all__ = [
    "LOOK_S",
    "MAX_FILE_BYTES",
    "NUMBERED",
    "SETTLE_S",
    "File",
    "inside",
    "link_next",
    "read",
    "rewrite",
    "sync",
    "write_new",
]

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
SETTLE_S: Final = 0.5  # how long a file that was touched this moment may be half of what its editor is writing
LOOK_S: Final = 0.02
NUMBERED: Final = re.compile(r"([0-9]{1,10})\.md\Z")
# What is wrong with one file; anything else (EIO, a share that went away) is wrong with all of them.
UNREADABLE: Final = frozenset({ENOENT, EACCES, ENOTDIR, ELOOP, ENXIO})
_ROUNDS: Final = 20  # saves by a person during one change of ours, before it is given up


@dataclass(frozen=True, slots=True)
class File:
    data: bytes
    info: os.stat_result

    @property
    def owner(self) -> str:
        try:
            return pwd.getpwuid(self.info.st_uid).pw_name
        except KeyError:
            return str(self.info.st_uid)

    @property
    def written_at(self) -> datetime:
        return datetime.fromtimestamp(self.info.st_mtime).astimezone()


def inside(path: Path, root: Path) -> Path:
    """The real path. Raises: BrokenFile when links lead out of `root` or nowhere."""
    try:
        real = path.resolve(strict=True)
    except RuntimeError as error:  # how Python 3.11 and 3.12 say ELOOP
        raise BrokenFile("is a link to itself") from error
    except OSError as error:
        raise _broken(error) from error
    if not real.is_relative_to(root.resolve()):
        raise BrokenFile("is a link that leads out of the issue folder")
    return real


def _broken(error: OSError) -> Exception:
    return BrokenFile(f"cannot be opened: {error.strerror}") if error.errno in UNREADABLE else error


def read(path: Path) -> File:
    """A regular file of bounded size; never waits for a pipe's writer. Raises: BrokenFile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _broken(error) from error
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise BrokenFile("is no regular file")
        if info.st_size > MAX_FILE_BYTES:
            raise BrokenFile(f"is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return File(file.read(), info)
    finally:
        os.close(descriptor)


def write_new(path: Path, content: bytes, mode: int = 0o666) -> None:
    """A new file, on the disk, or none."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link_next(folder: Path, content: bytes) -> Path:
    """The complete file under the next free number. The link is the exclusive creation: one of many writers gets it."""
    temporary = folder / f".{uuid4().hex}.tmp"
    try:
        write_new(temporary, content)
        taken = [int(match[1]) for match in (NUMBERED.match(entry.name) for entry in folder.iterdir()) if match]
        for number in count(max(taken, default=0) + 1):
            path = folder / f"{number:04d}.md"
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
                break
    finally:
        temporary.unlink(missing_ok=True)
    sync(folder)
    return path


def rewrite(path: Path, change: Callable[[File], bytes]) -> None:
    """Put `change(file)` in the place of the very file that is there, whoever else saves it meanwhile.

    What comes out of the exchange is compared with what was read. When that differs, a person saved in between: the
    change is made to their text instead and the round begins again. So no save is ever overwritten unseen.
    Raises: BrokenFile when they saved something broken, which is then in place as they left it.
    """
    before = read(path)
    expected, wanted = before.data, change(before)
    if wanted == expected:
        return
    spares: list[Path] = []
    failure: BrokenFile | None = None
    for _ in range(_ROUNDS):
        spares.append(path.with_name(f".{path.name}.{uuid4().hex}.tmp"))
        write_new(spares[-1], wanted, before.info.st_mode & 0o777)
        exchange(spares[-1], path)
        # Twice: at once, so that an older text stands here for an instant only; and later, for an editor that had the
        # old file open and wrote into it after it came out.
        if read(spares[-1]).data == expected:
            sync(path.parent)
        if read(spares[-1]).data == expected:
            _remove(spares)
            if failure is not None:
                raise failure
            return
        expected, (wanted, failure) = wanted, _change_again(spares[-1], change)
    _remove(spares[:-1])
    raise TrackerError(f"{path} is saved over and over; the last save but one is kept as {spares[-1]}")


def _change_again(path: Path, change: Callable[[File], bytes]) -> tuple[bytes, BrokenFile | None]:
    """The change made to what a person saved; when that stays broken, their bytes as they are, and why."""
    give_up = time.monotonic() + SETTLE_S
    while True:
        file = read(path)
        try:
            return change(file), None
        except BrokenFile as error:
            if time.monotonic() > give_up:
                return file.data, error
        time.sleep(LOOK_S)  # an editor that writes in place may still be at it


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
