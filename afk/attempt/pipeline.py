"""One issue, from the claim to the envelope. START HERE.

`work_one_issue` is the whole attempt, read from top to bottom. Every step asks the journal whether it was taken, so the
same function takes up an attempt whose owner died; recovery has no second code path. A step gives evidence or raises
`AttemptEnded`, the one exception for an end that is not `done`. `ClaimLost` means that the issue is somebody else's
now: nothing more is written about it anywhere.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from afk.adapters import git, lfs
from afk.adapters.claims import ClaimLost
from afk.adapters.git import RefUpdate
from afk.attempt import (
    agentrun,
    briefing,
    bystander,
    conclusion,
    finish,
    guards,
    landing,
    livepush,
    report,
    validation,
    workspace,
)
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.issue import Issue
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import AttemptEnded, GitFacts, Outcome, RunEvidence, RunPurpose, VerdictKind, classify
from afk.domain.stage import Stage
from afk.errors import (
    AfkError,
    BaseMoved,
    DiskFull,
    GitError,
    InvalidInput,
    IssueNotFound,
    RemoteUnreachable,
    TrackerError,
)
from afk.wire.safetext import one_line

__all__ = ["Result", "work_one_issue"]

T = TypeVar("T")
_WAIT_FIRST_S, _WAIT_MOST_S = 2.0, 60.0


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
        _land(attempt)
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
    fired = _fire(
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
    purpose, k = RunPurpose.WORK, 0
    dirty: tuple[str, ...] = ()
    while True:
        k += 1
        evidence, facts = _run(attempt, k, purpose, paths=dirty)
        dirty = facts.dirty
        verdict = classify(evidence, facts, salvage=attempt.project.config.landing.salvage)
        match verdict.kind:
            case VerdictKind.VALIDATE:
                journal.record(Step.SETTLED, salvaged=verdict.salvaged)
                return
            case VerdictKind.RERUN if verdict.rerun is not None:
                purpose = verdict.rerun
            case _ if verdict.outcome is Outcome.INFRA and not verdict.stopped:
                raise _severed(attempt, facts) or verdict.as_ended()
            case _:
                raise verdict.as_ended()


def _severed(attempt: Attempt, facts: GitFacts) -> AttemptEnded | None:
    """The agent's doing, not the machine's: a history that has nothing in common with the base any more."""
    base_sha, head = str(attempt.journal.fact("base_sha")), git.rev_parse(attempt.project.root, attempt.branch_ref)
    if facts.commits_ahead is not None or head is None or git.merge_base(attempt.project.root, base_sha, head):
        return None
    return AttemptEnded(Outcome.BLOCKED, f"{attempt.branch} no longer continues {attempt.journal.fact('base')}")


def _run(attempt: Attempt, k: int, purpose: RunPurpose, paths: Sequence[str] = ()) -> tuple[RunEvidence, GitFacts]:
    """Run number k of the agent with the hooks around it; one that the journal has ended is only read back."""
    journal = attempt.journal
    if not journal.has(Step.RUN_ENDED, k):
        if not journal.has(Step.RUN_STARTED, k):
            agentrun.demand_budget(attempt)
        env = _before_run(attempt, k)
        try:
            prompt = briefing.prompt(attempt, purpose, paths)
        except InvalidInput as error:
            raise AttemptEnded(Outcome.BLOCKED, error.message) from error
        bystander.look_before(attempt, k)
        evidence = agentrun.run_agent(attempt, agentrun.Run(k, purpose, prompt, env))
        if attempt.lost:
            raise ClaimLost(attempt.issue.number)
        seen = workspace.adopt_strays(attempt), workspace.keep_submodules(attempt), bystander.changes(attempt, k)
        facts = agentrun.git_facts(attempt)
        journal.record(
            Step.RUN_ENDED,
            k,
            durable=True,
            evidence=evidence.to_dict(),
            facts={"ahead": facts.commits_ahead, "changed": facts.changed_files, "dirty": list(facts.dirty)},
            remarks=[told for told in seen if told is not None],
            duration_s=round(evidence.ran_s, 3),
        )
    ended = journal.get(Step.RUN_ENDED, k)
    evidence, found = RunEvidence.from_dict(ended["evidence"]), ended["facts"]
    if not journal.has(Step.RUN_TOLD, k):
        _after_run(attempt, k, evidence)
        journal.record(Step.RUN_TOLD, k)
    return evidence, GitFacts(found["ahead"], found["changed"], tuple(found["dirty"]))


def _before_run(attempt: Attempt, k: int) -> dict[str, str]:
    """`pre_attempt`, and the environment that hooks have made for the agent. An adopted run had its hook already."""
    env: dict[str, str] = dict(attempt.journal.fact("env") or {})
    if attempt.journal.has(Step.RUN_STARTED, k):
        return env
    attempt.check_interrupt()
    fired = _fire(
        attempt,
        HookPoint.PRE_ATTEMPT,
        {
            "issue": briefing.issue_json(attempt.issue),
            "workspace": str(attempt.worktree),
            "attempt_n": attempt.id.n,
            "env": env,
        },
        ISSUE=attempt.issue.number,
        ATTEMPT=attempt.id.n,
    )
    made: dict[str, str] = fired["env"]
    return made


def _after_run(attempt: Attempt, k: int, evidence: RunEvidence) -> None:
    issue = {"issue": briefing.issue_json(attempt.issue), "workspace": str(attempt.worktree), "attempt_n": attempt.id.n}
    if evidence.sentinel is not None:
        status = str(evidence.sentinel).lower()
        _fire(
            attempt,
            HookPoint.POST_ATTEMPT,
            {**issue, "result": {"status": status, "run": k}},
            RESULT_STATUS=status,
            RESULT_OUTCOME=str(evidence.purpose),
        )
        return
    error = evidence.failure or evidence.ended_by or "no-sentinel"
    _fire(attempt, HookPoint.ON_ATTEMPT_ERROR, {**issue, "error": error}, ERROR_CLASS=error)


# ── Validation and landing ──────────────────────────────────────────────────────────────────────────────────────────


def _land(attempt: Attempt) -> None:
    """Integrate, validate, merge, push, until the tree that was validated is the tree on the base."""
    journal = attempt.journal
    if journal.has(Step.LANDED):
        return
    patiently(attempt, lambda: _land_in_rounds(attempt))


def _land_in_rounds(attempt: Attempt) -> None:
    """Raises `BaseMoved` when others were faster in every round: wait and begin again, the agent is not run for it."""
    journal, rounds = attempt.journal, attempt.project.config.landing.rounds
    for _ in range(rounds):
        attempt.check_interrupt()
        base_sha = patiently(attempt, lambda: workspace.fetch_base(attempt))
        if (merge_sha := landing.landed_before(attempt, base_sha)) is not None:
            _landed(attempt, merge_sha)  # the owner died, or the answer was lost, between the push and its record
            return
        landing.demand_same_history(attempt, base_sha)
        journal.set_facts(base_sha=base_sha)
        _integrate(attempt, base_sha)
        if git.commits_ahead(attempt.worktree, base_sha, "HEAD") == 0:
            raise AttemptEnded(Outcome.BLOCKED, "the base holds these commits already; no check of ours has seen them")
        head = landing.reword(attempt, base_sha)
        livepush.push_branch(attempt)
        checked = _validate(attempt, base_sha, head)
        _admit(attempt, base_sha, head, checked.tree)
        patiently(attempt, partial(landing.send_lfs, attempt, base_sha, head))
        attempt.progress.stage(Stage.MERGE)
        if patiently(attempt, partial(_merge, attempt, base_sha, head, checked.tree)):
            return
        attempt.progress.log("landing.again", f"the base {journal.fact('base')} moved; integrating again")
    raise BaseMoved(f"the base {journal.fact('base')} moved in each of {rounds} landing rounds")


def _merge(attempt: Attempt, base_sha: str, head: str, tree: str) -> bool:
    """VALIDATED -> LANDED; False when the base moved meanwhile."""
    journal, base = attempt.journal, str(attempt.journal.fact("base"))
    with landing.lander(attempt):
        attempt.check_interrupt()
        merge_sha = landing.build_merge(attempt, base_sha, head, tree)
        journal.record(Step.MERGED, journal.count(Step.MERGED) + 1, durable=True, merge_sha=merge_sha, tree=tree)
        attempt.progress.stage(Stage.PUSH)
        landed = landing.push_merge(attempt, base, base_sha, merge_sha)
        if landed:
            _landed(attempt, merge_sha)
    return landed


def _landed(attempt: Attempt, merge_sha: str) -> None:
    attempt.journal.set_facts(merge_sha=merge_sha)
    attempt.journal.record(Step.LANDED, durable=True, merge_sha=merge_sha)


def _integrate(attempt: Attempt, base_sha: str) -> None:
    """Bring a moved base into the branch; real conflicts get one run of the agent, then they end the attempt."""
    worktree, journal = attempt.worktree, attempt.journal
    if journal.count(Step.RUN_STARTED) == journal.count(Step.RUN_ENDED):  # else the resolving agent is still at it
        git.abort_merge(worktree)  # what a dead owner left half merged; nothing otherwise
        if not _contains(attempt, base_sha):
            merged = git.merge_into_worktree(
                worktree, base_sha, f"merge: {journal.fact('base')} into the work", sign=landing.signs(attempt.project)
            )
            if merged.conflicts:
                _start_resolving(attempt, base_sha, merged.conflicts, merged.text)
    resolving = journal.fact("resolving")
    if resolving is None:
        return
    evidence, facts = _run(attempt, resolving["k"], RunPurpose.RESOLVE_CONFLICT, paths=resolving["paths"])
    verdict = classify(evidence, facts, salvage=attempt.project.config.landing.salvage)
    if verdict.kind is VerdictKind.ENDED and verdict.outcome not in (Outcome.NO_SENTINEL, Outcome.BLOCKED):
        raise verdict.as_ended()
    if not _contains(attempt, resolving["base_sha"]) or facts.dirty or _has_leftovers(attempt, base_sha):
        raise _conflict(attempt, resolving["paths"])


def _start_resolving(attempt: Attempt, base_sha: str, paths: Sequence[str], text: str) -> None:
    """Conflict number one is the agent's to resolve; a second one, or a configuration without, ends the attempt."""
    journal = attempt.journal
    journal.set_facts(merge_text=text)
    if not attempt.project.config.landing.resolve_conflicts or journal.fact("resolving"):
        raise _conflict(attempt, paths)
    journal.set_facts(
        resolving={"k": journal.count(Step.RUN_ENDED) + 1, "base_sha": base_sha, "paths": list(paths)}, durable=True
    )


