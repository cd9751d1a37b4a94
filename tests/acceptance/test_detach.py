"""`afk run --detach`: it leaves the terminal only once it has really begun, and every death is written down."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gitkit
import pytest
from drainkit import Place, ended

from afk.supervisor import control
from afk.surfaces.detach import LogLine
from afk.surfaces.emit import Mode
from afk.wire import toonl

LIMIT_S = 120


def sessions(place: Place) -> list[dict[str, Any]]:
    path = place.clone / ".red/state/sessions.toonl"
    return [dict(row) for row in toonl.parse(path.read_text()).rows] if path.exists() else []


def is_closed(place: Place, number: int) -> bool:
    return bool(place.issue(number)["state"] == "closed")


def has_ended(place: Place) -> bool:
    return control.running(place.clone) is None


def test_a_detached_run_has_no_terminal_and_says_how_to_stop_it(place: Place, tmp_path: Path) -> None:
    """L43: own session, empty input, the checkout as directory, no pipe of the parent's; a second run is refused."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(1, body=f"agent: slow {ready} {go}\n")
    ran = ended(place.start("-C", str(place.clone), "run", "--watch", "--detach"))
    assert ran.code == 0, ran.stderr
    found = control.running(place.clone)
    assert found is not None
    process = Path(f"/proc/{found.pid}")
    log = place.clone / ".red/tmp/run.log"

    assert os.getsid(found.pid) == found.pid
    assert (process / "cwd").readlink() == place.clone
    assert {(process / f"fd/{fd}").readlink() for fd in (0, 1, 2)} == {Path("/dev/null")}
    assert all(word in ran.stdout for word in (str(found.pid), found.session_id, str(log), "afk stop"))
    for again in (place.run("--detach"), place.run()):
        assert (again.code, again.error["code"]) == (4, "supervisor_running")
    assert place.afk("status").payload["activity"]["log_path"] == str(log)

    gitkit.wait_until(ready.exists, "the agent", limit_s=LIMIT_S)
    go.touch()
    gitkit.wait_until(lambda: is_closed(place, 1), "the issue", limit_s=LIMIT_S)
    place.afk("stop")
    gitkit.wait_until(lambda: has_ended(place), "the end", limit_s=LIMIT_S)
    assert "stop: 1 landed" in log.read_text()
    assert [(row["event"], row["how"]) for row in sessions(place)] == [("began", ""), ("ended", "stop")]


def test_without_watch_it_ends_when_the_queue_is_drained(place: Place) -> None:
    place.file(1)
    begun = place.run("--detach").payload
    assert (begun["schema"], begun["watching"], begun["waits_for"]) == ("afk.run.detached.v1", False, None)
    gitkit.wait_until(lambda: has_ended(place), "the end", limit_s=LIMIT_S)
    assert is_closed(place, 1)


@pytest.mark.parametrize(
    ("fault", "code"), [("configuration", "config_invalid"), ("runner", "config_invalid"), ("ground", "ground_unfit")]
)
def test_what_keeps_it_from_beginning_is_told_at_the_terminal(place: Place, fault: str, code: str) -> None:
    """Bad input by the parent, an unfit ground by the child; the exit code is the same as without `--detach`."""
    place.file(1)
    if fault == "configuration":
        place.write_config("afk: {workers: many}\n")
    if fault == "ground":
        gitkit.git(place.clone, "remote", "remove", "origin")
    ran = place.run("--detach", *(["--runner", "nobody"] if fault == "runner" else []))
    assert (ran.code, ran.error["code"], ran.stdout) == (4, code, ""), ran.stderr
    assert ran.error["hint"] or fault == "runner"
    assert has_ended(place)
    assert place.labels(1) == {"ready-for-agent"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_every_death_of_a_supervisor_is_written_down(place: Place, number: signal.Signals) -> None:
    """L41: with a word, with the interpreter's last words, or by the next run that finds the record."""
    place.run("--watch", "--detach")
    found = control.running(place.clone)
    assert found is not None
    os.kill(found.pid, number)
    gitkit.wait_until(lambda: has_ended(place), "the end", limit_s=LIMIT_S)
    place.run()

    told = [row for row in sessions(place) if row["session_id"] == found.session_id]
    how = {
        signal.SIGKILL: ("died", "without a word"),
        signal.SIGSEGV: ("died", "Fatal Python error: Segmentation fault"),
        signal.SIGTERM: ("ended", "stop SIGTERM"),
    }[number]
    assert [row["event"] for row in told] == ["began", how[0]]
    assert how[1] in told[-1]["how"]


def test_the_log_is_rotated_when_it_is_written_and_never_grows_beyond_its_ceiling(tmp_path: Path) -> None:
    """L14: the ceiling is kept with each line, not at boot."""
    log = tmp_path / "run.log"
    line = LogLine(log, Mode.JSON)
    for _ in range(150):
        assert line.try_write(b"x" * 60_000 + b"\n") is None
    sizes = [path.stat().st_size for path in (log, log.with_name("run.log.1"))]
    assert max(sizes) <= 4 * 1024 * 1024
    assert sum(sizes) > 4 * 1024 * 1024
