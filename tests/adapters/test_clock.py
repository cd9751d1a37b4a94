"""The machine's clock and the one that tests turn by hand keep the same promises."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta

import pytest
from clockkit import HandClock
from contracts.clock_contract import ClockContract

from afk.adapters.clock import SystemClock
from afk.ports import Clock


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()

    def pass_time(self, clock: Clock) -> None:
        time.sleep(0.02)


class TestHandClock(ClockContract):
    @pytest.fixture
    def clock(self) -> HandClock:
        return HandClock()

    def pass_time(self, clock: Clock) -> None:
        assert isinstance(clock, HandClock)
        clock.turn(0.02)

    def test_setting_peoples_time_passes_none(self, clock: HandClock) -> None:
        before = clock.monotonic_s()
        clock.time -= timedelta(days=400)
        assert clock.monotonic_s() == before


def test_the_machines_durations_compare_between_processes_of_one_boot() -> None:
    """An attempt is taken up by another process, which goes on counting where the first one began."""
    program = "from afk.adapters.clock import SystemClock; print(SystemClock().monotonic_s())"
    before = SystemClock().monotonic_s()
    theirs = float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    assert before <= theirs <= SystemClock().monotonic_s()
