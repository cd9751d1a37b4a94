"""The frame of an envelope: `<details>` in `<details>`, written to the byte and read out of any thread.

Nothing but LF breaks a line when writing; a reader also takes the CRLF of a comment that was edited in a browser.

Source: AFK wire formats, Terminal-Event Envelope.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.wire import envelope_sections as sections
from afk.wire.envelope_model import DiffStat, Envelope, EnvelopeError, Found, Malformed, Parsed

__all__ = ["OPENING", "read_thread", "write"]

OPENING = "<details data-attempt-status="
_SECTION_OPENING = "<details data-section="
_CLOSING = "</details>"


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write(envelope: Envelope) -> str:
    """An envelope whose texts are harmless already, as it stands; see `normalise`."""
    parts = [f'{OPENING}"{envelope.status}"><summary>{_summary(envelope)}</summary>\n\n']
    for name in sections.SECTIONS[envelope.status]:
        if body := sections.write(name, envelope):
            parts.append(f'{_SECTION_OPENING}"{name}"><summary>{name}</summary>\n\n{body}\n\n{_CLOSING}\n\n')
    return "".join([*parts, f"{_CLOSING}\n"])


def _summary(envelope: Envelope) -> str:
    minutes, seconds = divmod(envelope.duration_s, 60)
    diff = "merged" if envelope.diff is None else f"+{envelope.diff.added} -{envelope.diff.removed}"
    facts = [
        f"worker `{envelope.worker}`",
        f"status: {envelope.status}",
        f"duration: {minutes}m{seconds}s",
        f"diff: {diff}",
        f"attempt: {envelope.attempt}",
    ]
    if envelope.merge_sha:
        facts.append(f"merge: {envelope.merge_sha}")
    return " · ".join(facts)


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_OPENING_LINE = re.compile(r'<details data-attempt-status="([a-z-]{1,40})"><summary>(.*)</summary>')
_SECTION_LINE = re.compile(r'<details data-section="([a-z-]{1,40})"><summary>\1</summary>')
_SUMMARY = re.compile(
    r"worker `(?P<worker>[A-Za-z0-9._-]{0,64})` · status: (?P<status>[a-z-]{1,40})"
    r" · duration: (?P<minutes>[0-9]{1,15})m(?P<seconds>[0-5]?[0-9])s"
    r" · diff: (?:merged|\+(?P<added>[0-9]{1,15}) -(?P<removed>[0-9]{1,15}))"
    r" · attempt: (?P<attempt>[0-9]{1,15})"
    r"(?: · merge: (?P<merge_sha>[0-9a-f]{7,64}))?"
)


@dataclass(frozen=True, slots=True)
class _Line:
    """`start` and `end` are indices into the thread, without the line's own end."""

    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def closes(self) -> bool:
        return self.text.rstrip() == _CLOSING


def read_thread(text: str) -> Parsed:
    """Every envelope whose opening stands at the start of a line, and what could not be read; it never raises.

    An envelope reaches at most to the next opening: none of ours holds another, so a truncated one hides nothing that
    follows it. Each line is looked at a bounded number of times.
    """
    lines = _lines(text)
    openings = [index for index, line in enumerate(lines) if line.text.startswith(OPENING)]
    found: list[Found] = []
    malformed: list[Malformed] = []
    outside = [lines[: openings[0] if openings else len(lines)]]
    for start, stop in pairwise([*openings, len(lines)]):
        try:
            envelope, used = _read_envelope(lines[start:stop])
        except EnvelopeError as error:
            malformed.append(Malformed(error.offset, error.code, error.message))
        else:
            found.append(envelope)
            outside.append(lines[start + used : stop])
    malformed.extend(orphan for block in outside for orphan in _orphans(block))
    ignored = sum(1 for block in outside for line in block if line.text.strip())
    return Parsed(tuple(found), tuple(sorted(malformed, key=lambda each: each.offset)), ignored)


def _lines(text: str) -> list[_Line]:
    lines: list[_Line] = []
    start = 0
    for line in text.split("\n"):
        lines.append(_Line(line.removesuffix("\r"), start))
        start += len(line) + 1
    return lines


def _orphans(block: Sequence[_Line]) -> list[Malformed]:
    """A section outside an envelope: its opening line was lost. One is enough for each stretch of text."""
    starts = [line.start for line in block if line.text.startswith(_SECTION_OPENING)]
    return [Malformed(starts[0], "orphan-section", "a section stands outside an envelope")] if starts else []


