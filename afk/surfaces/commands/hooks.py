"""`afk hooks`: what would run at which point, and a try of one point with a made-up context."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from afk.adapters import git
from afk.attempt.hooks import HookRunner, builtins_at
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.issue import Issue
from afk.domain.lifecycle import POLICY, HookPoint, HookRun
from afk.errors import AfkError
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

__all__ = ["hooks_list", "hooks_run"]

# Points that come before any issue is worked: nothing of an attempt is known there.
_OF_THE_SESSION = frozenset(
    {
        HookPoint.PRE_SESSION,
        HookPoint.PRE_PICK,
        HookPoint.POST_PICK,
        HookPoint.ON_IDLE,
        HookPoint.POST_SESSION,
        HookPoint.ON_SESSION_ERROR,
    }
)
_NO_SHA = "0" * 40


def hooks_list(context: CommandContext, _arguments: Arguments) -> Result:
    """`order` counts from 1 within a point; built-ins come first, and only those that have something to do here."""
    project = open_project(context)
    hooks = [hook for point in HookPoint for hook in _hooks_at(point, project)]
    payload = {"lifecycles": [point.value for point in HookPoint], "hooks": hooks}
    return Result(payload, text=_list_text(hooks))


def _hooks_at(point: HookPoint, project: Project) -> Iterator[dict[str, object]]:
    config = project.config
    order = count(1)
    for name in builtins_at(point, project.root, config.hook_defaults):
        yield _hook(point, next(order), "builtin", name=name, command=name, timeout_ms=None, defined_at=None)
    place = project.loaded.places.get(f"afk.hooks.{point}")
    for command in config.hooks.get(point, ()):
        where = place.path if place else None
        defined_at = f"{where}:{command.line}" if where and command.line else where
        yield _hook(
            point,
            next(order),
            "user",
            name=None,
            command=command.run,
            timeout_ms=round(command.timeout_s * 1000),
            defined_at=defined_at,
        )


def _hook(
    point: HookPoint,
    order: int,
    source: str,
    *,
    name: str | None,
    command: str,
    timeout_ms: int | None,
    defined_at: str | None,
) -> dict[str, object]:
    return {
        "lifecycle": point.value,
        "order": order,
        "source": source,
        "name": name,
        "command": command,
        "timeout_ms": timeout_ms,
        "on_failure": POLICY[point].on_failure,
        "defined_at": defined_at,
    }


def _list_text(hooks: Sequence[Mapping[str, object]]) -> str:
    """Every point has a line, so that a person sees where something could be said."""
    rows = [["point", "if it fails", "command", "from"]]
    for point in HookPoint:
        own = [hook for hook in hooks if hook["lifecycle"] == point]
        rows += [
            [str(point), POLICY[point].on_failure, str(hook["command"]), str(hook["defined_at"] or "built in")]
            for hook in own
        ] or [[str(point), POLICY[point].on_failure, "", ""]]
    return columns(rows) + "\n"


def hooks_run(context: CommandContext, arguments: Arguments) -> Result:
    """The hooks of one point, run for real with a context that no attempt stands behind; exit 1 when one refused.

    Raises: IssueNotFound for an `--issue` that is not there.
    """
    project = open_project(context)
    point = HookPoint(arguments.text("point"))
    number = arguments.number_or_none("issue")
    issue = project.tracker.issue(number) if number else _sample_issue(project)
    said: list[str] = []
    before = _sample_context(point, project, issue)
    with tempfile.TemporaryDirectory(prefix="afk-hooks-") as scratch:
        runner = _runner(project, Path(scratch), said.append)
        fired = runner.fire(point, dict(before), _sample_values(point, project, issue))
    failed = any(run.exit_code for run in fired.runs)
    payload = {
        "lifecycle": point.value,
        "context": before,
        "context_after": fired.context,
        "runs": [_run(run) for run in fired.runs],
        "aborted": fired.aborted is not None,
        "reason": fired.reason or None,
        "log": said,
    }
    return Result(payload, 1 if failed else 0, text=_run_text(point, fired.runs, fired.reason, said))


def _runner(project: Project, scratch: Path, log: Callable[[str], None]) -> HookRunner:
    numbers = count(1)
    return HookRunner(
        root=project.root,
        commands=project.config.hooks,
        defaults=project.config.hook_defaults,
        environ=project.environ,
        run_dir=lambda: scratch / f"{next(numbers)}-hook",
        on_run=lambda run: None,
        log=log,
        kill_s=project.config.agent.kill_s,
    )


def _run(run: HookRun) -> dict[str, object]:
    return {
        "source": run.source,
        "command": run.command,
        "exit_code": run.exit_code,
        "duration_ms": run.duration_ms,
    }


def _run_text(point: HookPoint, runs: Sequence[HookRun], reason: str, said: Sequence[str]) -> str:
    if not runs:
        return f"No hook is declared at {point}.\n"
    done = [f"{run.command}: exit {run.exit_code} after {run.duration_ms} ms" for run in runs]
    return "\n".join([*done, *said, *([reason] if reason else [])]) + "\n"


# ── The sample ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _sample_issue(project: Project) -> Issue:
    now = project.clock.now()
    return Issue(
        number=1,
        title="A sample issue",
        body="What a hook is told when it is only tried.\n",
        state="open",
        labels=(project.config.label,),
        author="somebody",
        created_at=now,
        updated_at=now,
    )


def _sample_context(point: HookPoint, project: Project, issue: Issue) -> dict[str, object]:
    """The keys that the point has in a run. Source: docs/hooks.md, "The twelve points"."""
    from afk.attempt.briefing import issue_json

    config, told = project.config, issue_json(issue)
    everything = {"kind": "all", "value": None}
    stats = {"total": 1, "done": 1, "failed": 0, "blocked": 0, "queued": 0, "in_flight": 0}
    attempt: dict[str, object] = {"issue": told, "workspace": str(_sample_workspace(project, issue))}
    diff = {"added": 1, "removed": 0, "files": 1}
    contexts: dict[HookPoint, dict[str, object]] = {
        HookPoint.PRE_SESSION: {"runner": config.runner, "filter": everything, "cap": None},
        HookPoint.PRE_PICK: {"label": config.label, "state": "open", "limit": None, "filter": everything},
        HookPoint.POST_PICK: {"issues": [told]},
        HookPoint.PRE_WORKTREE: {"issue": told, "target": _base(project), "branch": _branch(issue), "env": {}},
        HookPoint.PRE_ATTEMPT: {**attempt, "attempt_n": 1, "env": {}},
        HookPoint.POST_ATTEMPT: {**attempt, "result": {"status": "done", "run": 1}, "attempt_n": 1},
        HookPoint.ON_ATTEMPT_ERROR: {**attempt, "error": "no-sentinel", "attempt_n": 1},
        HookPoint.PRE_MERGE: {**attempt, "branch": _branch(issue), "diff": diff},
        HookPoint.POST_MERGE: {**attempt, "merge_commit": _head(project)},
        HookPoint.ON_IDLE: {"stats": stats},
        HookPoint.POST_SESSION: {"runner": config.runner, "stats": stats},
        HookPoint.ON_SESSION_ERROR: {"error": "a sample error"},
    }
    return contexts[point]


def _sample_values(point: HookPoint, project: Project, issue: Issue) -> dict[str, str | int | None]:
    every: dict[str, str | int | None] = {
        "REPO": project.root.name,
        "ROOT": str(project.root),
        "RUNNER": project.config.runner,
    }
    own: dict[str, str | int | None] = {
        "ISSUE": issue.number,
        "ATTEMPT": 1,
        "RESULT_STATUS": "done",
        "RESULT_OUTCOME": "work",
        "ERROR_CLASS": "sample",
        "ERROR_MESSAGE": "a sample error",
        "MERGE_BASE": _head(project),
        "MERGE_SHA": _head(project),
    }
    if point not in _OF_THE_SESSION:
        workspace = str(_sample_workspace(project, issue))
        every |= {"WORKER_ID": _SAMPLE_WORKER, "SLOT": 1, "WORKSPACE": workspace}
    return every | {name: own[name] for name in POLICY[point].extra_env}


_SAMPLE_WORKER = "wTEST"


def _sample_workspace(project: Project, issue: Issue) -> Path:
    """Where the worktree would be; there is none."""
    attempt = AttemptId(_SAMPLE_WORKER, issue.number, 1)
    return project.workers / attempt.worker / attempt.directory / "worktree"


def _branch(issue: Issue) -> str:
    return branch_name(_SAMPLE_WORKER, issue.number, issue.title)


def _base(project: Project) -> str:
    """The configured base, else what is checked out: a try of a hook does not ask the remote."""
    checked_out = (git.current_branch(project.root) or "").removeprefix("refs/heads/")
    return project.config.base or checked_out or "main"


def _head(project: Project) -> str:
    try:
        return git.rev_parse(project.root, "HEAD") or _NO_SHA
    except AfkError:
        return _NO_SHA
