"""What becomes of an issue after a failed attempt: back to the queue, and when, or to people.

Tries are counted from the attempts that the thread tells of, so every host counts alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from afk.domain.outcome import OUTCOMES, Outcome

__all__ = [
    "Park",
    "PastAttempt",
    "Requeue",
    "attempts_used",
    "is_charged",
    "marked",
    "next_step",
    "wait_s",
    "waits_until",
]

TOLD_RESET_MAX = timedelta(days=8)  # the longest limits are weekly; a later "reset" is not believed
_UNCHARGED = " (no try charged)"


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An earlier attempt at an issue, as its envelope tells it.

    `outcome` is None where the envelope names none (`discarded`). `charged` is False for an attempt that costs no try:
    an operator's stop, or a quota whose reset was told.
    """

    n: int
    status: str
    outcome: Outcome | None
    ended_at: datetime
    not_before: datetime | None = None
    charged: bool = True


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back to the queue; `not_before` None means at once. `attempt_no` counts what is charged, the next one included.

    `charged` is False when this attempt costs no try; its reason says so (`marked`), for the next host to read.
    """

    not_before: datetime | None
    attempt_no: int
    charged: bool = True


@dataclass(frozen=True, slots=True)
class Park:
    """To people, under this `blocked:*` label, for this reason."""

    label: str
    reason: str


def next_step(
    outcome: Outcome,
    history: Sequence[PastAttempt],
    *,
    tries: Mapping[str, int],
    per_issue: int,
    backoff_s: float,
    backoff_max_s: float,
    now: datetime,
    jitter: float,
    told_reset: datetime | None = None,
    directive_at: datetime | None = None,
    label: str | None = None,
    stopped: bool = False,
) -> Requeue | Park:
    """Requeue or park after an attempt that ended with `outcome`; `history` holds the attempts before it, oldest first.

    `tries` are attempts in all that a recovery key allows. Only consecutive failures with the same key count, since the
    last success or the last human directive (`directive_at`); `per_issue` caps the attempts whatever their keys.
    `jitter` in [0, 1) spreads the wait between half of it and all of it. `label` replaces the outcome's own.

    Raises: ValueError for an outcome that leaves nothing to decide (`done`, `claim-lost`).
    """
    row = OUTCOMES[outcome]
    if row.label is None:
        raise ValueError(f"`{outcome}` is neither requeued nor parked")
    recent = _since(history, directive_at)
    used = attempts_used(recent)
    if stopped:
        return Requeue(None, used + 1, charged=False)
    if row.tries_key is None or label is not None:
        return Park(label or row.label, "")

    def after(failures: int) -> datetime:
        return now + timedelta(seconds=wait_s(failures, backoff_s, backoff_max_s, jitter))

    if outcome is Outcome.EXHAUSTED and told_reset is not None and told_reset <= now + TOLD_RESET_MAX:
        # Everybody who waits for this reset wakes up then: not all in the same second. A reset that is told wrongly
        # again and again costs no try: the doubling wait alone keeps that from spinning.
        reset = told_reset + timedelta(seconds=jitter * backoff_s)
        return Requeue(max(reset, after(1 + _exhausted_in_a_row(recent))), used + 1, charged=False)
    count = 1 + sum(1 for _ in _run_of(recent, row.tries_key))
    if count >= (allowed := tries.get(row.tries_key, 1)):
        return Park(row.label, f"{count} of {allowed} tries ended so")
    if used + 1 >= per_issue:
        return Park(row.label, f"{used + 1} of {per_issue} attempts at this issue are used")
    return Requeue(after(count), used + 2)


def attempts_used(history: Sequence[PastAttempt], directive_at: datetime | None = None) -> int:
    """How many attempts count against an issue's cap: those that cost a try, since the last human directive."""
    return sum(attempt.charged for attempt in _since(history, directive_at))


def waits_until(history: Sequence[PastAttempt], directive_at: datetime | None = None) -> datetime | None:
    """The time before which the issue is not picked; None when its last attempt named none, or people spoke since."""
    recent = _since(history, directive_at)
    return recent[-1].not_before if recent else None


def marked(reason: str, *, charged: bool) -> str:
    """The reason with the mark of an attempt that costs no try, or surely without it: an agent may have written it."""
    while reason.endswith(_UNCHARGED.strip()):
        reason = reason.removesuffix(_UNCHARGED.strip()).rstrip()
    return reason if charged else (reason + _UNCHARGED).strip()


def is_charged(reason: str) -> bool:
    """Whether an attempt with this reason, read back from its envelope, costs a try."""
    return not reason.endswith(_UNCHARGED.strip())


def _since(history: Sequence[PastAttempt], directive_at: datetime | None) -> list[PastAttempt]:
    return [attempt for attempt in history if directive_at is None or attempt.ended_at > directive_at]


def _exhausted_in_a_row(history: Sequence[PastAttempt]) -> int:
    return sum(1 for _ in takewhile(lambda attempt: attempt.outcome is Outcome.EXHAUSTED, reversed(history)))


def _run_of(history: Sequence[PastAttempt], key: str) -> Iterator[PastAttempt]:
    """The latest attempts that failed for this key, up to the first that ended otherwise.

    An attempt that cost no try, or of which nothing is known, tells nothing about the key and breaks no run.
    """
    for attempt in reversed(history):
        if not attempt.charged or attempt.outcome is None:
            continue
        if OUTCOMES[attempt.outcome].tries_key != key:
            return
        yield attempt


def wait_s(count: int, first_s: float, most_s: float, jitter: float = 1.0) -> float:
    """Doubles with each failure up to `most_s`; a `jitter` below 1 shortens it, by half at 0, so that hosts spread."""
    doubled = first_s * 2.0 ** min(count - 1, 32)
    return min(doubled, most_s) * (0.5 + jitter / 2)
