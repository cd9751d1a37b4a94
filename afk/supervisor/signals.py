"""Signals and slots speak to the supervisor through one pipe.

A handler may interrupt the main thread anywhere, so it does nothing but raise a number and write one byte (the
self-pipe); what the number means is decided in the loop.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from types import FrameType, TracebackType

from afk.attempt.session import Stop

__all__ = ["Bell", "Signals"]


class Bell:
    """Wakes the one thread that waits; may be rung from a signal handler and from any thread, as long as there is one.

    The pipe lasts as long as the process: a late ring must not meet another file under its number.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it has been rung often enough
            os.write(self._write, b"!")

    def wait(self, timeout_s: float) -> None:
        """Until it is rung, or the time is over."""
        select.select([self._read], [], [], max(0.0, timeout_s))
        with suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass


class Signals:
    """While entered, INT, TERM and HUP raise the stop by one: finish what runs, stop the agents, leave at once.

    `count` is how many came, `last` the name of the last one, empty before the first.
    """

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, stop: Stop, bell: Bell) -> None:
        self.count = 0
        self.last = ""
        self._stop = stop
        self._bell = bell
        self._before: dict[int, object] = {}

    def __enter__(self) -> Signals:
        for number in self.NUMBERS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal.signal` gave us

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.last = signal.Signals(number).name
        self._stop.raise_by_one()
        self._bell.ring()
