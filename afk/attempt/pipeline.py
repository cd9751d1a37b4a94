"""One issue, from the claim to the envelope. START HERE.

`work_one_issue` is the whole attempt, read from top to bottom. Every step asks the journal whether it was taken, so the
same function takes up an attempt whose owner died; recovery has no second code path. A step gives evidence or raises
`AttemptEnded`, the one exception for an end that is not `done`. `ClaimLost` means that the issue is somebody else's
now: nothing more is written about it anywhere.
"""

from __future__ import annotations

import traceback

from afk.adapters import git
from afk.adapters.claims import ClaimLost
from afk.adapters.git import RefUpdate
from afk.attempt import (
    briefing,
    conclusion,
    finish,
    livepush,
    report,
    rounds,
    validation,
    workspace,
)
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.attempt.turns import fire, patiently, run
from afk.domain.issue import Issue
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import AttemptEnded, GitFacts, Outcome, RunPurpose, Verdict, VerdictKind, classify
from afk.errors import (
    AfkError,
    DiskFull,
    GitError,
    InvalidInput,
    IssueNotFound,
    RemoteUnreachable,
)
from afk.wire.safetext import one_line

__all__ = ["Result", "work_one_issue"]

Result = Outcome | None
"""How the attempt ended; None when it never began: the issue was taken, closed or not ready any more."""


def work_one_issue(attempt: Attempt) -> Result:
    """Work one claimed or claimable issue to its end, or go on where another process stopped.

    Raises `RemoteUnreachable` or `TrackerError` when the end could not be told to anybody: the journal keeps what is
    owed, and the next boot pays it.
    """
    try:
        if not _take(attempt):
            return None
        if not attempt.journal.has(Step.ENDED):
            with livepush.KeptClaim(attempt):
                _end(attempt, _attempt(attempt))
        return report.deliver(attempt)
    except ClaimLost:
        return report.abandon(attempt)


def _attempt(attempt: Attempt) -> AttemptEnded | None:
    """Everything that may end an attempt; None means that the work has landed."""
    try:
        _branch_off(attempt)
        _prepare(attempt)
        _hand_over(attempt)
        _settle(attempt)
        rounds.land(attempt)
        _announce(attempt)
    except AttemptEnded as ended:
        return ended
    except ClaimLost:
        raise
    except DiskFull as error:
        return AttemptEnded(Outcome.INFRA, f"the disk is full: {error.message}", passes=True)
    except AfkError as error:
        return AttemptEnded(Outcome.INFRA, error.message)
    except Exception as error:  # noqa: BLE001 - a bug ends this attempt, told as such, never the run
        attempt.progress.log("attempt.bug", traceback.format_exc())
        return AttemptEnded(Outcome.INFRA, f"internal error: {type(error).__name__}: {error}")
    return None


# ── Claim ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _take(attempt: Attempt) -> bool:
    """QUEUED -> CLAIMED. False: the issue is not ours to work, and nothing of this attempt is left."""
    journal, claim = attempt.journal, attempt.claim
    if journal.has(Step.RELEASED):
        return True
    if journal.fact("forgetting"):
        return _give_back(attempt, ours=claim.recover())
    if journal.has(Step.CLAIMED):
        if claim.renewed_s is None and not claim.recover() and not journal.has(Step.RELEASING):
            raise ClaimLost(attempt.issue.number)
    elif (journal.fact("claim_sha") and claim.recover()) or claim.acquire():
        journal.record(Step.CLAIMED, durable=True)
    else:
        report.forget(attempt)
        return False
    if not journal.has(Step.CONFIRMED) and not _confirm(attempt):
        return False
    if not journal.has(Step.LABELLED):
        report.label_running(attempt)
        journal.record(Step.LABELLED)
        attempt.progress.to("claimed")
    return True