def _contains(attempt: Attempt, base_sha: str) -> bool:
    head = git.rev_parse(attempt.worktree, "HEAD")
    return head is not None and git.is_ancestor(attempt.worktree, base_sha, head)


def _has_leftovers(attempt: Attempt, base_sha: str) -> bool:
    """Unmerged paths or conflict markers: a resolution that is none (R81)."""
    return bool(git.unmerged_paths(attempt.worktree) or git.has_conflict_markers(attempt.worktree, base_sha, "HEAD"))


def _conflict(attempt: Attempt, paths: Sequence[str]) -> AttemptEnded:
    git.abort_merge(attempt.worktree)
    return AttemptEnded(Outcome.MERGE_CONFLICT, "conflicts in " + ", ".join(paths))


def _validate(attempt: Attempt, base_sha: str, head: str) -> validation.Validation:
    """Run the checks on exactly what would land; a tree that has passed is not checked twice."""
    journal = attempt.journal
    tree = git.tree_of(attempt.worktree, head)
    k = journal.count(Step.VALIDATED)
    if k:
        last = validation.Validation.from_dict(journal.get(Step.VALIDATED, k)["validation"])
        if last.tree == tree and last.status is validation.Verdict.PASS:
            return last
    attempt.check_interrupt()
    attempt.progress.to("validating")
    config = attempt.project.config.validation
    result = validation.validate(
        validation.Subject(attempt.worktree, base_sha, head, str(attempt.id), attempt.issue.number),
        checks=config.checks,
        allow_unvalidated=config.allow_unvalidated,
        environ=attempt.project.environ,
        run_dir=attempt.new_run_dir,
        sidecar=attempt.sidecar,
        admission=attempt.admission,
        seat=attempt.seat.ready(),
        stopping=lambda: attempt.interrupted,
        kill_s=attempt.project.config.agent.kill_s,
    )
    attempt.check_interrupt()
    journal.record(Step.VALIDATED, k + 1, durable=True, validation=result.to_dict())
    if result.status is not validation.Verdict.PASS:
        pointers = lfs.pointers(attempt.worktree)  # what a check cannot read is the first thing to know about it
        told = f"; {len(pointers)} LFS files were pointers (afk.landing.lfs: pull fetches them)" if pointers else ""
        raise AttemptEnded(result.outcome or Outcome.FEEDBACK_FAILED, result.reason + told)
    return result


