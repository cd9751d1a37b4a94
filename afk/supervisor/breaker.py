"""The circuit breaker: a slot whose agents die at once stands still, and everything does when no attempt ever begins.

What it knows is this run's alone; a new run tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.circuit import ALIKE, Terms, signature, trips
from afk.domain.outcome import Outcome
from afk.ports import Clock

__all__ = ["Breaker"]


@dataclass
class _Slot:
    deaths_s: list[float] = field(default_factory=list)
    parked_until_s: float | None = None


class Breaker:
    """Slots are known by their numbers. Deaths come from the slots' threads, everything else from the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, _Slot] = {}
        self._lock = threading.Lock()
        self._alike: list[str] = []
        self.halted = ""
        """Why nothing at all is started any more (L13); empty when that is not so."""

    def died_fast(self, slot: int, terms: Terms) -> int:
        """Note a fast death; how many there were of late when this one parks the slot, else 0."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            one = self._slots.setdefault(slot, _Slot())
            one.deaths_s = [at_s for at_s in one.deaths_s if now_s - at_s <= terms.window_s] + [now_s]
            if not trips(one.deaths_s, now_s, terms):
                return 0
            count, one.deaths_s = len(one.deaths_s), []
            one.parked_until_s = now_s + terms.cooldown_s
            return count

    def parked_s(self, slot: int) -> float | None:
        """For how much longer the slot stands still; None when it does not."""
        with self._lock:
            until_s = self._slots[slot].parked_until_s if slot in self._slots else None
        left_s = 0.0 if until_s is None else until_s - self._clock.monotonic_s()
        return left_s if left_s > 0 else None

    def comes_back(self, slots: Sequence[int]) -> datetime | None:
        """When the first of these slots may work again; None unless all of them stand still."""
        left = [self.parked_s(slot) for slot in slots]
        soonest = min((left_s for left_s in left if left_s is not None), default=None)
        return None if soonest is None or None in left else self._clock.now() + timedelta(seconds=soonest)

    def note(self, attempt: Attempt, outcome: Outcome) -> None:
        """An end: the third in a row that came before any agent, of the machine and in the same words, halts all."""
        ended = attempt.journal.get(Step.ENDED)
        if ended.get("passes"):  # an outage says nothing about this machine
            return
        if attempt.journal.count(Step.RUN_STARTED) or outcome is not Outcome.INFRA or ended.get("stopped"):
            self._alike = []
            return
        what = signature(outcome, str(ended.get("reason", "")))
        self._alike = [*(told for told in self._alike if told == what), what]
        if len(self._alike) >= ALIKE:
            self.halted = f"{len(self._alike)} attempts in a row ended before their agent: {ended.get('reason', '')}"

    def resume(self) -> None:
        """A person says that it may be tried again."""
        with self._lock:
            self._slots.clear()
        self._alike, self.halted = [], ""
