"""One run of the agent with the hooks around it, hooks at any other point, and patience with what is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from afk.adapters.claims import ClaimLost
from afk.attempt import agentrun, briefing, bystander, workspace
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import AttemptEnded, GitFacts, Outcome, RunEvidence, RunPurpose
from afk.errors import BaseMoved, InvalidInput, RemoteUnreachable, TrackerError

__all__ = ["fire", "last_runner", "patiently", "run"]

T = TypeVar("T")
_WAIT_FIRST_S, _WAIT_MOST_S = 2.0, 60.0


def run(
    attempt: Attempt, k: int, purpose: RunPurpose, runner: str, paths: Sequence[str] = ()
) -> tuple[RunEvidence, GitFacts]:
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
        evidence = agentrun.run_agent(
            attempt, agentrun.Run(k, agentrun.runner_of(attempt, k) or runner, purpose, prompt, env)
        )
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
    fired = fire(
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
        fire(
            attempt,
            HookPoint.POST_ATTEMPT,
            {**issue, "result": {"status": status, "run": k}},
            RESULT_STATUS=status,
            RESULT_OUTCOME=str(evidence.purpose),
        )
        return
    error = evidence.failure or evidence.ended_by or "no-sentinel"
    fire(attempt, HookPoint.ON_ATTEMPT_ERROR, {**issue, "error": error}, ERROR_CLASS=error)


def last_runner(attempt: Attempt, k: int) -> str:
    """Who ran before run `k` and knows the work."""
    return agentrun.runner_of(attempt, k - 1) or str(attempt.journal.fact("runner"))


def fire(attempt: Attempt, point: HookPoint, about: dict[str, object], **values: str | int | None) -> dict[str, Any]:
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
