"""When to stop trying: agents that die as soon as they are started, and attempts that never get as far as an agent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from afk.domain.outcome import Outcome, RunEvidence, ended_well

__all__ = ["ALIKE", "Terms", "is_fast_death", "signature", "trips"]

ALIKE = 3
"""So many attempts in a row that ended alike before their agent began are no accident (L13)."""

_PARTICULAR = re.compile(r"\bafk/\S+|\bw[0-9A-Z]{4}\b\S*|[0-9a-f]{7,}|\d+|/\S+")


@dataclass(frozen=True, slots=True)
class Terms:
    """`afk.circuit` of the configuration: `count` fast deaths within `window_s` park a slot for `cooldown_s`."""

    fast_death_s: float
    count: int
    window_s: float
    cooldown_s: float


def is_fast_death(outcome: Outcome, last: RunEvidence, *, lived_s: float, committed: bool, terms: Terms) -> bool:
    """Whether an agent died of itself right after its start and left nothing: no last word, no commit.

    An agent that found nothing to do and went away well is none, whatever its exit code, nor is one that we ended, that
    lost its keeper, or whose account is used up: that holds everybody anyway.
    """
    if committed or last.sentinel is not None or last.ended_by is not None or last.lost or ended_well(last):
        return False
    return lived_s <= terms.fast_death_s and outcome is not Outcome.EXHAUSTED


def trips(deaths_s: Sequence[float], now_s: float, terms: Terms) -> bool:
    """Whether the deaths at these times, on one scale with now, are too many of late."""
    return sum(now_s - terms.window_s <= at_s <= now_s for at_s in deaths_s) >= terms.count


def signature(outcome: Outcome, reason: str) -> str:
    """What two ends have in common: their words without numbers, shas, paths and the names of attempts."""
    return f"{outcome}: {_PARTICULAR.sub('…', reason)}"
