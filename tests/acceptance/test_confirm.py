"""What is true when the attempt begins: the issue as it is by then, and the remote that is pushed to."""

from __future__ import annotations

import gitkit
from drainkit import Place


def test_an_issue_that_is_not_ready_once_it_is_ours_is_given_back_without_a_trace(place: Place) -> None:
    """R73: the listing was old; a hook stands in for the person who was faster."""
    close = "sed -i 's/^state: open/state: closed/' .red/issues/7/issue.md; cat"
    place.configure(hooks={"post_pick": close})
    place.file(7, body="agent: done\n")

    ran = place.run()

    assert (ran.code, ran.payload["attempts"]) == (0, []), ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert place.labels(7) == {"ready-for-agent"}
    assert (place.comments(7), place.claims(), place.live_branches(), place.attempts()) == ([], {}, {}, [])


def test_a_remote_that_is_pushed_to_under_another_address_is_used_by_that_address(place: Place) -> None:
    gitkit.git(place.clone, "remote", "set-url", "--push", "origin", gitkit.url(place.origin))
    gitkit.git(place.clone, "remote", "set-url", "origin", "file:///nowhere/else.git")
    place.file(7, body="agent: done\n")
    assert place.run().outcomes == {7: "done"}
