"""The machine's own clocks behind the `Clock` port."""

from __future__ import annotations

import time
from datetime import datetime

__all__ = ["SystemClock"]


class SystemClock:
    """`now` follows the wall clock and may jump; `monotonic_s` never does, and stands still while a laptop sleeps."""

    def now(self) -> datetime:
        return datetime.now().astimezone()

    def monotonic_s(self) -> float:
        return time.clock_gettime(time.CLOCK_MONOTONIC)
