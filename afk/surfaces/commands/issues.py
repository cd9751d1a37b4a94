"""`afk issue create|comment|close`: by command what an editor does by hand in the local tracker."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping

from afk.adapters.localtracker import LocalTracker
from afk.attempt.session import Project
from afk.domain.attempt import slugify
from afk.domain.issue import Issue
from afk.errors import InvalidInput
from afk.surfaces.commands.opening import comment_url, issue_url, issues_folder, open_project, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["close", "comment", "create", "issue_payload"]


def create(context: CommandContext, arguments: Arguments) -> Result:
    """Raises: InvalidInput for a body that cannot be read, TrackerError without a folder to file it in."""
    project = open_project(context)
    file = arguments.text_or_none("body")
    body = context.read_input("--body", file) if file is not None else ""
    tracker = _tracker_of(project, _person(project, context.env, arguments.text_or_none("author")))
    issue = tracker.create_issue(title=arguments.text("title"), body=body, labels=arguments.texts("label"))
    payload = {"issue": issue_payload(project, issue)}
    return Result(payload, text=f"issue {issue.number}: {issue.title}\n{issue_url(project, issue)}\n")


def comment(context: CommandContext, arguments: Arguments) -> Result:
    """Raises: IssueNotFound, InvalidInput."""
    project = open_project(context)
    body = context.read_input("--body", arguments.text("body"))
    if not body.strip():
        raise InvalidInput("--body holds no text")
    tracker = _tracker_of(project, _person(project, context.env, None))
    number = arguments.number("issue")
    made = tracker.comment(number, body)
    url = comment_url(project, number, made.id, made.url)
    payload = {
        "issue_number": number,
        "comment_id": made.id,
        "comment_url": url,
        "author": made.author,
        "created_at_rfc3339": rfc3339(made.created_at),
    }
    return Result(payload, text=f"comment {made.id} on issue {number} by {made.author}\n{url}\n")


def close(context: CommandContext, arguments: Arguments) -> Result:
    """Idempotent: an issue that is closed keeps its reason, and `changed` is false. Raises: IssueNotFound."""
    project = open_project(context)
    number = arguments.number("issue")
    before = project.tracker.issue(number)
    after = project.tracker.close_issue(number, reason=arguments.text_or_none("reason") or "completed")
    payload = {
        "action": "close",
        "changed": before.is_open and not after.is_open,
        "before": _standing(before),
        "after": _standing(after),
        "target": number,
    }
    told = f"issue {number} is closed ({after.closed_reason})"
    return Result(payload, text=f"{told}\n" if before.is_open else f"{told}; it was closed before\n")


def _standing(issue: Issue) -> dict[str, object]:
    return {"state": issue.state, "closed_reason": issue.closed_reason}


def issue_payload(project: Project, issue: Issue) -> dict[str, object]:
    return {
        "number": issue.number,
        "title": issue.title,
        "issue_url": issue_url(project, issue),
        "state": issue.state,
        "labels": list(issue.labels),
        "slug": slugify(issue.title),
    }


def _tracker_of(project: Project, person: str) -> LocalTracker:
    """The tracker as somebody writes in it who is not `afk`: what a person says must never be taken for our own."""
    return LocalTracker(issues_folder(project), login=person)


def _person(project: Project, env: Mapping[str, str], given: str | None) -> str:
    name = given or env.get("USER") or env.get("LOGNAME") or _login()
    if name == project.config.local.login:
        raise InvalidInput(f"`{name}` is the name that afk itself writes under", hint="afk issue create --author NAME")
    return name


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number and no name
        return f"uid-{os.getuid()}"
