"""What is wrong with a configuration, so that a person can mend it: file, line, key, and the name that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from afk.errors import ConfigError

__all__ = ["Place", "Places", "Problem", "did_you_mean", "in_order", "invalid", "nearest", "place_of"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value came from: `path` is a file, an `AFK_*` name or `flag`; `origin` the same file, `env` or `flag`."""

    path: str
    line: int | None
    origin: str


Places = Mapping[str, Place]  # by dotted key


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault; `severity` is `error` or `warning`, `key` dotted (`afk.claim.lease_s`, "" for the whole file),
    `line` counts from 1 (None: not in a file), `fix` is what to do, may be empty."""

    severity: str
    path: str
    key: str
    line: int | None
    message: str
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        subject = f"{place}: {self.key}" if self.key else place
        return f"{subject}: {self.message}; {self.fix}" if self.fix else f"{subject}: {self.message}"


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """By source and line, as a person reads the file."""
    return tuple(sorted(problems, key=lambda problem: (problem.path, problem.line or 0)))


def invalid(problems: Sequence[Problem]) -> ConfigError:
    """The error that carries them all, in order; its message is the first error and how many follow."""
    problems = in_order(problems)
    errors = [problem for problem in problems if problem.severity == "error"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return ConfigError(f"{errors[0]}{more}", problems=problems)


def place_of(key: str, places: Places, otherwise: str) -> Place:
    """The place of the key itself, else of the nearest mapping around it, else `otherwise` as a whole."""
    while key:
        if key in places:
            return places[key]
        key = key.rpartition(".")[0]
    return Place(otherwise, None, otherwise)


def nearest(name: str, names: Iterable[str], *, cutoff: float = 0.7) -> str | None:
    """The name that was probably meant; `cutoff` is difflib's ratio, from 0 (anything) to 1 (equal)."""
    by_folded = {other.casefold(): other for other in names}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str | None) -> str:
    return f"did you mean `{name}`?" if name else ""
