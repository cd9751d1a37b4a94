"""Reading what a program writes while it writes it: lines of any length, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from afk.adapters.regular import open_regular

__all__ = ["Line", "LineFollower", "tail_lines"]

READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end (LF or CRLF); what is not UTF-8 is U+FFFD. `overflow_bytes` were cut off its end."""

    text: str
    overflow_bytes: int = 0


class LineFollower:
    """Reads a growing file line by line: a line may be of any length (R36), and no call holds more than a few MB (R41).

    The file may be absent yet. `cap_bytes` is what is kept of one line. `offset` (constructor) is where an earlier
    follower's `offset` (property) was.
    """

    def __init__(self, path: Path, cap_bytes: int = 1024 * 1024, offset: int = 0) -> None:
        self._path = path
        self._cap = cap_bytes
        self._read_to = offset
        self._offset = offset
        self._partial = bytearray()
        self._overflow = 0
        self.has_more = False  # whether the last `read` left something in the file

    @property
    def offset(self) -> int:
        """Bytes up to the end of the last complete line that was given out."""
        return self._offset

    @property
    def bytes_read(self) -> int:
        """Grows with every byte that was written, also inside a line that does not end."""
        return self._read_to

    def read(self) -> list[Line]:
        """The lines that were completed, of the next 256 kB; empty when there is none. Call again while `has_more`."""
        data = self._next_bytes()
        *ended, rest = data.split(b"\n")
        lines = []
        for piece in ended:
            if self._partial or self._overflow or len(piece) > self._cap:
                self._extend(piece)
                lines.append(self._take())
            else:  # nearly every line: complete, and not too long
                lines.append(Line(_text(piece)))
        self._extend(rest)
        self._read_to += len(data)
        if ended:
            self._offset = self._read_to - len(rest)
        return lines

    def finish(self) -> Iterator[Line]:
        """When nobody writes any more: every line that is left, the unterminated last one included."""
        yield from self.read()
        while self.has_more:
            yield from self.read()
        if self._partial or self._overflow:
            self._offset = self._read_to
            yield self._take()

    def _next_bytes(self) -> bytes:
        try:
            with open_regular(self._path) as file:
                file.seek(self._read_to)
                data = file.read(READ_BYTES)
                self.has_more = self._read_to + len(data) < os.fstat(file.fileno()).st_size
                return data
        except FileNotFoundError:
            self.has_more = False
            return b""

    def _extend(self, piece: bytes) -> None:
        room = self._cap - len(self._partial)
        self._partial += piece[:room]
        self._overflow += max(0, len(piece) - room)

    def _take(self) -> Line:
        line = Line(_text(self._partial), self._overflow)
        self._partial.clear()
        self._overflow = 0
        return line


def _text(line: bytes | bytearray) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")


def tail_lines(path: Path, n: int, cap_bytes: int) -> list[str]:
    """The last `n` (at least 1) lines, an unterminated one included, of the last `cap_bytes`; empty without a file.

    A line that begins before those bytes is left out, unless it is the only one: then its end is given.
    """
    data = _last_bytes(path, cap_bytes)
    if not data:
        return []
    return [
        line.removesuffix(b"\r").decode("utf-8", "replace") for line in data.removesuffix(b"\n").rsplit(b"\n", n)[-n:]
    ]


def _last_bytes(path: Path, cap_bytes: int) -> bytes:
    """From the first line start among the last `cap_bytes` on; from the middle of a line when there is none."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            if size <= cap_bytes:
                file.seek(0)
                return file.read(cap_bytes)
            file.seek(size - cap_bytes - 1)
            before, data = file.read(1), file.read(cap_bytes)
    except FileNotFoundError:
        return b""
    start = 0 if before == b"\n" else data.find(b"\n") + 1
    return data[start:] or data
