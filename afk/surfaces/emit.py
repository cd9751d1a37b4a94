"""The one place where `afk` speaks: events and texts go out whole, redacted, in order, with exactly one end.

A finite command says `(log | progress)*` and then one result or error. `result` goes to stdout and everything else to
stderr, unless `--output-to` asks for one stream. Lines are written to the descriptors themselves, not through Python's
buffers, so that a line is either with the reader or it failed here, where something can be done about it.

Source: AFDATA v1, decision record and transport mappings, "CLI".
"""

from __future__ import annotations

import errno
import os
import re
import select
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum

from afk.errors import OutputFailed
from afk.wire import afdata
from afk.wire.afdata import Event, Kind
from afk.wire.afdata_render import Format, render, to_plain
from afk.wire.json_value import JsonValue, NotJson, jsonable
from afk.wire.redact import PLAIN, Rules, mask_text, redact

__all__ = ["EVERYTHING", "READER_GONE", "Emitter", "Line", "Mode", "Route", "terminal_safe"]

READER_GONE = 141  # what a shell reports for a program that SIGPIPE ended
EVERYTHING = frozenset({"*"})  # `--verbose`: every category of log

_STDOUT, _STDERR = 1, 2


class Mode(StrEnum):
    """TEXT is for people; the others are events."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    PLAIN = "plain"


class Route(StrEnum):
    """SPLIT: results on stdout, the rest on stderr. The others keep every kind on one stream, in order."""

    SPLIT = "split"
    STDOUT = "stdout"
    STDERR = "stderr"


class Emitter:
    """Safe to use from any thread. Once a result or an error is out, everything that follows is dropped.

    `categories` are the logs that were asked for (`EVERYTHING`: all of them, and progress too). `exit_code` is what the
    process should end with; None as long as there was no end.
    """

    def __init__(
        self,
        mode: Mode = Mode.TEXT,
        route: Route = Route.SPLIT,
        *,
        categories: frozenset[str] = frozenset(),
        rules: Rules = PLAIN,
        stdout: int | Line = _STDOUT,
        stderr: int | Line = _STDERR,
    ) -> None:
        self.mode = mode
        self.exit_code: int | None = None
        self._route = route
        self._categories = categories
        self._rules = rules
        self._out = Line(stdout) if isinstance(stdout, int) else stdout
        self._err = Line(stderr) if isinstance(stderr, int) else stderr
        self._lock = threading.Lock()
        self._ended = False
        self._started_s = time.monotonic()

    def elsewhere(self, line: Line) -> Emitter:
        """One that speaks the same way on another line alone, and has not ended."""
        return Emitter(self.mode, self._route, categories=self._categories, rules=self._rules, stdout=line, stderr=line)

    def log(self, category: str, message: str, **fields: object) -> None:
        """Something for whoever looks for a fault, said only if this category was asked for. It never fails the work:
        fields that are no JSON are left out."""
        if not self._categories & {category, *EVERYTHING}:
            return
        told = {"category": category, "message": message}
        try:
            event = afdata.log({**told, **fields}, schema="afk.log.v1")
        except NotJson:
            event = afdata.log(told, schema="afk.log.v1")
        self._say(event, text=mask_text(f"{category}: {message}\n", self._rules))

    def say(self, sentence: str) -> None:
        """A sentence for the person who watches, on stderr; programs, who have events, get it under `--verbose`."""
        if self.mode is not Mode.TEXT:
            self.log("say", sentence)
            return
        with self._lock:
            if not self._ended:
                # Whoever read it is gone, or its disk is full: the work goes on, and its end will tell.
                words = mask_text(sentence, self._rules)
                self._err.try_write(f"{terminal_safe(words)}\n".encode("utf-8", "backslashreplace"))

    def progress(self, payload: Mapping[str, object], *, schema: str | None = None, always: bool = False) -> None:
        """A step on the way, said under `--verbose`. With `always` it is said unasked, and as a JSON event in text mode
        too: lines for programs that watch (the transitions of `run`). `schema` may stand in the payload instead."""
        if not always and not self._categories >= EVERYTHING:
            return
        event = afdata.progress(payload, schema=schema)
        self._say(event, text=None if always else f"{to_plain(self._redacted(jsonable(payload)))}\n")

    def result(
        self,
        payload: Mapping[str, object],
        *,
        schema: str,
        exit_code: int = 0,
        text: Callable[[Mapping[str, JsonValue]], str] | None = None,
    ) -> bool:
        """Ends the command with what it came to; False if it had already ended. `text` makes of the redacted payload
        what people read; without it there is nothing to read.

        Raises: `NotJson`, and what `text` raises; the command has not ended then.
        """
        event = afdata.result(payload, schema=schema, trace=self._trace())
        shown = self._redacted(event[Kind.RESULT])
        words = text(shown) if self.mode is Mode.TEXT and text and isinstance(shown, dict) else ""
        return self._end(event, words, exit_code)

    def error(
        self,
        code: str,
        message: str,
        *,
        exit_code: int,
        hint: str = "",
        retryable: bool = False,
        fields: Mapping[str, object] | None = None,
    ) -> bool:
        """Ends the command without a result; False if it had already ended."""
        event = afdata.error(code, message, hint=hint, retryable=retryable, fields=fields, trace=self._trace())
        words = mask_text(_error_text(code, message, hint), self._rules)
        return self._end(event, words, exit_code)

    def _say(self, event: Event, *, text: str | None) -> None:
        with self._lock:
            if self._ended:
                return
            # Whoever read the log is gone, or its disk is full: the work goes on, and its end will tell.
            self._line_for(event).try_write(self._bytes(event, text))

    def _end(self, event: Event, text: str, exit_code: int) -> bool:
        with self._lock:
            if self._ended:
                return False
            self._ended = True
            line = self._line_for(event)
            failure = line.try_write(self._bytes(event, text))
            self.exit_code = exit_code if failure is None else self._undelivered(event, line, failure, exit_code)
            return True

    def _undelivered(self, event: Event, line: Line, failure: OSError, exit_code: int) -> int:
        if failure.errno == errno.EPIPE:
            return READER_GONE  # nobody is there to be told what it came to
        if event["kind"] == Kind.ERROR:
            return exit_code
        # The result is lost, for example on a full disk behind stdout; so this error is still the only end.
        broken = OutputFailed(f"the result could not be written: {failure.strerror}", hint="df -h")
        if line is not self._err:
            substitute = afdata.error(broken.code, broken.message, hint=broken.hint, retryable=broken.retryable)
            self._err.try_write(self._bytes(substitute, _error_text(broken.code, broken.message, broken.hint)))
        return broken.exit_code

    def _line_for(self, event: Event) -> Line:
        if self._route is Route.SPLIT:
            return self._out if event["kind"] == Kind.RESULT else self._err
        return self._out if self._route is Route.STDOUT else self._err

    def _bytes(self, event: Event, text: str | None) -> bytes:
        """What goes out: `text` in text mode, unless it is None (an event for programs in any mode)."""
        if self.mode is Mode.TEXT and text is not None:
            return terminal_safe(text).encode("utf-8", "backslashreplace")
        form = Format.JSON if self.mode is Mode.TEXT else Format(self.mode.value)
        return render(event, form, rules=self._rules).encode("utf-8", "backslashreplace")

    def _redacted(self, payload: JsonValue) -> JsonValue:
        return redact(payload, self._rules)

    def _trace(self) -> dict[str, object]:
        return {"duration_ms": round((time.monotonic() - self._started_s) * 1000)}


class Line:
    """One output descriptor that is written to in whole lines."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._torn = False

    def try_write(self, data: bytes) -> OSError | None:
        """None when every byte is out. After a line that broke off, the next one starts on a line of its own."""
        if not data:
            return None
        rest = memoryview(b"\n" + data if self._torn else data)
        # An interrupt that arrives with the call's return hides how much went out; up to PIPE_BUF it is all or nothing.
        self._torn = self._torn or len(rest) > select.PIPE_BUF
        try:
            while rest:
                rest = rest[self._write_some(rest) :]
                self._torn = bool(rest)
        except OSError as failure:
            return failure
        return None

    def _write_some(self, data: memoryview) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:  # somebody who shares the terminal or pipe made it non-blocking
            select.select([], [self._fd], [])
            return 0


def terminal_safe(text: str) -> str:
    """Text that cannot steer a terminal: control characters and marks that reorder a line, in visible form. Titles and
    messages come from other people."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _error_text(code: str, message: str, hint: str) -> str:
    return f"error[{code}]: {message}\n" + (f"hint: {hint}\n" if hint else "")


_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
