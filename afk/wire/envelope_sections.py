"""The body of each section of an envelope, written and read back side by side, and which status has which.

Source: AFK wire formats, Terminal-Event Envelope, per-status body sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from afk.domain.lifecycle import hook_text
from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.wire.envelope_model import CheckLine, DiffStat, Discarded, Envelope, Hook
from afk.wire.safetext import fence_for

__all__ = ["FENCE", "NOT_BEFORE", "NO_BRANCH", "NO_NOTES", "NO_OUTPUT", "SECTIONS", "read", "write"]

NO_NOTES = "_no notes_"
NO_OUTPUT = "(no captured output)"
NO_VALIDATION = "_no check is recorded_"
NO_BRANCH = "(no branch)"
NO_WORKTREE = "(none)"

# One order for all: notes, validation, diff, log, outcome, hooks.
SECTIONS: dict[EnvelopeStatus, tuple[str, ...]] = {
    EnvelopeStatus.BLOCKED: ("notes", "validation", "diff", "outcome", "hooks"),
    EnvelopeStatus.NO_SENTINEL: ("notes", "diff", "log", "outcome", "hooks"),
    EnvelopeStatus.MERGE_CONFLICT: ("diff", "log", "outcome", "hooks"),
    EnvelopeStatus.WALL_CLOCK_CAPPED: ("notes", "diff", "log", "outcome", "hooks"),
    EnvelopeStatus.DONE: ("validation", "hooks"),
    EnvelopeStatus.DISCARDED: ("notes",),
}


def write(name: str, envelope: Envelope) -> str:
    """The body of a section, which never ends in LF; empty when the section is left out."""
    return _WRITERS[name](envelope) if name in SECTIONS[envelope.status] else ""


def read(name: str, body: str, status: EnvelopeStatus) -> dict[str, Any]:
    """The fields of `Envelope` that a body tells; none for a section that the status, or this version, does not know.

    Raises: ValueError for a body that is not written as `write` does.
    """
    if name not in SECTIONS[status]:
        return {}
    if name == "notes" and status is EnvelopeStatus.DISCARDED:
        return {"discarded": _read_discarded(body)}
    return _READERS[name](body)


# ── notes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _notes(envelope: Envelope) -> str:
    if envelope.status is EnvelopeStatus.DISCARDED:
        return _write_discarded(envelope.discarded or Discarded(0, 0, "", ""))
    return envelope.notes or NO_NOTES


def _read_notes(body: str) -> dict[str, Any]:
    return {"notes": "" if body == NO_NOTES else body}


def _write_discarded(why: Discarded) -> str:
    lines = (f"slot: {why.slot}", f"fast deaths: {why.fast_deaths}", f"cause: {why.cause}", f"log: {why.log}")
    return "\n".join(line.rstrip() for line in lines)


_DISCARDED = re.compile(r"slot: ([0-9]{1,15})\nfast deaths: ([0-9]{1,15})\ncause:(?: (.*))?\nlog:(?: (.*))?")


def _read_discarded(body: str) -> Discarded:
    found = _DISCARDED.fullmatch(body)
    if found is None:
        raise ValueError("the notes of a discarded slot are four fixed lines")
    return Discarded(int(found[1]), int(found[2]), found[3] or "", found[4] or "")


# ── validation ──────────────────────────────────────────────────────────────────────────────────────────────────────

_CHECK = re.compile(
    r"- (?P<status>passed|failed|skipped) (?P<name>.+?)(?: (?P<seconds>[0-9]{1,12}\.[0-9])s)?(?: · (?P<summary>.+))?"
)


def _validation(envelope: Envelope) -> str:
    """`blocked` has the section only when there is something to say, `done` always."""
    checks = "\n".join(_write_check(check) for check in envelope.validation)
    nothing = NO_VALIDATION if envelope.status is EnvelopeStatus.DONE else ""
    return checks or envelope.validation_text or nothing


def _write_check(check: CheckLine) -> str:
    took = "" if check.seconds is None else f" {check.seconds:.1f}s"
    return f"- {check.status} {check.name}{took}" + (f" · {check.summary}" if check.summary else "")


def _read_validation(body: str) -> dict[str, Any]:
    """A report in any other form, as other tools write it, is kept as text."""
    if body in ("", NO_VALIDATION):
        return {"validation": (), "validation_text": ""}
    found = [_CHECK.fullmatch(line) for line in body.split("\n")]
    if None in found:
        return {"validation": (), "validation_text": body}
    return {"validation": tuple(_as_check(match) for match in found if match), "validation_text": ""}


def _as_check(found: re.Match[str]) -> CheckLine:
    seconds = None if found["seconds"] is None else float(found["seconds"])
    return CheckLine(found["status"], found["name"], seconds, found["summary"] or "")


# ── diff ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_DIFF = re.compile(
    r"(?P<branch>.+)\nworktree: (?:\(none\)|`(?P<path>.+)`)\n"
    r"\+(?P<added>[0-9]{1,15}) -(?P<removed>[0-9]{1,15}) files=(?P<files>[0-9]{1,15})"
)


def _diff(envelope: Envelope) -> str:
    diff = envelope.diff or DiffStat(0, 0)
    path = f"`{envelope.worktree_path}`" if envelope.worktree_path else NO_WORKTREE
    return f"{envelope.branch_link or NO_BRANCH}\nworktree: {path}\n+{diff.added} -{diff.removed} files={diff.files}"


def _read_diff(body: str) -> dict[str, Any]:
    found = _DIFF.fullmatch(body)
    if found is None:
        raise ValueError("the diff is three lines: the branch, the worktree, `+N -M files=K`")
    return {
        "branch_link": "" if found["branch"] == NO_BRANCH else found["branch"],
        "worktree_path": found["path"] or "",
        "diff": DiffStat(int(found["added"]), int(found["removed"]), int(found["files"])),
    }


# ── log ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

FENCE = re.compile("`{3,}")


def _log(envelope: Envelope) -> str:
    text = "\n".join(envelope.log) or NO_OUTPUT
    fence = fence_for(text)
    return f"{fence}\n{text}\n{fence}"


def _read_log(body: str) -> dict[str, Any]:
    lines = body.split("\n")
    if len(lines) < 2 or not FENCE.fullmatch(lines[0]) or lines[0] != lines[-1]:
        raise ValueError("the log is fenced, and its last line is the fence again")
    return {"log": () if lines[1:-1] in ([NO_OUTPUT], [""]) else tuple(lines[1:-1])}


# ── outcome ─────────────────────────────────────────────────────────────────────────────────────────────────────────

NOT_BEFORE = r"not before (?P<not_before>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"
# The reason is tried last and taken short, so that a time is never read as a part of it.
_OUTCOME = re.compile(rf"(?P<outcome>[a-z-]{{1,40}})(?: · (?P<reason>.+?))??(?: · {NOT_BEFORE})?")


def _outcome(envelope: Envelope) -> str:
    """Left out where it would only repeat the status; a reached ceiling always says which."""
    outcome = envelope.outcome or Outcome(envelope.status)
    said = [str(outcome)]
    if envelope.reason:
        said.append(envelope.reason)
    if envelope.not_before:
        said.append(f"not before {envelope.not_before.astimezone(UTC).replace(tzinfo=None).isoformat('T', 'seconds')}Z")
    repeats = len(said) == 1 and outcome == envelope.status.value
    return "" if repeats and envelope.status is not EnvelopeStatus.WALL_CLOCK_CAPPED else " · ".join(said)


def _read_outcome(body: str) -> dict[str, Any]:
    found = _OUTCOME.fullmatch(body)
    if found is None:
        raise ValueError("the outcome is one line: its word, a reason, a time")
    return {
        "outcome": Outcome(found["outcome"]),
        "reason": found["reason"] or "",
        "not_before": datetime.fromisoformat(found["not_before"]) if found["not_before"] else None,
    }


# ── hooks ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_HOOK = re.compile(r"(?P<lifecycle>[a-z_]{1,40}) (?:(?P<command>.*) )?exit=(?P<exit_code>-?[0-9]{1,10})")


def _hooks(envelope: Envelope) -> str:
    return "\n".join(hook_text(hook.lifecycle, hook.command, hook.exit_code) for hook in envelope.hooks)


def _read_hooks(body: str) -> dict[str, Any]:
    return {"hooks": tuple(_read_hook(line) for line in body.split("\n"))}


def _read_hook(line: str) -> Hook:
    found = _HOOK.fullmatch(line)
    if found is None:
        raise ValueError("a hook's line is `<lifecycle_name> <command> exit=<rc>`")
    return Hook(found["lifecycle"], found["command"] or "", int(found["exit_code"]))


_WRITERS: dict[str, Callable[[Envelope], str]] = {
    "notes": _notes,
    "validation": _validation,
    "diff": _diff,
    "log": _log,
    "outcome": _outcome,
    "hooks": _hooks,
}
_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "notes": _read_notes,
    "validation": _read_validation,
    "diff": _read_diff,
    "log": _read_log,
    "outcome": _read_outcome,
    "hooks": _read_hooks,
}
