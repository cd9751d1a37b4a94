"""`afk queue list`: every open issue with the reason why it is not being worked; nothing is claimed or repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from afk.attempt.session import Project
from afk.domain.issue import Filter
from afk.domain.queue import QueueItem, QueueState
from afk.supervisor.queueing import Queue
from afk.surfaces.commands.opening import LookingLog, issue_url, open_project, reasons_payload, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

__all__ = ["queue_list"]


def queue_list(context: CommandContext, _arguments: Arguments) -> Result:
    """Raises: TrackerError, RemoteUnreachable; a failed read is no empty queue (L06)."""
    project = open_project(context)
    everything = Filter()
    queue = Queue(project, LookingLog(project, context.emitter))
    items = queue.look(everything, project.config.label, acting=False)
    counts = Counter(item.state for item in items)
    payload = {
        "filter": {"kind": str(everything.kind), "value": everything.value},
        "items": [_item(project, item) for item in items],
        "counts": {state.value: counts[state] for state in QueueState},
        "truncated": False,
    }
    return Result(payload, text=_text(items, project.tracker.problems()))


def _item(project: Project, item: QueueItem) -> dict[str, object]:
    return {
        "position": item.position,
        "issue_number": item.issue.number,
        "title": item.issue.title,
        "issue_url": issue_url(project, item.issue),
        "labels": list(item.issue.labels),
        "state": item.state.value,
        "reasons": reasons_payload(item),
        "blocked_by": list(item.blocked_by),
        "attempts_used": item.attempts_used,
        "attempts_max": project.config.recovery.per_issue,
        "eligible_at_rfc3339": rfc3339(item.eligible_at) if item.eligible_at else None,
    }


def _text(items: Sequence[QueueItem], problems: Sequence[str]) -> str:
    rows = [["issue", "state", "title", "why"]]
    for item in items:
        why = "; ".join(reason.message for reason in item.reasons)
        rows.append([f"#{item.issue.number}", item.state.value, item.issue.title, why])
    listed = columns(rows) if items else "There is no open issue."
    return "\n".join([listed, *(f"left out: {problem}" for problem in problems)]) + "\n"
