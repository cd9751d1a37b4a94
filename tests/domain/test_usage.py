"""What an agent used, however often and in whatever portions it tells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.domain.usage import Usage, UsageMeter, affords_another, over_budget, total_usage

counts = st.integers(0, 1000)
usages = st.builds(Usage, counts, counts, st.none() | counts)
told = st.lists(st.tuples(usages, st.none() | st.sampled_from(["a", "b", "c"])), max_size=12)


def metered(rows: list[tuple[Usage, str | None]]) -> Usage | None:
    meter = UsageMeter()
    for usage, part in rows:
        meter.tell(usage, part)
    return meter.total


def test_nothing_told_is_not_nothing_used() -> None:
    assert metered([]) is None
    assert metered([(Usage(), None)]) == Usage()


def test_parts_add_up_and_a_part_said_again_replaces_itself() -> None:
    """R42: usage by message id, repeated with each line of the message."""
    rows = [(Usage(10, 1), "m1"), (Usage(10, 5), "m1"), (Usage(10, 5), "m1"), (Usage(20, 2, 7), "m2")]
    assert metered(rows) == Usage(30, 7, 7)


def test_the_whole_outranks_parts_that_it_holds() -> None:
    """R42: cumulative and part usage are never added to each other."""
    assert metered([(Usage(10, 1), "m1"), (Usage(12, 3, 99), None)]) == Usage(12, 3, 99)
    assert metered([(Usage(12, 3, 99), None), (Usage(100, 1), "m1")]) == Usage(100, 3, 99)


@given(told)
def test_totals_are_the_same_under_replay_and_never_sink(rows: list[tuple[Usage, str | None]]) -> None:
    """R42, S77"""
    whole = metered(rows)
    assert metered([*rows, *rows]) == whole
    for cut in range(len(rows)):
        before = metered(rows[:cut])
        assert before is None or (whole is not None and whole.at_least(before) == whole)


@given(told)
def test_sums_are_what_adding_the_parts_afresh_gives(rows: list[tuple[Usage, str | None]]) -> None:
    parts: dict[str, Usage] = {}
    for usage, part in rows:
        if part is not None:
            parts[part] = usage.at_least(parts.get(part, usage))
    if parts and all(part is not None for _, part in rows):
        assert metered(rows) == total_usage(parts.values())


@given(usages)
def test_usage_survives_the_journal(usage: Usage) -> None:
    assert Usage.from_dict(usage.to_dict() | {"later": 1}) == usage


@pytest.mark.parametrize(
    ("usage", "tokens", "cost_usd", "spent"),
    [
        (Usage(600, 400), None, None, None),
        (Usage(600, 400), 1001, None, None),
        (Usage(600, 404), 1000, None, "tokens: limit 1000, used 1004"),
        (Usage(600, 400, 1_620_000), 5000, 1.5, "cost: limit 1.5 USD, used 1.62 USD"),
        (Usage(600, 400, 1_490_000), None, 1.5, None),
        (Usage(600, 400, None), None, 0.01, None),
    ],
)
def test_a_spent_budget_is_named_with_its_numbers(
    usage: Usage, tokens: int | None, cost_usd: float | None, spent: str | None
) -> None:
    assert over_budget(usage, tokens=tokens, cost_usd=cost_usd) == spent


@pytest.mark.parametrize(
    ("costs", "in_flight", "each", "affords"),
    [
        ([], 0, None, True),  # nothing is known yet
        ([], 3, None, True),
        ([], 0, 11.0, False),
        ([], 1, 5.0, True),
        ([], 2, 5.0, False),
        ([4.0, 4.0], 0, None, False),
        ([2.0, 2.0], 0, None, True),
        ([2.0, 2.0], 2, None, True),
        ([2.0, 2.0], 3, None, False),
        ([0.0], 5, None, True),
        ([10.0], 0, 0.0, False),
    ],
)
def test_a_run_affords_another_attempt_while_all_at_work_can_still_be_paid(
    costs: list[float], in_flight: int, each: float | None, affords: bool
) -> None:
    """L56, with a ceiling of ten."""
    assert affords_another(costs, in_flight=in_flight, ceiling_usd=10, attempt_usd=each) is affords
    assert affords_another(costs, in_flight=in_flight, ceiling_usd=None, attempt_usd=each)
