"""How an attempt ended and what becomes of its issue, decided once and written down; telling it is `report.py`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from afk.adapters import git
from afk.adapters.process import boot_id
from afk.attempt import livepush
from afk.attempt.agentrun import agent_seconds
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.attempt import DiffStat
from afk.domain.circuit import Terms, is_fast_death
from afk.domain.outcome import AttemptEnded, Outcome, RunEvidence
from afk.domain.queue import RUNNER_ERROR
from afk.domain.recovery import Park, PastAttempt, Requeue, marked, next_step
from afk.errors import GitError

__all__ = ["past_json", "reach"]


def reach(attempt: Attempt, ended: AttemptEnded | None) -> dict[str, Any]:
    """What is written down as the attempt's end: the outcome and what becomes of the issue. Pure but for clock and git.

    `decision` is `done`, `requeue`, `park`, `withdrawn`, or `discard` where it parked its slot: then `discarded` has
    what the envelope says of that. `label` is the `blocked:*` label of a parked issue. `stopped` is there for a stop,
    `passes` for what goes by itself.
    """
    outcome = Outcome.DONE if ended is None else ended.outcome
    record: dict[str, Any] = {
        "outcome": str(outcome),
        "reason": marked(_reason(attempt, ended), charged=True),
        "decision": "done",
        "label": None,
        "not_before": None,
        "duration_s": round(_elapsed_s(attempt)),
        "diff": _diff(attempt),
    }
    if ended is None:
        return record
    if ended.withdrawn:
        return record | {"decision": "withdrawn"}
    if ended.passes:
        record["passes"] = True
    if ended.stopped:
        record["stopped"] = True
    elif (discarded := _discarded(attempt, ended)) is not None:
        return record | {"decision": "discard", "label": RUNNER_ERROR, "discarded": discarded}
    step = _next_step(attempt, ended)
    if isinstance(step, Park):
        why = "; ".join(part for part in (record["reason"], step.reason) if part)
        return record | {"decision": "park", "label": step.label, "reason": why}
    return record | {
        "decision": "requeue",
        "reason": marked(record["reason"], charged=step.charged),
        "not_before": step.not_before.isoformat() if step.not_before else None,
    }


def _discarded(attempt: Attempt, ended: AttemptEnded) -> dict[str, Any] | None:
    """What the envelope says when this end is one fast death too many for its slot; None for every other end."""
    journal, circuit = attempt.journal, attempt.project.config.circuit
    k = journal.count(Step.RUN_ENDED)
    if not k:
        return None
    terms = Terms(circuit.fast_death_s, circuit.count, circuit.window_s, circuit.cooldown_s)
    last = RunEvidence.from_dict(journal.get(Step.RUN_ENDED, k)["evidence"])
    # Not where the branch began: one that continues an earlier attempt's has the newest base merged in before any run.
    tip, start = git.rev_parse(attempt.project.root, attempt.branch_ref), journal.get(Step.RUN_STARTED, 1).get("head")
    lived_s = agent_seconds(attempt)
    if not is_fast_death(ended.outcome, last, lived_s=lived_s, committed=tip != start, terms=terms):
        return None
    deaths = attempt.died_fast(terms)
    cause = f"{ended.outcome}: {ended.reason}" if ended.reason else str(ended.outcome)
    log = f".red/tmp/workers/{attempt.id.worker}/worker.log.toonl"
    return {"slot": attempt.slot, "fast_deaths": deaths, "cause": cause, "log": log} if deaths else None


def _next_step(attempt: Attempt, ended: AttemptEnded) -> Requeue | Park:
    confirmed = attempt.journal.get(Step.CONFIRMED)
    recovery, clock = attempt.project.config.recovery, attempt.project.clock
    told = confirmed.get("directive_at")
    return next_step(
        ended.outcome,
        [_past_of(record) for record in confirmed.get("past", ())],
        tries=recovery.tries,
        per_issue=recovery.per_issue,
        backoff_s=recovery.backoff_s,
        backoff_max_s=recovery.backoff_max_s,
        now=clock.now(),
        # Spread by the attempt's own nonce: two hosts never wait the same time, and one attempt always does.
        jitter=int(attempt.claim.record.nonce[:8], 16) / 16**8,
        told_reset=ended.not_before,
        directive_at=datetime.fromisoformat(told) if told else None,
        label=ended.label,
        stopped=ended.stopped,
    )


def past_json(past: Sequence[PastAttempt]) -> list[dict[str, Any]]:
    """Earlier attempts for the journal; `_past_of` reads them back."""
    return [
        {
            "n": item.n,
            "status": item.status,
            "outcome": str(item.outcome) if item.outcome else None,
            "ended_at": item.ended_at.isoformat(),
            "not_before": item.not_before.isoformat() if item.not_before else None,
            "charged": item.charged,
        }
        for item in past
    ]


def _past_of(record: Mapping[str, Any]) -> PastAttempt:
    return PastAttempt(
        n=record["n"],
        status=record["status"],
        outcome=Outcome(record["outcome"]) if record["outcome"] else None,
        ended_at=datetime.fromisoformat(record["ended_at"]),
        not_before=datetime.fromisoformat(record["not_before"]) if record["not_before"] else None,
        charged=record["charged"],
    )


def _reason(attempt: Attempt, ended: AttemptEnded | None) -> str:
    told = [] if ended is None else [ended.reason]
    if attempt.journal.fact("foreign_sha") == livepush.DELETED:
        told.append(
            f"somebody deleted {attempt.branch} on the remote; its work is in unpushed.bundle beside the worktree"
        )
    elif attempt.journal.fact("foreign_sha"):
        told.append(f"somebody else moved {attempt.branch}; their commits are left alone")
    runs = range(1, attempt.journal.count(Step.RUN_ENDED) + 1)
    told.append(str(attempt.journal.fact("fell_back") or ""))
    told += [remark for k in runs for remark in attempt.journal.get(Step.RUN_ENDED, k)["remarks"]]
    return "; ".join(part for part in told if part)


def _elapsed_s(attempt: Attempt) -> float:
    """On the monotonic clock within one boot; across a reboot only the wall clock knows."""
    journal, clock = attempt.journal, attempt.project.clock
    if journal.fact("boot_id") == boot_id():
        return max(0.0, clock.monotonic_s() - float(journal.fact("started_monotonic_s")))
    return max(0.0, (clock.now() - datetime.fromisoformat(str(journal.fact("started_at")))).total_seconds())


def _diff(attempt: Attempt) -> dict[str, int]:
    """Against the merge base with the resolved base; zeros while there is no branch, or none that compares with it."""
    root, base_sha = attempt.project.root, attempt.journal.fact("base_sha")
    try:
        tip = git.rev_parse(root, attempt.branch_ref)
        merge_base = git.merge_base(root, base_sha, tip) if tip and base_sha else None
        stat = git.diffstat(root, merge_base, tip) if tip and merge_base else DiffStat(0, 0, 0)
    except GitError as error:  # whatever was done to the repository, the attempt has an end that can be told
        attempt.progress.log("work.uncounted", error.message)
        stat = DiffStat(0, 0, 0)
    return {"added": stat.added, "removed": stat.removed, "files": stat.files}
