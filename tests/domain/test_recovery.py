"""Requeue or park: tries, backoff, and what costs none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from afk.domain.outcome import OUTCOMES, Outcome
from afk.domain.recovery import (
    Park,
    PastAttempt,
    Requeue,
    attempts_used,
    is_charged,
    marked,
    next_step,
    waits_until,
)

NOW = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)
TRIES = {
    "crashed": 2,
    "merge-conflict": 3,
    "policy": 1,
    "quota": 3,
    "runner-transient": 3,
    "stalled": 3,
    "wall-clock-capped": 3,
}


def past(*outcomes: Outcome | None, charged: bool = True, not_before: datetime | None = None) -> list[PastAttempt]:
    """Attempts an hour apart, the last one an hour ago."""
    return [
        PastAttempt(n, "blocked", outcome, NOW - timedelta(hours=len(outcomes) - n + 1), not_before, charged)
        for n, outcome in enumerate(outcomes, start=1)
    ]


def step(outcome: Outcome, history: list[PastAttempt], **changes: object) -> Requeue | Park:
    arguments: dict[str, object] = {
        "tries": TRIES,
        "per_issue": 6,
        "backoff_s": 60,
        "backoff_max_s": 3600,
        "now": NOW,
        "jitter": 0.0,
    }
    return next_step(outcome, history, **(arguments | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "allowed"),
    [
        (Outcome.NO_SENTINEL, 2),
        (Outcome.MERGE_CONFLICT, 3),
        (Outcome.HOOK_ABORTED, 1),
        (Outcome.EXHAUSTED, 3),
        (Outcome.RUNNER_TRANSIENT, 3),
        (Outcome.STALLED, 3),
        (Outcome.WALL_CLOCK_CAPPED, 3),
    ],
)
def test_each_key_has_its_tries_and_parks_at_the_last(outcome: Outcome, allowed: int) -> None:
    """R56, R57: each kind of failure has a counter of its own, running out of time too."""
    for earlier in range(allowed - 1):
        assert isinstance(step(outcome, past(*[outcome] * earlier)), Requeue)
    parked = step(outcome, past(*[outcome] * (allowed - 1)))
    assert parked == Park(OUTCOMES[outcome].label or "", f"{allowed} of {allowed} tries ended so")


@pytest.mark.parametrize(
    ("outcome", "label"),
    [
        (Outcome.BLOCKED, "blocked:spec"),
        (Outcome.FEEDBACK_FAILED, "blocked:validation"),
        (Outcome.INFRA, "blocked:infra"),
    ],
)
def test_an_outcome_without_a_key_parks_at_once(outcome: Outcome, label: str) -> None:
    assert step(outcome, []) == Park(label, "")


def test_a_label_of_its_own_parks_under_that_label() -> None:
    assert step(Outcome.BLOCKED, [], label="blocked:budget") == Park("blocked:budget", "")


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.CLAIM_LOST])
def test_nothing_is_decided_for_what_needs_no_recovery(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match=outcome):
        step(outcome, [])


def test_only_consecutive_failures_with_the_same_key_count() -> None:
    crash, conflict = Outcome.NO_SENTINEL, Outcome.MERGE_CONFLICT
    assert isinstance(step(crash, past(crash)), Park)
    assert isinstance(step(crash, past(crash, conflict)), Requeue)
    assert isinstance(step(crash, past(crash, Outcome.DONE)), Requeue)
    assert isinstance(step(crash, past(crash, None)), Park)


def test_a_human_directive_starts_the_count_anew() -> None:
    history = past(*[Outcome.NO_SENTINEL] * 6)
    assert isinstance(step(Outcome.NO_SENTINEL, history), Park)
    assert isinstance(step(Outcome.NO_SENTINEL, history, directive_at=NOW - timedelta(minutes=1)), Requeue)
    assert attempts_used(history, NOW - timedelta(minutes=1)) == 0


def test_one_cap_for_an_issue_whatever_the_keys() -> None:
    """R84"""
    mixed = past(*[Outcome.NO_SENTINEL, Outcome.MERGE_CONFLICT] * 3)[:5]
    assert step(Outcome.STALLED, mixed) == Park("blocked:stalled", "6 of 6 attempts at this issue are used")
    assert isinstance(step(Outcome.STALLED, mixed[:4]), Requeue)


def test_the_wait_doubles_up_to_its_ceiling() -> None:
    """S52, L05"""

    def wait_s(earlier: int, jitter: float = 1.0) -> float:
        many = {"tries": {"quota": 99}, "per_issue": 99, "jitter": jitter}
        requeued = step(Outcome.EXHAUSTED, past(*[Outcome.EXHAUSTED] * earlier), **many)
        assert isinstance(requeued, Requeue)
        assert requeued.not_before is not None
        return (requeued.not_before - NOW).total_seconds()

    assert [wait_s(earlier) for earlier in range(8)] == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert wait_s(90) == 3600
    assert wait_s(2, jitter=0.0) == 120


def test_an_operators_stop_costs_no_try_and_waits_for_nothing() -> None:
    history = past(*[Outcome.NO_SENTINEL] * 6)
    assert step(Outcome.INFRA, history, stopped=True) == Requeue(None, 7, charged=False)


def test_a_told_reset_is_waited_for_and_costs_no_try() -> None:
    """R54"""
    reset = NOW + timedelta(hours=5)
    history = past(*[Outcome.EXHAUSTED] * 2)
    assert isinstance(step(Outcome.EXHAUSTED, history), Park)
    assert step(Outcome.EXHAUSTED, history, told_reset=reset, jitter=0.5) == Requeue(
        reset + timedelta(seconds=30), 3, charged=False
    )


def test_a_reset_that_is_told_wrongly_is_asked_about_ever_more_rarely() -> None:
    """R54, L05: it costs no try, so only the wait keeps the issue from being tried for ever in a circle."""
    past_reset = NOW - timedelta(hours=1)
    waits = []
    for earlier in range(8):
        history = past(*[Outcome.EXHAUSTED] * earlier, charged=False)
        requeued = step(Outcome.EXHAUSTED, history, told_reset=past_reset, jitter=1.0)
        assert requeued == Requeue(requeued.not_before, 1, charged=False)  # type: ignore[union-attr]
        waits.append((requeued.not_before - NOW).total_seconds())  # type: ignore[union-attr, operator]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_a_reset_in_another_century_is_not_believed() -> None:
    """R54: the wait for something unknown is bounded."""
    requeued = step(Outcome.EXHAUSTED, [], told_reset=NOW + timedelta(days=9999))
    assert requeued == Requeue(NOW + timedelta(seconds=30), 2)


def test_attempts_that_cost_nothing_count_nowhere_and_break_no_run() -> None:
    crash = Outcome.NO_SENTINEL
    stopped = past(crash, Outcome.INFRA)
    stopped[1] = PastAttempt(2, "blocked", Outcome.INFRA, NOW, charged=False)
    assert isinstance(step(crash, stopped), Park)
    assert attempts_used(stopped) == 1


def test_a_reason_tells_any_reader_that_no_try_was_charged() -> None:
    told = marked("stopped by the operator", charged=False)
    assert told == "stopped by the operator (no try charged)"
    assert marked(told, charged=False) == told
    assert not is_charged(told)
    assert is_charged(marked("stopped by the operator", charged=True))
    assert not is_charged(marked("", charged=False))


@pytest.mark.parametrize("said", ["429 (no try charged)", "(no try charged)", "x (no try charged) (no try charged)"])
def test_an_agent_cannot_say_that_its_try_was_not_charged(said: str) -> None:
    """R84: the words of a runner stand in the reason, and would lift the cap of an issue for ever."""
    assert is_charged(marked(said, charged=True))


def test_an_issue_waits_for_the_time_of_its_last_attempt_until_people_speak() -> None:
    later = NOW + timedelta(hours=1)
    history = past(Outcome.EXHAUSTED, Outcome.EXHAUSTED, not_before=later)
    assert waits_until(history) == later
    assert waits_until(history, NOW) is None
    assert waits_until([]) is None
