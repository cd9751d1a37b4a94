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

_OF_A_LOOK = (HookPoint.PRE_PICK, HookPoint.POST_PICK, HookPoint.ON_IDLE)
_KEPT_FOLDERS = 100  # a watching run looks thousands of times; what hooks said is in the log


class SessionHooks:
    """Fires the points that belong to no attempt. `runs` are those that led to the issue being picked now."""

    def __init__(self, project: Project, runner: str, log: Log, *, stopping: Callable[[], bool]) -> None:
        self.runs: list[HookRun] = []
        self._project = project
        self._runner = runner
        self._log = log
        self._stopping = stopping
        shutil.rmtree(project.tmp / "hooks", ignore_errors=True)  # of earlier runs; what they said is in the log
        self.reconfigure(project)

    def reconfigure(self, project: Project) -> None:
        """From here on the hooks that this configuration names."""
        self._hooks = HookRunner(
            root=project.root,
            commands=project.config.hooks,
            defaults=project.config.hook_defaults,
            environ=project.environ,
            run_dir=self._new_run_dir,
            on_run=self.runs.append,
            log=lambda line: self._log.add("hook.stderr", line),
            stopping=self._stopping,
        )

    def fire(self, point: HookPoint, context: dict[str, object], values: Mapping[str, str | int | None]) -> Fired:
        root = self._project.root
        always = {"REPO": root.name, "ROOT": str(root), "RUNNER": self._runner}
        return self._hooks.fire(point, context, {**always, **values})

    def forget_picks(self) -> None:
        """Before the queue is listed again: a pick that led nowhere belongs to no envelope."""
        self.runs[:] = [run for run in self.runs if run.lifecycle not in _OF_A_LOOK]

    def _new_run_dir(self) -> Path:
        runs = self._project.tmp / "hooks"
        taken = sorted(int(name) for path in runs.glob("*-hook") if (name := path.name.split("-")[0]).isdigit())
        for old in taken[:-_KEPT_FOLDERS]:
            shutil.rmtree(runs / f"{old}-hook", ignore_errors=True)
        return runs / f"{max(taken, default=0) + 1}-hook"
