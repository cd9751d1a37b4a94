"""The `Clock` port with hands that a test turns."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class HandClock:
    """Stands still until it is turned; like on a real machine, people's time may be set without the other one."""

    def __init__(self) -> None:
        self.reading_s = 1000.0
        self.time = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic_s(self) -> float:
        return self.reading_s

    def turn(self, seconds: float) -> None:
        self.reading_s += seconds
        self.time += timedelta(seconds=seconds)
