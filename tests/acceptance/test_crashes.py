"""Killed with -9 at steps of the journal: the next run puts everything right.

Here are the deaths between an effect on the remote, the tracker or a file and its note, and a few behind the note;
`scripts/faults` has every one, and `test_faults.py` a sample of the deaths of several at once.
"""

from __future__ import annotations

from pathlib import Path

import books
import gitkit
import pytest
from drainkit import Place, ended, status_of

PROGRAM = str(Path(__file__).parents[1] / "crash_run.py")

STEPS_OF_DONE = (
    *("opened", "claimed", "confirmed", "labelled", "branched", "published", "prepared", "handed", "run-started:1"),
    *("run-ended:1", "run-told:1", "settled", "validated:1", "admitted:1", "merged:1", "landed", "announced"),
    *("ended", "saved", "written", "posted", "shelved", "releasing", "released", "recorded", "cleared"),
)
MOMENTS = [(moment, step) for step in STEPS_OF_DONE for moment in ("before", "after")]
EFFECTS = (
    *("claimed", "labelled", "published", "run-started:1", "settled", "merged:1", "landed", "ended", "posted"),
    *("shelved", "releasing", "released", "recorded", "cleared"),
)
BEHIND_THE_NOTE = ("claimed", "run-started:1", "landed", "posted")  # where a good deal hangs on the note
TRIED = [*(("before", step) for step in EFFECTS), *(("after", step) for step in BEHIND_THE_NOTE)]


def test_the_matrix_names_every_step_that_a_done_attempt_takes(place: Place, tmp_path: Path) -> None:
    """A step that is added to the pipeline and not to the matrix fails here."""
    place.file(7, body="agent: done\n")
    ended(place.start("note", str(tmp_path / "moments"), program=[PROGRAM]))
    passed = [tuple(line.split()[:2]) for line in (tmp_path / "moments").read_text().splitlines()]
    assert passed == MOMENTS


@pytest.mark.parametrize(("moment", "step"), TRIED)
def test_a_done_attempt_survives_a_death(place: Place, moment: str, step: str) -> None:
    """R60, R68, R86: one envelope, one merge, no commit lost, nothing left over, wherever the owner died."""
    place.file(7, "Say hello", "agent: done\n")
    died = ended(place.start(moment, step, program=[PROGRAM]))
    assert died.code == -9, died.stderr

    ran = place.run()

    assert ran.code == 0, ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert place.labels(7) == set()
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]
    assert place.landed() == ["merge: #7 Say hello"]
    assert place.on_trunk("work-7.txt") == "the work"
    _nothing_is_left(place)
    assert [row["outcome"] for row in place.history()] == ["done"]


@pytest.mark.parametrize("step", ["ended", "written", "posted", "releasing", "recorded"])
def test_a_parked_attempt_survives_a_death(place: Place, step: str) -> None:
    place.file(7, "Say hello", "agent: blocked\n")
    died = ended(place.start("before", step, program=[PROGRAM]))
    assert died.code == -9, died.stderr

    ran = place.run()

    assert ran.code == 0, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:spec"}
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["blocked"]
    assert place.landed() == []
    assert place.claims() == {}
    assert len(place.live_branches()) == 1
    assert [row["outcome"] for row in place.history()] == ["blocked"]


def test_an_attempt_begins_where_it_was_to_begin_though_the_base_moved_since(place: Place) -> None:
    """R08: its own half made branch is no stranger's because the base has a new tip by now."""
    place.file(7, body="agent: done\n")
    ended(place.start("before", "branched", program=[PROGRAM]))
    place.push("meanwhile", {"other.txt": "by somebody else\n"})
    for tree in place.worktrees():  # as a `git worktree add` that was killed leaves it
        (place.clone / f".git/worktrees/{tree.name}/HEAD").write_text(f"{'0' * 40}\n")
    assert place.run().outcomes == {7: "done"}
    assert books.imbalances(place) == []


def test_a_resumed_attempt_goes_on_telling_from_where_it_was(place: Place) -> None:
    """A reader that keeps state never sees it go back."""
    place.file(7, body="agent: done\n")
    ended(place.start("after", "settled", program=[PROGRAM]))
    assert place.run().transitions(7) == ["validating", "merge", "push", "close", "ended"]


@pytest.mark.parametrize("broken", ["{}", "[" * 100_000, None])
def test_an_outbox_that_was_broken_meanwhile_is_written_anew(place: Place, broken: str | None) -> None:
    """R86: one envelope, whole, whatever became of the file between its writing and its posting."""
    place.file(7, body="agent: done\n")
    ended(place.start("after", "written", program=[PROGRAM]))
    outbox = place.attempt(7) / "outbox.json"
    outbox.unlink() if broken is None else outbox.write_text(broken)
    assert place.run().outcomes == {7: "done"}
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


def test_what_changed_in_the_checkout_before_a_death_is_told_after_it(place: Place) -> None:
    """R22: the comparison is with the first look, whoever makes the second."""
    place.file(7, body="agent: edits_checkout\n")
    ended(place.start("before", "run-ended:1", program=[PROGRAM]))
    assert place.run().code == 0
    assert "the checkout changed while the agent ran: " in place.envelopes(7)[0]


def test_the_hook_after_a_run_is_not_lost_between_the_run_and_itself(place: Place, tmp_path: Path) -> None:
    """R86: the run is on record, its hook was not asked yet."""
    told = tmp_path / "told"
    place.configure(hooks={"post_attempt": f"echo once >> {told}"})
    place.file(7, body="agent: done\n")
    ended(place.start("after", "run-ended:1", program=[PROGRAM]))
    assert not told.exists()
    assert place.run().outcomes == {7: "done"}
    assert told.read_text() == "once\n"


def _nothing_is_left(place: Place) -> None:
    assert place.claims() == {}
    assert place.live_branches() == {}
    assert place.worktrees() == []
    assert gitkit.refs(place.clone, "refs/heads/afk/", "refs/afk/") == {}
    assert not (place.clone / ".red/tmp/supervisor.json").exists()
