"""`afk run`: drain the queue, or show beforehand what that would do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from afk.agents import agent_argv
from afk.attempt.session import Project
from afk.domain.issue import Filter, FilterKind
from afk.domain.queue import QueueItem, QueueState, base_directive, require_selection
from afk.errors import AfkError, ConfigError, InvalidInput, SupervisorRunning
from afk.supervisor import boot, control
from afk.supervisor.drain import drain
from afk.supervisor.queueing import Queue
from afk.supervisor.terms import Options, Report
from afk.surfaces.commands.opening import LookingLog, open_project, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.detach import Announce, leave_terminal
from afk.surfaces.emit import Emitter

__all__ = ["run", "run_text"]

PLAN_SCHEMA = "afk.run.plan.v1"
DETACHED_SCHEMA = "afk.run.detached.v1"


def run(context: CommandContext, arguments: Arguments) -> Result:
    """Exit 1 for stranded work (and parked issues under `--strict`), 75 when the runner is exhausted."""
    flags = {
        "afk.workers": arguments.number_or_none("workers"),
        "afk.fallback_runner": arguments.text_or_none("fallback_runner"),
        "afk.alternate": arguments.names("alternate"),
    }
    project = open_project(context, flags)
    options = _options(project, arguments)
    if arguments.flag("dry_run"):
        return _plan(context, project, options)
    if arguments.flag("detach"):
        return _detached(context, project, options)
    return _drained(context, project, options)


def _drained(
    context: CommandContext,
    project: Project,
    options: Options,
    begun: Callable[[str, str], None] = lambda session_id, waits_for: None,
) -> Result:
    report = drain(project, options, emit=_emitter(context), say=lambda line: _say(context, line), begun=begun)
    return Result(_payload(project, report), exit_code=report.exit_code(strict=options.strict), schema="afk.run.v1")


# ── In the background ───────────────────────────────────────────────────────────────────────────────────────────────


def _detached(context: CommandContext, project: Project, options: Options) -> Result:
    """Bad input and a supervisor that is there already are told here, before anything leaves the terminal (L43)."""
    boot.make_ground(project)
    found = control.running(project.root)
    if found is not None:
        told = f"another `afk run` works in {project.root} (pid {found.pid})"
        raise SupervisorRunning(told, hint="afk status")
    log = project.tmp / "run.log"
    begun = leave_terminal(
        project.root,
        context.emitter,
        log,
        partial(_in_background, context, project, replace(options, log_path=str(log))),
    )
    payload = {
        "pid": begun["pid"],
        "session_id": begun["session_id"],
        "log_path": str(log),
        "watching": options.watch,
        "waits_for": begun["waits_for"] or None,
        "next_commands": ["afk status", f"tail -f {shlex.quote(str(log))}", "afk stop"],
    }
    return Result(payload, schema=DETACHED_SCHEMA, text=_detached_text(payload))


def _in_background(
    context: CommandContext, project: Project, options: Options, emitter: Emitter, announce: Announce
) -> int:
    """What the child does: the same run, telling its log; the first word goes to whoever waits at the terminal."""
    from afk.surfaces.cli import answered

    there = replace(context, emitter=emitter, stdout_is_terminal=True)

    def work() -> None:
        try:
            result = _drained(
                there,
                project,
                options,
                begun=lambda session_id, waits_for: announce({"session_id": session_id, "waits_for": waits_for}),
            )
        except AfkError as error:
            announce({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
            raise
        emitter.result(result.payload, schema="afk.run.v1", exit_code=result.exit_code, text=run_text)

    return answered(emitter, work)


def _detached_text(payload: Mapping[str, Any]) -> str:
    lines = [
        f"afk run works in the background: pid {payload['pid']}, session {payload['session_id']}",
        f"its words: {payload['log_path']}",
        "look: afk status; to stop it: afk stop (finish what runs), afk stop --now (keep the work, stop the agents)",
    ]
    if payload["waits_for"]:
        lines.append(f"it waits: {payload['waits_for']}")
    return "\n".join(lines) + "\n"


# ── Options ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _options(project: Project, arguments: Arguments) -> Options:
    runner = arguments.text_or_none("runner")
    if runner is not None:
        _require_runner(project, runner)
    return Options(
        filter=_filter(arguments),
        cap=1 if arguments.flag("once") else arguments.number_or_none("n"),
        base=arguments.text_or_none("base"),
        runner=runner,
        request=arguments.text_or_none("request") or "",
        strict=arguments.flag("strict"),
        watch=arguments.flag("watch"),
    )


def _require_runner(project: Project, runner: str) -> None:
    try:
        project.config.runner_config(runner)
    except KeyError:
        known = ", ".join(sorted(project.config.agents))
        raise ConfigError(f"--runner names no runner of the configuration; known are: {known}") from None


def _filter(arguments: Arguments) -> Filter:
    if numbers := arguments.numbers("issues"):
        return Filter(FilterKind.ISSUES, numbers)
    parent = arguments.number_or_none("prd")
    return Filter() if parent is None else Filter(FilterKind.PRD, (parent,))


def _emitter(context: CommandContext) -> Any:
    """Transition lines under `--json` and when stdout is no terminal; a person at a terminal gets sentences."""
    if context.machine or not context.stdout_is_terminal:
        return lambda payload: context.emitter.progress(payload, always=True)
    return lambda payload: _say(context, _sentence(payload))


def _sentence(payload: Mapping[str, Any]) -> str:
    outcome = f" ({payload['outcome']})" if payload["outcome"] else ""
    return f"#{payload['issue_number']} {payload['to']}{outcome}"


def _say(context: CommandContext, line: str) -> None:
    context.emitter.say(f"afk: {line}")


def _payload(project: Project, report: Report) -> dict[str, object]:
    return {
        "session_id": report.session_id,
        "stopped_by": report.stopped_by,
        "totals": report.tally.totals(),
        "attempts": [
            {
                "attempt_id": ended.attempt_id,
                "issue_number": ended.issue_number,
                "outcome": str(ended.outcome),
                "merge_sha": ended.merge_sha,
            }
            for ended in report.ended
        ],
        "waiting": [
            {
                "issue_number": waiting.issue_number,
                "code": waiting.code,
                "until_rfc3339": rfc3339(waiting.until) if waiting.until else None,
            }
            for waiting in report.waiting
        ],
        "stranded": [{"issue_number": item.issue_number, "branch": item.branch} for item in report.stranded],
    }


# ── Dry run ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _plan(context: CommandContext, project: Project, options: Options) -> Result:
    """Nothing is written, claimed or started; the remote is asked for claims and branches, the tracker for issues."""
    refused = boot.unfit(project, options)
    queue = Queue(project, LookingLog(project, context.emitter))
    items = queue.look(options.filter, project.config.label, acting=False)
    if options.filter.kind is FilterKind.ISSUES:
        require_selection(items, options.filter.numbers)
    ready = [item for item in items if item.state is QueueState.READY]
    runner = options.runner or project.config.runner
    payload: dict[str, object] = {
        "runner": runner,
        "argv": _argv(project, runner),
        "landing_mode": project.config.landing.mode,
        "setup": list(project.config.setup),
        "checks": [check.name for check in project.config.validation.checks],
        "would_pick": [_planned(project, item, options) for item in ready[: options.cap]],
        "waiting": [
            {"issue_number": item.issue.number, "title": item.issue.title, "state": str(item.state), "why": _why(item)}
            for item in items
            if item not in ready
        ],
        "problems": [*(check.summary for check in refused), *project.tracker.problems()],
    }
    return Result(payload, schema=PLAN_SCHEMA, text=_plan_text(payload, refuses=bool(refused)))


def _argv(project: Project, runner: str) -> list[str]:
    """Empty where the runner cannot be started; why is among the problems."""
    try:
        return list(agent_argv(project.config, runner))
    except ConfigError:
        return []


def _planned(project: Project, item: QueueItem, options: Options) -> dict[str, object]:
    try:
        base = options.base or base_directive(item.issue.body) or project.default_base
    except InvalidInput as error:
        base = error.message
    return {"issue_number": item.issue.number, "title": item.issue.title, "base": base}


def _why(item: QueueItem) -> str:
    return "; ".join(reason.message for reason in item.reasons)


def _plan_text(payload: Mapping[str, Any], *, refuses: bool) -> str:
    lines = [f"afk run would use the runner `{payload['runner']}`: {json.dumps(payload['argv'])}"]
    lines.append(f"checks: {', '.join(payload['checks']) or 'none'}")
    lines += [
        f"  #{item['issue_number']} {item['title']}  -> lands on {item['base']}" for item in payload["would_pick"]
    ] or ["  nothing is ready"]
    if payload["waiting"]:
        lines.append("not picked:")
        lines += [f"  #{item['issue_number']} {item['title']}: {item['why']}" for item in payload["waiting"]]
    lines += [f"problem: {problem}" for problem in payload["problems"]]
    if refuses:
        lines.append("afk run would not begin like this; next: afk doctor")
    return "\n".join([*lines, "nothing was touched"]) + "\n"


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_text(payload: Mapping[str, Any]) -> str:
    """What people read at the end of a run."""
    totals = payload["totals"]
    counts = f"{totals['done']} landed, {totals['blocked']} parked, {totals['failed']} to be tried again"
    lines = [f"{payload['stopped_by']}: {counts}"]
    for item in payload["attempts"]:
        merged = f" as {item['merge_sha'][:12]}" if item["merge_sha"] else ""
        lines.append(f"  #{item['issue_number']} {item['outcome']}{merged}  ({item['attempt_id']})")
    for item in payload["waiting"]:
        until = f" until {item['until_rfc3339']}" if item["until_rfc3339"] else ""
        lines.append(f"  #{item['issue_number']} waits: {item['code']}{until}")
    for item in payload["stranded"]:
        lines.append(f"  #{item['issue_number']} is not told to its end yet ({item['branch']}); next: afk run")
    return "\n".join(lines) + "\n"
