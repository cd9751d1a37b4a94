"""The queue as one look gives it: one listing, one `ls-remote`, threads only where they matter."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from afk.adapters.claims import held_claims, read_claim
from afk.attempt import history
from afk.attempt.briefing import Thread, read_thread
from afk.attempt.progress import Log
from afk.attempt.session import Attempt, Project
from afk.domain.attempt import AttemptId
from afk.domain.issue import Filter, Issue
from afk.domain.queue import RUNNING, IssueFacts, QueueItem, QueueState, blockers, judge
from afk.domain.recovery import attempts_used, wait_s, waits_until
from afk.domain.trust import may_queue
from afk.errors import IssueNotFound, RemoteUnreachable, TrackerError
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
        self._told: set[str] = set()
        self._losses: Mapping[int, tuple[int, datetime]] = {}

    def look(self, filter: Filter, label: str, *, acting: bool = True) -> list[QueueItem]:
        """Every open issue that the filter lets through, in order, with its state and reasons.

        `acting` also takes over claims that outlived their lease and repairs labels that a dead run left; without it
        nothing is written anywhere. Raises `TrackerError`, `RemoteUnreachable`: a failed read is no empty queue (L06).
        """
        project = self._project
        issues = project.tracker.open_issues()
        self._losses = history.losses(project.state)
        self._tell(project.tracker.problems())
        claims = held_claims(project.root, project.url)
        held = self._held(claims, acting=acting)
        if acting:
            stale = [number for number, claim in held.items() if claim.is_stale]
            taken = [number for number in stale if take_over(project, number, claims[number], label, self._log)]
            self.taken_n |= {number: held.pop(number).attempt_n for number in taken}
            if taken or self._repair_labels(issues, claims, label):
                issues = project.tracker.open_issues()
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

    def patient_look(self, filter: Filter, label: str, *, pause: Callable[[float], bool]) -> list[QueueItem]:
        """`look`, and again while tracker or remote do not answer, up to `afk.recovery.backoff_max_s` (R59).

        `pause` waits and says whether to go on. Raises what `look` raises once patience is over.
        """
        clock, patience_s = self._project.clock, self._project.config.recovery.backoff_max_s
        began, wait_s = clock.monotonic_s(), 2.0
        while True:
            try:
                return self.look(filter, label)
            except (TrackerError, RemoteUnreachable) as error:
                if not error.retryable or clock.monotonic_s() - began + wait_s > patience_s or not pause(wait_s):
                    raise
                self._log.add("queue.wait", f"{error.message}; again in {wait_s:.0f} s")
                wait_s = min(wait_s * 2, 60.0)

    def is_held_elsewhere(self, items: Sequence[QueueItem], ours: Collection[int]) -> bool:
        """Whether the only work left is held by claims of others, which change or run out by themselves."""
        others = [item for item in items if item.issue.number not in ours]
        return any(item.state is QueueState.CLAIMED and item.reasons[0].code == "claimed" for item in others)

    def withdrawn(self, attempt: Attempt) -> str | None:
        """Why the issue is no longer ours to work: people closed it, or took its label away. None: it still is."""
        try:
            issue = self._project.tracker.issue(attempt.issue.number)
        except IssueNotFound:
            return "the issue is gone from the tracker"
        except TrackerError as error:
            self._log.add("queue.unread", error.message, journal=attempt.journal)
            return None
        if not issue.is_open:
            return "the issue was closed while it was worked"
        if attempt.journal.fact("labelled") and not issue.has_label(RUNNING):
            return f"the label `{RUNNING}` was taken away while the issue was worked"
        return None

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
