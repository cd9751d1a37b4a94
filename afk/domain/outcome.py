"""The outcomes of an attempt in one table: envelope status, typed label, recovery key.

Source: reference/afk-wire-formats.md "Attempt Outcome"; spec/lifecycle.md 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

__all__ = ["OUTCOMES", "AttemptEnded", "EnvelopeStatus", "Outcome", "OutcomeRow"]


class Outcome(StrEnum):
    DONE = "done"
    BLOCKED = "blocked"
    NO_SENTINEL = "no-sentinel"
    MERGE_CONFLICT = "merge-conflict"
    FEEDBACK_FAILED = "feedback-failed"
    HOOK_ABORTED = "hook-aborted"
    EXHAUSTED = "exhausted"
    RUNNER_TRANSIENT = "runner-transient"
    STALLED = "stalled"
    WALL_CLOCK_CAPPED = "wall-clock-capped"
    INFRA = "infra"
    CLAIM_LOST = "claim-lost"


class EnvelopeStatus(StrEnum):
    BLOCKED = "blocked"
    NO_SENTINEL = "no-sentinel"
    MERGE_CONFLICT = "merge-conflict"
    DONE = "done"
    DISCARDED = "discarded"
    WALL_CLOCK_CAPPED = "wall-clock-capped"


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """`label` is what a parked issue gets; `recovery` the reference's key; `tries_key` also names the two outcomes that
    the supervisor may requeue without a key (`stalled`, `wall-clock-capped`). None means: park at once."""

    status: EnvelopeStatus
    label: str | None = None
    recovery: str | None = None
    tries_key: str | None = None


OUTCOMES: dict[Outcome, OutcomeRow] = {
    Outcome.DONE: OutcomeRow(EnvelopeStatus.DONE),
    Outcome.BLOCKED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:spec"),
    Outcome.NO_SENTINEL: OutcomeRow(EnvelopeStatus.NO_SENTINEL, "blocked:runner", "crashed", "crashed"),
    Outcome.MERGE_CONFLICT: OutcomeRow(
        EnvelopeStatus.MERGE_CONFLICT, "blocked:merge-conflict", "merge-conflict", "merge-conflict"
    ),
    Outcome.FEEDBACK_FAILED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:validation"),
    Outcome.HOOK_ABORTED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:policy", "policy", "policy"),
    Outcome.EXHAUSTED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:quota", "quota", "quota"),
    Outcome.RUNNER_TRANSIENT: OutcomeRow(
        EnvelopeStatus.BLOCKED, "blocked:runner-transient", "runner-transient", "runner-transient"
    ),
    Outcome.STALLED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:stalled", None, "stalled"),
    Outcome.WALL_CLOCK_CAPPED: OutcomeRow(
        EnvelopeStatus.WALL_CLOCK_CAPPED, "blocked:wall-clock-capped", None, "wall-clock-capped"
    ),
    Outcome.INFRA: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:infra"),
    Outcome.CLAIM_LOST: OutcomeRow(EnvelopeStatus.BLOCKED),
}


class AttemptEnded(Exception):
    """The one way out of an attempt before its end: what it came to, and why in one line for people.

    `label` replaces the outcome's typed label (`blocked:budget`). `stopped` marks an operator's stop, which costs no
    try; `withdrawn` an issue that people closed or took out of the queue, whose labels are theirs. `not_before` is a
    time that the agent's provider told.
    """

    def __init__(
        self,
        outcome: Outcome,
        reason: str = "",
        *,
        label: str | None = None,
        stopped: bool = False,
        withdrawn: bool = False,
        not_before: datetime | None = None,
    ) -> None:
        super().__init__(f"{outcome}: {reason}" if reason else str(outcome))
        self.outcome = outcome
        self.reason = reason
        self.label = label
        self.stopped = stopped
        self.withdrawn = withdrawn
        self.not_before = not_before
