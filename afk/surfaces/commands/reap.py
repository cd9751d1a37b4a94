"""`afk reap` and `afk worktree prune`: the supervisor's sweep by hand, with every decision told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from afk.attempt.session import Project
from afk.supervisor import boot, sweep
from afk.supervisor.survey import Action, Decision, Kind
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

__all__ = ["prune", "reap"]


def reap(context: CommandContext, arguments: Arguments) -> Result:
    """Exit 1 when something failed. Raises: SupervisorRunning while a run is at work here, except with `--dry-run`."""
    dry_run = arguments.flag("dry_run")
    decisions = _decisions(open_project(context), tuple(Kind), dry_run=dry_run)
    counts = Counter(decision.action for decision in decisions)
    payload = {
        "dry_run": dry_run,
        "decisions": [_decision(decision) for decision in decisions],
        "counts": {action.value: counts[action] for action in Action},
    }
    return Result(payload, exit_code=1 if counts[Action.FAILED] else 0, text=_text(decisions, counts))


def prune(context: CommandContext, arguments: Arguments) -> Result:
    """The part of the sweep that is about directories. Raises: SupervisorRunning, except with `--dry-run`."""
    dry_run = arguments.flag("dry_run")
    decided = _decisions(open_project(context), sweep.DIRECTORIES, dry_run=dry_run)
    known = [(str(decision.attempt), decision) for decision in decided if decision.attempt is not None]
    gone = (Action.REMOVED, Action.WOULD_REMOVE)
    failed = [{"attempt_id": id, "message": each.reason} for id, each in known if each.action is Action.FAILED]
    payload = {
        "dry_run": dry_run,
        "removed": list(dict.fromkeys(id for id, each in known if each.action in gone)),
        "kept": [{"attempt_id": id, "reason": each.reason} for id, each in known if each.action is Action.KEPT],
        "failed": failed,
    }
    return Result(payload, exit_code=1 if failed else 0)


def _decisions(project: Project, kinds: Collection[Kind], *, dry_run: bool) -> list[Decision]:
    if dry_run:
        return sweep.decide(project, kinds=kinds)
    boot.make_ground(project)
    with boot.no_supervisor(project):
        return sweep.sweep(project, boot.supervisor_log(project), kinds=kinds)


def _decision(decision: Decision) -> dict[str, object]:
    return {
        "kind": decision.kind.value,
        "name": decision.name,
        "attempt_id": str(decision.attempt) if decision.attempt else None,
        "issue_number": decision.issue,
        "action": decision.action.value,
        "code": decision.code,
        "reason": decision.reason,
    }


def _text(decisions: Sequence[Decision], counts: Counter[Action]) -> str:
    if not decisions:
        return "There is nothing that an attempt left.\n"
    rows = [["decision", "what", "name", "why"]]
    rows += [[_words(each.action), _words(each.kind), each.name, each.reason] for each in decisions]
    summary = ", ".join(f"{counts[action]} {_words(action)}" for action in Action if counts[action])
    return f"{columns(rows)}\n\n{summary}\n"


def _words(word: str) -> str:
    return word.replace("_", " ")
