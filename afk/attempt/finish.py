"""Attempts that landed and were not told to their end, by whomever: the trailers on the base are the proof.

Whoever holds the claim pays what such an attempt still owed, under its own id.
"""

from __future__ import annotations

from dataclasses import dataclass

from afk.adapters import git
from afk.adapters.claims import Claim
from afk.adapters.git import RefUpdate
from afk.attempt.briefing import read_thread
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.issue import Issue
from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.domain.queue import label_changes
from afk.errors import GitError
from afk.wire import envelope

__all__ = ["Landed", "landings", "pay"]


@dataclass(frozen=True, slots=True)
class Landed:
    attempt: AttemptId
    merge_sha: str


def landings(project: Project, issue: Issue, base: str) -> list[Landed]:
    """The merges of attempts at this issue on the base, newest first; the base is fetched."""
    tip = git.fetch_into(project.root, project.url, f"refs/heads/{base}", f"refs/afk/landings/{issue.number}")
    try:
        merges = git.commits_with_trailer(project.root, tip, "Refs", f"#{issue.number}")
        found = [(AttemptId.parse(git.trailer(project.root, sha, "Afk-Attempt")), sha) for sha in merges]
    finally:
        git.update_ref(project.root, f"refs/afk/landings/{issue.number}", None, tip)
    return [Landed(attempt, sha) for attempt, sha in found if attempt is not None and attempt.issue == issue.number]


def pay(project: Project, claim: Claim, issue: Issue, landed: Landed, *, host: str, claim_sha: str) -> list[RefUpdate]:
    """Envelope when it is absent, labels, closing; returns what goes with the release: its live branch's deletion.

    `host` recorded it; `claim_sha` is the claim from which the duration is counted.
    """
    if not read_thread(project, issue.number).has(landed.attempt):
        claim.ensure_fresh()
        project.tracker.comment(issue.number, _envelope(project, landed, host, claim_sha))
    claim.ensure_fresh()
    now = project.tracker.issue(issue.number)
    _, remove = label_changes("done", now.labels, queue=project.config.label)
    project.tracker.edit_labels(issue.number, remove=remove)
    project.tracker.close_issue(issue.number, reason="completed")
    return _live_branch(project, issue, landed)


def _envelope(project: Project, landed: Landed, host: str, claim_sha: str) -> str:
    told = envelope.Envelope(
        status=EnvelopeStatus.DONE,
        worker=landed.attempt.worker,
        attempt=landed.attempt.n,
        duration_s=_duration_s(project, claim_sha, landed.merge_sha),
        diff=None,
        merge_sha=landed.merge_sha,
        validation_text=f"recorded on host {host}",
        outcome=Outcome.DONE,
    )
    return envelope.render(told, secrets=project.secrets)


def _duration_s(project: Project, claim_sha: str, merge_sha: str) -> int:
    """From claim to merge commit, the only two times that other hosts can see; never below zero."""
    shown = git.run(project.root, "show", "-s", "--format=%ct", "--end-of-options", claim_sha, merge_sha)
    claimed, merged = (int(line) for line in shown.stdout.split())
    return max(0, merged - claimed)


def _live_branch(project: Project, issue: Issue, landed: Landed) -> list[RefUpdate]:
    """Its live branch is deleted with the claim, if what it holds is in the merge."""
    ref = f"refs/heads/{branch_name(landed.attempt.worker, issue.number, issue.title)}"
    there = git.ls_remote(project.root, project.url, ref).get(ref)
    if there is None:
        return []
    try:
        git.fetch(project.root, project.url, ref)
    except GitError:
        return []
    return [RefUpdate(ref, None, there)] if git.is_ancestor(project.root, there, landed.merge_sha) else []
