"""The configuration of a run that goes on: what changes on disk applies to what starts from then on (S3).

A file that is broken changes nothing: it is told once, and the last good one stays (S4). What an attempt started with
is in its own journal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.errors import ConfigError
from afk.supervisor.boot import refuse_unsupported

if TYPE_CHECKING:
    from afk.config import Loaded, Source

__all__ = ["ConfigWatch", "changed_keys"]

_SETTLE_S = 0.5  # an editor may truncate first and write then; half a file may be a valid one
_FIXED = ("tracker", "local", "github", "remote")  # claims and journals of this run stand on them


class ConfigWatch:
    """Looks whether the files have changed. `problem` is why the newest ones are not in use; empty when they are.

    `is_moving` while a change may not be complete: nothing should start under a configuration that is on its way out.
    """

    def __init__(self, project: Project, log: Log, *, say: Callable[[str], None]) -> None:
        self.problem = ""
        self._project = project
        self._log = log
        self._say = say
        self._taken = self._last = _digest(project.loaded.sources)
        self._since_s = 0.0

    @property
    def is_moving(self) -> bool:
        return self._last != self._taken

    def look(self, runner: str) -> Project | None:
        """The project as it is configured from now on; None when nothing is new or the new is broken, which is told
        once. `runner`, which this run uses, must be in it."""
        digest, now_s = _digest(self._project.loaded.sources), self._project.clock.monotonic_s()
        if digest != self._last:
            self._last, self._since_s = digest, now_s
        if digest == self._taken or now_s - self._since_s < _SETTLE_S:
            return None
        self._taken = digest
        try:
            project, waiting = self._checked(self._project.loaded.again(), runner)
        except ConfigError as error:
            self.problem = "; ".join(str(problem) for problem in error.problems) or error.message
            self._tell("config.broken", f"the configuration cannot be used, the last good one stays: {self.problem}")
            return None
        self.problem = ""
        self._tell_change(changed_keys(self._project.config, project.config), waiting)
        self._project = project
        return project

    def _checked(self, loaded: Loaded, runner: str) -> tuple[Project, list[str]]:
        """The project under what may change, and the keys of what may not. Raises `ConfigError`."""
        old = self._project.config
        waiting = [key for key in changed_keys(old, loaded.config) if key.split(".")[1] in _FIXED]
        kept = loaded.config.model_copy(update={name: getattr(old, name) for name in _FIXED})
        project = self._project.reconfigured(replace(loaded, config=kept))
        refuse_unsupported(project)
        try:
            kept.runner_config(runner)
        except KeyError:
            raise ConfigError(f"the runner `{runner}`, which this run uses, is not in it") from None
        return project, waiting

    def _tell_change(self, changed: Sequence[str], waiting: Sequence[str]) -> None:
        if changed:
            self._tell(
                "config.changed", f"the configuration has changed: {', '.join(changed)}; from the next attempt on"
            )
        if waiting:
            self._tell(
                "config.waits", f"the configuration has changed: {', '.join(waiting)} applies to the next `afk run`"
            )

    def _tell(self, kind: str, line: str) -> None:
        self._log.add(kind, line)
        self._say(line)


def changed_keys(old: Any, new: Any) -> Sequence[str]:
    """Dotted keys that two configurations do not have in common, in order."""
    from afk.config.keys import flatten

    before, after = flatten(old.dump()), flatten(new.dump())
    return [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]


def _digest(sources: Sequence[Source]) -> bytes:
    """Of what the files hold: touching one is no change, and no clock decides."""
    whole = hashlib.sha256()
    for source in sources:
        try:
            whole.update(b"+" + hashlib.sha256(source.path.read_bytes()).digest())
        except OSError as error:
            whole.update(f"-{error.errno}".encode())
    return whole.digest()