def _admit(attempt: Attempt, base_sha: str, head: str, tree: str) -> None:
    """What no branch may carry unasked, then `pre_merge`: the person's last word on a tree, asked once for each."""
    journal = attempt.journal
    k = journal.count(Step.ADMITTED)
    if k and journal.get(Step.ADMITTED, k).get("tree") == tree:
        return
    refused = guards.refusal(attempt, base_sha, head)
    if refused is not None:
        raise AttemptEnded(Outcome.HOOK_ABORTED, refused, label="blocked:policy")
    stat = git.diffstat(attempt.worktree, base_sha, head)
    _fire(
        attempt,
        HookPoint.PRE_MERGE,
        {
            "issue": briefing.issue_json(attempt.issue),
            "workspace": str(attempt.worktree),
            "branch": attempt.branch,
            "diff": {"added": stat.added, "removed": stat.removed, "files": stat.files},
        },
        MERGE_BASE=base_sha,
    )
    journal.record(Step.ADMITTED, k + 1, tree=tree)


def _announce(attempt: Attempt) -> None:
    journal = attempt.journal
    if not journal.has(Step.ANNOUNCED):
        merge_sha = str(journal.fact("merge_sha"))
        _fire(
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


def _fire(attempt: Attempt, point: HookPoint, about: dict[str, object], **values: str | int | None) -> dict[str, Any]:
    """The context as the hooks of a point left it; a hook that refuses ends the attempt as `hook-aborted`."""
    project = attempt.project
    fired = attempt.hooks.fire(
        point,
        about,
        {
            "REPO": project.root.name,
            "ROOT": str(project.root),
            "RUNNER": str(attempt.journal.fact("runner")),
            "WORKER_ID": attempt.id.worker,
            **attempt.seat.values,
            "WORKSPACE": str(attempt.worktree),
            **values,
        },
    )
    if fired.stopped:
        attempt.check_interrupt()
    if fired.aborted is not None:
        raise AttemptEnded(Outcome.HOOK_ABORTED, fired.reason)
    return fired.context


# ── The end ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _end(attempt: Attempt, ended: AttemptEnded | None) -> None:
    """Write down how it ended, once; all that follows is telling it."""
    attempt.journal.record(Step.ENDED, durable=True, **conclusion.reach(attempt, ended))


def patiently(attempt: Attempt, ask: Callable[[], T]) -> T:
    """Ask the remote again until it answers: an outage holds the attempt, it does not fail it (R59).

    Waits from two seconds up to a minute between tries, `afk.recovery.backoff_max_s` in all, then `infra`. Only waiting
    counts: three rounds of landing with their checks may take longer than anybody's patience.
    """
    patience_s = attempt.project.config.recovery.backoff_max_s
    waited_s, wait_s = 0.0, _WAIT_FIRST_S
    while True:
        try:
            return ask()
        except (BaseMoved, RemoteUnreachable, TrackerError) as error:
            if not error.retryable:
                raise
            if waited_s + wait_s > patience_s:
                raise AttemptEnded(Outcome.INFRA, f"gave up waiting: {error.message}", passes=True) from error
            attempt.progress.log("remote.wait", f"{error.message}; again in {wait_s:.0f} s")
        _pause(attempt, wait_s)
        waited_s += wait_s
        wait_s = min(wait_s * 2, _WAIT_MOST_S)


def _pause(attempt: Attempt, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        attempt.check_interrupt()
        time.sleep(0.1)
