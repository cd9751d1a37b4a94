"""What an agent has used up: tokens and money, and the budgets that they are held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Usage", "UsageMeter", "affords_another", "over_budget", "total_usage"]

_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """`tokens_in` counts all that the model read, cached or not; `cost_usd_micro` is None where no price was told."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd_micro: int | None = None

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd_micro, other.cost_usd_micro) if cost is not None]
        return Usage(
            self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, sum(costs) if costs else None
        )

    def at_least(self, other: Usage) -> Usage:
        """The larger number of each: what was used once stays used."""
        costs = [cost for cost in (self.cost_usd_micro, other.cost_usd_micro) if cost is not None]
        return Usage(
            max(self.tokens_in, other.tokens_in),
            max(self.tokens_out, other.tokens_out),
            max(costs, default=None),
        )

    def to_dict(self) -> dict[str, int | None]:
        return {"tokens_in": self.tokens_in, "tokens_out": self.tokens_out, "cost_usd_micro": self.cost_usd_micro}

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> Usage:
        """Unknown keys are left aside. Raises: TypeError or ValueError for what is no number."""
        cost = record.get("cost_usd_micro")
        return cls(
            int(str(record.get("tokens_in", 0))),
            int(str(record.get("tokens_out", 0))),
            None if cost is None else int(str(cost)),
        )


class UsageMeter:
    """Adds up what a stream tells, in whatever way it tells it: for each part, for the whole, or both (R42).

    The total never sinks, and the same line read twice changes nothing (S77).
    """

    def __init__(self) -> None:
        self._parts: dict[str, Usage] = {}
        self._sum = Usage()
        self._whole: Usage | None = None

    def tell(self, usage: Usage, part: str | None) -> None:
        """`part` names what `usage` speaks of; None is the whole run so far."""
        if part is None:
            self._whole = usage.at_least(self._whole or usage)
            return
        before = self._parts.get(part)
        if before != usage:
            after = self._parts[part] = usage if before is None else usage.at_least(before)
            self._sum += after if before is None else _growth(before, after)

    @property
    def total(self) -> Usage | None:
        """None while nothing was told."""
        if not self._parts:
            return self._whole
        return self._sum if self._whole is None else self._whole.at_least(self._sum)


def _growth(before: Usage, after: Usage) -> Usage:
    cost = None if after.cost_usd_micro is None else after.cost_usd_micro - (before.cost_usd_micro or 0)
    return Usage(after.tokens_in - before.tokens_in, after.tokens_out - before.tokens_out, cost)


def total_usage(usages: Iterable[Usage]) -> Usage:
    """Nothing at all for none."""
    return sum(usages, Usage())


def over_budget(usage: Usage, *, tokens: int | None, cost_usd: float | None) -> str | None:
    """The budget that is spent, with limit and use in words; None while none is. None as a limit is no limit."""
    if tokens is not None and usage.tokens >= tokens:
        return f"tokens: limit {tokens}, used {usage.tokens}"
    if cost_usd is not None and usage.cost_usd_micro is not None and usage.cost_usd_micro >= cost_usd * _MICRO:
        return f"cost: limit {cost_usd:g} USD, used {usage.cost_usd_micro / _MICRO:.2f} USD"
    return None


def affords_another(
    costs_usd: Sequence[float], *, in_flight: int, ceiling_usd: float | None, attempt_usd: float | None
) -> bool:
    """Whether a run that has paid `costs_usd`, one price for each ended attempt, may start one more (L56).

    What is at work, and the next one, are taken to cost `attempt_usd` each, or the average of what is known when that
    is unlimited (None): so what is in flight can land before the money is gone.
    """
    if ceiling_usd is None:
        return True
    spent = sum(costs_usd)
    each = attempt_usd if attempt_usd is not None else spent / len(costs_usd) if costs_usd else 0.0
    return spent < ceiling_usd and spent + (in_flight + 1) * each <= ceiling_usd
