"""What every clock promises, so that what is proved with hands that a test turns holds on a machine.

class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock: ...
    def pass_time(self, clock: Clock) -> None: ...     # a little of it, at least 10 ms
"""

from __future__ import annotations

import pytest

from afk.ports import Clock


class ClockContract:
    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    def pass_time(self, clock: Clock) -> None:
        raise NotImplementedError

    def test_peoples_time_knows_its_zone(self, clock: Clock) -> None:
        assert clock.now().utcoffset() is not None

    def test_a_duration_is_never_negative(self, clock: Clock) -> None:
        readings = [clock.monotonic_s() for _ in range(1000)]
        assert readings == sorted(readings)

    def test_time_that_passes_is_seen_in_seconds(self, clock: Clock) -> None:
        before = clock.monotonic_s()
        self.pass_time(clock)
        assert 0.01 <= clock.monotonic_s() - before < 60

    def test_looking_takes_no_time_worth_speaking_of(self, clock: Clock) -> None:
        before = clock.monotonic_s()
        for _ in range(1000):
            clock.now(), clock.monotonic_s()
        assert clock.monotonic_s() - before < 60
