"""A claim that stood unchanged past its lease: its owner is gone, whatever the labels say.

The claim is taken by compare-and-swap, what its attempt still owed is paid under its own id, the issue goes back to
where it belongs, and the claim is released. A stale owner that wakes up finds its lease gone and writes nothing.
"""

from __future__ import annotations

import secrets

from afk.adapters.claims import Claim, ClaimLost, read_claim
from afk.adapters.git import RefUpdate
from afk.attempt import finish
from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId
from afk.domain.issue import Issue
from afk.domain.queue import RUNNING, base_directive
from afk.errors import AfkError, InvalidInput, IssueNotFound
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
    landed = _landed(project, issue, attempt) if issue is not None and attempt is not None else None
    if issue is not None and landed is not None and old is not None:
        updates = finish.pay(project, claim, issue, landed, host=old.host, claim_sha=sha)
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


def _landed(project: Project, issue: Issue, attempt: AttemptId) -> finish.Landed | None:
    try:
        base = base_directive(issue.body) or project.default_base
    except InvalidInput:
        base = project.default_base
    return next((found for found in finish.landings(project, issue, base) if found.attempt == attempt), None)
