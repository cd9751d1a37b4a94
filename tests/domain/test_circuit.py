from __future__ import annotations

from dataclasses import replace

import pytest

from afk.domain.circuit import Terms, is_fast_death, signature, trips
from afk.domain.outcome import EndedBy, Outcome, RunEvidence, RunPurpose, Sentinel

TERMS = Terms(fast_death_s=30, count=5, window_s=90, cooldown_s=900)
DIED = RunEvidence(purpose=RunPurpose.WORK, exit_code=1)


def fast(
    evidence: RunEvidence, *, lived_s: float = 2, committed: bool = False, of: Outcome = Outcome.NO_SENTINEL
) -> bool:
    return is_fast_death(of, evidence, lived_s=lived_s, committed=committed, terms=TERMS)


@pytest.mark.parametrize(
    "evidence",
    [DIED, replace(DIED, exit_code=None, signal=9), replace(DIED, exit_code=0, end="bad", failure="refused")],
)
def test_an_agent_that_dies_right_after_its_start_and_leaves_nothing_died_fast(evidence: RunEvidence) -> None:
    assert fast(evidence)
    assert fast(evidence, lived_s=30)
    assert not fast(evidence, lived_s=30.1)
    assert not fast(evidence, committed=True)


@pytest.mark.parametrize(
    "evidence",
    [
        replace(DIED, exit_code=0),
        replace(DIED, end="good"),
        replace(DIED, exit_code=None, lost=True),
        replace(DIED, sentinel=Sentinel.BLOCKED),
        *(replace(DIED, ended_by=why) for why in EndedBy),
    ],
)
def test_neither_a_clean_exit_nor_a_last_word_nor_an_end_of_our_making_is_a_fast_death(evidence: RunEvidence) -> None:
    assert not fast(evidence)


def test_an_account_that_is_used_up_holds_everybody_anyway() -> None:
    assert not fast(DIED, of=Outcome.EXHAUSTED)


@pytest.mark.parametrize(
    ("deaths", "tripped"),
    [
        ([], False),
        ([100, 100, 100, 100], False),
        ([10, 40, 60, 80, 100], True),
        ([9, 40, 60, 80, 100], False),
        ([0, 1, 2, 3, 4], False),
    ],
)
def test_five_fast_deaths_within_the_window_are_too_many(deaths: list[float], tripped: bool) -> None:
    assert trips(deaths, 100, TERMS) is tripped


def test_ends_in_the_same_words_are_alike_whatever_issue_sha_or_path_they_name() -> None:
    """L13."""
    one = signature(Outcome.INFRA, "setup `npm ci` failed with 1 in /a/b/wZ2R4/7-a1 at deadbeef01")
    other = signature(Outcome.INFRA, "setup `npm ci` failed with 1 in /a/b/wK3T5/12-a3 at 0123456789ab")
    assert one == other
    assert one != signature(Outcome.INFRA, "could not make the worktree: no space left")
