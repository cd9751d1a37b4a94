"""Which issues are next: one look at the queue, through the eyes of the hooks."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from afk.attempt.briefing import issue_json
from afk.attempt.session import Project
from afk.domain.issue import FilterKind
from afk.domain.lifecycle import HookPoint
from afk.domain.queue import QueueItem, require_selection
from afk.supervisor.queueing import Queue
from afk.supervisor.sessionhooks import SessionHooks
from afk.supervisor.slot import Settings, choose, ready_items
from afk.supervisor.tally import Tally
from afk.supervisor.terms import Options

__all__ = ["Picked", "Picker"]

_ALONE_S = 60.0  # how long a watching run leaves an issue alone that it could not get


@dataclass(frozen=True, slots=True)
class Picked:
    """One look: every item as `pre_pick` left it, those to be worked now in order, and the label that was asked for."""

    items: Sequence[QueueItem]
    chosen: Sequence[QueueItem]
    label: str


class Picker:
    """Lists and picks for one run; `has_looked` once there was a look that came through."""

    def __init__(
        self,
        project: Project,
        options: Options,
        settings: Settings,
        *,
        queue: Queue,
        hooks: SessionHooks,
        tally: Tally,
    ) -> None:
        self.has_looked = False
        self._project = project
        self._watch = options.watch
        self._settings = settings
        self._queue = queue
        self._hooks = hooks
        self._tally = tally
        self._left_alone: dict[int, float] = {}  # until when, on the monotonic clock

    def reconfigure(self, project: Project) -> None:
        self._project = project

    def look(self, ours: Collection[int]) -> Picked:
        """List the queue as `pre_pick` wants it and ask `post_pick` about what is ready and not `ours` already.

        Raises `QueueSelection` at the first look, and what `Queue.look` raises.
        """
        self._hooks.forget_picks()
        config, filter_ = self._project.config, self._settings.filter
        told = {"kind": str(filter_.kind), "value": filter_.value}
        fired = self._hooks.fire(
            HookPoint.PRE_PICK, {"label": config.label, "state": "open", "limit": None, "filter": told}, {}
        )
        label, limit = str(fired.context["label"]), fired.context["limit"]
        if fired.aborted is not None or fired.context["state"] != "open":
            return Picked((), (), label)
        items = self._queue.look(filter_, label)
        if filter_.kind is FilterKind.ISSUES and not self.has_looked:
            require_selection(items, filter_.numbers)
        self.has_looked = True
        ready = ready_items(items, self._shunned(ours))
        self._tally.see(ready)
        shown = ready[: int(limit)] if isinstance(limit, int) else ready
        return Picked(shown or items, self._choose(shown), label)

    def leave_alone(self, number: int) -> None:
        """An issue that could not be got: a watching run tries it again after a minute, every other one does not."""
        self._left_alone[number] = self._project.clock.monotonic_s() + _ALONE_S if self._watch else math.inf

    def _choose(self, ready: Sequence[QueueItem]) -> list[QueueItem]:
        if not ready:
            return []
        fired = self._hooks.fire(HookPoint.POST_PICK, {"issues": [issue_json(item.issue) for item in ready]}, {})
        issues: Any = fired.context["issues"]  # the hook runner lets nothing but a list of known issues through
        return choose(ready, issues)

    def _shunned(self, ours: Collection[int]) -> set[int]:
        now_s = self._project.clock.monotonic_s()
        self._left_alone = {number: until_s for number, until_s in self._left_alone.items() if until_s > now_s}
        return {*ours, *self._left_alone}
