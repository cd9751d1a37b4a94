"""An envelope cut to what a tracker takes, each cut saying how much it left out (R64)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from afk.wire.envelope_frame import write
from afk.wire.envelope_model import CheckLine, Envelope
from afk.wire.safetext import one_line

__all__ = ["BOUND", "fitted"]

BOUND = 60_000  # characters; GitHub takes 65,536 in a comment

_LINE_MAX = 2_000
_SUMMARY_MAX = 120
_LOG_KEPT = 10  # lines; while anything else can give way
_NOTE_ROOM = 160  # characters: what a note on a cut takes, and the fence that a cut may leave to be closed


def fitted(envelope: Envelope) -> Envelope:
    """At most 60,000 characters when written, whatever an agent left; as it is when that fits.

    The log gives way first, then long lines, notes and the report on the checks. The summary never does, and the
    hooks' commands only when nothing else is left.
    """
    for cut in _CUTS:
        excess = len(write(envelope)) - BOUND
        if excess <= 0:
            break
        envelope = cut(envelope, excess)
    return envelope


# ── log ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LOG_NOTE = re.compile(r"\(([0-9]+) earlier lines left out; the whole log is in runs/ beside the worktree\)")


def _log_head(envelope: Envelope, excess: int, kept: int = _LOG_KEPT) -> Envelope:
    lines, before = envelope.log, 0
    if lines and (note := _LOG_NOTE.fullmatch(lines[0])):
        lines, before = lines[1:], int(note[1])
    dropped, freed = 0, -_NOTE_ROOM
    while dropped < len(lines) - kept and freed < excess:
        freed += len(lines[dropped]) + 1
        dropped += 1
    if not dropped:
        return envelope
    told = f"({before + dropped} earlier lines left out; the whole log is in runs/ beside the worktree)"
    return replace(envelope, log=(told, *lines[dropped:]))


def _whole_log(envelope: Envelope, excess: int) -> Envelope:
    return _log_head(envelope, excess, kept=0)


# ── Lines and notes ─────────────────────────────────────────────────────────────────────────────────────────────────


def _long_lines(envelope: Envelope, _excess: int) -> Envelope:
    return replace(
        envelope,
        notes=_with_short_lines(envelope.notes),
        validation_text=_with_short_lines(envelope.validation_text),
        log=tuple(_short(line, _LINE_MAX) for line in envelope.log),
    )


def _with_short_lines(text: str) -> str:
    return "\n".join(_short(line, _LINE_MAX) for line in text.split("\n"))


def _short(line: str, limit: int) -> str:
    room = limit - 40
    return line if len(line) <= limit else f"{line[:room]}… ({len(line) - room} characters left out)"


def _notes_middle(envelope: Envelope, excess: int) -> Envelope:
    return replace(envelope, notes=_without_middle(envelope.notes, excess))


def _without_middle(text: str, excess: int) -> str:
    """The beginning says what was to be done, the end how far it came."""
    if len(text) <= _NOTE_ROOM:
        return text
    kept = max(0, len(text) - excess - _NOTE_ROOM)
    head, tail = text[: kept // 2], text[len(text) - (kept - kept // 2) :]
    return f"{head}\n\n… {len(text) - kept} characters left out …\n\n{tail}".strip("\n")


# ── validation and hooks ────────────────────────────────────────────────────────────────────────────────────────────


def _validation_text(envelope: Envelope, excess: int) -> Envelope:
    return replace(envelope, validation_text=_without_middle(envelope.validation_text, excess))


def _check_summaries(envelope: Envelope, _excess: int) -> Envelope:
    short = (replace(check, summary=_short(check.summary, _SUMMARY_MAX)) for check in envelope.validation)
    return replace(envelope, validation=tuple(short))


def _fewer_checks(envelope: Envelope, excess: int) -> Envelope:
    checks = list(envelope.validation)
    freed = -_NOTE_ROOM
    while len(checks) > 2 and freed < excess:
        dropped = checks.pop(len(checks) // 2)
        freed += len(f"- {dropped.status} {dropped.name} · {dropped.summary}\n")
    if left_out := len(envelope.validation) - len(checks):
        checks.insert(len(checks) // 2, CheckLine("skipped", "…", None, f"{left_out} checks left out of this report"))
    return replace(envelope, validation=tuple(checks))


def _hook_commands(envelope: Envelope, excess: int) -> Envelope:
    """No run is left out, and no exit code: each command gets an equal share of what is there."""
    commands = [hook.command for hook in envelope.hooks]
    share = max(1, (sum(map(len, commands)) - excess) // max(1, len(commands)) - 1)
    return replace(envelope, hooks=tuple(replace(h, command=one_line(h.command, share)) for h in envelope.hooks))


_CUTS: tuple[Callable[[Envelope, int], Envelope], ...] = (
    _log_head,
    _long_lines,
    _notes_middle,
    _whole_log,
    _validation_text,
    _check_summaries,
    _fewer_checks,
    _hook_commands,
)
