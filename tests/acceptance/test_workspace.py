"""The attempt's own folder: made, met half made, refused, and what runs in it."""

from __future__ import annotations

from pathlib import Path

import books
from drainkit import Place, ended, section

PROGRAM = str(Path(__file__).parents[1] / "crash_run.py")


def test_the_agent_works_in_the_worktree_of_its_attempt(place: Place) -> None:
    """S19, S27: the folder is made, parents included, and is where the agent finds itself."""
    place.configure(agents={"command": {"argv": ["/bin/sh", "-c", "pwd -P; echo '<promise>BLOCKED</promise>'"]}})
    place.file(7)

    assert place.run().outcomes == {7: "blocked"}

    attempt = place.attempt(7)
    out = next(attempt.glob("runs/*-agent/out")).read_text()
    assert out.splitlines()[0] == str((attempt / "worktree").resolve())


def test_something_else_in_the_place_of_the_worktree_is_left_and_named(place: Place) -> None:
    """S21, S22: a plain file is nobody's worktree; the attempt ends as infra, and the file is still there."""
    place.configure(hooks={"pre_worktree": 'echo mine > "$RED_AFK_WORKSPACE"'})
    place.file(7, body="agent: done\n")

    assert place.run().outcomes == {7: "infra"}

    assert (place.attempt(7) / "worktree").read_text() == "mine\n"
    assert "could not make the worktree" in section(place.envelopes(7)[0], "outcome")


def test_a_resumed_attempt_keeps_its_worktree_and_asks_its_hook_once(place: Place, tmp_path: Path) -> None:
    """S20, S23: the hook of a new workspace is not asked again for one that is there."""
    asked = tmp_path / "asked"
    place.configure(hooks={"pre_worktree": f"echo once >> {asked}"})
    place.file(7, body="agent: done\n")
    assert ended(place.start("after", "branched", program=[PROGRAM])).code == -9

    assert place.run().outcomes == {7: "done"}

    assert asked.read_text() == "once\n"
    assert "pre_worktree" in section(place.envelopes(7)[0], "hooks")


def test_work_that_needs_no_change_is_told_once_and_not_picked_again(place: Place) -> None:
    """R46: a legitimate "nothing to do" does not loop."""
    place.file(7, body="agent: empty_commits\n")

    assert place.run().outcomes == {7: "blocked"}
    again = place.run()
    assert again.code == 0, again.stderr
    assert again.payload["attempts"] == []

    [envelope] = place.envelopes(7)
    assert "no change" in section(envelope, "outcome")
    assert place.landed() == []


def test_a_git_that_the_agent_killed_holds_nobody_up(place: Place) -> None:
    place.file(1, "Do it", "agent: kills_its_git\n")
    assert place.run().outcomes == {1: "done"}
    assert books.imbalances(place) == []


def test_the_locks_of_a_machine_that_went_down_hold_nobody_up(place: Place) -> None:
    """git never removes them: no ref could be packed, deleted or landed for ever."""
    for name in ("packed-refs.lock", "refs/afk/landings/1.lock", "refs/heads/afk/wDEAD/1-do-it.lock"):
        path = place.clone / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    place.file(1)
    assert place.run().outcomes == {1: "done"}
    assert books.imbalances(place) == []
