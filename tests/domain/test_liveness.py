"""The three clocks of a running agent, over hours that take no time: the clock is turned by hand, through its port."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from clockkit import HandClock

from afk.domain.liveness import GAP_S, Breach, Limits, Liveness, Sample
from afk.domain.outcome import EndedBy
from afk.ports import Clock

MINUTE, HOUR = 60.0, 3600.0
STEP = 5.0
DEFAULTS = Limits(silence_flag_s=600, silence_kill_s=1800, wall_clock_s=2700, grace_s=30)
UNLIMITED = Limits(silence_flag_s=600, silence_kill_s=1800, wall_clock_s=None, grace_s=30)


class Watched:
    """An agent as its watcher sees it, for as long as the test says."""

    def __init__(self, limits: Limits, *, spent_s: float = 0.0, ran_s: float = 0.0) -> None:
        self.hands = HandClock()
        self.clock: Clock = self.hands
        self.liveness = Liveness(limits, now_s=self.clock.monotonic_s(), spent_s=spent_s, ran_s=ran_s)
        self.cpu_s = 1.0
        self.builds = self.chatters = self.has_sentinel = False
        self.load = 0.0  # of one core
        self.blind = False  # the process table cannot be read
        self.samples = 0

    def sample(self) -> Sample | None:
        self.samples += 1
        return None if self.blind else Sample(self.cpu_s, self.builds)

    def look(self) -> Breach | None:
        now_s = self.clock.monotonic_s()
        return self.liveness.look(now_s, heard=self.chatters, has_sentinel=self.has_sentinel, sample=self.sample)

    def goes_on(self, seconds: float, also: Callable[[], None] = lambda: None) -> Breach | None:
        """Until a clock runs out, for `seconds` at most."""
        for _ in range(round(seconds / STEP)):
            self.hands.turn(STEP)
            self.cpu_s += self.load * STEP
            also()
            if breach := self.look():
                return breach
        return None

    def suspended(self, seconds: float) -> None:
        self.hands.turn(seconds)


def reason(breach: Breach | None) -> EndedBy | None:
    return breach.ended_by if breach else None


# --- Silence -------------------------------------------------------------------------------------------------------


def test_a_silent_agent_that_compiles_for_an_hour_is_left_alone() -> None:
    """L23, R34: CPU anywhere in its tree is life, however little is said."""
    agent = Watched(UNLIMITED)
    agent.load = 0.3
    assert agent.goes_on(HOUR) is None


def test_a_silent_agent_that_waits_for_a_test_run_is_left_alone() -> None:
    """L23: a test that sleeps takes no CPU."""
    agent = Watched(UNLIMITED)
    agent.builds = True
    assert agent.goes_on(HOUR) is None


def test_one_that_hangs_is_stalled_within_a_window_of_the_limit() -> None:
    agent = Watched(UNLIMITED)
    breach = agent.goes_on(HOUR)
    assert breach == Breach(EndedBy.SILENCE, "silent and idle for 1820 s, limit 1800 s")


def test_timers_of_an_idle_event_loop_are_no_work() -> None:
    agent = Watched(UNLIMITED)
    agent.load = 0.002
    assert reason(agent.goes_on(HOUR)) == EndedBy.SILENCE


def test_one_that_hangs_after_its_build_is_stalled_then() -> None:
    agent = Watched(UNLIMITED)
    agent.load = 1.0
    assert agent.goes_on(HOUR) is None
    agent.load = 0.0
    assert reason(agent.goes_on(MINUTE)) == EndedBy.SILENCE


def test_a_word_ends_a_silence() -> None:
    agent = Watched(UNLIMITED)
    for _ in range(4):
        assert agent.goes_on(1800) is None
        agent.chatters = True
        assert agent.goes_on(STEP) is None
        agent.chatters = False


def test_the_processes_are_looked_at_only_in_a_long_silence_and_once_in_a_window() -> None:
    agent = Watched(UNLIMITED)
    agent.load = 1.0
    agent.goes_on(1790)
    assert agent.samples == 0
    agent.goes_on(210)
    assert agent.samples == 11


def test_a_failed_sample_is_no_sample() -> None:
    """L21: nobody is ended because the process table could not be read, or somebody took his CPU seconds with him."""
    agent = Watched(UNLIMITED)
    agent.blind = True
    assert agent.goes_on(HOUR) is None

    def sees_every_other_time() -> None:
        agent.blind = agent.samples % 2 == 1

    assert agent.goes_on(HOUR, also=sees_every_other_time) is None
    agent.blind = False

    def loses_a_child() -> None:
        agent.cpu_s -= 0.001

    assert agent.goes_on(HOUR, also=loses_a_child) is None
    assert reason(agent.goes_on(MINUTE)) == EndedBy.SILENCE


def test_unlimited_silence_is_no_silence() -> None:
    agent = Watched(Limits(None, None, None, 30))
    assert agent.goes_on(24 * HOUR) is None
    assert agent.samples == 0
    assert not agent.liveness.newly_silent()


def test_a_long_silence_is_told_once() -> None:
    agent = Watched(DEFAULTS)
    agent.goes_on(595)
    assert not agent.liveness.newly_silent()
    agent.goes_on(STEP)
    assert [agent.liveness.newly_silent(), agent.liveness.newly_silent()] == [True, False]
    agent.chatters = True
    agent.goes_on(STEP)
    assert not agent.liveness.newly_silent()
    agent.chatters = False
    agent.goes_on(600)
    assert agent.liveness.newly_silent()


# --- The wall clock ------------------------------------------------------------------------------------------------


def test_one_that_chatters_for_ever_is_capped() -> None:
    """R34: by a clock of its own, whatever it says and however much it computes."""
    agent = Watched(DEFAULTS)
    agent.chatters, agent.load = True, 1.0
    assert agent.goes_on(HOUR) == Breach(EndedBy.WALL_CLOCK, "wall clock: limit 2700 s, elapsed 2700 s")


def test_the_runs_of_an_attempt_are_added_up() -> None:
    """An earlier run's time, and what this one had run before somebody took it up again."""
    agent = Watched(DEFAULTS, spent_s=2000, ran_s=500)
    agent.chatters = True
    assert agent.goes_on(195) is None
    assert reason(agent.goes_on(STEP)) == EndedBy.WALL_CLOCK


