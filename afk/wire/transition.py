"""One state transition of an attempt, as a progress event's payload.

Source: AFK wire formats, Live Header (transition lines), schema `afk.transition.v1`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from afk.domain.stage import Stage

__all__ = ["SCHEMA", "STATES", "payload"]

SCHEMA: Final = "afk.transition.v1"
STATES: Final = ("queued", "claimed", *(str(stage) for stage in Stage), "validating", "waiting", "ended")


def payload(
    *,
    at: datetime,
    worker_id: str,
    issue_number: int,
    attempt_id: str,
    before: str,
    after: str,
    runner: str,
    outcome: str | None,
) -> dict[str, object]:
    """Every key is always there; `outcome` is set with `after` = `ended` and None before."""
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
