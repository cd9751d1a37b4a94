"""One state transition of an attempt, as a progress event's payload.

Source: AFK wire formats, Live Header (what stands in for it where there is no terminal), schema `afk.transition.v1`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from afk.domain.outcome import Outcome
from afk.domain.stage import Stage

__all__ = ["SCHEMA", "STATES", "payload"]

SCHEMA: Final = "afk.transition.v1"
STATES: Final = ("queued", "claimed", *map(str, Stage), "validating", "waiting", "ended")


def payload(
    *,
    at: datetime,
    worker_id: str,
    issue_number: int,
    attempt_id: str,
    before: str,
    after: str,
    runner: str,
    outcome: Outcome | None,
) -> dict[str, object]:
    """Every key is always there. `before` and `after` are of `STATES`; the outcome comes with `ended` and only then.

    `at` is aware; it is told in UTC, in whole seconds. Raises: ValueError for anything else, because a watcher that is
    told of a state it does not know waits for ever.
    """
    if before not in STATES or after not in STATES:
        raise ValueError(f"no transition leads from {before!r} to {after!r}")
    if (after == "ended") != (outcome is not None):
        raise ValueError(f"{after!r} with the outcome {outcome}")
    if at.tzinfo is None:
        raise ValueError("a time without its zone")
    return {
        "schema": SCHEMA,
        "at_rfc3339": at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "worker_id": worker_id,
        "issue_number": issue_number,
        "attempt_id": attempt_id,
        "from": before,
        "to": after,
        "runner": runner,
        "outcome": None if outcome is None else str(outcome),
    }
