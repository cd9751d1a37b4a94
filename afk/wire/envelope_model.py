"""The values of a terminal-event envelope: what one attempt leaves on the issue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from afk.domain.attempt import DiffStat
from afk.domain.outcome import EnvelopeStatus, Outcome

__all__ = ["CheckLine", "DiffStat", "Discarded", "Envelope", "EnvelopeError", "Found", "Hook", "Malformed", "Parsed"]

_CODE_SPAN = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class CheckLine:
    """`status` is `passed`, `failed` or `skipped`; `seconds` None means that nothing ran, tenths are shown."""

    status: str
    name: str
    seconds: float | None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A user-declared hook that ran; `lifecycle` is the point's name."""

    lifecycle: str
    command: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Discarded:
    """Why the supervisor parked a slot: its number, how many attempts died fast, of what, and where the log is."""

    slot: int
    fast_deaths: int
    cause: str
    log: str


@dataclass(frozen=True, slots=True)
class Envelope:
    """One terminal event. Which of the fields are shown is a matter of the status; the others are dropped.

    `diff` None means merged, which only `done` is. `merge_sha` None: nothing was merged. `notes` are the agent's own
    words. `validation_text` stands in for `validation` where no check is known (`recorded on host X`). `branch_link` is
    Markdown on one line, `worktree_path` a path, empty when there is none. `log` holds the last 50 lines. `outcome`
    None is the one that the status names by itself. `not_before` is aware. `discarded` goes with that status alone.
    """

    status: EnvelopeStatus
    worker: str
    attempt: int
    duration_s: int
    diff: DiffStat | None
    merge_sha: str | None = None
    notes: str = ""
    validation: tuple[CheckLine, ...] = ()
    validation_text: str = ""
    branch_link: str = ""
    worktree_path: str = ""
    log: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: str = ""
    not_before: datetime | None = None
    hooks: tuple[Hook, ...] = ()
    discarded: Discarded | None = None

    @property
    def branch(self) -> str:
        """The live branch that `branch_link` speaks of; empty when it names none."""
        span = _CODE_SPAN.search(self.branch_link)
        return span[1] if span else ""


class EnvelopeError(ValueError):
    """A text that cannot be read as an envelope: a stable code, and the index of the character where it shows."""

    def __init__(self, code: str, offset: int, message: str) -> None:
        super().__init__(f"{message} (at character {offset})")
        self.code = code
        self.offset = offset
        self.message = message


@dataclass(frozen=True, slots=True)
class Found:
    """An envelope in a thread: where its first character stands, and the bodies of its sections as they are written.

    `sections` also has those that this version does not know; lines end in LF.
    """

    envelope: Envelope
    offset: int
    sections: dict[str, str]


@dataclass(frozen=True, slots=True)
class Malformed:
    """What began like an envelope and cannot be read; `offset` is where reading failed.

    Codes: `bad-opening`, `unknown-status`, `bad-summary`, `status-mismatch`, `stray-text`, `duplicate-section`,
    `unclosed-section`, `orphan-section`, `truncated`, and `bad-` with the section's name.
    """

    offset: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """Everything in a thread, in order; `ignored` counts the lines of other text, blank ones left out."""

    envelopes: tuple[Found, ...]
    malformed: tuple[Malformed, ...]
    ignored: int