def _read_envelope(lines: Sequence[_Line]) -> tuple[Found, int]:
    """The envelope that opens in the first line, and how many lines it takes. Raises: EnvelopeError."""
    facts = _read_opening(lines[0])
    found: dict[str, str] = {}
    index = 1
    while True:
        index = _after_blank(lines, index)
        line = lines[index]
        if line.closes:
            return Found(Envelope(**facts), lines[0].start, found), index + 1
        name, body, index = _read_section(lines, index)
        if name in found:
            raise EnvelopeError("duplicate-section", line.start, f"a second section `{name}`")
        found[name] = body
        facts |= _facts_of(name, body, facts, line)


def _read_opening(line: _Line) -> dict[str, Any]:
    opening = _OPENING_LINE.fullmatch(line.text.rstrip())
    if opening is None:
        raise EnvelopeError("bad-opening", line.start, "an envelope opens with its status and its summary on one line")
    try:
        status = EnvelopeStatus(opening[1])
    except ValueError:
        raise EnvelopeError("unknown-status", line.start, f"no status is called `{opening[1]}`") from None
    summary = _SUMMARY.fullmatch(opening[2])
    if summary is None:
        raise EnvelopeError("bad-summary", line.start + opening.start(2), "the summary is not written as ours")
    if summary["status"] != status:
        raise EnvelopeError("status-mismatch", line.start, f"`{status}` outside, `{summary['status']}` in the summary")
    if (summary["added"] is None) != (status is EnvelopeStatus.DONE):
        raise EnvelopeError("bad-summary", line.start + opening.start(2), "`done` is merged, and nothing else is")
    return _summary_facts(status, summary)


def _summary_facts(status: EnvelopeStatus, summary: re.Match[str]) -> dict[str, Any]:
    merged = summary["added"] is None
    return {
        "status": status,
        "worker": summary["worker"],
        "attempt": int(summary["attempt"]),
        "duration_s": int(summary["minutes"]) * 60 + int(summary["seconds"]),
        "diff": None if merged else DiffStat(int(summary["added"]), int(summary["removed"])),
        "merge_sha": summary["merge_sha"],
        "outcome": None if status is EnvelopeStatus.DISCARDED else Outcome(status),
    }


def _read_section(lines: Sequence[_Line], index: int) -> tuple[str, str, int]:
    """Name, body, and the index of the line after it."""
    opening = _SECTION_LINE.fullmatch(lines[index].text.rstrip())
    if opening is None:
        raise EnvelopeError("stray-text", lines[index].start, "between the sections of an envelope stands nothing else")
    start = _after_blank(lines, index + 1)
    stop = _end_of_log(lines, start) if opening[1] == "log" else start
    while not lines[stop].closes:
        if lines[stop].text.startswith(_SECTION_OPENING):
            raise EnvelopeError("unclosed-section", lines[stop].start, f"section `{opening[1]}` does not end")
        stop += 1
        if stop == len(lines):
            raise _truncated(lines)
    return opening[1], "\n".join(line.text for line in lines[start:stop]).strip("\n"), stop + 1


def _end_of_log(lines: Sequence[_Line], start: int) -> int:
    """The index of the line that closes the log's fence; what looks like a frame inside is the agent's output."""
    if not sections.FENCE.fullmatch(lines[start].text):
        return start
    for index in range(start + 1, len(lines)):
        if lines[index].text == lines[start].text:
            return index
    raise _truncated(lines)


def _after_blank(lines: Sequence[_Line], index: int) -> int:
    while index < len(lines) and not lines[index].text.strip():
        index += 1
    if index == len(lines):
        raise _truncated(lines)
    return index


def _truncated(lines: Sequence[_Line]) -> EnvelopeError:
    return EnvelopeError("truncated", lines[-1].end, "the envelope does not end")


def _facts_of(name: str, body: str, facts: dict[str, Any], line: _Line) -> dict[str, Any]:
    try:
        told = sections.read(name, body, facts["status"])
    except ValueError as error:
        raise EnvelopeError(f"bad-{name}", line.start, str(error)) from None
    if "diff" in told and replace(told["diff"], files=0) != facts["diff"]:
        raise EnvelopeError("bad-diff", line.start, "the section and the summary name different numbers")
    return told
