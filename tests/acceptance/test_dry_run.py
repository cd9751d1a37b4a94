"""`afk run --dry-run`: what would be picked, what would run, where it would land; and nothing is touched."""

from __future__ import annotations

import gitkit
from drainkit import Place, ended


def test_a_dry_run_tells_the_order_and_the_reasons_and_touches_nothing(place: Place) -> None:
    gitkit.git(place.origin, "branch", "next", "main")
    place.file(1, "First")
    place.file(2, "Urgent", labels=["ready-for-agent", "priority:urgent"])
    place.file(3, "On another base", "branch: next\n")
    place.file(4, "Waits", labels=["ready-for-agent", "req:1"])
    before = gitkit.contents(place.clone), gitkit.refs(place.origin)

    ran = place.run("--dry-run", "-n", "3")

    assert ran.code == 0, ran.stderr
    assert [(item["issue_number"], item["base"]) for item in ran.payload["would_pick"]] == [
        *((2, "main"), (1, "main"), (3, "next"))
    ]
    assert [(item["issue_number"], item["why"]) for item in ran.payload["waiting"]] == [(4, "#1 is open")]
    assert ran.payload["checks"] == ["test"]
    assert ran.payload["problems"] == []
    assert (gitkit.contents(place.clone), gitkit.refs(place.origin)) == before


def test_a_dry_run_says_that_the_run_would_not_begin(place: Place) -> None:
    place.configure(agents={"command": {"argv": ["no-such-agent"]}}, validation={"checks": []})
    place.file(1)

    [program, checks] = place.run("--dry-run").payload["problems"]
    told = ended(place.start("run", "--dry-run")).stdout

    assert "no-such-agent" in program
    assert "no check is declared" in checks
    assert "afk run would not begin like this; next: afk doctor" in told.splitlines()


def test_a_branch_that_leaves_no_room_for_ours_is_found_before_anything_is_claimed(place: Place) -> None:
    place.file(1)
    gitkit.git(place.origin, "branch", "afk", "main")
    refused = place.run()
    assert (refused.code, refused.error["code"]) == (4, "ground_unfit")
    assert "a branch afk" in refused.error["message"]
    gitkit.git(place.origin, "branch", "-m", "afk", "another-name")
    assert place.run().outcomes == {1: "done"}