def _confirm(attempt: Attempt) -> bool:
    """Read the issue again now that it is ours: the listing that it was picked from may be old (R70, R73)."""
    try:
        now = attempt.project.tracker.issue(attempt.issue.number)
        ready = now.is_open and now.has_label(str(attempt.journal.fact("label")))
    except IssueNotFound:
        ready = False
    if not ready:
        attempt.journal.set_facts(forgetting=True)
        return _give_back(attempt, ours=True)
    thread = briefing.read_thread(attempt.project, now.number)
    untold = _landed_untold(attempt, now, thread)
    if untold is not None:  # its end is somebody's to tell, and we hold the claim; nothing lands twice
        updates = finish.pay(
            attempt.project, attempt.claim, now, untold, host=attempt.project.host, claim_sha=str(attempt.claim.sha)
        )
        attempt.journal.set_facts(forgetting=True)
        return _give_back(attempt, *updates, ours=True)
    attempt.issue = now
    attempt.journal.set_facts(title=now.title, issue=now.to_json())
    directive_at = thread.directive_at.isoformat() if thread.directive_at else None
    attempt.journal.record(Step.CONFIRMED, past=conclusion.past_json(thread.past), directive_at=directive_at)
    return True


def _landed_untold(attempt: Attempt, issue: Issue, thread: briefing.Thread) -> finish.Landed | None:
    """An earlier attempt whose merge is on the base and whose envelope is in no thread; a told one is history."""
    try:
        base = workspace.base_of(attempt, attempt.journal.fact("base_flag"))
        landed = finish.landings(attempt.project, issue, base)
    except RemoteUnreachable:
        raise
    except (InvalidInput, GitError):  # no such branch: told where the worktree is made
        return None
    return next((found for found in landed if not thread.has(found.attempt)), None)


def _give_back(attempt: Attempt, *updates: RefUpdate, ours: bool) -> bool:
    """CLAIMED -> QUEUED, as if it had never been claimed; always False. Raises `RemoteUnreachable`: it stays owed."""
    if ours:
        pushed = attempt.claim.release(*updates)
        if not pushed.ok:
            raise RemoteUnreachable(f"could not give issue #{attempt.issue.number} back: {pushed.text}")
    report.forget(attempt)
    return False


# ── Worktree, setup, handoff ────────────────────────────────────────────────────────────────────────────────────────


def _branch_off(attempt: Attempt) -> None:
    """CLAIMED -> a worktree on a live branch that is on the remote."""
    journal = attempt.journal
    if not journal.has(Step.BRANCHED):
        attempt.check_interrupt()
        if journal.fact("start_sha") is None:  # fixed once: by it a half made worktree is known as our own (R08)
            _choose_start(attempt)
        conflicts = workspace.make_worktree(attempt, str(journal.fact("start_sha")), str(journal.fact("base_sha")))
        journal.set_facts(start_conflicts=list(conflicts))
        journal.record(Step.BRANCHED)
    if not journal.has(Step.PUBLISHED):
        patiently(attempt, lambda: _publish(attempt))
        journal.record(Step.PUBLISHED)
    attempt.progress.working()


def _choose_start(attempt: Attempt) -> None:
    """Base and commit to start from, after `pre_worktree` had its say."""
    journal = attempt.journal
    try:
        base = workspace.base_of(attempt, journal.fact("base_flag"))
    except InvalidInput as error:
        raise AttemptEnded(Outcome.BLOCKED, error.message) from error
    fired = fire(
        attempt,
        HookPoint.PRE_WORKTREE,
        {"issue": briefing.issue_json(attempt.issue), "target": base, "branch": attempt.branch, "env": {}},
        ISSUE=attempt.issue.number,
    )
    journal.set_facts(base=str(fired["target"]), env=fired["env"])
    base_sha = patiently(attempt, lambda: workspace.fetch_base(attempt))
    thread = patiently(attempt, lambda: briefing.read_thread(attempt.project, attempt.issue.number))
    left = briefing.left_by_last(thread, attempt.issue)
    start, continued = patiently(attempt, lambda: workspace.start_sha(attempt, base_sha, left))
    journal.set_facts(base_sha=base_sha, start_sha=start, continued_from=continued)


def _publish(attempt: Attempt) -> None:
    if livepush.push_branch(attempt) or attempt.journal.fact("foreign_sha"):
        return
    refused = attempt.journal.fact("push_refused")
    if refused:  # a rule of the remote: waiting changes nothing
        raise AttemptEnded(Outcome.INFRA, f"the remote refuses {attempt.branch}: {one_line(refused, 300)}")
    raise RemoteUnreachable(f"could not push {attempt.branch}; see the worker's log", hint="afk doctor")


