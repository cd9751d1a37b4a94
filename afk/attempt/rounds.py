"""Landing: integrate, validate, merge, push, round by round, until the tree that was validated is the tree on the base.

Two things are the agent's to put right, once each and in a run of its own: a conflict with the base, and a check that
fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from afk.adapters import git, lfs
from afk.adapters.process import tail_lines
from afk.attempt import briefing, guards, landing, livepush, validation, workspace
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.attempt.turns import fire, last_runner, patiently, run
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import AttemptEnded, Outcome, RunPurpose, VerdictKind, classify
from afk.domain.stage import Stage
from afk.errors import BaseMoved
from afk.wire.sidecar import CheckStatus

__all__ = ["land"]

_SAID_LINES, _SAID_BYTES = 80, 16 * 1024  # of a check that failed, for the agent that mends it


def land(attempt: Attempt) -> None:
    """Integrate, validate, merge, push, until the tree that was validated is the tree on the base."""
    journal = attempt.journal
    if journal.has(Step.LANDED):
        return
    patiently(attempt, lambda: _land_in_rounds(attempt))


def _land_in_rounds(attempt: Attempt) -> None:
    """Raises `BaseMoved` when others were faster in every round: wait and begin again, the agent is not run for it."""
    journal, rounds = attempt.journal, attempt.project.config.landing.rounds
    moved = 0
    while moved < rounds:
        attempt.check_interrupt()
        _mend(attempt)
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
        if checked is None:
            continue  # the agent mends what a check found
        _admit(attempt, base_sha, head, checked.tree)
        patiently(attempt, partial(landing.send_lfs, attempt, base_sha, head))
        attempt.progress.stage(Stage.MERGE)
        if patiently(attempt, partial(_merge, attempt, base_sha, head, checked.tree)):
            return
        moved += 1
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
    k = resolving["k"]
    runner = last_runner(attempt, k)
    evidence, facts = run(attempt, k, RunPurpose.RESOLVE_CONFLICT, runner, paths=resolving["paths"])
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


def _validate(attempt: Attempt, base_sha: str, head: str) -> validation.Validation | None:
    """Run the checks on exactly what would land; a tree that has passed is not checked twice.

    None: a check failed, and the agent gets one run to mend it.
    """
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
    if result.status is validation.Verdict.PASS:
        return result
    pointers = lfs.pointers(attempt.worktree)  # what a check cannot read is the first thing to know about it
    told = f"; {len(pointers)} LFS files were pointers (afk.landing.lfs: pull fetches them)" if pointers else ""
    if result.status is validation.Verdict.BLOCKER and _may_mend(attempt):
        journal.set_facts(durable=True, mending=_mending(attempt, result, result.reason + told))
        return None
    raise AttemptEnded(result.outcome or Outcome.FEEDBACK_FAILED, result.reason + told)


def _may_mend(attempt: Attempt) -> bool:
    return attempt.project.config.landing.mend_checks and attempt.journal.fact("mending") is None


def _mending(attempt: Attempt, result: validation.Validation, reason: str) -> dict[str, Any]:
    """What the agent is to be told, and what it ends with when that is of no use."""
    failed = next(each for each in result.results if each.status is CheckStatus.FAILED)
    said = tail_lines(Path(failed.output_path), _SAID_LINES, _SAID_BYTES) if failed.output_path else []
    return {
        "k": attempt.journal.count(Step.RUN_ENDED) + 1,
        "validated": attempt.journal.count(Step.VALIDATED),
        "tree": result.tree,
        "check": failed.name,
        "output": "\n".join(said),
        "reason": reason,
    }


def _mend(attempt: Attempt) -> None:
    """One run of the agent on a check that failed; what changes nothing, or is not committed, leaves it failed."""
    journal, mending = attempt.journal, attempt.journal.fact("mending")
    if mending is None or journal.count(Step.VALIDATED) > mending["validated"]:
        return
    k = mending["k"]
    evidence, facts = run(attempt, k, RunPurpose.CHECK_FAILED, last_runner(attempt, k))
    verdict = classify(evidence, facts, salvage=attempt.project.config.landing.salvage)
    if verdict.kind is VerdictKind.ENDED and verdict.outcome not in (Outcome.NO_SENTINEL, Outcome.BLOCKED):
        raise verdict.as_ended()
    head = git.rev_parse(attempt.worktree, "HEAD")
    if facts.dirty or head is None or git.tree_of(attempt.worktree, head) == mending["tree"]:
        why = "left changes uncommitted" if facts.dirty else "changed nothing"
        raise AttemptEnded(Outcome.FEEDBACK_FAILED, f"{mending['reason']}; asked to mend it, the agent {why}")


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
    fire(
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
