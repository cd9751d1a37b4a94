"""What others can see of an attempt while it runs: the state file, the worker's log, transition lines.

None of it is needed to resume; that is the journal's. Nothing here may stop the work: a log that cannot be written is
lost with a warning (S76), and the state file is a view that the next write repairs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from afk.adapters.files import append_line, write_atomic
from afk.adapters.process import identity_of
from afk.attempt.journal import Journal
from afk.domain.attempt import slugify
from afk.domain.issue import Filter, Issue
from afk.domain.outcome import Outcome
from afk.domain.stage import Stage, later
from afk.errors import AfkError
from afk.wire import statefile, toonl, transition
from afk.wire.safetext import one_line

if TYPE_CHECKING:
    from afk.attempt.session import Project

__all__ = ["STATE_FILE", "Books", "Log", "Progress"]

STATE_FILE = "afk.state.json"
_LOG_FIELDS = ("at", "kind", "issue", "attempt", "msg")
_LOG_CEILING_BYTES = 8 * 1024 * 1024
_LINE_EVERY_S = 0.25
_LAST_LINE_CHARS = 200


class Books(Protocol):
    """The counts of the whole run, all workers; what the state file repeats."""

    filter: Filter
    done: int
    failed: int
    blocked: int
    completed: list[int]
    queue: list[int]
    durations_s: list[int]

    @property
    def total(self) -> int: ...


class Log:
    """A `*.log.toonl` of ours: one row an event, masked, with a ceiling. Safe to use from several threads."""

    def __init__(self, path: Path, project: Project) -> None:
        self._path = path
        self._project = project
        self.lost = 0  # rows that could not be written

    def add(self, kind: str, message: str, *, journal: Journal | None = None) -> None:
        attempt = journal.attempt if journal is not None else None
        row = toonl.row(
            [
                self._project.clock.now().isoformat(timespec="seconds"),
                kind,
                attempt.issue if attempt else None,
                attempt.n if attempt else None,
                one_line(self._project.mask(message), 2000),
            ]
        )
        try:
            append_line(self._path, row, ceiling_bytes=_LOG_CEILING_BYTES, header=toonl.header(_LOG_FIELDS))
        except (OSError, AfkError):
            self.lost += 1


class Progress:
    """Keeps the state file and speaks transitions; `to` names of transitions are the stages and six more words."""

    def __init__(
        self,
        project: Project,
        journal: Journal,
        issue: Issue,
        *,
        log: Log,
        books: Books,
        emit: Callable[[dict[str, object]], None],
    ) -> None:
        self._project = project
        self._journal = journal
        self._log = log
        self._books = books
        self._emit = emit
        self._lock = threading.Lock()
        # An attempt that is taken up again goes on where it was last told to be.
        self._at = str(journal.fact("told_state") or "queued")
        self._stage = _last_stage(journal)
        self._working = False
        self._last_line = ""
        self._line_waits = False  # for the next write
        self._written_s = 0.0
        self._issue = issue

    def log(self, kind: str, message: str) -> None:
        self._log.add(kind, message, journal=self._journal)

    def to(self, state: str, outcome: Outcome | None = None) -> None:
        """One transition: log row, progress event; nothing when that is where the attempt is already."""
        with self._lock:
            before, self._at = self._at, state
        if before == state:
            return
        self._journal.set_facts(told_state=state)
        attempt = self._journal.attempt
        self._log.add("attempt.transition", f"{before} -> {state}", journal=self._journal)
        self._emit(
            transition.payload(
                at=self._project.clock.now(),
                worker_id=attempt.worker,
                issue_number=attempt.issue,
                attempt_id=str(attempt),
                before=before,
                after=state,
                runner=str(self._journal.fact("runner")),
                outcome=outcome,
            )
        )

    def opened(self) -> None:
        self._write()

    def working(self) -> None:
        """The worktree is there: `current` is set, at least at stage `setup`."""
        self._working = True
        self.stage(Stage.SETUP)
        self._write()

    def stage(self, stage: Stage) -> None:
        """A stage never moves back; each change is written and told."""
        reached = later(self._stage, stage)
        if reached is None or reached == self._stage:
            return
        self._stage = reached
        self._journal.append_fact("stages", {"stage": str(reached), "at": self._project.clock.now().isoformat()})
        self._write()
        self.to(str(reached))

    def last_line(self, text: str) -> None:
        """The agent's last words; written at most four times a second."""
        line = one_line(self._project.mask(text.strip().rpartition("\n")[2]), _LAST_LINE_CHARS)
        if not line or line == self._last_line:
            return
        self._last_line = line
        self._line_waits = True
        self.catch_up()

    def catch_up(self) -> None:
        """Write a last line that came too soon after another one; asked again and again while the agent runs."""
        if self._line_waits and self._project.clock.monotonic_s() - self._written_s >= _LINE_EVERY_S:
            self._write()

    def ended(self, outcome: Outcome) -> None:
        """`current` becomes null: nobody works on it any more."""
        self._working = False
        self._write()
        self.to("ended", outcome)

    def posted(self) -> None:
        self._write()

    def counted(self) -> None:
        """The run's books hold this attempt now."""
        self._write()

    def _write(self) -> None:
        with self._lock:
            self._line_waits = False
            self._written_s = self._project.clock.monotonic_s()
            try:
                write_atomic(self._journal.directory / STATE_FILE, statefile.dump(self._state()))
            except (OSError, AfkError) as error:
                self._log.add("state.unwritten", str(error), journal=self._journal)

    def _state(self) -> statefile.State:
        journal, books, us = self._journal, self._books, identity_of()
        return statefile.State(
            version=1,
            worker_id=journal.attempt.worker,
            pid=us.pid if us else 0,
            pid_start_time=us.pid_start_time if us else "",
            log=self._relative(self._project.workers / journal.attempt.worker / "worker.log.toonl"),
            started_at=str(journal.fact("started_at")),
            runner=str(journal.fact("runner")),
            filter=statefile.FilterState(kind=str(books.filter.kind), value=books.filter.value),
            total=books.total,
            done=books.done,
            failed=books.failed,
            blocked=books.blocked,
            completed=list(books.completed),
            queue=list(books.queue),
            current=self._current() if self._working else None,
            durations_seconds=list(books.durations_s),
            envelope=statefile.EnvelopeState(posted=bool(journal.fact("posted"))),
        )

    def _current(self) -> statefile.Current:
        journal, issue = self._journal, self._issue
        return statefile.Current(
            number=issue.number,
            title=issue.title,
            slug=slugify(issue.title),
            worktree=self._relative(journal.directory / "worktree"),
            handoff=self._relative(journal.directory / "handoff.md"),
            started_at=str(journal.fact("started_at")),
            stage=str(self._stage or Stage.SETUP),
            heartbeat_glyph=None,
            heartbeat_pid=None,
            runner=str(journal.fact("runner")),
            retries=int(journal.fact("retries") or 0),
            last_stream_line=self._last_line,
        )

    def _relative(self, path: Path) -> str:
        return str(path.relative_to(self._project.root))


def _last_stage(journal: Journal) -> Stage | None:
    stages = journal.fact("stages") or []
    return Stage(stages[-1]["stage"]) if stages else None
