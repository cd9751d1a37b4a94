"""The books of one run, over all its attempts: what the state file, `afk status` and the report count."""

from __future__ import annotations

from collections.abc import Sequence

from afk.attempt.journal import Step, recorded_usage
from afk.attempt.session import Attempt
from afk.domain.issue import Filter
from afk.domain.outcome import Outcome
from afk.domain.queue import QueueItem

__all__ = ["Tally"]

_KEPT = 1000  # the state file repeats these lists with every write, and a watching run works for weeks


class Tally:
    """`failed` counts requeued attempts, `blocked` parked ones, and neither an issue that people took back; `total` is
    what is done with and what is to come. `completed` and `durations_s` have the latest thousand, `costs_usd` what each
    attempt cost whose agent told a price."""

    def __init__(self, *, filter: Filter) -> None:
        self.filter = filter
        self.done = 0
        self.failed = 0
        self.blocked = 0
        self.completed: list[int] = []
        self.queue: list[int] = []
        self.durations_s: list[int] = []
        self.in_flight = 0
        self.costs_usd: list[float] = []

    @property
    def total(self) -> int:
        return self.done + self.blocked + len(self.queue) + self.in_flight

    def see(self, items: Sequence[QueueItem]) -> None:
        """The ready items of the latest look."""
        self.queue = [item.issue.number for item in items]

    def begin(self, number: int) -> None:
        self.in_flight += 1
        self.queue = [waiting for waiting in self.queue if waiting != number]

    def end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """None: the attempt never began."""
        self.in_flight -= 1
        if outcome is None or outcome is Outcome.CLAIM_LOST:
            return
        usage = recorded_usage(attempt.journal)
        if usage is not None and usage.cost_usd_micro is not None:
            self.costs_usd.append(usage.cost_usd_micro / 1_000_000)
        ended = attempt.journal.get(Step.ENDED)
        self.durations_s.append(round(float(ended["duration_s"])))
        del self.durations_s[:-_KEPT]
        if outcome is Outcome.DONE:
            self.done += 1
            self.completed.append(attempt.issue.number)
            del self.completed[:-_KEPT]
        elif ended["decision"] == "park":
            self.blocked += 1
        elif ended["decision"] in ("requeue", "discard"):
            self.failed += 1

    def totals(self) -> dict[str, int]:
        """The `totals` of the payloads."""
        return {
            "total": self.total,
            "done": self.done,
            "failed": self.failed,
            "blocked": self.blocked,
            "queued": len(self.queue),
            "in_flight": self.in_flight,
        }
