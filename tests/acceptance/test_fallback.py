"""Who goes on when a runner cannot, whose turn it is, and the one more run when a check fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gitkit
import pytest
from drainkit import AGENTS, Place, ended, reach, section, status_of

PROGRAM = str(Path(__file__).parents[1] / "crash_run.py")
USED_UP = "agent: fails_with agent_quota_exhausted --work\n"


def _runner(agent: str, *arguments: str) -> dict[str, Any]:
    return {"kind": "command", "argv": [sys.executable, str(AGENTS / f"{agent}.py"), *arguments]}


def _runners(place: Place, number: int) -> list[str]:
    """Who ran in the issue's attempt, in order."""
    steps = json.loads((place.attempt(number) / "attempt.json").read_text())["steps"]
    return [step["runner"] for key, step in steps.items() if key.startswith("run-started")]


# ── Fallback ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("code", ["agent_quota_exhausted", "agent_unavailable"])
def test_the_fallback_goes_on_in_the_same_worktree_and_finishes_the_attempt(place: Place, code: str) -> None:
    place.configure(agents={"other": _runner("appends")}, fallback_runner="other")
    place.file(7, "Say hello", f"agent: fails_with {code} --work\n")

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: "done"}), ran.stderr
    assert _runners(place, 7) == ["command", "other"]
    assert place.on_trunk("work-7.txt") == "the work\nand more"
    [envelope] = place.envelopes(7)
    assert "the provider said" in envelope
    assert "other went on" in envelope
    prompts = [path.read_text() for path in sorted(place.attempt(7).glob("runs/*-agent/prompt"))]
    assert prompts[1].startswith("# Go on with issue #7: Say hello\n")
    assert prompts[1].endswith(prompts[0])


def test_a_fallback_that_cannot_go_on_either_ends_the_attempt_with_what_it_told(place: Place) -> None:
    place.configure(agents={"other": _runner("fails_with", "agent_unavailable")}, fallback_runner="other")
    place.file(7, body=USED_UP)
    ran = place.run("--once")
    assert ran.outcomes == {7: "runner-transient"}, ran.stderr
    assert _runners(place, 7) == ["command", "other"]
    assert "agent_quota_exhausted; other went on" in section(place.envelopes(7)[0], "outcome")


def test_once_an_account_is_used_up_the_next_issue_begins_with_the_fallback(place: Place) -> None:
    place.configure(agents={"other": _runner("done")}, fallback_runner="other")
    place.file(7, body=USED_UP)
    place.file(8, body=USED_UP)
    ran = place.run()
    assert ran.outcomes == {7: "done", 8: "done"}, ran.stderr
    assert (_runners(place, 7), _runners(place, 8)) == (["command", "other"], ["other"])


def test_a_run_whose_every_account_is_used_up_ends_with_75(place: Place) -> None:
    place.configure(agents={"other": _runner("fails_with", "agent_quota_exhausted")}, fallback_runner="other")
    place.file(7, body=USED_UP)
    place.file(8, body=USED_UP)
    ran = place.run()
    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (75, "exhausted", {7: "exhausted"}), ran.stderr
    assert place.labels(8) == {"ready-for-agent"}


@pytest.mark.parametrize(
    ("moment", "step"), [("after", "run-told:1"), ("before", "run-started:2"), ("after", "run-started:2")]
)
def test_a_death_on_the_way_to_the_fallback_changes_nothing(place: Place, moment: str, step: str) -> None:
    place.configure(agents={"other": _runner("done")}, fallback_runner="other")
    place.file(7, body=USED_UP)
    assert ended(place.start(moment, step, program=[PROGRAM])).code == -9
    ran = place.run()
    assert ran.outcomes == {7: "done"}, ran.stderr
    assert _runners(place, 7) == ["command", "other"]
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


def test_flags_name_fallback_and_turns_for_one_run(place: Place) -> None:
    place.configure(agents={"other": _runner("done"), "third": _runner("done")})
    place.file(7, body=USED_UP)
    assert place.run("--fallback-runner", "other").outcomes == {7: "done"}
    for number in (8, 9):
        place.file(number)
    assert place.run("--alternate", "other,third").code == 0
    assert [_runners(place, number) for number in (8, 9)] == [["command"], ["other"]]


