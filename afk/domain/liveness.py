"""Whether an agent still works: three clocks that never mix, and whom they charge.

Pure: readings of the monotonic clock and samples of the agent's processes come from whoever watches it, every moment.
Nothing that the orchestrator itself writes is asked about, so none of it can count as a sign of life (L22).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afk.domain.outcome import EndedBy

__all__ = ["GAP_S", "Breach", "Limits", "Liveness", "Sample"]

GAP_S = 30.0  # between two looks of a watcher that looks ten times a second: it, or the whole machine, stood still
CPU_WINDOW_S = 20.0
IDLE_SHARE = 0.03  # of one core; an event loop that waits for ever was seen to take 1.2 % (codex 0.171.0, no answer)


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of the three clocks; None is no limit. `grace_s` runs from the agent's sentinel."""

    silence_flag_s: float | None
    silence_kill_s: float | None
    wall_clock_s: float | None
    grace_s: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The agent's whole tree at one moment: CPU seconds up to now, and whether a build or test program is in it."""

    cpu_s: float
    builds: bool


@dataclass(frozen=True, slots=True)
class Breach:
    """Which clock ran out, and its numbers for people."""

    ended_by: EndedBy
    detail: str = ""


class Liveness:
    """The clocks of one run of the agent; `spent_s` went to the attempt's earlier runs, `ran_s` to this one so far.

    A gap between two looks is charged to nobody, and silence begins anew after it: the machine was suspended, or the
    watcher was, and nobody knows what the agent could do meanwhile.
    """

    def __init__(self, limits: Limits, *, now_s: float, spent_s: float = 0.0, ran_s: float = 0.0) -> None:
        self.ran_s = ran_s
        self.silent_s = 0.0
        self._limits = limits
        self._spent_s = spent_s
        self._looked_s = now_s
        self._grace_s: float | None = None  # since the sentinel
        self._window: tuple[float, float] | None = None  # how silent it was, and its CPU, when the window began
        self._flagged = False

    def look(
        self, now_s: float, *, heard: bool, has_sentinel: bool, sample: Callable[[], Sample | None]
    ) -> Breach | None:
        """The clock that has run out by now, if any.

        `heard`: something came from the agent since the last look. `sample` is asked only of an agent that has been
        silent for too long; None is no sample, and proves nothing (L21).
        """
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        gap = passed_s > GAP_S
        if gap:
            passed_s = 0.0
        self.ran_s += passed_s
        self.silent_s = 0.0 if heard or gap else self.silent_s + passed_s
        if has_sentinel:  # its work is over: nothing but the grace is left to run
            return self._after_the_sentinel(passed_s)
        return self._wall_clock() or self._silence(sample)

    def newly_silent(self) -> bool:
        """True once for each silence that is long enough to be told."""
        limit = self._limits.silence_flag_s
        silent, before = limit is not None and self.silent_s >= limit, self._flagged
        self._flagged = silent
        return silent and not before

    def _after_the_sentinel(self, passed_s: float) -> Breach | None:
        self._grace_s = 0.0 if self._grace_s is None else self._grace_s + passed_s
        return Breach(EndedBy.GRACE) if self._grace_s > self._limits.grace_s else None

    def _wall_clock(self) -> Breach | None:
        """Policy, no sign of illness (L20): however busy the agent is."""
        limit, elapsed_s = self._limits.wall_clock_s, self._spent_s + self.ran_s
        if limit is None or elapsed_s < limit:
            return None
        return Breach(EndedBy.WALL_CLOCK, f"wall clock: limit {limit:g} s, elapsed {elapsed_s:.0f} s")

    def _silence(self, sample: Callable[[], Sample | None]) -> Breach | None:
        """Silence is not death: who computes, builds or tests is spared, for another window (L23, R34)."""
        limit = self._limits.silence_kill_s
        if limit is None or self.silent_s < limit:
            self._window = None
            return None
        if self._window is not None and self.silent_s - self._window[0] < min(CPU_WINDOW_S, limit):
            return None
        before, now = self._window, sample()
        self._window = None if now is None else (self.silent_s, now.cpu_s)
        if before is None or now is None or now.builds:
            return None
        # Fewer seconds than before: a process took its own with it, so that nothing is known of this window.
        used_s, window_s = now.cpu_s - before[1], self.silent_s - before[0]
        if used_s < 0 or used_s >= max(0.01, IDLE_SHARE * window_s):
            return None
        return Breach(EndedBy.SILENCE, f"silent and idle for {self.silent_s:.0f} s, limit {limit:g} s")
