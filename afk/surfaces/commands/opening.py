"""How commands get at the checkout they were started in, and how its things are named in payloads."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from afk.attempt.session import Project
from afk.domain.issue import Issue
from afk.surfaces.context import CommandContext

__all__ = ["comment_url", "issue_url", "issues_folder", "open_project", "rfc3339"]


def open_project(context: CommandContext) -> Project:
    """Raises what `Project.open` raises."""
    return Project.open(context.cwd, environ=context.env, config_path=context.config_path)


def issues_folder(project: Project) -> Path:
    """Where the local tracker keeps its files, absolute."""
    own = project.config.local.path
    return Path(own) if own else project.root / ".red" / "issues"


def issue_url(project: Project, issue: Issue) -> str:
    """An issue of the local tracker is a file, and is named like one."""
    return issue.url or (issues_folder(project) / str(issue.number) / "issue.md").as_uri()


def comment_url(project: Project, number: int, comment_id: str, url: str | None) -> str:
    return url or (issues_folder(project) / str(number) / "comments" / f"{comment_id}.md").as_uri()


def rfc3339(moment: datetime) -> str:
    """In UTC, to the second: `2026-05-17T15:14:00Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
