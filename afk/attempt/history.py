"""`.red/state/history.toonl`: one row for each attempt that ended here, and what is read back from it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from afk.adapters.files import append_line
from afk.adapters.process import tail_lines
from afk.attempt.comment import status_of
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.attempt import AttemptId
from afk.domain.outcome import Outcome
from afk.wire import toonl

__all__ = ["FIELDS", "branches", "losses", "recent", "record"]

FIELDS = [
    "at",
    "issue",
    "attempt",
    "outcome",
    "status",
    "runner",
    "branch",
    "merge_sha",
    "duration_s",
    "added",
    "removed",
    "files",
    "reason",
]
_CEILING_BYTES = 64 * 1024 * 1024
_RECENT_BYTES = 256 * 1024


def record(attempt: Attempt, outcome: Outcome) -> None:
    """Append the attempt's row, unless it is there: a crash may fall between the row and its record in the journal."""
    path = attempt.project.state / "history.toonl"
    at = attempt.journal.get(Step.ENDED).get("at") or attempt.project.clock.now().isoformat()
    if not _is_there(path, str(attempt.id)):
        row = toonl.row([at, *_values(attempt, outcome)])
        append_line(path, row, ceiling_bytes=_CEILING_BYTES, header=toonl.header(FIELDS))


def _is_there(path: Path, attempt_id: str) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            near = [line for line in file if attempt_id in line and line.endswith("\n")]
    except FileNotFoundError:
        return False
    return any(row["attempt"] == attempt_id for row in _parsed(near))


def _values(attempt: Attempt, outcome: Outcome) -> list[Any]:
    journal, ended = attempt.journal, attempt.journal.get(Step.ENDED)
    diff = ended.get("diff", {})
    return [
        attempt.issue.number,
        str(attempt.id),
        str(outcome),
        str(status_of(attempt, outcome)),
        str(journal.fact("runner")),
        attempt.branch,
        journal.fact("merge_sha"),
        ended.get("duration_s"),
        diff.get("added"),
        diff.get("removed"),
        diff.get("files"),
        attempt.project.mask(str(ended.get("reason", ""))),
    ]


def recent(state: Path, most: int = 2000) -> list[Mapping[str, object]]:
    """The latest rows, oldest first, from the last 256 kB; empty when nothing can be read. `state` is `.red/state`."""
    return _parsed([f"{line}\n" for line in tail_lines(state / "history.toonl", most, _RECENT_BYTES)])


def branches(state: Path) -> dict[str, AttemptId]:
    """Every live branch that an attempt of this checkout was given, to the latest such attempt."""
    try:
        with (state / "history.toonl").open(encoding="utf-8", errors="replace") as file:
            whole = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return {}
    pairs = ((str(row.get("branch")), AttemptId.parse(str(row.get("attempt")))) for row in _parsed(whole))
    return {branch: attempt for branch, attempt in pairs if attempt is not None}


def losses(state: Path) -> dict[int, tuple[int, datetime]]:
    """By issue: how often in a row its claim was lost here while it was worked, and when last.

    Such an end is told nowhere else, so nothing else keeps an issue from being tried for ever (R84).
    """
    found: dict[int, tuple[int, datetime]] = {}
    for row in recent(state):
        number, at = row.get("issue"), _instant(row.get("at"))
        if not isinstance(number, int) or at is None:
            continue
        if row.get("outcome") == Outcome.CLAIM_LOST:
            found[number] = (found.get(number, (0, at))[0] + 1, at)
        else:
            found.pop(number, None)
    return found


def _parsed(lines: list[str]) -> list[Mapping[str, object]]:
    """Under our own header, whichever part of the file the lines come from; a header among them is no row."""
    rows = toonl.parse("".join([toonl.header(FIELDS) + "\n", *lines])).rows
    return list(rows)


def _instant(told: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
