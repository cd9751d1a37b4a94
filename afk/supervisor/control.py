"""What another terminal wants of the supervisor: to stop, now or when what runs is done, and to pause.

A wish to stop is a file for one session, so that it never meets the next one. A pause is the checkout's: it outlives
sessions until somebody resumes.
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afk.adapters.files import write_atomic
from afk.adapters.process import Identity, is_alive
from afk.wire.json_value import parse_json

__all__ = [
    "Supervisor",
    "is_halted",
    "is_paused",
    "parked_slots",
    "resumed",
    "running",
    "set_paused",
    "stop_level",
    "wait_for_end",
    "wish_resume",
    "wish_stop",
]

_LOOK_S = 0.1
_CONTROL = Path(".red") / "tmp" / "control.json"
_RESUMED = Path(".red") / "tmp" / "resumed.json"
_STATE = Path(".red") / "tmp" / "supervisor.state.json"
_PAUSED = Path(".red") / "state" / "paused.json"
_SUPERVISOR = Path(".red") / "tmp" / "supervisor.json"


@dataclass(frozen=True, slots=True)
class Supervisor:
    """The live supervisor of a checkout."""

    pid: int
    session_id: str


def running(root: Path) -> Supervisor | None:
    """Who supervises this checkout now; None when nobody does, whatever a dead one left written."""
    record = _read(root / _SUPERVISOR)
    try:
        identity = Identity(int(record["pid"]), str(record["pid_start_time"]), str(record["boot_id"]))
        return Supervisor(identity.pid, str(record["session_id"])) if is_alive(identity) else None
    except (KeyError, TypeError, ValueError):
        return None


def wait_for_end(root: Path, supervisor: Supervisor) -> None:
    """Until this very supervisor is gone, however long that takes."""
    while running(root) == supervisor:
        time.sleep(_LOOK_S)


def wish_stop(root: Path, session_id: str, level: int) -> None:
    """Level 1: start nothing new; 2: stop the agents too. A wish is never taken back by a smaller one."""
    level = max(level, stop_level(root, session_id))
    write_atomic(root / _CONTROL, json.dumps({"session_id": session_id, "stop": level}) + "\n")


def stop_level(root: Path, session_id: str) -> int:
    """How urgently this session was asked to stop; 0: not at all."""
    record = _read(root / _CONTROL)
    level = record.get("stop") if record.get("session_id") == session_id else None
    return level if level in (1, 2) else 0


def is_paused(root: Path) -> bool:
    return (root / _PAUSED).exists()


def set_paused(root: Path, paused: bool, *, at: str) -> None:
    """Idempotent; `at` is when, in RFC 3339, for people who wonder."""
    path = root / _PAUSED
    if not paused:
        with suppress(FileNotFoundError):
            path.unlink()
    elif not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps({"at": at}) + "\n", durable=True)


def wish_resume(root: Path, session_id: str, *, at: str) -> None:
    """What this session's circuit breaker holds may be tried again."""
    write_atomic(
        root / _RESUMED, json.dumps({"session_id": session_id, "at": at, "nonce": secrets.token_hex(4)}) + "\n"
    )


def resumed(root: Path, session_id: str) -> str:
    """Another text after each `wish_resume` of this session; empty before the first."""
    record = _read(root / _RESUMED)
    return f"{record.get('at')} {record.get('nonce')}" if record.get("session_id") == session_id else ""


def parked_slots(root: Path, session_id: str) -> list[int]:
    """The slots that the session's circuit breaker has parked, as it published them."""
    state = _read(root / _STATE)
    slots = state.get("slots") if state.get("session_id") == session_id else None
    return [slot["slot"] for slot in slots or () if isinstance(slot, dict) and slot.get("state") == "parked"]


def is_halted(root: Path, session_id: str) -> bool:
    """Whether the session starts nothing more because attempt after attempt ended before its agent."""
    state = _read(root / _STATE)
    reasons = state.get("waits_for") if state.get("session_id") == session_id else None
    return any(isinstance(why, dict) and why.get("code") == "halted" for why in reasons or ())


def _read(path: Path) -> dict[str, Any]:
    """An absent or broken file wishes nothing."""
    try:
        record = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}
