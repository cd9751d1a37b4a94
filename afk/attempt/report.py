"""Telling how an attempt ended: the only code that posts an envelope, writes labels, closes and releases.

The order is law: save the work, write the envelope down, post it, labels and closing, release, history, clean-up. Each
step is recorded; one that fails is taken again at the next boot and none is skipped because an earlier one was done.
Every write to the tracker needs a fresh claim, and the release is the last write to anything shared.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from afk.adapters import git
from afk.adapters.claims import ClaimLost, PushedStatus
from afk.adapters.files import write_atomic
from afk.adapters.git import RefUpdate
from afk.adapters.process import Kept
from afk.attempt import briefing, comment, history, memory, workspace
from afk.attempt.journal import Step
from afk.attempt.livepush import push_branch
from afk.attempt.session import Attempt
from afk.domain.outcome import Outcome
from afk.domain.queue import DEPENDENCY, PARKED, blockers, label_changes
from afk.domain.stage import Stage
from afk.errors import AfkError, GitError, IssueNotFound, NotARepository, RemoteUnreachable, TrackerError
from afk.wire.json_value import parse_json

__all__ = ["abandon", "deliver", "forget", "label_running"]

T = TypeVar("T")
_PATIENCE_S = 60.0


# ── Telling it ──────────────────────────────────────────────────────────────────────────────────────────────────────


def deliver(attempt: Attempt) -> Outcome:
    """Everything that is owed once the outcome is written down; each step once, whoever takes it.

    Raises `ClaimLost`, and what the tracker or the remote raise when they stay away: the rest stays owed.
    """
    journal = attempt.journal
    outcome = Outcome(journal.get(Step.ENDED)["outcome"])
    for step, take in _OWED:
        if not journal.has(step):
            evidence = take(attempt, outcome)
            journal.record(step, durable=step in _DURABLE, **(evidence or {}))
    return outcome


def _save(attempt: Attempt, outcome: Outcome) -> None:
    """Nothing committed or uncommitted stays in the worktree alone; where that fails, the worktree stays."""
    if outcome is Outcome.DONE:
        return
    try:
        _save_work(attempt)
    except (GitError, NotARepository) as error:  # never made, or destroyed by its agent
        attempt.journal.set_facts(unsaved=True)
        attempt.progress.log("work.unsaved", error.message)


def _save_work(attempt: Attempt) -> None:
    if not push_branch(attempt):
        tip = git.rev_parse(attempt.project.root, attempt.branch_ref)
        base = str(attempt.journal.fact("start_sha"))
        if tip is not None and tip != base:
            git.bundle(attempt.project.root, attempt.directory / "unpushed.bundle", base, tip)
            attempt.progress.log("work.bundled", f"{attempt.branch} could not be pushed; kept in unpushed.bundle")
    git.save_patch(attempt.worktree, attempt.directory / "uncommitted.patch")


def _write(attempt: Attempt, outcome: Outcome) -> None:
    """The envelope, word for word, safely on disk before anybody is told."""
    body = comment.text(attempt, outcome)
    record = {"version": 1, "attempt_id": str(attempt.id), "issue": attempt.issue.number, "body": body}
    write_atomic(attempt.directory / "outbox.json", json.dumps(record, indent=1) + "\n", durable=True)


def _written(attempt: Attempt, outcome: Outcome) -> str:
    """The envelope's text; where somebody broke or deleted the file it is written anew from the journal."""
    path = attempt.directory / "outbox.json"
    try:
        body = parse_json(path.read_bytes())["body"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        attempt.progress.log("outbox.broken", f"{path}: {error}; written anew")
        _write(attempt, outcome)
        body = parse_json(path.read_bytes())["body"]
    return str(body)


def _post(attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
    """Exactly once: after any doubt the thread is asked before it is posted again."""
    body = _written(attempt, outcome)
    in_doubt = [bool(attempt.journal.fact("posting"))]

    def once() -> dict[str, Any]:
        attempt.claim.ensure_fresh()
        if in_doubt[0] and (there := _posted_before(attempt)) is not None:
            return there
        in_doubt[0] = True
        attempt.journal.set_facts(posting=True, durable=True)
        made = attempt.project.tracker.comment(attempt.issue.number, body)
        return {"comment_id": made.id, "url": made.url}

    try:
        posted = _persistently(attempt, once)
    except IssueNotFound:
        return {"gone": True}
    attempt.journal.set_facts(posted=True)
    attempt.progress.posted()
    return posted


def _posted_before(attempt: Attempt) -> dict[str, Any] | None:
    for told in briefing.read_thread(attempt.project, attempt.issue.number).told:
        if told.comment.by_us and (told.envelope.worker, told.envelope.attempt) == (attempt.id.worker, attempt.id.n):
            return {"comment_id": told.comment.id, "url": told.comment.url}
    return None


def _shelve(attempt: Attempt, outcome: Outcome) -> None:
    """Labels and closing: where people see the issue from now on."""
    if attempt.journal.get(Step.POSTED).get("gone"):
        attempt.progress.ended(outcome)
        return
    ended = attempt.journal.get(Step.ENDED)
    if outcome is Outcome.DONE:
        attempt.progress.stage(Stage.CLOSE)
        _persistently(attempt, lambda: _close(attempt))
        _persistently(attempt, lambda: _promote_dependants(attempt))
    else:
        _persistently(attempt, lambda: _write_labels(attempt, ended["decision"], ended["label"]))
    attempt.progress.ended(outcome)


def _close(attempt: Attempt) -> None:
    _write_labels(attempt, "done", None)
    attempt.claim.ensure_fresh()
    attempt.project.tracker.close_issue(attempt.issue.number, reason="completed")


def label_running(attempt: Attempt) -> None:
    """CLAIMED: labels follow the claim. A label that cannot be written loses no claim; later writes repair it."""
    try:
        _write_labels(attempt, "run", None)
        attempt.journal.set_facts(labelled=True)
    except (TrackerError, RemoteUnreachable) as error:
        attempt.progress.log("label.failed", error.message)


def _write_labels(attempt: Attempt, decision: str, blocked: str | None) -> None:
    """The one place in an attempt that writes its issue's labels (L15)."""
    queue = str(attempt.journal.fact("label"))
    attempt.claim.ensure_fresh()
    now = attempt.project.tracker.issue(attempt.issue.number).labels
    add, remove = label_changes(decision, now, queue=queue, blocked=blocked)
    attempt.project.tracker.edit_labels(attempt.issue.number, add=add, remove=remove)


def _promote_dependants(attempt: Attempt) -> None:
    """Issues that waited for this one go back to the queue when nothing else holds them (only `blocked:dependency`)."""
    tracker, queue = attempt.project.tracker, str(attempt.journal.fact("label"))
    for issue in tracker.open_issues():
        waits_for = blockers(issue)
        if attempt.issue.number not in waits_for or not issue.has_label(DEPENDENCY):
            continue
        if all(number == attempt.issue.number or not tracker.issue(number).is_open for number in waits_for):
            attempt.claim.ensure_fresh()
            tracker.edit_labels(issue.number, add=[queue], remove=[DEPENDENCY, PARKED])


def _release(attempt: Attempt, outcome: Outcome) -> dict[str, Any] | None:
    if not attempt.journal.has(Step.RELEASING):  # from here on an absent claim means that it was we who released it
        attempt.journal.record(Step.RELEASING, durable=True)

    def once() -> dict[str, Any] | None:
        try:
            updates, remark = _branch_deletion(attempt) if outcome is Outcome.DONE else _last_push(attempt)
            pushed = attempt.claim.release(*updates)
        except ClaimLost:  # released before a crash and taken by another since: there is nothing of ours left
            return None
        if pushed.status is PushedStatus.UNKNOWN:
            raise RemoteUnreachable(f"could not release the claim on #{attempt.issue.number}: {pushed.text}")
        if updates and pushed.text:
            remark = f"the remote refused to delete {attempt.branch}: {pushed.text}"
        told = {} if remark is None else {"kept_branch": remark}
        if not pushed.ok:  # a remote that deletes nothing: the attempt has its end all the same
            told["kept_claim"] = f"the claim runs out by its lease, the remote refused to delete it: {pushed.text}"
        for word in told.values():
            attempt.progress.log("release.refused", word)
        return told

    return _persistently(attempt, once)


def _last_push(attempt: Attempt) -> tuple[list[RefUpdate], None]:
    """While the claim is still ours: commits that were only bundled, because the remote was away, follow now (R60)."""
    try:
        push_branch(attempt)
    except GitError as error:  # the worktree is a ruin by now; what could be saved has been
        attempt.progress.log("push.failed", error.message)
    return [], None


def _branch_deletion(attempt: Attempt) -> tuple[list[RefUpdate], str | None]:
    """The live branch goes with the claim, under a lease on what we pushed; what a person pushed there stays."""
    project, last = attempt.project, attempt.journal.fact("pushed_sha")
    there = git.ls_remote(project.root, project.url, attempt.branch_ref).get(attempt.branch_ref)
    if there is None:
        return [], None
    if there != last:
        remark = f"{attempt.branch} is at {there}, which is not ours; it is kept"
        attempt.progress.log("branch.kept", remark)
        return [], remark
    return [RefUpdate(attempt.branch_ref, None, there)], None


def _record_history(attempt: Attempt, outcome: Outcome) -> None:
    """The row of history and the memory command; neither can fail the attempt."""
    history.record(attempt, outcome)
    memory.tell(attempt, outcome)


def _clear(attempt: Attempt, outcome: Outcome) -> None:
    """A parked issue keeps its worktree for the person who looks at it, and so does work that could not be saved;
    every other one is put away. What cannot be removed is left: the issue has its end, and no work hangs on it."""
    kept = attempt.journal.get(Step.ENDED).get("decision") == "park" or bool(attempt.journal.fact("unsaved"))
    try:
        workspace.put_away(attempt, keep_worktree=kept and attempt.worktree.is_dir())
    except (GitError, OSError) as error:
        attempt.progress.log("work.left", f"could not be put away: {error}")


_OWED: Sequence[tuple[Step, Callable[[Attempt, Outcome], Mapping[str, Any] | None]]] = (
    (Step.SAVED, _save),
    (Step.WRITTEN, _write),
    (Step.POSTED, _post),
    (Step.SHELVED, _shelve),
    (Step.RELEASED, _release),
    (Step.RECORDED, _record_history),
    (Step.CLEARED, _clear),
)
_DURABLE = frozenset({Step.WRITTEN, Step.POSTED})


def _persistently(attempt: Attempt, ask: Callable[[], T]) -> T:
    """Try for a minute: what cannot be told now stays owed, and the journal remembers it. Never cut short by a stop."""
    began, wait_s = time.monotonic(), 0.5
    while True:
        try:
            return ask()
        except (TrackerError, RemoteUnreachable) as error:
            if not error.retryable or time.monotonic() - began + wait_s > _PATIENCE_S or attempt.stop.level > 2:
                raise
            attempt.progress.log("report.wait", f"{error.message}; again in {wait_s:.0f} s")
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, 15.0)


# ── Ends that tell nobody ───────────────────────────────────────────────────────────────────────────────────────────


def forget(attempt: Attempt) -> None:
    """An attempt that never began leaves nothing, not even its directory."""
    shutil.rmtree(attempt.directory)


def abandon(attempt: Attempt) -> Outcome:
    """RUNNING -> claim lost: the thread belongs to the winner. Branch and worktree are kept, the agent is stopped."""
    for run_dir in sorted((attempt.directory / "runs").glob("*-agent")):
        if (run_dir / "tree").exists() and not (run_dir / "exit").exists():
            _stop_quietly(attempt, run_dir)
    attempt.progress.log("claim.lost", f"#{attempt.issue.number} is worked by somebody else now; nothing was posted")
    attempt.progress.ended(Outcome.CLAIM_LOST)
    if not attempt.journal.has(Step.RECORDED):
        _record_history(attempt, Outcome.CLAIM_LOST)
        attempt.journal.record(Step.RECORDED)
    attempt.journal.record(Step.CLEARED, durable=True)
    return Outcome.CLAIM_LOST


def _stop_quietly(attempt: Attempt, run_dir: Path) -> None:
    try:
        Kept.adopt(run_dir).stop("claim_lost")
    except AfkError as error:
        attempt.progress.log("agent.unstopped", error.message)