@pytest.mark.parametrize("flags", [("--fallback-runner", "nobody"), ("--alternate", "other,nobody")])
def test_a_runner_that_does_not_exist_is_refused_before_anything_is_claimed(
    place: Place, flags: tuple[str, str]
) -> None:
    place.configure(agents={"other": _runner("done")})
    place.file(7)
    ran = place.run(*flags)
    assert ran.code == 4
    assert f"afk.{flags[0][2:].replace('-', '_')}" in ran.error["message"]
    assert "names no runner" in ran.error["message"]
    assert place.claims() == {}


# ── Turns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_runners_take_turns_from_issue_to_issue(place: Place) -> None:
    place.configure(agents={"other": _runner("done")}, alternate=["other"])
    for number in range(1, 5):
        place.file(number)
    assert place.run().outcomes == dict.fromkeys(range(1, 5), "done")
    assert [_runners(place, number) for number in range(1, 5)] == [["command"], ["other"], ["command"], ["other"]]


def test_whose_account_is_used_up_is_passed_over(place: Place) -> None:
    place.configure(
        agents={"other": _runner("done")}, alternate=["other"], recovery={"backoff_s": 3600, "backoff_max_s": 3600}
    )
    place.file(1, body=USED_UP)
    for number in (2, 3):
        place.file(number)
    ran = place.run()
    assert (ran.code, ran.outcomes) == (0, {1: "exhausted", 2: "done", 3: "done"}), ran.stderr
    assert [_runners(place, number) for number in (1, 2, 3)] == [["command"], ["other"], ["other"]]


# ── A check that fails ──────────────────────────────────────────────────────────────────────────────────────────────

ANSWER = {"checks": [{"name": "answer", "run": 'read n < answer.txt; [ "$n" = 42 ] || { echo expected 42; exit 1; }'}]}


def test_a_check_that_fails_is_the_agents_to_mend_once(place: Place) -> None:
    place.configure("mends", validation=ANSWER)
    place.file(7, "Say the answer")
    ran = place.run()
    assert ran.outcomes == {7: "done"}, ran.stderr
    assert place.on_trunk("answer.txt") == "42"
    assert len(_runners(place, 7)) == 2
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("nothing", "asked to mend it, the agent changed nothing"),
        ("dirty", "asked to mend it, the agent left changes uncommitted"),
        ("worse", "expected 42"),
    ],
)
def test_what_the_agent_cannot_mend_waits_for_a_person(place: Place, how: str, told: str) -> None:
    place.configure("mends", how, validation=ANSWER)
    place.file(7)
    ran = place.run()
    assert ran.outcomes == {7: "feedback-failed"}, ran.stderr
    assert told in section(place.envelopes(7)[0], "outcome")
    assert len(_runners(place, 7)) == 2
    assert place.labels(7) == {"ready-for-human", "blocked:validation"}


def test_a_person_may_keep_checks_from_being_mended(place: Place) -> None:
    place.configure("mends", validation=ANSWER, landing={"mend_checks": False})
    place.file(7)
    assert place.run().outcomes == {7: "feedback-failed"}
    assert len(_runners(place, 7)) == 1


@pytest.mark.parametrize("step", ["validated:1", "run-started:2", "run-ended:2"])
def test_a_death_while_a_check_is_mended_changes_nothing(place: Place, step: str) -> None:
    place.configure("mends", validation=ANSWER)
    place.file(7)
    assert ended(place.start("after", step, program=[PROGRAM])).code == -9
    ran = place.run()
    assert ran.outcomes == {7: "done"}, ran.stderr
    assert len(_runners(place, 7)) == 2


def test_a_base_that_moves_while_a_check_is_mended_is_merged_and_checked(place: Place, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.configure("mends", "waits", str(ready), str(go), validation=ANSWER)
    place.file(7)
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent that mends")
    place.push("meanwhile", {"theirs.txt": "theirs\n"})
    go.touch()
    assert ended(process).outcomes == {7: "done"}
    assert (place.on_trunk("answer.txt"), place.on_trunk("theirs.txt")) == ("42", "theirs")
    gitkit.git(place.origin, "fsck", "--no-dangling")
