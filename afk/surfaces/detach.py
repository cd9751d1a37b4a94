"""Leaving the terminal: a child in a session of its own, whose words go to a log with a ceiling.

The parent stays until the child has really begun, or tells why it has not. The child is a fork, so that nothing is
parsed or decided twice; it has no thread of the parent's, because a command line has none yet.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from afk.adapters.files import append_line
from afk.errors import AfkError, DetachFailed, of_code
from afk.surfaces.emit import Emitter, Line, Mode
from afk.wire.json_value import parse_json

__all__ = ["Announce", "LogLine", "leave_terminal"]

_CEILING_BYTES = 4 * 1024 * 1024
_LINE_CHARS = 64 * 1024
_DESCRIPTORS = 4096  # nobody starts us with more of them open

Announce = Callable[[Mapping[str, object]], None]
"""Tells the parent, once: a mapping with what has begun. Later calls do nothing."""


class LogLine(Line):
    """Appends to a log that is rotated once, so that both files together stay below 8 MiB (L14).

    For people each line begins with the time; events are left as they are.
    """

    def __init__(self, path: Path, mode: Mode) -> None:
        self._path = path
        self._stamps = mode is Mode.TEXT

    def try_write(self, data: bytes) -> OSError | None:
        try:
            for line in data.decode("utf-8", "backslashreplace").splitlines():
                stamp = f"{datetime.now().astimezone().isoformat(timespec='seconds')} " if self._stamps else ""
                append_line(self._path, f"{stamp}{line}"[:_LINE_CHARS], ceiling_bytes=_CEILING_BYTES)
        except OSError as failure:
            return failure
        except AfkError as error:  # the disk is full
            return OSError(error.message)
        return None


def leave_terminal(
    root: Path, emitter: Emitter, log: Path, body: Callable[[Emitter, Announce], int]
) -> Mapping[str, Any]:
    """Run `body` in a detached child; returns its pid and what it announced, once it did.

    `body` speaks through the emitter that it is given and returns the exit code. It gets no terminal, no input, and
    `root` as its directory. Raises the error that kept it from beginning, and `DetachFailed` when it died without one.
    An interrupt while it begins takes it along.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_detached(root, write)  # never returns to the parent's code
        os._exit(_exit_of(body, emitter.elsewhere(LogLine(log, emitter.mode)), write))
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        raise
    return {"pid": pid, **_begun(told, pid, log)}


def _exit_of(body: Callable[[Emitter, Announce], int], emitter: Emitter, write: int) -> int:
    pipe: list[int] = [write]

    def announce(message: Mapping[str, object]) -> None:
        while pipe:
            descriptor = pipe.pop()
            with suppress(BrokenPipeError):  # the parent is gone; the work goes on
                os.write(descriptor, json.dumps(message).encode())
            os.close(descriptor)

    try:
        return body(emitter, announce)
    except BaseException as error:  # noqa: BLE001 - a fork must not run on into its parent's code
        emitter.log("traceback", f"{type(error).__name__}: {error}")
        return AfkError.exit_code


def _become_detached(root: Path, keep: int) -> None:
    """A session of its own, nothing of the terminal, and no descriptor of the parent's but the one to tell it on."""
    os.setsid()
    os.chdir(root)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.closerange(3, keep)
    os.closerange(keep + 1, _DESCRIPTORS)


def _begun(told: bytes, pid: int, log: Path) -> Mapping[str, Any]:
    if not told:
        os.waitpid(pid, 0)
        raise DetachFailed("the run in the background died before it had begun", hint=f"tail {log}")
    message: Mapping[str, Any] = parse_json(told)
    failed = message.get("error")
    if failed is None:
        return message
    os.waitpid(pid, 0)
    raise of_code(failed["code"])(failed["message"], hint=failed["hint"])
