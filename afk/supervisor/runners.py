"""Which runner the next attempt begins with: the configured ones in turn, and the fallback when they are used up."""

from __future__ import annotations

from datetime import datetime

from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.config import Config
from afk.domain.outcome import RunEvidence
from afk.ports import Clock
from afk.supervisor.outage import Rest

__all__ = ["Runners", "rotation"]


def rotation(config: Config, runner: str) -> list[str]:
    """The runners that take turns, `runner` first."""
    return list(dict.fromkeys([runner, *config.alternate]))


class Runners:
    """Knows whose account is used up, from what ended runs told.

    In a run that watches such a runner comes back after a rest; in another one it is out until the run ends, because
    nobody waits there.
    """

    def __init__(self, clock: Clock, *, first_s: float, watching: bool) -> None:
        self._clock = clock
        self._first_s = first_s
        self._watching = watching
        self._rests: dict[str, Rest] = {}
        self._out: set[str] = set()
        self._turn = 0

    def next(self, config: Config, runner: str) -> str | None:
        """Whose turn it is; None when every runner, the fallback too, is used up."""
        ring = rotation(config, runner)
        for k in range(len(ring)):
            name = ring[(self._turn + k) % len(ring)]
            if self._is_up(name):
                self._turn = (self._turn + k + 1) % len(ring)
                return name
        fallback = config.fallback_runner
        return fallback if fallback and self._is_up(fallback) else None

    def are_used_up(self, config: Config, runner: str) -> bool:
        return not any(map(self._is_up, self._known(config, runner)))

    def until(self, config: Config, runner: str) -> datetime | None:
        """When the first of them comes back, if all are used up; None: nobody knows."""
        rests = [self._rests[name].until for name in self._known(config, runner) if name in self._rests]
        return min((until for until in rests if until is not None), default=None)

    def note(self, attempt: Attempt) -> list[str]:
        """What an ended attempt's runs told of their runners; returns those that it found used up."""
        found: list[str] = []
        for k in range(1, attempt.journal.count(Step.RUN_ENDED) + 1):
            name = str(attempt.journal.get(Step.RUN_STARTED, k).get("runner") or attempt.journal.fact("runner"))
            evidence = RunEvidence.from_dict(attempt.journal.get(Step.RUN_ENDED, k)["evidence"])
            if evidence.failure == "limit":
                self._rest(name, evidence.resets_at)
                found.append(name)
            else:
                self._out.discard(name)
                if name in self._rests:
                    self._rests[name].over()
        return found

    def _known(self, config: Config, runner: str) -> list[str]:
        return [*rotation(config, runner), *filter(None, [config.fallback_runner])]

    def _is_up(self, name: str) -> bool:
        rest = self._rests.get(name)
        return name not in self._out and not (rest is not None and rest.holds)

    def _rest(self, name: str, until: datetime | None) -> None:
        if self._watching:
            self._rests.setdefault(name, Rest(self._clock, self._first_s)).begin(until)
        else:
            self._out.add(name)
