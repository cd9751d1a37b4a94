"""How long what attempts left is kept, as a table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from afk.domain.retention import AttemptFacts, IssueStand, Terms, expires_at, judge_attempt, judge_closed

NOW = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)
TERMS = Terms.of_days(parked_posted_days=1, parked_unposted_days=7, attempts=5, attempt_days=14, branch_days=7)
PARKED = AttemptFacts(told_at=NOW, is_kept=True, is_posted=True)


def ago(**ages: float) -> datetime:
    return NOW - timedelta(**ages)


@pytest.mark.parametrize(
    ("facts", "code", "goes"),
    [
        (replace(PARKED, told_at=ago(hours=23)), "young", False),
        (replace(PARKED, told_at=ago(hours=24)), "expired", True),
        (replace(PARKED, told_at=ago(days=6), is_posted=False), "young", False),
        (replace(PARKED, told_at=ago(days=7), is_posted=False), "expired", True),
        (replace(PARKED, told_at=ago(days=13), is_kept=False), "young", False),
        (replace(PARKED, told_at=ago(days=14), is_kept=False), "expired", True),
        (replace(PARKED, newer=4), "young", False),
        (replace(PARKED, newer=5), "superseded", True),
        (replace(PARKED, told_at=None, newer=9), "unfinished", False),
        (replace(PARKED, told_at=ago(days=99), newer=9, is_waiting=True), "waiting", False),
        (replace(PARKED, told_at=ago(days=99), newer=9, in_use="pid 7 is alive"), "in_use", False),
        (replace(PARKED, told_at=NOW + timedelta(days=3)), "young", False),  # a clock that was set back
    ],
)
def test_an_attempts_directory_is_kept_by_what_is_known_of_it(facts: AttemptFacts, code: str, goes: bool) -> None:
    verdict = judge_attempt(facts, TERMS, NOW)
    assert (verdict.code, verdict.goes) == (code, goes)


@pytest.mark.parametrize(
    ("stand", "code", "goes"),
    [
        (IssueStand(False, ago(days=7)), "closed", True),
        (IssueStand(False, ago(days=6)), "young", False),
        (IssueStand(True, ago(days=99)), "open", False),
        (IssueStand(None), "no_issue", False),
        (IssueStand(False, ago(days=99), is_claimed=True), "claimed", False),
    ],
)
def test_a_branch_goes_some_time_after_its_issue_was_closed(stand: IssueStand, code: str, goes: bool) -> None:
    verdict = judge_closed(stand, TERMS, NOW)
    assert (verdict.code, verdict.goes) == (code, goes)


def test_no_directory_outlives_the_bound_for_all() -> None:
    terms = replace(TERMS, parked_unposted=timedelta(days=30))
    assert expires_at(replace(PARKED, is_posted=False), terms) == NOW + timedelta(days=14)


def test_more_days_than_a_calendar_has_are_for_ever() -> None:
    terms = Terms.of_days(
        parked_posted_days=1e300, parked_unposted_days=1e300, attempts=5, attempt_days=1e300, branch_days=1e300
    )
    assert not judge_attempt(replace(PARKED, told_at=ago(days=9999)), terms, NOW).goes
    assert not judge_closed(IssueStand(False, ago(days=9999)), terms, NOW).goes
