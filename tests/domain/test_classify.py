"""What the end of a run comes to: a table from evidence and git facts to verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.domain.outcome import (
    EndedBy,
    GitFacts,
    Outcome,
    RunEvidence,
    RunPurpose,
    Verdict,
    VerdictKind,
    classify,
)
from afk.domain.sentinel import Sentinel
from afk.domain.usage import Usage

RESET = datetime(2026, 5, 17, 15, 0, tzinfo=UTC)

WORK = GitFacts(commits_ahead=2, changed_files=3)
NOTHING = GitFacts(commits_ahead=0, changed_files=0)
DIRTY = GitFacts(commits_ahead=2, changed_files=3, dirty=("a.py", "b.py"))
EMPTY = GitFacts(commits_ahead=2, changed_files=0)
UNKNOWN = GitFacts(commits_ahead=None, changed_files=None)

EXITED = RunEvidence(program="codex", exit_code=0)
DONE = replace(EXITED, sentinel=Sentinel.DONE)
BLOCKED = replace(EXITED, sentinel=Sentinel.BLOCKED)
SECOND = replace(EXITED, purpose=RunPurpose.COMMIT_YOUR_WORK)


def outcome(evidence: RunEvidence, facts: GitFacts = WORK, *, salvage: bool = True) -> Outcome | VerdictKind:
    verdict = classify(evidence, facts, salvage=salvage)
    return verdict.outcome or verdict.kind


def killed(by: EndedBy, evidence: RunEvidence = EXITED) -> RunEvidence:
    return replace(evidence, ended_by=by, exit_code=None, signal=15)


# ── DONE is a claim ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("evidence", "facts", "expected"),
    [
        (DONE, WORK, VerdictKind.VALIDATE),
        (replace(DONE, exit_code=3), WORK, VerdictKind.VALIDATE),
        (replace(DONE, exit_code=127), WORK, VerdictKind.VALIDATE),
        (replace(DONE, exit_code=None, lost=True), WORK, VerdictKind.VALIDATE),
        (DONE, DIRTY, VerdictKind.RERUN),
        (DONE, replace(NOTHING, dirty=("a",)), VerdictKind.RERUN),
        (DONE, NOTHING, Outcome.BLOCKED),
        (DONE, EMPTY, Outcome.BLOCKED),
        (DONE, UNKNOWN, Outcome.INFRA),
        (BLOCKED, WORK, Outcome.BLOCKED),
        (BLOCKED, DIRTY, Outcome.BLOCKED),
    ],
)
def test_a_sentinel_is_weighed_against_git(evidence: RunEvidence, facts: GitFacts, expected: object) -> None:
    """R45, L30, L31"""
    assert outcome(evidence, facts) == expected


def test_a_dirty_tree_gets_one_more_run_to_commit() -> None:
    """R47"""
    assert classify(DONE, DIRTY, salvage=True).rerun is RunPurpose.COMMIT_YOUR_WORK


@pytest.mark.parametrize(
    ("evidence", "facts", "expected"),
    [
        (SECOND, WORK, VerdictKind.VALIDATE),
        (replace(SECOND, exit_code=1), WORK, VerdictKind.VALIDATE),
        (replace(SECOND, sentinel=Sentinel.DONE), WORK, VerdictKind.VALIDATE),
        (replace(SECOND, sentinel=Sentinel.BLOCKED), WORK, Outcome.BLOCKED),
        (SECOND, NOTHING, Outcome.BLOCKED),
        (SECOND, DIRTY, Outcome.BLOCKED),
        (replace(SECOND, sentinel=Sentinel.DONE), DIRTY, Outcome.BLOCKED),
        (replace(SECOND, lost=True, exit_code=None), DIRTY, Outcome.NO_SENTINEL),
    ],
)
def test_the_run_that_commits_is_judged_by_what_it_left(
    evidence: RunEvidence, facts: GitFacts, expected: object
) -> None:
    """R47: it need not say DONE again, and there is no third run."""
    assert outcome(evidence, facts) == expected


def test_reasons_name_what_is_wrong() -> None:
    assert classify(DONE, NOTHING, salvage=True).reason == "the agent said DONE and committed nothing"
    assert classify(DONE, EMPTY, salvage=True).reason.startswith("no change")
    many = replace(DIRTY, dirty=tuple(f"f{n}" for n in range(9)))
    assert classify(SECOND, many, salvage=True).reason.endswith("f0, f1, f2, f3, f4 and 4 more")


# ── Without a sentinel ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("evidence", "facts", "expected"),
    [
        (EXITED, WORK, VerdictKind.VALIDATE),
        (replace(EXITED, end="good", exit_code=1), WORK, VerdictKind.VALIDATE),
        (replace(EXITED, end="bad"), WORK, Outcome.NO_SENTINEL),
        (replace(EXITED, exit_code=1), WORK, Outcome.NO_SENTINEL),
        (replace(EXITED, exit_code=None, signal=9), WORK, Outcome.NO_SENTINEL),
        (replace(EXITED, exit_code=None, lost=True), WORK, Outcome.NO_SENTINEL),
        (EXITED, DIRTY, Outcome.NO_SENTINEL),
        (EXITED, NOTHING, Outcome.NO_SENTINEL),
        (EXITED, EMPTY, Outcome.NO_SENTINEL),
        (EXITED, UNKNOWN, Outcome.NO_SENTINEL),
        (replace(EXITED, exit_code=127), NOTHING, Outcome.INFRA),
        (replace(EXITED, exit_code=126), NOTHING, Outcome.INFRA),
        (replace(EXITED, exit_code=127, end="bad"), NOTHING, Outcome.NO_SENTINEL),
    ],
)
def test_complete_work_of_an_agent_that_ended_well_is_salvaged_and_nothing_else(
    evidence: RunEvidence, facts: GitFacts, expected: object
) -> None:
    """R40, R44, L32, L39"""
    assert outcome(evidence, facts) == expected


def test_salvage_is_marked_and_can_be_switched_off() -> None:
    """R44"""
    assert classify(EXITED, WORK, salvage=True) == Verdict(VerdictKind.VALIDATE, salvaged=True)
    assert outcome(EXITED, WORK, salvage=False) == Outcome.NO_SENTINEL
    assert not classify(DONE, WORK, salvage=True).salvaged


def test_a_missing_program_names_itself_and_what_to_type() -> None:
    """L39"""
    reason = classify(replace(EXITED, exit_code=127), NOTHING, salvage=True).reason
    assert reason == "codex could not be run (exit code 127); next: afk doctor"


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (replace(EXITED, exit_code=3), "exit code 3"),
        (replace(EXITED, exit_code=None, signal=9), "killed by signal 9"),
        (replace(EXITED, exit_code=None, lost=True, ended_by="keeper-lost"), "its keeper was lost"),
        (replace(EXITED, end="bad", failure_text="boom"), "exit code 0: boom"),
    ],
)
def test_no_sentinel_says_how_it_went(evidence: RunEvidence, reason: str) -> None:
    """L40"""
    assert classify(evidence, NOTHING, salvage=True).reason == reason


def test_an_agent_that_the_kernel_ended_is_no_failure_of_the_work() -> None:
    """L40: told by the receipt of its death, and no word against what it had already finished."""
    dead = replace(EXITED, exit_code=None, signal=9, ended_by="oom")
    verdict = classify(dead, NOTHING, salvage=True)
    assert verdict.outcome is Outcome.INFRA
    assert verdict.reason.startswith("out of memory: the kernel ended the agent")
    assert classify(dead, WORK, salvage=True).outcome is Outcome.INFRA
    assert classify(replace(dead, sentinel=Sentinel.DONE), WORK, salvage=True).kind is VerdictKind.VALIDATE


def test_an_agent_that_waited_for_its_service_ends_as_that() -> None:
    """R56, L38: nothing told an end, and nothing was done since the last retry."""
    waiting = EXITED.seeing("retrying", "overloaded (529)")
    assert outcome(waiting, NOTHING) == Outcome.RUNNER_TRANSIENT
    assert "overloaded (529)" in classify(waiting, NOTHING, salvage=True).reason
    for kind in ("text", "text_part", "shell", "read", "edit", "tool", "tool_output", "end_good"):
        assert outcome(waiting.seeing(kind), NOTHING) == Outcome.NO_SENTINEL
    for kind in ("usage", "noise", "session"):
        assert outcome(waiting.seeing(kind), NOTHING) == Outcome.RUNNER_TRANSIENT
    assert outcome(killed(EndedBy.SILENCE, waiting), NOTHING) == Outcome.STALLED
    assert outcome(waiting.seeing("refused", "no key"), NOTHING) == Outcome.INFRA


def test_exit_code_0_is_no_good_end_of_a_stream_that_should_have_told_one() -> None:
    """R40: claude and gemini exit with 0 when they are interrupted."""
    told = replace(EXITED, tells_end=True)
    assert outcome(told) == Outcome.NO_SENTINEL
    assert outcome(told.seeing("end_good")) == VerdictKind.VALIDATE


# ── Our own kill comes first ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (killed(EndedBy.STOP), Outcome.INFRA),
        (killed(EndedBy.STOP, DONE), Outcome.INFRA),
        (killed(EndedBy.CLAIM_LOST, DONE), Outcome.CLAIM_LOST),
        (killed(EndedBy.WITHDRAWN, DONE), Outcome.BLOCKED),
        (killed(EndedBy.BUDGET, DONE), Outcome.BLOCKED),
        (killed(EndedBy.WALL_CLOCK), Outcome.WALL_CLOCK_CAPPED),
        (killed(EndedBy.SILENCE), Outcome.STALLED),
        (killed(EndedBy.SILENCE, replace(EXITED, failure="transient")), Outcome.STALLED),
        (killed(EndedBy.GRACE, DONE), VerdictKind.VALIDATE),
        (killed(EndedBy.GRACE, BLOCKED), Outcome.BLOCKED),
        (killed(EndedBy.GRACE, replace(DONE, failure="transient", end="bad")), VerdictKind.VALIDATE),
        # Inside the grace the work was over: a ceiling that strikes then takes nothing back.
        (killed(EndedBy.WALL_CLOCK, DONE), VerdictKind.VALIDATE),
        (killed(EndedBy.SILENCE, BLOCKED), Outcome.BLOCKED),
    ],
)
def test_our_own_reason_outranks_what_the_agent_left(evidence: RunEvidence, expected: object) -> None:
    """L20, L28"""
    assert outcome(evidence) == expected


def test_no_time_is_left_to_commit_in_after_a_ceiling() -> None:
    assert outcome(killed(EndedBy.WALL_CLOCK, DONE), DIRTY) == Outcome.WALL_CLOCK_CAPPED
    assert outcome(killed(EndedBy.GRACE, DONE), DIRTY) == VerdictKind.RERUN


def test_a_stop_and_a_withdrawn_issue_are_marked() -> None:
    assert classify(killed(EndedBy.STOP), WORK, salvage=True).as_ended().stopped
    assert classify(killed(EndedBy.WITHDRAWN), WORK, salvage=True).as_ended().withdrawn


def test_a_budget_is_named_and_has_a_label_of_its_own() -> None:
    """L21"""
    evidence = replace(killed(EndedBy.BUDGET), ended_detail="tokens: limit 1000, used 1204")
    ended = classify(evidence, WORK, salvage=True).as_ended()
    assert (ended.label, ended.reason) == ("blocked:budget", "budget spent: tokens: limit 1000, used 1204")


def test_a_ceiling_carries_its_numbers() -> None:
    evidence = replace(killed(EndedBy.WALL_CLOCK), ended_detail="wall clock, limit 2700 s, elapsed 2701 s")
    assert classify(evidence, WORK, salvage=True).reason == evidence.ended_detail


# ── Then the stream's own end ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("limit", Outcome.EXHAUSTED),
        ("transient", Outcome.RUNNER_TRANSIENT),
        ("refused", Outcome.INFRA),
        ("unfit", Outcome.BLOCKED),
    ],
)
def test_a_structured_failure_decides_whatever_the_exit_code(kind: str, expected: Outcome) -> None:
    """R53, R56"""
    for exit_code in (0, 1, 129, 173):
        evidence = replace(EXITED, exit_code=exit_code).seeing(kind, "the provider's\n words")
        assert outcome(evidence) == expected
        assert outcome(evidence.seeing("end_bad", "less exact")) == expected
        assert classify(evidence, WORK, salvage=True).reason == "the provider's words"


def test_a_told_reset_travels_to_the_end() -> None:
    """R54"""
    verdict = classify(EXITED.seeing("limit", "usage limit", RESET), NOTHING, salvage=True)
    assert verdict.as_ended().not_before == RESET


def test_a_failure_that_was_overcome_is_history() -> None:
    limited = EXITED.seeing("limit", "slow down", RESET)
    assert outcome(limited.hearing(Sentinel.DONE)) == VerdictKind.VALIDATE
    assert outcome(limited.seeing("end_good")) == VerdictKind.VALIDATE
    assert outcome(limited.hearing(None)) == Outcome.EXHAUSTED
    assert outcome(DONE.seeing("limit", "and then")) == Outcome.EXHAUSTED


def test_a_bad_end_without_a_name_leaves_the_word_to_sentinel_and_git() -> None:
    assert outcome(DONE.seeing("end_bad", "hm")) == VerdictKind.VALIDATE
    assert outcome(EXITED.seeing("end_bad", "hm")) == Outcome.NO_SENTINEL


def test_other_events_are_no_evidence() -> None:
    """R55: free text is never read for the reason of an end."""
    assert EXITED.seeing("text", "HTTP 429: quota exceeded") == EXITED
    assert EXITED.seeing("tool_output", "500 Internal Server Error") == EXITED


# ── Journal ─────────────────────────────────────────────────────────────────────────────────────────────────────────

evidences = st.builds(
    RunEvidence,
    purpose=st.sampled_from(RunPurpose),
    program=st.text(max_size=5),
    ended_by=st.none() | st.sampled_from([*EndedBy, "keeper-lost"]),
    ended_detail=st.text(max_size=5),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | st.integers(1, 64),
    lost=st.booleans(),
    sentinel=st.none() | st.sampled_from(Sentinel),
    failure=st.none() | st.sampled_from(["limit", "transient", "refused", "unfit"]),
    failure_text=st.text(max_size=5),
    resets_at=st.none() | st.just(RESET),
    end=st.none() | st.sampled_from(["good", "bad"]),
    tells_end=st.booleans(),
    retrying=st.text(max_size=5),
    usage=st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 9)),
)


@given(evidences)
def test_evidence_survives_the_journal(evidence: RunEvidence) -> None:
    record = json.loads(json.dumps(evidence.to_dict()))
    back = RunEvidence.from_dict(record)
    assert back == evidence
    assert isinstance(back.purpose, RunPurpose)
    assert back.sentinel is None or isinstance(back.sentinel, Sentinel)


def test_a_record_of_another_version_is_read_as_far_as_it_goes() -> None:
    assert RunEvidence.from_dict({}) == RunEvidence()
    assert RunEvidence.from_dict({"exit_code": 3, "added_later": [1]}) == RunEvidence(exit_code=3)
    with pytest.raises(ValueError, match="purpose"):
        RunEvidence.from_dict({"purpose": "no such purpose"})


@given(evidences, st.sampled_from([WORK, NOTHING, DIRTY, EMPTY, UNKNOWN]), st.booleans())
def test_every_evidence_comes_to_one_verdict(evidence: RunEvidence, facts: GitFacts, salvage: bool) -> None:
    verdict = classify(evidence, facts, salvage=salvage)
    assert (verdict.outcome is not None) == (verdict.kind is VerdictKind.ENDED)
    assert (verdict.rerun is not None) == (verdict.kind is VerdictKind.RERUN)
    assert verdict.outcome not in (Outcome.DONE, Outcome.FEEDBACK_FAILED, Outcome.MERGE_CONFLICT)
    if verdict.kind is VerdictKind.VALIDATE:
        assert facts is WORK


def test_only_an_end_becomes_the_exception() -> None:
    with pytest.raises(ValueError, match="validate"):
        classify(DONE, WORK, salvage=True).as_ended()
