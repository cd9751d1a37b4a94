"""What a sweep looks at and what it answers: everything is read and judged before the first thing is touched.

A tracker or a remote that does not answer therefore removes nothing, whenever it fell silent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from afk.adapters import git
from afk.adapters.claims import CLAIMS, claims_among
from afk.adapters.process import working_directories
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId
from afk.domain.issue import Issue
from afk.domain.retention import IssueStand, Terms, Verdict, keep
from afk.errors import AfkError, IssueNotFound, IssueUnreadable, TrackerError

__all__ = ["Action", "Candidate", "Decision", "Kind", "Left", "Survey", "nothing_to_do"]


class Kind(StrEnum):
    """What is decided on."""

    ATTEMPT = "attempt"  # an attempt's directory
    WORKTREE = "worktree"  # a worktree that git has registered and whose directory is gone
    CHECKOUT = "checkout"  # a person's worktree from `afk checkout`
    LIVE_BRANCH = "live_branch"  # on the remote
    BRANCH = "branch"  # here
    REF = "ref"  # a local pointer of ours that is no branch
    WORKER = "worker"  # a worker's folder, when none of its attempts is left
    SAVED = "saved"  # what a sweep saved out of a directory before it removed it
    ISSUE = "issue"  # one that waited for others, which are closed now


class Action(StrEnum):
    KEPT = "kept"
    REMOVED = "removed"
    WOULD_REMOVE = "would_remove"
    PROMOTED = "promoted"
    WOULD_PROMOTE = "would_promote"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one thing, or would; `name` is its path, its ref, or `#7`, `code` a word for `reason`."""

    kind: Kind
    name: str
    action: Action
    code: str
    reason: str
    attempt: AttemptId | None = None
    issue: int | None = None


class Left(Exception):
    """A closer look, right before it was to be removed, spared it: it stays as it is, for this reason."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing that was judged. `act` carries out a verdict that it goes, may be called again after a crash, and
    returns what else is to be said, or "". It raises `Left`, `AfkError` or `OSError`."""

    kind: Kind
    name: str
    verdict: Verdict
    act: Callable[[], str]
    attempt: AttemptId | None = None
    issue: int | None = None


def nothing_to_do() -> str:
    """For what is only reported."""
    return ""


class Survey:
    """The tracker, the remote and the machine as one look gave them.

    `unreachable` says who did not answer; empty when all did. `heads` has every branch of the remote, full ref to sha;
    whoever deletes one there takes it out. `busy` says whether an attempt here is at work or owed; whoever knows the
    directories sets it. Without `asking` neither tracker nor remote is, and nothing is known of them.
    """

    def __init__(self, project: Project, *, asking: bool = True) -> None:
        self.project = project
        self.now: datetime = project.clock.now()
        self.terms = Terms.of_days(**project.config.retention.model_dump())
        self.unreachable = ""
        self.busy = False
        self.heads: dict[str, str] = {}
        self.claims: dict[int, str] = {}
        self.open: dict[int, Issue] = {}
        self._stands: dict[int, IssueStand] = {}
        if asking:
            self._look()

    def _look(self) -> None:
        project = self.project
        try:
            refs = git.ls_remote(project.root, project.url, "refs/heads/*", f"{CLAIMS}*")
            self.open = {issue.number: issue for issue in project.tracker.open_issues()}
        except AfkError as error:
            self.unreachable = error.message
            return
        self.claims = claims_among(refs)
        self.heads = {ref: sha for ref, sha in refs.items() if ref.startswith("refs/heads/")}

    @cached_property
    def working_directories(self) -> dict[int, Path]:
        return working_directories()

    def stand(self, number: int) -> IssueStand:
        """How an issue stands; a tracker that does not answer makes the whole survey unreachable."""
        if number not in self._stands:
            self._stands[number] = self._ask(number)
        return self._stands[number]

    def _ask(self, number: int) -> IssueStand:
        claimed = number in self.claims
        if self.unreachable or number in self.open:
            return IssueStand(number in self.open or None, is_claimed=claimed)
        try:
            issue = self.project.tracker.issue(number)
        except (IssueNotFound, IssueUnreadable):
            return IssueStand(None, is_claimed=claimed)
        except TrackerError as error:
            self.unreachable = error.message
            return IssueStand(None, is_claimed=claimed)
        return IssueStand(issue.is_open, issue.updated_at, is_claimed=claimed)

    def final(self, verdict: Verdict) -> Verdict:
        """The verdict, unless somebody who had to be asked did not answer."""
        if verdict.goes and self.unreachable:
            return keep("unreachable", f"nothing is removed while nobody answers: {self.unreachable}")
        return verdict
