"""`afk requeue N` and `afk retake N`: an issue to the agents, or back from them to people; by labels alone.

Labels are what every machine looks at, so both work from any checkout, whoever works the issue.
"""

from __future__ import annotations

from afk.domain.issue import Issue
from afk.domain.queue import RUNNING, label_changes
from afk.errors import InvalidInput
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["requeue", "retake"]


def requeue(context: CommandContext, arguments: Arguments) -> Result:
    """A parked issue gets the queue's label and loses those that told why it was parked; its kept branch stays.

    Raises: IssueNotFound, InvalidInput for an issue that is closed or at work.
    """
    project, number = open_project(context), arguments.number("issue")
    issue = _open(project.tracker.issue(number))
    if issue.has_label(RUNNING):
        raise InvalidInput(f"issue {number} is being worked", hint=f"afk retake {number}")
    return _relabel(context, issue, "requeue", "is in the queue: `afk run` works it, `afk queue list` says when")


def retake(context: CommandContext, arguments: Arguments) -> Result:
    """Nobody picks the issue any more; an agent at work on it is stopped at the next poll and its branch is kept.

    Raises: IssueNotFound, InvalidInput for an issue that is closed.
    """
    project, number = open_project(context), arguments.number("issue")
    issue = _open(project.tracker.issue(number))
    told = "is yours: no agent takes it until `afk requeue`"
    if issue.has_label(RUNNING):
        told += f"; the one at work is stopped at the next poll, then: afk checkout {number}"
    return _relabel(context, issue, "retake", told)


def _open(issue: Issue) -> Issue:
    if not issue.is_open:
        raise InvalidInput(f"issue {issue.number} is closed", hint=f"afk history {issue.number}")
    return issue


def _relabel(context: CommandContext, issue: Issue, action: str, told: str) -> Result:
    project = open_project(context)
    add, remove = label_changes("requeue" if action == "requeue" else "park", issue.labels, queue=project.config.label)
    changed = any(not issue.has_label(name) for name in add) or any(issue.has_label(name) for name in remove)
    if changed:
        project.tracker.edit_labels(issue.number, add=add, remove=remove)
    after = project.tracker.issue(issue.number) if changed else issue
    payload = {
        "action": action,
        "changed": changed,
        "before": {"labels": list(issue.labels)},
        "after": {"labels": list(after.labels)},
        "target": {"issue_number": issue.number, "title": issue.title},
    }
    return Result(payload, text=f"#{issue.number} {issue.title}: {told}\n")
