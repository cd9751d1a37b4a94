"""From another terminal: stop, stop now, pause, resume, requeue and retake; each may be said twice."""

from __future__ import annotations

from pathlib import Path

import gitkit
from drainkit import Place, ended, status_of


def file_slow(place: Place, folder: Path, number: int) -> tuple[Path, Path]:
    """An issue whose agent has committed once `ready` is there and ends once `go` is."""
    ready, go = folder / f"ready-{number}", folder / f"go-{number}"
    place.file(number, body=f"agent: slow {ready} {go}\n")
    return ready, go


def test_stop_finishes_what_runs_and_starts_nothing_new(place: Place, tmp_path: Path) -> None:
    ready, go = file_slow(place, tmp_path, 1)
    place.file(2)
    process = place.start("run", "--json")
    gitkit.wait_until(ready.exists, "the agent's first commit")

    asked, again = place.afk("stop").payload, place.afk("stop").payload
    go.write_text("")
    ran = ended(process)

    assert (asked["changed"], again["changed"]) == (True, False)
    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (0, "stop", {1: "done"})
    assert place.labels(2) == {"ready-for-agent"}
    assert place.afk("stop").payload["target"] is None


def test_stop_now_stops_the_agents_and_keeps_their_work(place: Place, tmp_path: Path) -> None:
    """A wish is no signal: the run gives its result, and the stop costs no try."""
    ready, _ = file_slow(place, tmp_path, 1)
    process = place.start("run", "--json")
    gitkit.wait_until(ready.exists, "the agent's first commit")

    place.afk("stop", "--now")
    ran = ended(process)

    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (0, "stop", {1: "infra"}), ran.stderr
    assert place.labels(1) == {"ready-for-agent"}
    [envelope] = place.envelopes(1)
    assert status_of(envelope) == "blocked"
    assert "stopped by the operator" in envelope
    [(branch, tip)] = place.live_branches().items()
    assert "first-1.txt" in gitkit.git(place.origin, "ls-tree", "--name-only", tip), branch


def test_a_pause_outlives_the_run_and_ends_with_resume(place: Place) -> None:
    place.file(1)
    assert place.afk("pause").payload["changed"]
    assert not place.afk("pause").payload["changed"]
    process = place.start("run", "--json", "--verbose")
    assert process.stderr is not None
    told = next(line for line in process.stderr if "paused" in line)
    assert place.labels(1) == {"ready-for-agent"}, told

    assert place.afk("resume").payload["changed"]
    ran = ended(process)

    assert ran.outcomes == {1: "done"}


def test_a_wish_to_stop_meets_no_later_run(place: Place) -> None:
    """The file names the session that it was meant for."""
    place.file(1)
    gitkit.write(place.clone, {".red/tmp/control.json": '{"session_id": "another", "stop": 2}'})
    assert place.run().outcomes == {1: "done"}


def test_a_parked_issue_goes_back_to_the_queue_with_one_command(place: Place) -> None:
    place.file(7, body="agent: blocked\n")
    assert place.run().outcomes == {7: "blocked"}

    asked, again = place.afk("requeue", "7").payload, place.afk("requeue", "7").payload

    assert (asked["changed"], again["changed"]) == (True, False)
    assert set(asked["before"]["labels"]) == {"ready-for-human", "blocked:spec"}
    assert asked["after"]["labels"] == ["ready-for-agent"]
    assert place.labels(7) == {"ready-for-agent"}
    assert len(place.live_branches()) == 1
    assert place.run().outcomes == {7: "blocked"}


def test_an_issue_that_is_taken_back_stops_its_agent_and_is_picked_no_more(place: Place, tmp_path: Path) -> None:
    ready, _ = file_slow(place, tmp_path, 7)
    process = place.start("run", "--json")
    gitkit.wait_until(ready.exists, "the agent's first commit")
    refused = place.afk("requeue", "7")
    assert (refused.code, refused.error["hint"]) == (4, "afk retake 7")

    asked, again = place.afk("retake", "7").payload, place.afk("retake", "7").payload
    ran = ended(process)

    assert (asked["changed"], again["changed"]) == (True, False)
    assert ran.outcomes == {7: "blocked"}
    assert place.labels(7) == {"ready-for-human"}
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["blocked"]
    [(branch, tip)] = place.live_branches().items()
    assert "first-7.txt" in gitkit.git(place.origin, "ls-tree", "--name-only", tip), branch
    assert place.claims() == {}


def test_what_waits_in_the_queue_is_taken_back_too_and_a_closed_issue_is_refused(place: Place) -> None:
    place.file(7)
    assert place.afk("retake", "7").payload["changed"]
    assert place.labels(7) == {"ready-for-human"}
    assert place.run().payload["attempts"] == []
    place.edit(7, state="closed")
    for verb in ("requeue", "retake"):
        refused = place.afk(verb, "7")
        assert (refused.code, refused.error["message"]) == (4, "issue 7 is closed")
