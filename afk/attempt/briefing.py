"""What is known about an issue before its agent starts: its thread read back, and the files written from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from afk.adapters.files import write_atomic
from afk.adapters.regular import read_regular
from afk.agents import prompt as prompts
from afk.attempt.session import Attempt, Project
from afk.attempt.workspace import Left
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.issue import Comment, Issue
from afk.domain.outcome import Outcome, RunPurpose
from afk.domain.recovery import PastAttempt, is_charged
from afk.domain.trust import directive_text, is_ours, may_direct
from afk.wire import envelope
from afk.wire.handoff import Guidance, Handoff, PreviousAttempt, agent_notes, build

__all__ = ["Thread", "Told", "issue_json", "left_by_last", "notes", "prompt", "read_thread", "write_handoff"]


_HANDOFF_MAX_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Told:
    """An earlier attempt as its envelope tells it, with the comment it stands in.

    `at` is its place in the thread as a time, see `_in_order`; None, when it was read without its thread: its own time.
    """

    comment: Comment
    envelope: envelope.Envelope
    at: datetime | None = None

    @property
    def past(self) -> PastAttempt:
        told = self.envelope
        return PastAttempt(
            n=told.attempt,
            status=str(told.status),
            outcome=told.outcome or _only_outcome_of(told),
            ended_at=self.at or self.comment.created_at,
            not_before=told.not_before,
            charged=is_charged(told.reason),
        )


@dataclass(frozen=True, slots=True)
class Thread:
    """An issue's comments, sorted by what they are: our envelopes, directives that count, and everything else.

    `directive_at` is when a person last gave guidance, as a place in the thread; what failed before that does not count
    against the issue.
    """

    told: tuple[Told, ...]
    guidance: tuple[Guidance, ...]
    discussion: tuple[Guidance, ...]
    directive_at: datetime | None = None

    @property
    def past(self) -> list[PastAttempt]:
        """Oldest first."""
        return [told.past for told in self.told]

    def has(self, attempt: AttemptId) -> bool:
        """Whether this attempt's envelope is there."""
        return any((t.envelope.worker, t.envelope.attempt) == (attempt.worker, attempt.n) for t in self.told)


def _only_outcome_of(told: envelope.Envelope) -> Outcome | None:
    """The outcome section is left out where it would repeat the status; `discarded` names none."""
    try:
        return Outcome(str(told.status))
    except ValueError:
        return None


def read_thread(project: Project, number: int) -> Thread:
    """Raises what the tracker raises; a forged or broken envelope is merely no envelope."""
    allow = project.config.trust.allow
    told: list[Told] = []
    guidance: list[Guidance] = []
    discussion: list[Guidance] = []
    directive_at: datetime | None = None
    for at, comment in _in_order(project.tracker.thread(number)):
        if envelope.is_envelope(comment.body) and is_ours(comment, allow):
            found = envelope.parse_thread(comment.body).envelopes
            told.extend(Told(comment, item.envelope, at) for item in found[:1])
            continue
        text = directive_text(comment.body)
        if text is not None and may_direct(comment):
            guidance.append(Guidance(comment.author, comment.created_at, text))
            directive_at = at
        else:
            discussion.append(Guidance(comment.author, comment.created_at, comment.body))
    return Thread(tuple(told), tuple(guidance), tuple(discussion), directive_at)


_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def _in_order(thread: Sequence[Comment]) -> Iterator[tuple[datetime, Comment]]:
    """Each comment with its time, or just after the one before it where a clock was wrong.

    What came after what is told by the thread alone: a directive dated ahead of all that follows would make every later
    failure one that does not count, and the issue would be tried for ever (R84).
    """
    at = datetime(1, 1, 1, tzinfo=UTC)
    for comment in thread:
        at = max(min(comment.created_at, _LATEST), at + timedelta(microseconds=1))
        yield at, comment


def issue_json(issue: Issue) -> dict[str, Any]:
    """An issue as hooks see it."""
    return {
        "number": issue.number,
        "title": issue.title,
        "body": issue.body,
        "labels": list(issue.labels),
        "author": issue.author,
        "url": issue.url,
    }


