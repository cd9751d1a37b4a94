"""`afk envelope`: the comment format by itself, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from afk.domain.outcome import EnvelopeStatus
from afk.errors import InvalidInput
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns
from afk.wire import envelope, envelope_sections
from afk.wire.envelope import Envelope, Found, Malformed
from afk.wire.json_value import parse_json

__all__ = ["diff_payload", "envelope_parse", "envelope_render", "hooks_payload", "malformed_payload"]

T = TypeVar("T", int, str)


def envelope_parse(context: CommandContext, arguments: Arguments) -> Result:
    """Whatever stands in the text, whoever wrote it; exit 1 when something began like an envelope and is none."""
    parsed = envelope.parse_thread(context.read_input("FILE", arguments.text_or_none("file")))
    payload = {
        "envelopes": [_found_payload(found) for found in parsed.envelopes],
        "malformed": [malformed_payload(fault) for fault in parsed.malformed],
        "ignored": parsed.ignored,
    }
    return Result(payload, 1 if parsed.malformed else 0, text=_parse_text(parsed.envelopes, parsed.malformed))


def _found_payload(found: Found) -> dict[str, object]:
    seen = found.envelope
    return {
        "status": str(seen.status),
        "worker_id": seen.worker,
        "attempt": seen.attempt,
        "duration_s": seen.duration_s,
        "diff": diff_payload(seen),
        "merge_sha": seen.merge_sha,
        "sections": found.sections,
        "hooks": hooks_payload(seen),
        "offset": found.offset,
    }


def diff_payload(seen: Envelope) -> dict[str, object]:
    """`kind` is `stat` or, for what landed, `merged`: its merge commit is the diff."""
    if seen.diff is None:
        return {"kind": "merged", "added": None, "removed": None}
    return {"kind": "stat", "added": seen.diff.added, "removed": seen.diff.removed}


def hooks_payload(seen: Envelope) -> list[dict[str, object]]:
    return [{"lifecycle": h.lifecycle, "command": h.command, "exit_code": h.exit_code} for h in seen.hooks]


def malformed_payload(fault: Malformed) -> dict[str, object]:
    return {"offset": fault.offset, "code": fault.code, "message": fault.message}


def _parse_text(found: Sequence[Found], malformed: Sequence[Malformed]) -> str:
    rows = [["at", "worker", "attempt", "status", "took"]]
    for each in found:
        seen = each.envelope
        rows.append([str(each.offset), seen.worker, str(seen.attempt), str(seen.status), f"{seen.duration_s} s"])
    faults = [f"at {fault.offset}: {fault.message} ({fault.code})" for fault in malformed]
    listed = [columns(rows)] if found else ["There is no envelope."]
    return "\n".join([*listed, *faults]) + "\n"


# ── Rendering ───────────────────────────────────────────────────────────────────────────────────────────────────────


def envelope_render(context: CommandContext, arguments: Arguments) -> Result:
    """The comment for one envelope as `envelope parse` describes it: its object, or the whole result around it.

    Rendering and parsing are each other's inverse. Raises: InvalidInput for anything else.
    """
    described = _described(context.read_input("FILE", arguments.text_or_none("file")))
    try:
        rendered = envelope.render(_envelope_of(described))
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"FILE does not describe an envelope: {why}", hint=_HINT) from error
    return Result({"text": rendered, "size_chars": len(rendered)}, text=rendered)


_HINT = "afk envelope parse comment.md --json"


def _described(text: str) -> Mapping[str, Any]:
    """The one object, without the event and the list that `envelope parse --json` put around it."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise InvalidInput(f"FILE is no JSON: {error}", hint=_HINT) from error
    value = value.get("result", value) if isinstance(value, dict) else value
    listed = value.get("envelopes", [value]) if isinstance(value, dict) else []
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        raise InvalidInput("FILE does not describe exactly one envelope", hint=_HINT)
    return listed[0]


def _envelope_of(described: Mapping[str, Any]) -> Envelope:
    """Raises: KeyError, TypeError, ValueError."""
    status = EnvelopeStatus(described["status"])
    facts: dict[str, Any] = {
        "status": status,
        "worker": _of(str, described["worker_id"]),
        "attempt": _of(int, described["attempt"]),
        "duration_s": _of(int, described["duration_s"]),
        "diff": _diff_of(status, described["diff"]),
        "merge_sha": described.get("merge_sha"),
        "hooks": tuple(envelope.Hook(**hook) for hook in described.get("hooks", ())),
    }
    for name, body in described.get("sections", {}).items():
        facts |= envelope_sections.read(name, _of(str, body), status)
    return Envelope(**facts)


def _diff_of(status: EnvelopeStatus, diff: Mapping[str, Any]) -> envelope.DiffStat | None:
    if (diff["kind"] == "merged") != (status is EnvelopeStatus.DONE):
        raise ValueError("`done` is merged, and nothing else is")
    return None if diff["kind"] == "merged" else envelope.DiffStat(_of(int, diff["added"]), _of(int, diff["removed"]))


def _of(kind: type[T], value: object) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
