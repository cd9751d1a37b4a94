"""Attempts whose end could not be told yet: their journals keep what is owed, whoever takes it up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afk.attempt.session import Attempt
from afk.domain.attempt import AttemptId
from afk.ports import Clock
from afk.supervisor.outage import Backoff

__all__ = ["Owed"]

_FIRST_S = 2.0
_PASSING_MOST_S, _FAULT_MOST_S = 60.0, 3600.0


@dataclass
class _Debt:
    attempt: Attempt
    backoff: Backoff
    at_work: bool = False


class Owed:
    """What one run could not tell; a watching run takes it up again itself, less and less often."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._debts: dict[AttemptId, _Debt] = {}

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Those that nobody works on at the moment."""
        return [debt.attempt for debt in self._debts.values() if not debt.at_work]

    def knows(self, attempt: Attempt) -> bool:
        return attempt.id in self._debts

    def add(self, attempt: Attempt, *, passes: bool) -> float:
        """Seconds until it is due; `passes`: what was in the way goes by itself, so it is worth asking often."""
        debt = self._debts.get(attempt.id)
        if debt is None:
            most_s = _PASSING_MOST_S if passes else _FAULT_MOST_S
            debt = self._debts[attempt.id] = _Debt(attempt, Backoff(self._clock, _FIRST_S, most_s))
        debt.attempt, debt.at_work = attempt, False
        return debt.backoff.wait()

    def due(self) -> list[Attempt]:
        return [debt.attempt for debt in self._debts.values() if not debt.at_work and not debt.backoff.holds]

    def take(self, attempt: Attempt) -> None:
        """It is worked now: until it is paid, or added again."""
        self._debts[attempt.id].at_work = True

    def paid(self, attempt: Attempt) -> None:
        """Told to its end; nothing for an attempt that was never owed."""
        self._debts.pop(attempt.id, None)