# --- The grace -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chatters", [False, True])
def test_after_its_sentinel_an_agent_has_its_grace_and_no_other_clock(chatters: bool) -> None:
    """L28: the ceiling would have struck inside the grace."""
    agent = Watched(DEFAULTS, spent_s=2695)
    agent.chatters = chatters
    agent.has_sentinel = True
    assert agent.goes_on(35) is None  # from the look that saw it
    assert agent.goes_on(STEP) == Breach(EndedBy.GRACE)


# --- Clocks that jump, machines that sleep ---------------------------------------------------------------------------


@pytest.mark.parametrize("asleep_s", [GAP_S + 1, 8 * HOUR])
def test_a_suspended_machine_charges_nobody(asleep_s: float) -> None:
    agent = Watched(DEFAULTS)
    assert agent.goes_on(1795) is None
    agent.suspended(asleep_s)
    assert agent.look() is None
    assert agent.liveness.ran_s == 1795
    assert agent.goes_on(900) is None
    assert reason(agent.goes_on(STEP)) == EndedBy.WALL_CLOCK


def test_an_agent_is_not_found_idle_over_a_window_that_was_slept_through() -> None:
    agent = Watched(UNLIMITED)
    agent.load = 1.0
    assert agent.goes_on(1805) is None
    agent.suspended(HOUR)
    assert agent.look() is None
    agent.load = 0.0
    assert agent.goes_on(1800) is None
    assert reason(agent.goes_on(MINUTE)) == EndedBy.SILENCE


def test_a_grace_is_not_slept_through() -> None:
    agent = Watched(DEFAULTS)
    agent.has_sentinel = True
    assert agent.goes_on(10) is None
    agent.suspended(HOUR)
    assert agent.look() is None
    assert agent.goes_on(25) is None


@pytest.mark.parametrize("days", [-400, 400])
def test_peoples_time_that_is_set_charges_nobody(days: int) -> None:
    agent = Watched(DEFAULTS)
    assert agent.goes_on(1700) is None
    agent.hands.time += timedelta(days=days)
    assert agent.goes_on(95) is None
    assert agent.liveness.ran_s == 1795
