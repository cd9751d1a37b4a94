"""What an envelope says once it is harmless, clean and short enough.

Masking, defusing and cutting can each give the others new work (a cut may leave what looks like a token), so they are
repeated until nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.wire.envelope_fit import fitted
from afk.wire.envelope_model import CheckLine, DiffStat, Discarded, Envelope, Hook
from afk.wire.envelope_sections import NO_BRANCH, NO_NOTES, NO_OUTPUT, NOT_BEFORE, SECTIONS, read, write
from afk.wire.safetext import clean, defuse, defuse_code, defuse_line, mask

__all__ = ["LOG_LINES", "normalised"]

LOG_LINES = 50

_TEXT_MAX = 500  # characters of a line that foreign text stands in
_NAME_MAX = 100
_REASON_END = 80
_NO_LIMIT = 1 << 40
_NUMBER_MAX = 10**12
_EXIT_MAX = 10**9
_ROUNDS = 10  # two do; the rest is for texts that nobody writes, and a report must not hang on those


def normalised(envelope: Envelope, secrets: Sequence[str], hosts: Sequence[str]) -> Envelope:
    """See `afk.wire.envelope.normalise`."""
    safe = _Safe(tuple(secrets), tuple(hosts))
    for _ in range(_ROUNDS):
        better = fitted(_harmless(envelope, safe))
        if better == envelope:
            break
        envelope = better
    return envelope


_BLANK_HEAD = re.compile(r"\A(?:[^\S\n]*\n)+")


@dataclass(frozen=True, slots=True)
class _Safe:
    """The three ways in which foreign text stands in an envelope."""

    secrets: tuple[str, ...]
    hosts: tuple[str, ...]

    def raw(self, text: str) -> str:
        """Markdown of several lines; no blank line at its edges, which belong to the frame."""
        return _BLANK_HEAD.sub("", defuse(mask(clean(text), self.secrets), self.hosts)).rstrip()

    def code(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines inside a fence; one that breaks becomes several."""
        text = defuse_code(mask(clean("\n".join(lines)), self.secrets), self.hosts).rstrip()
        return tuple(text.split("\n")) if text else ()

    def line(self, text: str, limit: int = _TEXT_MAX) -> str:
        return defuse_line(mask(clean(text), self.secrets), limit, self.hosts)


def _harmless(envelope: Envelope, safe: _Safe) -> Envelope:
    """The same event with nothing in it but what its status shows."""
    status = envelope.status
    shown: dict[str, Any] = {
        "outcome": None if status is EnvelopeStatus.DISCARDED else Outcome(status),
        "merge_sha": _sha(envelope.merge_sha) if status is EnvelopeStatus.DONE else None,
    }
    for name in SECTIONS[status]:
        shown |= _HARMLESS[name](envelope, safe)
    return Envelope(
        status=status,
        worker=re.sub(r"[^A-Za-z0-9._-]", "_", safe.line(envelope.worker))[:64],
        attempt=_number(envelope.attempt),
        duration_s=_number(envelope.duration_s),
        diff=_diffstat(envelope),
        **shown,
    )


def _number(value: int) -> int:
    return max(0, min(value, _NUMBER_MAX))


def _sha(sha: str | None) -> str | None:
    return sha.lower() if sha and re.fullmatch(r"[0-9a-fA-F]{7,64}", sha) else None


def _diffstat(envelope: Envelope) -> DiffStat | None:
    if envelope.status is EnvelopeStatus.DONE:
        return None
    if envelope.status is EnvelopeStatus.DISCARDED or envelope.diff is None:
        return DiffStat(0, 0)
    return DiffStat(_number(envelope.diff.added), _number(envelope.diff.removed), _number(envelope.diff.files))


def _notes(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    if envelope.status is EnvelopeStatus.DISCARDED:
        why = envelope.discarded or Discarded(0, 0, "", "")
        slot, deaths = _number(why.slot), _number(why.fast_deaths)
        return {"discarded": Discarded(slot, deaths, safe.line(why.cause), safe.line(why.log))}
    notes = safe.raw(envelope.notes)
    return {"notes": "" if notes == NO_NOTES else notes}


def _validation(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    """As a reader will see it: what looks like a line of ours is one, whoever wrote it."""
    checks = tuple(_check(check, safe) for check in envelope.validation)
    text = "" if checks else safe.raw(envelope.validation_text)
    body = write("validation", replace(envelope, validation=checks, validation_text=text))
    return read("validation", body, envelope.status)


def _check(check: CheckLine, safe: _Safe) -> CheckLine:
    status = check.status if check.status in ("passed", "failed", "skipped") else "failed"
    # In this order `max` makes 0 of NaN.
    seconds = None if check.seconds is None else max(0.0, min(check.seconds, 1e9))
    return CheckLine(status, safe.line(check.name, _NAME_MAX) or "check", seconds, safe.line(check.summary))


def _diff(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    # Three backticks at the start of a line would open a fence, one inside the path would end its code span.
    link = re.sub(r"`{3,}|~{3,}", lambda run: run[0][:2], safe.line(envelope.branch_link))
    path = safe.line(envelope.worktree_path).replace("`", "'")
    return {"branch_link": "" if link == NO_BRANCH else link, "worktree_path": path}


def _log(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    lines = safe.code(envelope.log)[-LOG_LINES:]
    return {"log": () if lines == (NO_OUTPUT,) else lines}


def _outcome(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    not_before = envelope.not_before and envelope.not_before.astimezone(UTC).replace(microsecond=0)
    outcome = envelope.outcome or Outcome(envelope.status)
    return {"outcome": outcome, "reason": _reason(envelope.reason, safe), "not_before": not_before}


def _reason(text: str, safe: _Safe) -> str:
    """Cut in the middle: its end tells whether the attempt cost a try. Only we set the time to wait, nobody's words."""
    reason = safe.line(text, _NO_LIMIT)
    if len(reason) > _TEXT_MAX:
        reason = f"{reason[: _TEXT_MAX - _REASON_END - 3].rstrip()} … {reason[-_REASON_END:].lstrip()}"
    return _TIME_AT_END.sub(r"not before: \g<not_before>", reason)


_TIME_AT_END = re.compile(rf"{NOT_BEFORE}\Z")


def _hooks(envelope: Envelope, safe: _Safe) -> dict[str, Any]:
    if not envelope.hooks:
        return {}
    hooks = tuple(
        Hook(
            re.sub(r"[^a-z_]", "_", hook.lifecycle)[:40] or "unknown",
            safe.line(hook.command),
            max(-_EXIT_MAX, min(hook.exit_code, _EXIT_MAX)),
        )
        for hook in envelope.hooks
    )
    return read("hooks", write("hooks", replace(envelope, hooks=hooks)), envelope.status)


_HARMLESS: dict[str, Callable[[Envelope, _Safe], dict[str, Any]]] = {
    "notes": _notes,
    "validation": _validation,
    "diff": _diff,
    "log": _log,
    "outcome": _outcome,
    "hooks": _hooks,
}
