"""`afk branch list`: the live branches that attempts left, here and on the remote, and how to look at each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afk.adapters import git
from afk.adapters.claims import CLAIMS, claims_among
from afk.attempt.briefing import Told, read_thread
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, LiveBranch
from afk.domain.issue import Issue
from afk.errors import IssueNotFound, IssueUnreadable
from afk.surfaces.commands.opening import open_project, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

__all__ = ["branch_list"]

_OURS = "refs/heads/afk/"


def branch_list(context: CommandContext, _arguments: Arguments) -> Result:
    """By issue. Raises: TrackerError, RemoteUnreachable; a failed read is no empty list (L06)."""
    project = open_project(context)
    refs = git.ls_remote(project.root, project.url, f"{_OURS}*", f"{CLAIMS}*")
    remote = {ref: sha for ref, sha in refs.items() if ref.startswith(_OURS)}
    local = git.local_refs(project.root, _OURS)
    names = (LiveBranch.parse(ref.removeprefix("refs/heads/")) for ref in {*remote, *local})
    found = sorted((branch for branch in names if branch is not None), key=lambda each: (each.issue, each.name))
    books = _Books(project, set(claims_among(refs)))
    return Result(payload := {"branches": [_branch(books, each, local, remote) for each in found]}, text=_text(payload))


class _Books:
    """Issues and their threads, each read once."""

    def __init__(self, project: Project, claimed: set[int]) -> None:
        self.claimed = claimed
        self._project = project
        self._known: dict[int, tuple[Issue | None, tuple[Told, ...]]] = {}

    def of(self, number: int) -> tuple[Issue | None, tuple[Told, ...]]:
        """None and nothing for an issue that the tracker does not know or cannot read."""
        if number not in self._known:
            try:
                issue = self._project.tracker.issue(number)
                self._known[number] = issue, read_thread(self._project, number).told
            except (IssueNotFound, IssueUnreadable):
                self._known[number] = None, ()
        return self._known[number]


def _branch(
    books: _Books, branch: LiveBranch, local: Mapping[str, str], remote: Mapping[str, str]
) -> dict[str, object]:
    """The attempt is the worker's latest that told its end: a worker gives all its attempts at an issue one branch."""
    ref = f"refs/heads/{branch.name}"
    issue, told = books.of(branch.issue)
    last = next((each for each in reversed(told) if each.envelope.worker == branch.worker), None)
    attempt = AttemptId(branch.worker, branch.issue, last.envelope.attempt) if last else None
    return {
        "branch": branch.name,
        "issue_number": branch.issue,
        "issue_state": issue.state if issue else None,
        "attempt_id": str(attempt) if attempt else None,
        "local_sha": local.get(ref),
        "remote_sha": remote.get(ref),
        "claimed": branch.issue in books.claimed,
        "outcome": str(last.past.outcome) if last and last.past.outcome else None,
        "envelope_status": str(last.envelope.status) if last else None,
        "ended_at_rfc3339": rfc3339(last.comment.created_at) if last else None,
        # `checkout` takes what the remote has; a branch that is only here is looked at where it is.
        "command": f"afk checkout {branch.issue}" if ref in remote else f"git log {branch.name}",
    }


def _text(payload: Mapping[str, Any]) -> str:
    if not payload["branches"]:
        return "No attempt left a branch.\n"
    rows = [["issue", "branch", "where", "attempt", "outcome", "ended", "look"]]
    rows += [list(_cells(each)) for each in payload["branches"]]
    return columns(rows) + "\n"


def _cells(each: Mapping[str, Any]) -> Iterator[str]:
    yield f"#{each['issue_number']} {each['issue_state'] or 'unknown'}"
    yield each["branch"]
    places = {"here": each["local_sha"], "remote": each["remote_sha"]}
    yield " and ".join(place for place, sha in places.items() if sha)
    yield each["attempt_id"] or "-"
    yield "at work" if each["claimed"] else each["outcome"] or each["envelope_status"] or "-"
    yield each["ended_at_rfc3339"] or "-"
    yield each["command"]
