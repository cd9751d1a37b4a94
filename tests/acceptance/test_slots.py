"""A slot stays a slot: its workers have ports, temporary files and a cache of their own, also after a death (R85)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path

import pytest
from drainkit import Place, ended, reach

from afk.adapters.files import FileLock

NAMES = ("RED_AFK_SLOT", "RED_AFK_PORT_BASE", "RED_AFK_PORT_COUNT", "RED_AFK_CACHE_DIR", "TMPDIR")


def _printing(place: Path) -> str:
    """A command that writes what it was told of its seat into a file of its own in `place`."""
    values = " ".join(f"${name}" for name in NAMES)
    return f"mkdir -p {shlex.quote(str(place))} && echo {values} > {shlex.quote(str(place))}/$$"


def _told(place: Path) -> list[list[str]]:
    return sorted(line.split() for line in {path.read_text() for path in place.iterdir()})


def test_each_slot_has_a_seat_that_agents_setup_and_checks_are_told_of(place: Place, tmp_path: Path) -> None:
    met = tmp_path / "met"
    met.mkdir()
    place.configure(
        setup=[_printing(tmp_path / "setup")],
        validation={"checks": [{"name": "test", "run": _printing(tmp_path / "check")}]},
        hooks={"pre_attempt": f"mkdir -p {tmp_path}/hook && env | grep ^RED_AFK_ | sort > {tmp_path}/hook/$$"},
    )
    for number in (1, 2):
        place.file(number, f"Job {number}", f"agent: tells_seat {tmp_path / 'agent'} {met}\n")

    ran = place.run("--workers", "2")

    assert ran.outcomes == {1: "done", 2: "done"}, ran.stderr
    seats = _told(tmp_path / "agent")
    assert [seat[0] for seat in seats] == ["1", "2"]
    assert all(len({seat[index] for seat in seats}) == 2 for index in (1, 3, 4)), seats
    assert _told(tmp_path / "setup") == seats
    assert _told(tmp_path / "check") == seats
    hooks = [
        dict(line.split("=", 1) for line in path.read_text().splitlines()) for path in (tmp_path / "hook").iterdir()
    ]
    told = sorted([each[name] for name in (*NAMES[:4], "RED_AFK_TMP_DIR")] for each in hooks)
    assert told == seats


@pytest.mark.parametrize("workers", [1, 3])
def test_after_a_death_every_attempt_goes_on_in_the_slot_it_began_in(
    place: Place, tmp_path: Path, workers: int
) -> None:
    """Its agent still uses those ports; a check that ran beside it on others' would fail for no reason of its own."""
    met = tmp_path / "met"
    met.mkdir()
    place.configure(validation={"checks": [{"name": "test", "run": _printing(tmp_path / "check")}]})
    for number in range(1, 4):
        place.file(number, f"Job {number}", f"agent: tells_seat {tmp_path / 'agent'} {met} 4\n")
    process = place.start("run", "--json", "--workers", "3")
    reach(process, lambda: len(list(met.iterdir())) == 3, "three agents")
    before = {number: json.loads((place.attempt(number) / "attempt.json").read_text()) for number in range(1, 4)}
    process.kill()
    ended(process)
    for number, slot in ((n, facts["facts"]["slot"]) for n, facts in before.items()):
        os.utime(place.attempt(number), (1e9 - slot, 1e9 - slot))  # the oldest is taken up first
    again = place.start("run", "--json", "--workers", str(workers))  # maybe fewer than agents that are still alive
    reach(again, lambda: _slots(place) == {before[n]["facts"]["slot"]: n for n in before}, "each in its own slot")
    (met / "go").touch()
    assert ended(again).outcomes == dict.fromkeys(range(1, 4), "done")
    assert _told(tmp_path / "check") == _told(tmp_path / "agent")


def _slots(place: Place) -> dict[int, int]:
    """By slot, the issue that it works, as `afk status` tells it."""
    activity = place.afk("status").payload["activity"]
    told = activity["slots"] if activity else []
    return {slot["slot"]: slot["issue_number"] for slot in told if slot["state"] == "working"}


def test_a_new_attempt_finds_no_temporary_files_of_an_earlier_one(place: Place, tmp_path: Path) -> None:
    left = "touch $TMPDIR/left; ls $TMPDIR | wc -l"
    place.configure(setup=[f"ls $TMPDIR >> {tmp_path}/seen; {left}"])
    place.file(1)
    place.file(2)
    assert place.run().outcomes == {1: "done", 2: "done"}
    assert (tmp_path / "seen").read_text() == ""


@pytest.mark.parametrize("gone", ["seats", "."])
def test_a_machine_that_cleans_up_while_agents_work_stops_nobody(
    place: Place, tmp_path: Path, machine: Path, gone: str
) -> None:
    """Systems remove old temporary files; a seat is a convenience."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.configure(validation={"checks": [{"name": "test", "run": "echo x > $TMPDIR/x"}]})
    place.file(1, "Job", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent")
    [shared] = machine.glob("afk-*")
    shutil.rmtree(shared / gone)
    go.touch()
    assert ended(process).outcomes == {1: "done"}


@pytest.mark.parametrize("slot", ["abc", 10**30, -3, None, True])
def test_a_slot_in_the_journal_that_is_none_stops_no_recovery(place: Place, tmp_path: Path, slot: object) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(1, "Job", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent")
    process.kill()
    ended(process)
    journal = place.attempt(1) / "attempt.json"
    record = json.loads(journal.read_text())
    record["facts"]["slot"] = slot
    journal.write_text(json.dumps(record))
    go.touch()
    assert place.run().outcomes == {1: "done"}
    assert len(list(place.attempt(1).glob("runs/*-agent"))) == 1


def test_a_check_that_waits_for_its_turn_is_what_the_status_says(place: Place, tmp_path: Path, machine: Path) -> None:
    place.file(1, "Job", "agent: done\n")
    shared = machine / f"afk-{os.getuid()}"
    with FileLock(shared / "heavy.lock"):
        process = place.start("run", "--json")
        reach(process, lambda: "waits for its turn" in str(_reasons(place)), "word of the wait")
        assert f"pid {os.getpid()}" in str(_reasons(place))
    assert ended(process).outcomes == {1: "done"}


def _reasons(place: Place) -> list[str | None]:
    activity = place.afk("status").payload["activity"]
    return [slot["reason"] for slot in activity["slots"]] if activity else []
