"""The queue as one look gives it: one listing, one `ls-remote`, threads only where they matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afk.adapters.claims import held_claims, read_claim
from afk.attempt import history
from afk.attempt.briefing import Thread, read_thread
from afk.attempt.journal import Step
from afk.attempt.progress import Log
from afk.attempt.session import Attempt, Project
from afk.domain.attempt import AttemptId
from afk.domain.issue import Filter, Issue
from afk.domain.queue import RUNNING, IssueFacts, QueueItem, QueueState, blockers, judge
from afk.domain.recovery import attempts_used, wait_s, waits_until
from afk.domain.trust import may_queue
from afk.errors import IssueNotFound, TrackerError
from afk.supervisor.leases import Sight, Sights
from afk.supervisor.takeover import take_over

__all__ = ["Queue"]


@dataclass(frozen=True, slots=True)
class _Held:
    """A claim: who holds it, in words; the number of the attempt (0: unknown); whether it outlived its lease."""

    by: str
    attempt_n: int
    is_stale: bool


class Queue:
    """What may be worked. `last` is the latest look, for whoever reports why nothing happens; `taken_n` has, by issue,
    the number of an attempt whose claim was taken over, which is not given again.

    `say` takes a sentence for people about what the tracker had to leave out; the log has it in any case.
    """

    def __init__(self, project: Project, log: Log, *, say: Callable[[str], None] | None = None) -> None:
        self.last: Sequence[QueueItem] = ()
        self.taken_n: dict[int, int] = {}
        self._say = say
        self._project = project
        self._log = log
        self._sights = Sights(project.state / "claims.json", project.clock)
        self._threads: dict[int, tuple[datetime, Thread]] = {}
        self._listed: Mapping[int, Issue] = {}
        self._listed_s = -math.inf
        self._told: set[str] = set()
        self._losses: Mapping[int, tuple[int, datetime]] = {}
        self._awaited: set[int] = set()

    def reconfigure(self, project: Project) -> None:
        """Judge by another configuration from the next look on; the tracker and the remote are the same."""
        self._project = project

    def look(self, filter: Filter, label: str, *, acting: bool = True) -> list[QueueItem]:
        """Every open issue that the filter lets through, in order, with its state and reasons.

        `acting` also takes over claims that outlived their lease and repairs labels that a dead run left; without it
        nothing is written anywhere. Raises `TrackerError`, `RemoteUnreachable`: a failed read is no empty queue (L06).
        """
        project = self._project
        issues = self._list()
        self._losses = history.losses(project.state)
        self._tell(project.tracker.problems())
        self._threads = {number: known for number, known in self._threads.items() if number in self._listed}
        claims = held_claims(project.root, project.url)
        held = self._held(claims, acting=acting)
        if acting:
            stale = [number for number, claim in held.items() if claim.is_stale]
            taken = [number for number in stale if take_over(project, number, claims[number], label, self._log)]
            self.taken_n |= {number: held.pop(number).attempt_n for number in taken}
            if taken or self._repair_labels(issues, claims, label):
                issues = self._list()
        self.last = judge(
            issues,
            label=label,
            filter=filter,
            claims_held={number: claim.by for number, claim in held.items()},
            facts={issue.number: self._facts(issue) for issue in issues if issue.has_label(label)},
            now=project.clock.now(),
            per_issue=project.config.recovery.per_issue,
            closed=self._closed_blockers(issues),
        )
        return list(self.last)

    def is_held_elsewhere(self, items: Sequence[QueueItem], ours: Collection[int]) -> bool:
        """Whether the only work left is held by claims of others, which change or run out by themselves."""
        others = [item for item in items if item.issue.number not in ours]
        return any(item.state is QueueState.CLAIMED and item.reasons[0].code == "claimed" for item in others)

    def say_what_is_awaited(self, items: Sequence[QueueItem]) -> None:
        """Each once: a run that only waits for others must not look as if it hung."""
        for item in items:
            if item.state is QueueState.CLAIMED and item.issue.number not in self._awaited and self._say is not None:
                self._awaited.add(item.issue.number)
                self._say(f"waiting for #{item.issue.number}: {item.reasons[0].message}, or its lease runs out")

    def note_withdrawn(self, attempts: Sequence[Attempt]) -> None:
        """Tell attempts whose issue people took back: closed, deleted, unlabelled, given to somebody else.

        One listing serves all of them, the last look's while it is fresh; only an issue that looks different in it is
        read by itself, because a listing may be older than our own label. What cannot be read says nothing (L06).
        """
        working = [attempt for attempt in attempts if attempt.withdrawn is None and not attempt.journal.has(Step.ENDED)]
        if not working:
            return
        try:
            listed = self._recent_listing()
        except TrackerError as error:
            self._log.add("queue.unread", error.message)
            return
        for attempt in working:
            issue = listed.get(attempt.issue.number)
            if issue is None or _why_withdrawn(attempt, issue, self._project.tracker.login, _is_labelled(attempt)):
                attempt.withdrawn = self._withdrawn(attempt)

    def _withdrawn(self, attempt: Attempt) -> str | None:
        """Why the issue is no longer ours to work, asked of the tracker itself. None: it still is."""
        labelled = _is_labelled(attempt)  # before it is read: a label that we write meanwhile was not taken away
        try:
            issue = self._project.tracker.issue(attempt.issue.number)
        except IssueNotFound:
            return "the issue is gone from the tracker"
        except TrackerError as error:
            self._log.add("queue.unread", error.message, journal=attempt.journal)
            return None
        return _why_withdrawn(attempt, issue, self._project.tracker.login, labelled)

    def _recent_listing(self) -> Mapping[int, Issue]:
        """All open issues, at most one poll old."""
        if self._project.clock.monotonic_s() - self._listed_s >= self._project.config.poll_s:
            self._list()
        return self._listed

    def _list(self) -> list[Issue]:
        issues = self._project.tracker.open_issues()
        self._listed = {issue.number: issue for issue in issues}
        self._listed_s = self._project.clock.monotonic_s()
        return issues

    def thread(self, issue: Issue) -> Thread:
        """The issue's thread, read again only when the issue has changed."""
        known = self._threads.get(issue.number)
        if known is None or known[0] != issue.updated_at:
            known = (issue.updated_at, read_thread(self._project, issue.number))
            self._threads[issue.number] = known
        return known[1]

    def _tell(self, problems: Collection[str]) -> None:
        """Each once in a run: a broken file is reported, and the rest works."""
        for problem in problems:
            if problem not in self._told:
                self._told.add(problem)
                self._log.add("tracker.problem", problem)
                if self._say is not None:
                    self._say(f"left out: {problem}")

    def _held(self, claims: Mapping[int, str], *, acting: bool) -> dict[int, _Held]:
        """Every claim on the remote; without `acting`, none is noted and none grows old."""
        sights = self._sights.look(claims) if acting else {}
        return {number: self._one_held(number, sha, sights.get(number)) for number, sha in claims.items()}

    def _one_held(self, number: int, sha: str, sight: Sight | None) -> _Held:
        record = read_claim(self._project.root, self._project.url, number, sha)
        if record is None:
            return _Held("an unreadable claim", 0, _is_over(sight, self._project.config.claim.lease_s))
        attempt = AttemptId.parse(record.attempt)
        return _Held(
            f"{record.worker} on {record.host}",
            attempt.n if attempt is not None and attempt.issue == number else 0,
            record.state != "waiting" and _is_over(sight, record.lease_s),
        )

    def _repair_labels(self, issues: Sequence[Issue], claims: Mapping[int, str], label: str) -> bool:
        """An open issue that says `running` while nobody holds it goes back: its last label write was lost."""
        repaired = False
        for listed in issues:
            if not listed.has_label(RUNNING) or listed.number in claims:
                continue
            # The listing came before the look at the claims: only what still says so now was left behind.
            issue = self._project.tracker.issue(listed.number)
            if issue.is_open and issue.has_label(RUNNING):
                self._project.tracker.edit_labels(issue.number, add=[label], remove=[RUNNING])
                self._log.add("label.repaired", f"#{issue.number} was `{RUNNING}` and nobody worked on it")
                repaired = True
        return repaired

    def _facts(self, issue: Issue) -> IssueFacts:
        project, trust = self._project, self._project.config.trust
        thread = self.thread(issue)
        trusted = may_queue(
            issue.author,
            can_write=project.tracker.can_write(issue.author),
            allow=trust.allow,
            require_write_access=trust.require_write_access,
        )
        waits = [waits_until(thread.past, thread.directive_at), self._after_losses(issue.number, thread.directive_at)]
        return IssueFacts(
            attempts_used=attempts_used(thread.past, thread.directive_at),
            not_before=max((until for until in waits if until is not None), default=None),
            untrusted="" if trusted else f"its author {issue.author} has no write access",
        )

    def _after_losses(self, number: int, directive_at: datetime | None) -> datetime | None:
        """Until when an issue is left to others, whose claim was lost here again and again; None: it is not."""
        count, last = self._losses.get(number, (0, None))
        if last is None or (directive_at is not None and directive_at > last):
            return None
        recovery = self._project.config.recovery
        return last + timedelta(seconds=wait_s(count, recovery.backoff_s, recovery.backoff_max_s))

    def _closed_blockers(self, issues: Sequence[Issue]) -> set[int]:
        numbers = {issue.number for issue in issues}
        wanted = {blocker for issue in issues for blocker in blockers(issue)} - numbers
        return {number for number in wanted if self._is_closed(number)}

    def _is_closed(self, number: int) -> bool:
        try:
            return not self._project.tracker.issue(number).is_open
        except IssueNotFound:
            return False


def _is_over(sight: Sight | None, lease_s: float) -> bool:
    return sight is not None and sight.unchanged_s > lease_s


def _is_labelled(attempt: Attempt) -> bool:
    """Whether this attempt has written `running` on its issue."""
    return bool(attempt.journal.fact("labelled"))


def _why_withdrawn(attempt: Attempt, issue: Issue, login: str, labelled: bool) -> str | None:
    if not issue.is_open:
        return "the issue was closed while it was worked"
    if labelled and not issue.has_label(RUNNING):
        return f"the label `{RUNNING}` was taken away while the issue was worked"
    others = issue.assigned_since(attempt.issue, but=login)
    return f"the issue was assigned to {', '.join(others)} while it was worked" if others else None
