"""What the configuration language has and this version does not do yet: refused by name, never silently ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from afk.config.models import Config
from afk.config.problems import Place, Places, Problem

__all__ = ["unsupported"]

_NO_PLACES: Final[Mapping[str, Place]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Missing:
    key: str
    wanted: Callable[[Config], bool]
    what: str
    instead: str


_MISSING: Final = (
    _Missing("afk.agent.home", lambda c: c.agent.home == "isolated", "a home of the agent's own", "use `shared`"),
    _Missing("afk.agent.sandbox", lambda c: c.agent.sandbox != "none", "a sandbox", "use `none`"),
    _Missing("afk.landing.mode", lambda c: c.landing.mode == "pr", "landing by pull request", "use `merge`"),
    _Missing("afk.landing.batch", lambda c: c.landing.batch > 1, "landing several branches at once", "use 1"),
)


def unsupported(config: Config, places: Places = _NO_PLACES) -> list[Problem]:
    """Every setting that cannot be honoured, with what to do instead; empty means the run may start.

    `places` (from `load`) gives the file and line; without it a problem has the key alone.
    """
    found = [(row.key, row.what, row.instead) for row in _MISSING if row.wanted(config)]
    return [_problem(key, what, instead, places) for key, what, instead in found]


def _problem(key: str, what: str, instead: str, places: Places) -> Problem:
    place = places.get(key, Place("default", None, "default"))
    return Problem("error", place.path, key, place.line, f"{what} is not in this version", instead)
