"""`afk issue show N`: everything that tracker, remote and this machine know about one issue."""

from __future__ import annotations

from typing import Any

from afk.adapters.claims import held_claims, read_claim
from afk.attempt.briefing import Thread, Told, read_thread
from afk.attempt.journal import JOURNAL, Journal, Step
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId
from afk.domain.issue import Filter, FilterKind, Issue
from afk.domain.outcome import OUTCOMES
from afk.domain.queue import PARKED, QueueItem, QueueState
from afk.domain.recovery import attempts_used
from afk.errors import JournalBroken
from afk.supervisor.queueing import Queue
from afk.surfaces.commands.attempts import summaries
from afk.surfaces.commands.issues import issue_payload
from afk.surfaces.commands.opening import LookingLog, comment_url, instant, open_project, reasons_payload
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import aligned

__all__ = ["show"]


def show(context: CommandContext, arguments: Arguments) -> Result:
    """Raises: IssueNotFound, TrackerError, RemoteUnreachable."""
    project = open_project(context)
    issue = project.tracker.issue(arguments.number("issue"))
    item = _place_in_queue(context, project, issue)
    attempts = summaries(project, issue.number)
    thread = read_thread(project, issue.number)
    payload = {
        "issue": issue_payload(project, issue),
        "queue_state": item.state.value if item else QueueState.INELIGIBLE.value,
        "reasons": reasons_payload(item) if item else [{"code": "closed", "message": "it is closed"}],
        "claim": _claim(project, issue.number),
        "attempts": attempts,
        "last_outcome": attempts[-1]["outcome"] if attempts else None,
        "recovery": _recovery(project, issue, item, thread),
        "envelopes": [_envelope(project, issue.number, each) for each in thread.told],
    }
    return Result(payload, text=_text(payload))


def _place_in_queue(context: CommandContext, project: Project, issue: Issue) -> QueueItem | None:
    """None for a closed issue."""
    if not issue.is_open:
        return None
    queue = Queue(project, LookingLog(project, context.emitter))
    chosen = Filter(FilterKind.ISSUES, (issue.number,))
    return next(iter(queue.look(chosen, project.config.label, acting=False)), None)


def _claim(project: Project, number: int) -> dict[str, object] | None:
    """When it was claimed is known for attempts of this machine."""
    sha = held_claims(project.root, project.url).get(number)
    record = read_claim(project.root, project.url, number, sha) if sha else None
    if record is None:
        return None
    return {"worker_id": record.worker, "claimed_at_rfc3339": _claimed_at(project, AttemptId.parse(record.attempt))}


def _claimed_at(project: Project, attempt: AttemptId | None) -> str | None:
    directory = project.workers / attempt.worker / attempt.directory if attempt else None
    if directory is None or not (directory / JOURNAL).exists():
        return None
    try:
        return instant(Journal.load(directory, clock=project.clock).get(Step.CLAIMED).get("at"))
    except JournalBroken:
        return None


def _recovery(project: Project, issue: Issue, item: QueueItem | None, thread: Thread) -> dict[str, object]:
    """`policy` is the recovery key of the last outcome; `remaining` how often the issue may still be tried."""
    last = thread.past[-1].outcome if thread.past else None
    left = project.config.recovery.per_issue - attempts_used(thread.past, thread.directive_at)
    return {
        "policy": OUTCOMES[last].tries_key if last else None,
        "remaining": max(0, left) if issue.is_open else None,
        "next_action": _next_action(issue, item),
    }


def _next_action(issue: Issue, item: QueueItem | None) -> str | None:
    """`retry`: a run will pick it, now or later; `people`: it waits for them; None: nothing follows."""
    if item is None:
        return None
    if issue.has_label(PARKED) or item.state is QueueState.INELIGIBLE:
        return "people"
    return "retry"


def _envelope(project: Project, number: int, told: Told) -> dict[str, object]:
    return {
        "comment_id": told.comment.id,
        "comment_url": comment_url(project, number, told.comment.id, told.comment.url),
        "status": str(told.envelope.status),
        "worker_id": told.envelope.worker,
        "attempt": told.envelope.attempt,
    }


def _text(payload: dict[str, Any]) -> str:
    issue, claim = payload["issue"], payload["claim"]
    why = "; ".join(reason["message"] for reason in payload["reasons"])
    facts = [
        ("state", issue["state"]),
        ("labels", ", ".join(issue["labels"]) or "none"),
        ("queue", f"{payload['queue_state']}{f': {why}' if why else ''}"),
        ("claim", claim["worker_id"] if claim else "none"),
        ("where", issue["issue_url"]),
    ]
    tried = [(each["attempt_id"], each["outcome"] or each["state"]) for each in payload["attempts"]]
    parts = [f"#{issue['number']} {issue['title']}", aligned(facts, indent=2)]
    if tried:
        parts += ["attempts:", aligned(tried, indent=2)]
    return "\n".join(parts) + "\n"
