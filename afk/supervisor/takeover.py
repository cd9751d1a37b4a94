"""A claim that stood unchanged past its lease: its owner is gone, whatever the labels say.

The claim is taken by compare-and-swap, what its attempt still owed is paid under its own id, the issue goes back to
where it belongs, and the claim is released. A stale owner that wakes up finds its lease gone and writes nothing.
"""

from __future__ import annotations

import secrets

from afk.adapters import git
from afk.adapters.claims import Claim, ClaimLost, read_claim
from afk.adapters.git import RefUpdate
from afk.attempt.briefing import read_thread
from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.issue import Issue
from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.domain.queue import RUNNING, base_directive
from afk.errors import AfkError, GitError, InvalidInput, IssueNotFound
from afk.wire import envelope
from afk.wire.claim import ClaimRecord

__all__ = ["take_over"]


def take_over(project: Project, number: int, sha: str, label: str, log: Log) -> bool:
    """Whether the stale claim `sha` on the issue is gone afterwards, and the issue free. A lost race is a plain False.

    A failure leaves our own claim, which runs out like any other. Raises nothing: one bad claim never stops the queue
    (L45).
    """
    try:
        return _take_over(project, number, sha, label, log)
    except ClaimLost:
        return False
    except AfkError as error:
        log.add("claim.takeover", f"#{number}: {error.message}")
        return False


def _take_over(project: Project, number: int, sha: str, label: str, log: Log) -> bool:
    old = read_claim(project.root, project.url, number, sha)
    attempt = AttemptId.parse(old.attempt) if old else None
    claim = _custody(project, number, old)
    if not claim.acquire(over=sha):
        return False
    log.add("claim.takeover", f"#{number}: the claim of {old.attempt if old else sha} outlived its lease")
    updates: list[RefUpdate] = []
    try:
        issue = project.tracker.issue(number)
    except IssueNotFound:
        issue = None
    merge_sha = _landed(project, issue, attempt) if issue is not None and attempt is not None else None
    if issue is not None and attempt is not None and old is not None and merge_sha is not None:
        _finish(project, claim, issue, attempt, _envelope(project, attempt, old, sha, merge_sha))
        updates = _live_branch(project, issue, attempt, merge_sha)
    elif issue is not None and issue.is_open and issue.has_label(RUNNING):
        claim.ensure_fresh()
        project.tracker.edit_labels(number, add=[label], remove=[RUNNING])
    return claim.release(*updates).ok


def _custody(project: Project, number: int, old: ClaimRecord | None) -> Claim:
    """Ours by its nonce alone: it does no work, so there is no journal; after a crash it runs out by itself.

    It keeps the name of the attempt that it was taken from: whoever takes it over next still has to find out whether
    that one landed.
    """
    record = ClaimRecord(
        nonce=secrets.token_hex(16),
        seq=0,
        worker=old.worker if old else "custody",
        host=old.host if old else project.host,
        attempt=old.attempt if old else "custody",
        lease_s=max(1, round(project.config.claim.lease_s)),
    )
    return Claim(
        project.root, project.url, number, record, sha=None, clock=project.clock, intend=lambda record, sha: None
    )


def _landed(project: Project, issue: Issue, attempt: AttemptId) -> str | None:
    """The merge of this very attempt on its base, found by its trailer; None when it never landed."""
    try:
        base = base_directive(issue.body) or project.default_base
    except InvalidInput:
        base = project.default_base
    tip = git.fetch_into(project.root, project.url, f"refs/heads/{base}", "refs/afk/takeover/base")
    return next(iter(git.commits_with_trailer(project.root, tip, "Afk-Attempt", str(attempt))), None)


def _finish(project: Project, claim: Claim, issue: Issue, attempt: AttemptId, body: str) -> None:
    """Pay what a landed attempt still owed: its envelope when it is absent, labels, closing."""
    if not read_thread(project, issue.number).has(attempt):
        claim.ensure_fresh()
        project.tracker.comment(issue.number, body)
    claim.ensure_fresh()
    now = project.tracker.issue(issue.number)
    gone = [name for name in now.labels if name.casefold().startswith("blocked:")]
    project.tracker.edit_labels(issue.number, remove=[RUNNING, project.config.label, "ready-for-human", *gone])
    project.tracker.close_issue(issue.number, reason="completed")


def _envelope(project: Project, attempt: AttemptId, old: ClaimRecord, claim_sha: str, merge_sha: str) -> str:
    told = envelope.Envelope(
        status=EnvelopeStatus.DONE,
        worker=attempt.worker,
        attempt=attempt.n,
        duration_s=_duration_s(project, claim_sha, merge_sha),
        diff=None,
        merge_sha=merge_sha,
        validation_text=f"recorded on host {old.host}",
        outcome=Outcome.DONE,
    )
    return envelope.render(told, secrets=project.secrets)


def _duration_s(project: Project, claim_sha: str, merge_sha: str) -> int:
    """From claim to merge commit, the only two times that other hosts can see; never below zero."""
    shown = git.run(project.root, "show", "-s", "--format=%ct", "--end-of-options", claim_sha, merge_sha)
    claimed, merged = (int(line) for line in shown.stdout.split())
    return max(0, merged - claimed)


def _live_branch(project: Project, issue: Issue, attempt: AttemptId, merge_sha: str) -> list[RefUpdate]:
    """Its live branch is deleted with the claim, if what it holds is in the merge."""
    ref = f"refs/heads/{branch_name(attempt.worker, issue.number, issue.title)}"
    there = git.ls_remote(project.root, project.url, ref).get(ref)
    if there is None:
        return []
    try:
        git.fetch(project.root, project.url, f"+{ref}:refs/afk/takeover/live")
    except GitError:
        return []
    return [RefUpdate(ref, None, there)] if git.is_ancestor(project.root, there, merge_sha) else []
