"""Times in which nothing new can start: nobody answers, the disk is full, or the agent's account is used up.

A run has one `Outage` for what it met itself; whoever is met says so once, and the loop goes on with everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from afk.errors import AfkError, DiskFull, RemoteUnreachable, TrackerError
from afk.ports import Clock

__all__ = ["Backoff", "Outage", "Rest", "is_outage"]

_FIRST_S, _MOST_S = 2.0, 60.0
_REST_DOUBLING_S, _REST_MOST_S = 600.0, 1800.0


def is_outage(error: BaseException | None) -> bool:
    """Whether it passes by itself: a tracker or a remote that does not answer, a disk that is full."""
    return isinstance(error, (RemoteUnreachable, TrackerError, DiskFull)) and error.retryable


class Backoff:
    """Waits that double from `first_s` up to `most_s`. `until` is when the last one ends, for people to read."""

    def __init__(self, clock: Clock, first_s: float = _FIRST_S, most_s: float = _MOST_S) -> None:
        self.until: datetime | None = None
        self._clock = clock
        self._first_s = self._next_s = first_s
        self._most_s = most_s
        self._until_s = 0.0  # on the monotonic clock

    def wait(self, *, at_least_s: float = 0.0) -> float:
        """Begin the next wait; returns its seconds."""
        wait_s = max(self._next_s, at_least_s)
        self._until_s = self._clock.monotonic_s() + wait_s
        self.until = self._clock.now() + timedelta(seconds=wait_s)
        self._next_s = min(self._next_s * 2, self._most_s)
        return wait_s

    @property
    def holds(self) -> bool:
        """Whether the last wait still goes on."""
        return self._clock.monotonic_s() < self._until_s

    def reset(self) -> None:
        self.until, self._until_s, self._next_s = None, 0.0, self._first_s


class Outage:
    """Tracker, remote or disk are away: said once, asked again after two seconds, then less and less, up to a minute.

    `error` is what was met last, None while everything answers. `patience_s` None waits for ever.
    """

    def __init__(self, clock: Clock, *, patience_s: float | None, say: Callable[[str], None]) -> None:
        self.error: AfkError | None = None
        self._clock = clock
        self._patience_s = patience_s
        self._say = say
        self._began_s = 0.0
        self._backoff = Backoff(clock)

    def met(self, error: AfkError) -> float:
        """Seconds until the next look. Raises `error` when patience is over."""
        now_s = self._clock.monotonic_s()
        if self.error is None:
            self._began_s = now_s
            self._say(f"{error.message}; nothing new is started until that has passed")
        self.error = error
        wait_s = self._backoff.wait()
        if self._patience_s is not None and now_s - self._began_s + wait_s > self._patience_s:
            raise error
        return wait_s

    def over(self) -> None:
        if self.error is not None:
            self._say("everything answers again")
        self.error = None
        self._backoff.reset()

    @property
    def holds(self) -> bool:
        """Whether it is too early to ask again."""
        return self.error is not None and self._backoff.holds

    @property
    def until(self) -> datetime | None:
        """When it is asked again."""
        return self._backoff.until


class Rest:
    """After the agent's account was used up: nothing new until its reset, else a while that doubles (L05).

    Never longer than half an hour: a reset that was told wrongly must not end the night (L04).
    """

    def __init__(self, clock: Clock, first_s: float) -> None:
        self._clock = clock
        self._backoff = Backoff(clock, max(first_s, 1.0), _REST_DOUBLING_S)

    def begin(self, not_before: datetime | None) -> datetime | None:
        """Begin the next one; returns when it ends. `not_before` is when the issue itself may be tried again."""
        told_s = (not_before - self._clock.now()).total_seconds() if not_before else 0.0
        self._backoff.wait(at_least_s=min(told_s, _REST_MOST_S))
        return self._backoff.until

    def over(self) -> None:
        self._backoff.reset()

    @property
    def holds(self) -> bool:
        return self._backoff.holds

    @property
    def until(self) -> datetime | None:
        return self._backoff.until