def left_by_last(thread: Thread, issue: Issue) -> Left | None:
    """What the latest attempt left; None when there was none, or it is of no use any more."""
    if not thread.told:
        return None
    last = thread.told[-1]
    directed = thread.directive_at is not None and thread.directive_at > last.past.ended_at
    branch = last.envelope.branch or branch_name(last.envelope.worker, issue.number, issue.title)
    return Left(last.past.outcome, branch, directed)


def write_handoff(attempt: Attempt, thread: Thread) -> None:
    """`handoff.md` beside the worktree, anew for each attempt. The agent changes it in place; nothing reads it back
    but the notes."""
    write_atomic(attempt.handoff, build(_handoff(attempt, thread)))


def _handoff(attempt: Attempt, thread: Thread) -> Handoff:
    issue, journal, config = attempt.issue, attempt.journal, attempt.project.config
    return Handoff(
        number=issue.number,
        title=issue.title,
        source=issue.url or "local tracker",
        runner=str(journal.fact("runner")),
        started=datetime.fromisoformat(str(journal.fact("started_at"))),
        attempt=str(attempt.id),
        issue_body=issue.body,
        previous=tuple(_previous(told, issue) for told in thread.told),
        prior_context=_prior_context(attempt, thread),
        guidance=thread.guidance,
        discussion=thread.discussion if config.trust.discussion == "framed" else (),
    )


def _previous(told: Told, issue: Issue) -> PreviousAttempt:
    seen = told.envelope
    return PreviousAttempt(
        n=seen.attempt,
        status=str(seen.status),
        worker=seen.worker,
        duration=f"{seen.duration_s // 60}m{seen.duration_s % 60}s",
        branch=seen.branch or branch_name(seen.worker, issue.number, issue.title),
        notes=seen.notes,
        log="\n".join(seen.log),
    )


def _prior_context(attempt: Attempt, thread: Thread) -> str:
    """On a retry: why the last attempt failed, and where its work is."""
    if not thread.told:
        return ""
    last = thread.told[-1]
    why = f"{last.past.outcome or last.envelope.status}" + (f": {last.envelope.reason}" if last.envelope.reason else "")
    continued = attempt.journal.fact("continued_from")
    lines = [f"The last attempt ended as {why}."]
    if continued:
        lines.append(f"Your branch starts from the work it left ({continued}), with the base merged in.")
    else:
        lines.append("Your branch starts afresh from the base.")
    return "\n".join(lines)


def prompt(attempt: Attempt, purpose: RunPurpose, paths: Sequence[str] = ()) -> str:
    """The prompt of one run. Raises `InvalidInput` for a `.red/prompt.md` that cannot be filled (S16)."""
    context = _prompt_context(attempt)
    match purpose:
        case RunPurpose.COMMIT_YOUR_WORK:
            return prompts.commit_prompt(context, dirty=paths)
        case RunPurpose.RESOLVE_CONFLICT:
            return prompts.conflict_prompt(context, paths=paths)
        case RunPurpose.WORK | RunPurpose.TAKE_OVER:
            override = attempt.project.root / prompts.OVERRIDE
            template = override.read_text(encoding="utf-8", errors="replace") if override.is_file() else None
            work = prompts.work_prompt(context, template=template)
            return work if purpose is RunPurpose.WORK else prompts.take_over_prompt(context, work)
        case RunPurpose.CHECK_FAILED:
            mending = attempt.journal.fact("mending")
            return prompts.check_prompt(context, name=mending["check"], output=mending["output"])


def _prompt_context(attempt: Attempt) -> prompts.PromptContext:
    journal = attempt.journal
    return prompts.PromptContext(
        issue_number=attempt.issue.number,
        title=attempt.issue.title,
        attempt=attempt.id.n,
        branch=attempt.branch,
        base=str(journal.fact("base")),
        worktree_path=attempt.worktree,
        handoff_path=attempt.handoff,
        handoff=read_regular(attempt.handoff, _HANDOFF_MAX_BYTES) or "",
        request=str(journal.fact("request") or ""),
        previous_attempts=[str(line) for line in journal.fact("past_lines") or ()],
        siblings=[str(line) for line in journal.fact("siblings") or ()],
        conflicts=[str(path) for path in journal.fact("start_conflicts") or ()],
    )


def notes(attempt: Attempt) -> str:
    """What the agent wrote into the handoff; empty where that is no plain file any more, bounded when it is huge."""
    return agent_notes(read_regular(attempt.handoff, _HANDOFF_MAX_BYTES) or "")