def _prepare(attempt: Attempt) -> None:
    """Submodules, LFS files and the commands of `afk.setup`, in the fresh worktree."""
    if attempt.journal.has(Step.PREPARED):
        return
    patiently(attempt, lambda: workspace.fill_submodules(attempt))
    patiently(attempt, lambda: workspace.fetch_lfs(attempt))
    attempt.check_interrupt()
    done = validation.run_setup(
        attempt.worktree,
        attempt.project.config.setup,
        environ=attempt.project.environ,
        run_dir=attempt.new_run_dir,
        admission=attempt.admission,
        seat=attempt.seat.ready(),
        stopping=lambda: attempt.interrupted,
        kill_s=attempt.project.config.agent.kill_s,
    )
    attempt.check_interrupt()
    if done.failure is not None:
        raise AttemptEnded(Outcome.INFRA, done.failure)
    attempt.journal.record(Step.PREPARED)


def _hand_over(attempt: Attempt) -> None:
    if not attempt.journal.has(Step.HANDED):
        thread = patiently(attempt, lambda: briefing.read_thread(attempt.project, attempt.issue.number))
        briefing.write_handoff(attempt, thread)
        attempt.journal.record(Step.HANDED)


# ── Agent ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _settle(attempt: Attempt) -> None:
    """Run the agent until its work can be validated; every other end is raised."""
    journal = attempt.journal
    if journal.has(Step.SETTLED):
        return
    purpose, runner, k = RunPurpose.WORK, str(journal.fact("runner")), 0
    dirty: tuple[str, ...] = ()
    while True:
        k += 1
        evidence, facts = run(attempt, k, purpose, runner, paths=dirty)
        dirty = facts.dirty
        verdict = classify(evidence, facts, salvage=attempt.project.config.landing.salvage)
        match verdict.kind:
            case VerdictKind.VALIDATE:
                journal.record(Step.SETTLED, salvaged=verdict.salvaged)
                return
            case VerdictKind.RERUN if verdict.rerun is not None:
                purpose = verdict.rerun
            case _ if (other := _fallback(attempt, verdict, runner)) is not None:
                purpose, runner = RunPurpose.TAKE_OVER, other
            case _ if verdict.outcome is Outcome.INFRA and not verdict.stopped:
                raise _severed(attempt, facts) or verdict.as_ended()
            case _:
                raise verdict.as_ended()


def _fallback(attempt: Attempt, verdict: Verdict, runner: str) -> str | None:
    """Who goes on in the same worktree, once, when the runner's account is used up or its service is away."""
    other = attempt.project.config.fallback_runner
    if verdict.outcome not in (Outcome.EXHAUSTED, Outcome.RUNNER_TRANSIENT) or other is None or other == runner:
        return None
    if not attempt.journal.fact("fell_back"):
        attempt.progress.log("agent.fallback", f"{runner}: {verdict.reason}; {other} goes on")
        attempt.journal.set_facts(fell_back=f"{runner} ended as {verdict.outcome}: {verdict.reason}; {other} went on")
    return other


def _severed(attempt: Attempt, facts: GitFacts) -> AttemptEnded | None:
    """The agent's doing, not the machine's: a history that has nothing in common with the base any more."""
    base_sha, head = str(attempt.journal.fact("base_sha")), git.rev_parse(attempt.project.root, attempt.branch_ref)
    if facts.commits_ahead is not None or head is None or git.merge_base(attempt.project.root, base_sha, head):
        return None
    return AttemptEnded(Outcome.BLOCKED, f"{attempt.branch} no longer continues {attempt.journal.fact('base')}")


def _announce(attempt: Attempt) -> None:
    journal = attempt.journal
    if not journal.has(Step.ANNOUNCED):
        merge_sha = str(journal.fact("merge_sha"))
        fire(
            attempt,
            HookPoint.POST_MERGE,
            {
                "issue": briefing.issue_json(attempt.issue),
                "workspace": str(attempt.worktree),
                "merge_commit": merge_sha,
            },
            MERGE_SHA=merge_sha,
        )
        journal.record(Step.ANNOUNCED)


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _end(attempt: Attempt, ended: AttemptEnded | None) -> None:
    """Write down how it ended, once; all that follows is telling it."""
    attempt.journal.record(Step.ENDED, durable=True, **conclusion.reach(attempt, ended))
