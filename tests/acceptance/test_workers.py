"""Several issues at once: each in a lane of its own, all of them taken up again when the supervisor dies."""

from __future__ import annotations

from pathlib import Path

import gitkit
from drainkit import Place, ended, reach, status_of

from afk.wire import toonl

COUNTED = str(Path(__file__).parents[1] / "counted_run.py")


def file_meeting(place: Place, folder: Path, numbers: range, count: int) -> None:
    """Issues whose agents end only when `count` files are in `folder`."""
    folder.mkdir()
    for number in numbers:
        place.file(number, f"Job {number}", f"agent: meets {folder} {count}\n")


def test_four_workers_work_four_issues_at_the_same_time(place: Place, tmp_path: Path) -> None:
    """R71: no issue twice; the lander is one, and a base that the others move is no failure."""
    file_meeting(place, tmp_path / "met", range(1, 5), 4)

    ran = place.run("--workers", "4")

    assert ran.code == 0, ran.stderr
    assert ran.outcomes == dict.fromkeys(range(1, 5), "done")
    assert sorted(place.landed()) == [f"merge: #{number} Job {number}" for number in range(1, 5)]
    assert len({path.parent.name for path in place.attempts()}) == 4
    assert (place.claims(), place.live_branches(), place.worktrees()) == ({}, {}, [])
    assert [len(place.envelopes(number)) for number in range(1, 5)] == [1, 1, 1, 1]


def test_agents_that_outlive_their_supervisor_are_followed_to_their_ends(place: Place, tmp_path: Path) -> None:
    """Adoption: no agent is run twice, and a new run with one worker follows all four."""
    met = tmp_path / "met"
    file_meeting(place, met, range(1, 5), 5)
    process = place.start("run", "--json", "--workers", "4")
    gitkit.wait_until(lambda: len(list(met.iterdir())) == 4, "four agents")
    process.kill()
    assert ended(process).code == -9

    (met / "go").write_text("")
    ran = place.run()

    assert ran.outcomes == dict.fromkeys(range(1, 5), "done"), ran.stderr
    assert [len(list(attempt.glob("runs/*-agent"))) for attempt in place.attempts()] == [1, 1, 1, 1]
    assert [status_of(envelope) for number in range(1, 5) for envelope in place.envelopes(number)] == ["done"] * 4


def test_a_cap_holds_for_all_workers_together(place: Place) -> None:
    for number in range(1, 5):
        place.file(number)
    ran = place.run("--workers", "3", "-n", "2")
    assert ran.payload["stopped_by"] == "cap"
    assert sorted(ran.outcomes) == [1, 2]


def test_a_slot_is_free_again_when_its_attempt_ends_and_nothing_is_claimed_without_one(
    place: Place, tmp_path: Path
) -> None:
    """L44, S56: one slot works through the queue beside an agent that takes its time; what waits costs no attempt."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(1, "Slow", f"agent: slow {ready} {go}\n")
    for number in (2, 3):
        place.file(number, f"Job {number}", f"agent: slow {tmp_path / f'ready-{number}'} {tmp_path / f'go-{number}'}\n")
    process = place.start("run", "--json", "--workers", "2")
    reach(process, lambda: ready.exists() and (tmp_path / "ready-2").exists(), "two agents at work")
    assert (place.labels(3), {path.name for path in place.attempts()}) == ({"ready-for-agent"}, {"1-a1", "2-a1"})
    assert "refs/afk/claims/3" not in place.claims()

    (tmp_path / "go-2").touch()
    reach(process, (tmp_path / "ready-3").exists, "the third in the slot of the second")
    (tmp_path / "go-3").touch()
    reach(process, lambda: place.issue(3)["state"] == "closed", "the end of the third")
    assert place.issue(1)["state"] == "open"
    go.touch()
    assert ended(process).outcomes == dict.fromkeys((1, 2, 3), "done")


def test_eight_workers_that_start_at_once_meet_no_lock_and_ask_the_tracker_once_for_all(
    place: Place, tmp_path: Path
) -> None:
    """S75: each line of a log says whose it is. While eight agents work, each poll is one listing for all."""
    met, asked = tmp_path / "met", tmp_path / "asked"
    place.configure(workers=8, recovery={"backoff_max_s": 60})  # eight landings get in each other's way
    file_meeting(place, met, range(1, 9), 9)
    process = place.start(str(asked), program=[COUNTED])
    reach(process, lambda: len(list(met.iterdir())) == 8, "eight agents")

    before = len(asked.read_text().splitlines())
    reach(process, lambda: len(asked.read_text().splitlines()) >= before + 3, "three more looks")
    assert set(asked.read_text().splitlines()[before : before + 3]) == {"MainThread open_issues"}
    (met / "go").touch()
    assert process.wait() == 0

    told = [body for number in range(1, 9) for body in place.envelopes(number)]
    assert [status_of(body) for body in told] == ["done"] * 8, "\n".join(told)
    logs = [path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl")]
    rows = [row for log in logs for row in toonl.parse(log).rows]
    assert {(row["issue"], row["attempt"]) for row in rows} == {(number, 1) for number in range(1, 9)}
    assert not [row for row in rows if "lock" in str(row["msg"])]
