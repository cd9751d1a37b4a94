"""What is asked of one run, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from afk.domain.issue import Filter
from afk.domain.outcome import Outcome
from afk.supervisor.tally import Tally

__all__ = ["Ended", "Options", "Report", "Stranded", "Waiting"]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks of one run; `cap` None is no cap, other None leave it to the configuration.

    `watch`: stay up when the queue is drained. `log_path`: where a detached run's words go, None for one in a terminal.
    """

    filter: Filter = field(default_factory=Filter)
    cap: int | None = None
    base: str | None = None
    runner: str | None = None
    request: str = ""
    strict: bool = False
    watch: bool = False
    log_path: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    attempt_id: str
    issue_number: int
    outcome: Outcome
    merge_sha: str | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """An issue that this run left in the queue, and until when (None: until something else changes)."""

    issue_number: int
    code: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Stranded:
    """Finished or half told work without a way to the trunk: the journal keeps it for the next run (L17)."""

    issue_number: int
    branch: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a run came to; `ended` has the last thousand.

    `stopped_by` is `drained`, `cap`, `stop`, `budget` or `exhausted`.
    """

    session_id: str
    stopped_by: str
    tally: Tally
    ended: tuple[Ended, ...]
    waiting: tuple[Waiting, ...]
    stranded: tuple[Stranded, ...]

    def exit_code(self, *, strict: bool) -> int:
        """0 also when issues were parked; 1 for stranded work, or parked issues under `--strict`; 75 exhausted."""
        if self.stranded:
            return 1
        if self.stopped_by == "exhausted":
            return 75
        return 1 if strict and self.tally.blocked else 0
