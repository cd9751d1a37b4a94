"""The hooks around the loop: what ran before an attempt opened is remembered for its envelope."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from afk.attempt.hooks import Fired, HookRunner
from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.domain.lifecycle import HookPoint, HookRun

__all__ = ["SessionHooks"]

_PICKING = (HookPoint.PRE_PICK, HookPoint.POST_PICK)


class SessionHooks:
    """Fires the points that belong to no attempt. `runs` are those that led to the issue being picked now."""

    def __init__(self, project: Project, runner: str, log: Log, *, stopping: Callable[[], bool]) -> None:
        self.runs: list[HookRun] = []
        self._project = project
        self._runner = runner
        shutil.rmtree(project.tmp / "hooks", ignore_errors=True)  # of earlier runs; what they said is in the log
        self._hooks = HookRunner(
            root=project.root,
            commands=project.config.hooks,
            defaults=project.config.hook_defaults,
            environ=project.environ,
            run_dir=self._new_run_dir,
            on_run=self.runs.append,
            log=lambda line: log.add("hook.stderr", line),
            stopping=stopping,
        )

    def fire(self, point: HookPoint, context: dict[str, object], values: Mapping[str, str | int | None]) -> Fired:
        root = self._project.root
        always = {"REPO": root.name, "ROOT": str(root), "RUNNER": self._runner}
        return self._hooks.fire(point, context, {**always, **values})

    def forget_picks(self) -> None:
        """Before the queue is listed again: a pick that led nowhere belongs to no envelope."""
        self.runs[:] = [run for run in self.runs if run.lifecycle not in _PICKING]

    def _new_run_dir(self) -> Path:
        runs = self._project.tmp / "hooks"
        taken = [int(name) for path in runs.glob("*-hook") if (name := path.name.split("-")[0]).isdigit()]
        return runs / f"{max(taken, default=0) + 1}-hook"
