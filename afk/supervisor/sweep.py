"""Once in a while, in the supervisor alone: what attempts left is looked through, and what nobody needs any more goes.

`decide` reads and judges everything first; `sweep` then acts, thing by thing, and each is one `Decision`. One bad thing
never stops the others (L45). It is safe to call again and again, beside attempts that are at work too: what is not told
to its end is not touched. Whoever calls `sweep` holds the supervisor's lock (L42).
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.domain.issue import Issue
from afk.domain.queue import DEPENDENCY, PARKED, blockers
from afk.domain.retention import Verdict, keep
from afk.errors import AfkError
from afk.supervisor import attemptdirs, leftrefs
from afk.supervisor.attemptdirs import Seam
from afk.supervisor.rescue import Haven
from afk.supervisor.survey import Action, Candidate, Decision, Kind, Left, Survey

__all__ = ["DIRECTORIES", "decide", "sweep", "sweep_for_run"]

DIRECTORIES = frozenset({Kind.ATTEMPT, Kind.WORKTREE})


def no_seam(_word: str) -> None:
    """Nobody is listening."""


def sweep_for_run(project: Project, log: Log, say: Callable[[str], None]) -> None:
    """`sweep`, for a run that goes on whatever comes of it; people are told in one sentence, and only of changes."""
    try:
        counts = Counter(decision.action for decision in sweep(project, log))
    except Exception as error:  # noqa: BLE001 - tidying up is never a reason not to work
        log.add("sweep.failed", traceback.format_exc())
        say(f"the sweep failed: {error}; see: afk reap --dry-run")
        return
    words = {Action.REMOVED: "removed", Action.PROMOTED: "put back into the queue", Action.FAILED: "failed"}
    told = ", ".join(f"{counts[action]} {word}" for action, word in words.items() if counts[action])
    if told:
        say(f"swept what earlier attempts left: {told}; .red/tmp/supervisor.log.toonl names each")


def sweep(project: Project, log: Log, *, kinds: Collection[Kind] = tuple(Kind), seam: Seam = no_seam) -> list[Decision]:
    """Judge, then act; the decisions in the order in which they were carried out. Changes are in the log, too."""
    survey, candidates = _candidates(project, kinds, seam)
    decisions = [_carry_out(survey, candidate) for candidate in candidates]
    for decision in decisions:
        if decision.action is not Action.KEPT:
            log.add(f"sweep.{decision.action}", f"{decision.kind} {decision.name}: {decision.reason}")
    return decisions


def decide(project: Project, *, kinds: Collection[Kind] = tuple(Kind)) -> list[Decision]:
    """What `sweep` would do now; nothing is touched."""
    survey, candidates = _candidates(project, kinds, no_seam)
    return [_decision(survey, candidate, dry=True) for candidate in candidates]


def _candidates(project: Project, kinds: Collection[Kind], seam: Seam) -> tuple[Survey, list[Candidate]]:
    """Attempts first: their branches and pointers are judged by what is here now, and go one sweep later if need be.
    Live branches on the remote before those here, so that what only they held is known when these go."""
    survey = Survey(project)
    here, haven = attemptdirs.find(project), Haven(survey)
    listed = [
        *attemptdirs.attempts(survey, here, haven, seam),
        *attemptdirs.lost_worktrees(survey, here, haven),
        *(_others(survey, here, haven) if set(kinds) - DIRECTORIES else ()),
    ]
    return survey, [candidate for candidate in listed if candidate.kind in kinds]


def _others(survey: Survey, here: list[attemptdirs.Found], haven: Haven) -> Iterator[Candidate]:
    yield from leftrefs.live_branches(survey)
    yield from leftrefs.branches(survey, here, haven)
    yield from leftrefs.pointers(survey, here, haven)
    yield from leftrefs.saved(survey)
    yield from attemptdirs.worker_folders(survey)
    yield from _promotions(survey)


def _decision(survey: Survey, candidate: Candidate, *, dry: bool) -> Decision:
    verdict = survey.final(candidate.verdict)
    would, done = (
        (Action.WOULD_PROMOTE, Action.PROMOTED)
        if candidate.kind is Kind.ISSUE
        else (Action.WOULD_REMOVE, Action.REMOVED)
    )
    action = (would if dry else done) if verdict.goes else Action.KEPT
    return Decision(
        candidate.kind, candidate.name, action, verdict.code, verdict.reason, candidate.attempt, candidate.issue
    )


def _carry_out(survey: Survey, candidate: Candidate) -> Decision:
    decision = _decision(survey, candidate, dry=False)
    if decision.action is Action.KEPT:
        return decision
    try:
        more = candidate.act()
    except Left as spared:
        return replace(decision, action=Action.KEPT, code=spared.code, reason=spared.reason)
    except (AfkError, OSError) as error:
        told = error.message if isinstance(error, AfkError) else str(error)
        return replace(decision, action=Action.FAILED, reason=f"{decision.reason}; but {told}")
    except Exception as error:  # noqa: BLE001 - a bug met by one thing is no reason to leave the others (L45)
        told = f"a bug in afk: {type(error).__name__}: {error}"
        return replace(decision, action=Action.FAILED, reason=f"{decision.reason}; but {told}")
    return replace(decision, reason="; ".join(part for part in (decision.reason, more) if part))


# ── Issues that waited for others ───────────────────────────────────────────────────────────────────────────────────


def _promotions(survey: Survey) -> Iterator[Candidate]:
    """Issues that were parked for others go back to the queue once all of these are closed, by whomever (L46)."""
    for number, issue in sorted(survey.open.items()):
        if issue.has_label(DEPENDENCY):
            verdict = _judge_waiting(survey, issue)
            yield Candidate(Kind.ISSUE, f"#{number}", verdict, partial(_promote, survey, number), issue=number)


def _judge_waiting(survey: Survey, issue: Issue) -> Verdict:
    waits_for = blockers(issue)
    still = [number for number in waits_for if survey.stand(number).is_open is not False]
    if issue.number in survey.claims:
        return keep("claimed", "somebody holds it")
    if not waits_for:
        return keep("unknown", f"it says {DEPENDENCY} and names no issue that it waits for")
    if still:
        return keep("blocked", f"it waits for {', '.join(f'#{number}' for number in still)}")
    return Verdict(True, "unblocked", "all that it waited for is closed")


def _promote(survey: Survey, number: int) -> str:
    project = survey.project
    project.tracker.edit_labels(number, add=[project.config.label], remove=[DEPENDENCY, PARKED])
    return ""
