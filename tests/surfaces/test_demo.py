"""`afk demo`: the main job on made-up issues, end to end, by the installed command and the packaged agent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gitkit
import pytest
from demokit import Demo
from drainkit import Place
from replaykit import stand_in

from afk.surfaces.commands.demo import _Ended, _program, _sentence, _text
from afk.surfaces.commands.demoproject import DemoProject

pytestmark = pytest.mark.acceptance

ENDS = {
    1: ("done", "done"),
    2: ("done", "done"),
    3: ("blocked", "blocked"),
    4: ("no-sentinel", "no-sentinel"),
    5: ("feedback-failed", "blocked"),
    6: ("merge-conflict", "merge-conflict"),
    7: ("hook-aborted", "blocked"),
    8: (None, None),
}


def test_every_kind_of_end_is_shown(demo: Demo) -> None:
    assert demo.code == 0, demo.stderr
    assert demo.result["schema"] == "afk.demo.v1"
    assert demo.result["run_exit_code"] == 0
    issues = demo.result["issues"]
    assert {issue["issue_number"]: (issue["outcome"], issue["envelope_status"]) for issue in issues} == ENDS
    assert [issue["attempts"] for issue in issues] == [1, 1, 1, 1, 1, 1, 1, 0]


def test_stdout_is_one_line_and_progress_goes_to_stderr(demo: Demo) -> None:
    assert len(demo.lines) == 1
    kinds = {json.loads(line)["kind"] for line in demo.stderr.splitlines()}
    assert kinds == {"progress"}


def test_what_landed_is_on_the_base_and_its_branch_is_gone(demo: Demo) -> None:
    heads = gitkit.refs(demo.origin, "refs/heads/")
    for issue in demo.result["issues"][:2]:
        assert gitkit.git(demo.origin, "merge-base", "--is-ancestor", issue["merge_sha"], "main") == ""
        assert issue["branch_on_remote"] is False
        assert f"refs/heads/{issue['branch']}" not in heads
    assert gitkit.git(demo.origin, "show", "main:wording/slugify.py").startswith("import re")


def test_what_did_not_land_keeps_its_branch(demo: Demo) -> None:
    heads = gitkit.refs(demo.origin, "refs/heads/")
    for issue in demo.result["issues"][2:7]:
        assert issue["merge_sha"] is None
        assert issue["branch_on_remote"] is True
        assert f"refs/heads/{issue['branch']}" in heads


def test_the_checkout_itself_is_not_touched(demo: Demo) -> None:
    assert gitkit.git(demo.checkout, "status", "--porcelain") == ""
    assert gitkit.log(demo.checkout) == ["wording: begin"]


def test_no_claim_is_left(demo: Demo) -> None:
    assert gitkit.refs(demo.origin, "refs/afk/") == {}


def test_a_real_agent_works_on_the_same_issues_without_the_script(place: Place, tmp_path: Path) -> None:
    """Here a program that replays what codex printed once; the real one is for `scripts/e2e-agents`."""
    agent = stand_in(place, tmp_path / "bin", "codex")
    ran = place.afk("demo", "--dir", str(tmp_path / "demo"), "--runner", "codex")
    assert ran.payload["run_exit_code"] == 0, ran.stderr
    assert {issue["outcome"] for issue in ran.payload["issues"]} == {"done"}
    assert len(agent.notes) == 8
    told = "".join(path.read_text() for path in (tmp_path / "demo/project/.red/issues").glob("*/issue.md"))
    assert "demo: " not in told


def test_an_agent_that_is_not_there_is_said_before_anything_is_made(place: Place, tmp_path: Path) -> None:
    place.environ["PATH"] = str(tmp_path)
    ran = place.afk("demo", "--dir", str(tmp_path / "demo"), "--runner", "gemini")
    assert (ran.code, ran.error["code"]) == (4, "invalid_input")
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("there", ["file", "filled"])
def test_nothing_is_made_where_something_is(place: Place, tmp_path: Path, there: str) -> None:
    target = tmp_path / "target"
    if there == "file":
        target.write_text("mine")
    else:
        gitkit.write(target, {"mine": "mine"})
    ran = place.afk("demo", "--dir", str(target))
    assert (ran.code, ran.stdout, ran.error["code"]) == (4, "", "destination_exists")
    assert (target if there == "file" else target / "mine").read_text() == "mine"
    assert ran.error["hint"] == "afk demo"


def test_people_get_the_ends_the_branches_and_what_to_type_next(tmp_path: Path) -> None:
    made = DemoProject(tmp_path, tmp_path / "origin.git", tmp_path / "project")
    landed = _Ended(1, "One", "done", "done", 1, "afk/wAAAA/1-one", False, "a" * 40)
    parked = _Ended(3, "Three", "blocked", "blocked", 1, "afk/wAAAA/3-three", True, None)
    untried = _Ended(8, "Eight", None, None, 0, None, False, None)
    text = _text(made, [landed, parked, untried], 0, "/somewhere/afk")
    for line in (
        "  #1  One  aaaaaaaaaaaa",
        "  #3  Three  blocked",
        "  #3  afk/wAAAA/3-three",
        "  #8  Eight",
        "/somewhere/afk history 3",
        f"cd {made.checkout}",
    ):
        assert line in text
    assert "exit code 4" in _text(made, [], 4, "afk")


def test_the_command_to_type_is_the_one_that_would_be_found() -> None:
    own = _program({"PATH": os.devnull})
    assert Path(own).is_absolute()
    assert _program({"PATH": str(Path(own).parent)}) == "afk"


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ({"to": "claimed"}, "#1 Turn a title into a slug: begins"),
        ({"to": "explore"}, ""),
        ({"to": "ended", "outcome": "done"}, "#1 Turn a title into a slug: ends as done"),
    ],
)
def test_larger_steps_are_told_as_they_happen(moved: dict[str, Any], said: str) -> None:
    assert _sentence({"issue_number": 1, "outcome": None, **moved}) == said
