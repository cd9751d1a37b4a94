"""Files that survive a crash, a full disk and a second writer: replaced whole, appended within a ceiling, locked.

A document is replaced by rename, so that a reader sees the old one or the new one and never a torn one. A log is
appended under the kernel's lock and rotated once. Who holds a lock is asked of the kernel; the record inside the file
only puts a name to it (L10).
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from errno import EDQUOT, ENOSPC
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

from afk.adapters.process import Identity, identity_of
from afk.errors import DiskFull, InvalidInput, LockHeld
from afk.wire.json_value import parse_json

__all__ = ["FileLock", "LockOwner", "append_line", "disk_errors", "owner", "read_json", "write_atomic"]

_LOOK_S = 0.02  # between two looks at a lock that somebody holds
_GLANCE_S = 0.1  # how long `timeout_s=0` looks: longer than anybody's glance at the owner takes


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Raises `DiskFull` for a disk or a quota that is used up; every other error passes as it is (R20)."""
    try:
        yield
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        raise DiskFull(f"no space left to write {path}", hint=f"df -h {path.parent}") from error


# ── Documents ───────────────────────────────────────────────────────────────────────────────────────────────────────


def write_atomic(path: Path, data: bytes | str, *, durable: bool = False) -> None:
    """Replace `path` as a whole; a file that was there keeps its mode, a symbolic link there is replaced itself.

    `durable` returns only when content and name are on the disk, for what recovery stands on. After any error the old
    content is still there and nothing is left beside it. Raises `DiskFull`, `OSError`.
    """
    content = data.encode() if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{uuid4().hex[:12]}.tmp")
    with disk_errors(path):
        try:
            _write_new(temporary, content, mode=_mode_of(path), durable=durable)
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        if durable:
            _sync_directory(path.parent)


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o7777
    except OSError:
        return None


def _write_new(path: Path, content: bytes, *, mode: int | None, durable: bool) -> None:
    with path.open("xb") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a document of ours; None when there is no such file.

    Raises `InvalidInput`, which names path and place, when the file is there and is no JSON object: a read that failed
    is never an empty answer (L06).
    """
    try:
        value = parse_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _broken(path, str(error)) from error
    if not isinstance(value, dict):
        raise _broken(path, f"holds {type(value).__name__}, not an object")
    return value


def _broken(path: Path, why: str) -> InvalidInput:
    return InvalidInput(f"{path} is broken: {why}", hint=f"mv {path} {path}.broken", details={"path": str(path)})


# ── Logs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def append_line(path: Path, line: str, *, ceiling_bytes: int, header: str | None = None) -> None:
    """Append one line, complete or not at all; `header` is the first line of every file that this begins.

    When the file would grow beyond `ceiling_bytes` it becomes `PATH.1` (replacing an older one) and a new one is begun,
    so both together never exceed twice the ceiling (L14). Safe with other threads and processes that append.
    Raises `ValueError` for a line break inside the line, or a line that alone exceeds the ceiling; `DiskFull`.
    """
    if "\n" in line or (header and "\n" in header):
        raise ValueError("a line cannot hold a line break")
    data = f"{line}\n".encode()
    beginning = f"{header}\n".encode() if header else b""
    if len(beginning) + len(data) > ceiling_bytes:
        raise ValueError(f"a line of {len(data)} bytes does not fit a ceiling of {ceiling_bytes}")
    with disk_errors(path):
        while not _append(path, data, beginning, ceiling_bytes):
            pass  # somebody rotated the file between our open and our lock; the next round opens the new one


def _append(path: Path, data: bytes, beginning: bytes, ceiling_bytes: int) -> bool:
    """False when `path` is, or was just made, another file than the one that was opened."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not _is_still(path, descriptor):
            return False
        size = _whole_lines(descriptor)
        if size and size + len(data) > ceiling_bytes:
            path.replace(path.with_name(f"{path.name}.1"))
            return False
        _put(descriptor, data if size else beginning + data, size)
        return True
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _whole_lines(descriptor: int) -> int:
    """The size up to the last line break: what a crash left of a line is absent, and is written over."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _put(descriptor: int, data: bytes, at: int) -> None:
    """Write all of it there, or leave the file as long as it was."""
    try:
        os.ftruncate(descriptor, at)
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], at + done)
    except OSError:
        os.ftruncate(descriptor, at)
        raise


# ── Locks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who holds a lock; `pid` 0 is a holder that has not written its name yet."""

    pid: int
    pid_start_time: str = ""
    boot_id: str = ""
    host: str = ""

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.pid_start_time, self.boot_id)

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}" if self.pid else "another process"


class FileLock:
    """A lock that the kernel drops when its holder dies, by whatever death; a stale one therefore does not exist.

    `timeout_s` is how long entering waits; 0 does not wait, None waits for ever. Entering raises `LockHeld`, with the
    owner in its details. The file stays when the lock is released: deleting it would let two processes hold "the" lock.
    One object is entered by one thread at a time; a second object of the same process is a second holder.
    """

    def __init__(self, path: Path, *, timeout_s: float | None = 0) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._descriptor = -1

    def __enter__(self) -> FileLock:
        with disk_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._wait_for(descriptor)
            with disk_errors(self.path):
                _put(descriptor, json.dumps(_ourselves()).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1

    def owner(self) -> LockOwner | None:
        """Who holds it now, ourselves included; None when nobody does."""
        return owner(self.path)

    def _wait_for(self, descriptor: int) -> None:
        give_up = None if self._timeout_s is None else time.monotonic() + max(self._timeout_s, _GLANCE_S)
        while not _try(descriptor, fcntl.LOCK_EX):
            if give_up is not None and time.monotonic() >= give_up:
                held_by = owner(self.path) or LockOwner(0)
                raise LockHeld(f"{self.path} is held by {held_by}", details={"owner": asdict(held_by)})
            time.sleep(_LOOK_S)


def owner(path: Path) -> LockOwner | None:
    """Who holds the lock at this path; None when nobody does, whatever the file says."""
    for _ in range(5):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            if _try(descriptor, fcntl.LOCK_SH):  # a glance: closing the descriptor gives it back at once
                return None
            named = _named(os.pread(descriptor, 4096, 0))
        finally:
            os.close(descriptor)
        if named is not None:
            return named
        time.sleep(_LOOK_S)  # taken a moment ago, and not signed yet
    return LockOwner(0)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _ourselves() -> dict[str, object]:
    us = identity_of()
    start, boot = (us.pid_start_time, us.boot_id) if us else ("", "")
    return asdict(LockOwner(os.getpid(), start, boot, socket.gethostname()))


def _named(text: bytes) -> LockOwner | None:
    try:
        value = parse_json(text)
        return LockOwner(int(value["pid"]), str(value["pid_start_time"]), str(value["boot_id"]), str(value["host"]))
    except (ValueError, TypeError, KeyError):
        return None
