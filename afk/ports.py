"""The three things that are remote, paid, or time itself; everything else is used for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from afk.domain.issue import Comment, Issue
from afk.domain.usage import Usage

__all__ = ["Agent", "AgentCommand", "AgentEvent", "AgentProfile", "Clock", "EventKind", "RunContext", "Tracker"]


class Tracker(Protocol):
    """Where issues live. Every call has a time limit; a read that failed raises, it is never an empty answer (L06).

    Raises `TrackerError` (retryable), `IssueNotFound`, `IssueUnreadable` (one record, by number).
    """

    @property
    def login(self) -> str:
        """Whose comments are ours."""

    def open_issues(self) -> list[Issue]:
        """All open issues, every page, by number; pull requests and unreadable records left out (see `problems`)."""

    def problems(self) -> list[str]:
        """What the last listing left out, one sentence each, with the path or address."""

    def issue(self, number: int) -> Issue:
        """A full, fresh snapshot, open or closed."""

    def thread(self, number: int) -> list[Comment]:
        """All comments, oldest first."""

    def can_write(self, login: str) -> bool:
        """Whether this person may push; unknown is False."""

    def create_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue: ...

    def comment(self, number: int, body: str) -> Comment:
        """Posts exactly once or raises; after an error the caller looks in the thread before it tries again."""

    def edit_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """Idempotent; touches no label that it was not given."""

    def close_issue(self, number: int, *, reason: str = "completed") -> Issue:
        """Idempotent."""

    def branch_link(self, branch: str, number: int) -> str:
        """Markdown that lets a person get at a pushed live branch.

        Source: AFK wire formats, envelope section `diff`.
        """


class Clock(Protocol):
    """Time as the program sees it: `now` for what people read, `monotonic_s` for every duration."""

    def now(self) -> datetime:
        """Aware, in the machine's own zone."""

    def monotonic_s(self) -> float:
        """Seconds of CLOCK_MONOTONIC: the same scale in every process of one boot."""


class EventKind(StrEnum):
    """What an agent's stream can tell, whatever its dialect."""

    TEXT = "text"  # the assistant's own words, whole lines
    TEXT_PART = "text_part"  # a piece of them; with the pieces before and after it, it makes whole lines
    SHELL = "shell"  # a shell command was started; `text` is the command
    READ = "read"
    EDIT = "edit"
    TOOL = "tool"  # any other tool
    TOOL_OUTPUT = "tool_output"  # never read for sentinels
    USAGE = "usage"
    SESSION = "session"  # `text` is the agent's own name for this conversation
    RETRYING = "retrying"  # its service failed and it tries again; `delay_s` when told
    LIMIT = "limit"  # quota, credit or usage limit; `resets_at` when told
    TRANSIENT = "transient"  # rate, 5xx, overload, connection
    REFUSED = "refused"  # login, permission, unknown model: nothing will change by itself
    UNFIT = "unfit"  # context too long, content refused
    END_GOOD = "end_good"
    END_BAD = "end_bad"
    NOISE = "noise"  # not understood; counted, never fatal


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """One thing read off the stream.

    `usage` comes with USAGE: what the part of the run named `usage_of` has used up to now, or the whole run where that
    is None. Said again, it replaces what was said before of that part, so that no line counts twice (R42).
    """

    kind: EventKind
    text: str = ""
    usage: Usage | None = None
    usage_of: str | None = None
    resets_at: datetime | None = None
    delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """What is known of a kind of agent before it is started.

    `reads_text`: stages are read off plain text, because the stream has no tool events. `tells_end`: a stream without
    an end was cut off, whatever the exit code. `tells_cost` is None where nobody knows.
    """

    reads_text: bool = False
    tells_end: bool = True
    tells_cost: bool | None = False


@dataclass(frozen=True, slots=True)
class RunContext:
    """What an agent needs to know to build its command line.

    `state` is a folder for this attempt's agent alone, `environ` the person's environment.
    """

    worktree: Path
    prompt_file: Path
    state: Path
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """An argv list (never a shell string) and the names it may inherit; `stdin` is the prompt's file or None.

    `links` are symbolic links to make before the start: from a place below the context's `state` to a file of the
    person's, such as a login.
    """

    argv: tuple[str, ...]
    env_names: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: Path | None = None
    links: tuple[tuple[Path, Path], ...] = ()


class Agent(Protocol):
    """One kind of coding agent: how it is started and how its stream is read."""

    @property
    def name(self) -> str: ...

    @property
    def profile(self) -> AgentProfile: ...

    def command(self, context: RunContext) -> AgentCommand: ...

    def read(self, line: str) -> Sequence[AgentEvent]:
        """What a line of standard output tells. Pure and tolerant: an unknown line is NOISE, never an exception."""

    def complaint(self, line: str) -> Sequence[AgentEvent]:
        """What a line of standard error tells: RETRYING or a failure in the program's own fixed words, else nothing."""
