"""How commands get at the checkout they were started in, and how its things are named in payloads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from afk.attempt.journal import Journal
from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.domain.issue import Issue
from afk.domain.queue import QueueItem
from afk.surfaces.context import CommandContext
from afk.surfaces.emit import Emitter

__all__ = [
    "LookingLog",
    "comment_url",
    "instant",
    "issue_url",
    "issues_folder",
    "open_project",
    "reasons_payload",
    "rfc3339",
]


def open_project(context: CommandContext, overrides: Mapping[str, object] | None = None) -> Project:
    """`overrides` are flags by dotted key, None: not given. Raises what `Project.open` raises."""
    return Project.open(context.cwd, environ=context.env, config_path=context.config_path, overrides=overrides)


class LookingLog(Log):
    """For commands that only look: what a run would write into its log is said to whoever asked for it (`--log`)."""

    def __init__(self, project: Project, emitter: Emitter) -> None:
        super().__init__(project.tmp / "supervisor.log.toonl", project)
        self._emitter = emitter

    def add(self, kind: str, message: str, *, journal: Journal | None = None) -> None:
        self._emitter.log(kind.partition(".")[0], message)


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


def instant(text: object) -> str | None:
    """The same for a time that a file of ours has as text; None for none."""
    return rfc3339(datetime.fromisoformat(str(text))) if text else None


def reasons_payload(item: QueueItem) -> list[dict[str, object]]:
    return [{"code": reason.code, "message": reason.message} for reason in item.reasons]
