"""`afk issue create|comment|close` as processes: by command what an editor does by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from drainkit import Place


@pytest.fixture
def tracker(place: Place) -> Place:
    """A project with an empty folder of issues."""
    (place.clone / ".red/issues").mkdir()
    place.environ["USER"] = "ada"
    return place


def test_an_issue_is_filed_under_the_next_number_by_the_person_at_the_keyboard(tracker: Place) -> None:
    tracker.file(6)
    (tracker.clone / "brief.md").write_text("Why and how.\n")
    ran = tracker.afk("issue", "create", "--title", "Say héllo", "--body", "brief.md", "--label", "a", "--label", "b")
    assert ran.payload["issue"] == {
        "number": 7,
        "title": "Say héllo",
        "issue_url": (tracker.clone / ".red/issues/7/issue.md").as_uri(),
        "state": "open",
        "labels": ["a", "b"],
        "slug": "say-hello",
    }
    assert tracker.issue(7)["author"] == "ada"
    assert "Why and how." in (tracker.clone / ".red/issues/7/issue.md").read_text()


def test_the_body_may_come_on_standard_input(tracker: Place) -> None:
    words = ["issue", "create", "--title", "T", "--body", "-", "--author", "grace", "--json"]
    argv = [sys.executable, "-m", "afk", *words]
    ran = subprocess.run(argv, cwd=tracker.clone, input="From a pipe.", capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["result"]["issue"]["number"] == 1
    assert tracker.issue(1)["author"] == "grace"
    assert "From a pipe." in (tracker.clone / ".red/issues/1/issue.md").read_text()


def test_a_body_that_cannot_be_read_files_nothing(tracker: Place) -> None:
    ran = tracker.afk("issue", "create", "--title", "T", "--body", "no-such-file")
    assert (ran.code, ran.error["code"]) == (4, "invalid_input")
    (tracker.clone / "bad").write_bytes(b"\xff")
    assert tracker.afk("issue", "create", "--title", "T", "--body", "bad").error["code"] == "invalid_input"
    assert list((tracker.clone / ".red/issues").glob("[0-9]*")) == []


def test_nobody_writes_under_the_name_of_afk(tracker: Place) -> None:
    """What a person says must never be taken for an envelope of ours."""
    tracker.file(1)
    (tracker.clone / "text").write_text("hello")
    assert tracker.afk("issue", "create", "--title", "T", "--author", "afk").error["code"] == "invalid_input"
    tracker.environ["USER"] = "afk"
    assert tracker.afk("issue", "comment", "1", "--body", "text").error["code"] == "invalid_input"
    assert tracker.comments(1) == []


def test_without_a_folder_for_issues_init_is_named(place: Place) -> None:
    shutil.rmtree(place.clone / ".red/issues", ignore_errors=True)
    ran = place.afk("issue", "create", "--title", "T")
    assert (ran.code, ran.error["hint"]) == (4, "afk init")


def test_a_comment_is_added_and_told_with_its_place(tracker: Place) -> None:
    tracker.file(3)
    (tracker.clone / "answer.md").write_text("Do the second thing.\n")
    ran = tracker.afk("issue", "comment", "3", "--body", "answer.md")
    assert ran.payload["comment_id"] == "0001"
    assert ran.payload["author"] == "ada"
    assert ran.payload["comment_url"] == (tracker.clone / ".red/issues/3/comments/0001.md").as_uri()
    assert [text.strip() for text in tracker.comments(3)] == ["Do the second thing."]


@pytest.mark.parametrize(("number", "text", "code"), [(3, " \n", "invalid_input"), (9, "x", "issue_not_found")])
def test_a_comment_needs_a_text_and_an_issue(tracker: Place, number: int, text: str, code: str) -> None:
    tracker.file(3)
    (tracker.clone / "text").write_text(text)
    ran = tracker.afk("issue", "comment", str(number), "--body", "text")
    assert (ran.code, ran.error["code"]) == (4, code)
    assert tracker.comments(3) == []


def test_closing_twice_changes_once(tracker: Place) -> None:
    tracker.file(3)
    first = tracker.afk("issue", "close", "3", "--reason", "not_planned").payload
    assert (first["changed"], first["before"]["state"], first["after"]) == (
        True,
        "open",
        {"state": "closed", "closed_reason": "not_planned"},
    )
    again = tracker.afk("issue", "close", "3")
    assert (again.code, again.payload["changed"]) == (0, False)
    assert again.payload["after"] == first["after"]
    assert tracker.afk("issue", "close", "4").error["code"] == "issue_not_found"
