"""What the supervisor does now, and when nothing happens, why: published for `afk status`, which only reads (S78).

The file is replaced whole and only when something in it has changed; one that cannot be written stops nothing (S76).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from afk import __version__
from afk.adapters.files import write_atomic
from afk.attempt.progress import Log
from afk.attempt.session import Attempt, Project
from afk.domain.queue import QueueItem, QueueState
from afk.errors import AfkError
from afk.supervisor.slot import Slot

__all__ = ["Outlook", "Why", "waiting_for"]

FILE = "supervisor.state.json"
_MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class Why:
    """One reason why nothing new starts; `until` None: until something else changes."""

    code: str
    message: str
    issue_number: int | None = None
    until: datetime | None = None

    def to_json(self) -> dict[str, object]:
        until = self.until.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if self.until else None
        return {
            "code": self.code,
            "message": self.message,
            "issue_number": self.issue_number,
            "until_rfc3339": until,
        }


class Outlook:
    """The published state of one session."""

    def __init__(self, project: Project, session_id: str, log: Log, *, watching: bool, log_path: str | None) -> None:
        self._path = project.tmp / FILE
        self._log = log
        self._fixed = {
            "version": 1,
            "afk_version": __version__,
            "session_id": session_id,
            "watching": watching,
            "log_path": log_path,
        }
        self._last: dict[str, Any] = {}

    def publish(
        self,
        slots: Sequence[Slot],
        working: Mapping[int, Attempt],
        parked: Collection[int],
        reasons: Sequence[Why],
        config_problem: str,
    ) -> None:
        """`working` has by its number the attempt of each slot that is not idle; `parked` the circuit breaker's."""
        why = reasons[0].message if reasons else None
        state = self._fixed | {
            "slots": [_slot_json(slot, working.get(slot.number), slot.number in parked, why) for slot in slots],
            "waits_for": [why.to_json() for why in reasons],
            "config_problem": config_problem or None,
        }
        if state == self._last:
            return
        try:
            write_atomic(self._path, json.dumps(state, indent=1) + "\n")
        except (OSError, AfkError) as error:
            self._log.add("state.unwritten", str(error))
            return
        self._last = state

    def forget(self) -> None:
        """The session is over."""
        self._path.unlink(missing_ok=True)


def _slot_json(slot: Slot, attempt: Attempt | None, is_parked: bool, why: str | None) -> dict[str, object]:
    """`reason` says why a slot does not work, or what its attempt waits for."""
    if is_parked:
        why = "its agents died one after another: `afk resume` lets it try again"
    return {
        "slot": slot.number,
        "state": "working" if attempt else "parked" if is_parked else "idle",
        "worker_id": attempt.id.worker if attempt else slot.worker,
        "issue_number": attempt.issue.number if attempt else None,
        "attempt_id": str(attempt.id) if attempt else None,
        "reason": (attempt.waiting or None) if attempt else why,
    }


def waiting_for(items: Sequence[QueueItem]) -> list[Why]:
    """Why the latest look picked nothing: what each issue waits for, or that there is none."""
    waiting = [item for item in items if item.state not in (QueueState.READY, QueueState.INELIGIBLE)]
    told = [
        Why(reason.code, f"#{item.issue.number}: {reason.message}", item.issue.number, item.eligible_at)
        for item in waiting[:_MOST_REASONS]
        for reason in item.reasons[:1]
    ]
    if len(waiting) > _MOST_REASONS:
        told.append(Why("more", f"and {len(waiting) - _MOST_REASONS} more issues wait"))
    return told or [Why("queue_empty", "no open issue is ready to be worked")]
