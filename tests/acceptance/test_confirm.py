"""Between the listing and the claim the issue may change: then the attempt never was."""

from __future__ import annotations

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
