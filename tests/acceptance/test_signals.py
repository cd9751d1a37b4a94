"""Ctrl-C three times, and deaths: nobody's work is lost, no claim stays behind, no agent runs twice for one attempt."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import gitkit
import pytest
from drainkit import Place, ended, reach, section, status_of

from afk.adapters.files import FileLock

PROGRAM = str(Path(__file__).parents[1] / "crash_run.py")


@pytest.fixture
def slow(place: Place, tmp_path: Path) -> tuple[Path, Path]:
    """Issue 7 with an agent that waits in the middle of its work, and issue 8; the two markers."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    place.file(8, "Another")
    return ready, go


def running(place: Place, ready: Path) -> subprocess.Popen[str]:
    """`afk run`, at the moment when the agent of issue 7 has committed and waits."""
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    return process


# ── Signals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_what_runs_be_finished(
    place: Place, slow: tuple[Path, Path], number: signal.Signals
) -> None:
    """R32: no new work, the running issue lands, and the run ends well."""
    process = running(place, slow[0])
    process.send_signal(number)
    gitkit.wait_until(lambda: not _is_pending(process.pid, number), "the signal to be taken")
    slow[1].touch()

    ran = ended(process)

    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (0, "stop", {7: "done"}), ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert place.labels(8) == {"ready-for-agent"}
    assert place.claims() == {}


def test_the_second_signal_stops_the_agent_and_keeps_its_work(place: Place, slow: tuple[Path, Path]) -> None:
    """R32: the work is on the remote, the issue is back in the queue, and no try is charged."""
    place.configure(recovery={"per_issue": 1})
    process = running(place, slow[0])
    (place.attempt(7) / "worktree/half.txt").write_text("half done\n")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)

    ran = ended(process)

    assert (ran.code, ran.error["code"], ran.stdout) == (130, "cancelled", "")
    assert ran.stderr.count('"kind":"error"') == 1
    assert ran.error["hint"] == "afk run"
    assert place.labels(7) == {"ready-for-agent"}
    assert place.claims() == {}
    [branch] = place.live_branches()
    assert gitkit.git(place.origin, "show", f"{branch}:first-7.txt") == "the work"
    assert "+half done" in (place.attempt(7) / "uncommitted.patch").read_text()
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "blocked"
    assert section(envelope, "outcome") == "infra · stopped by the operator; the work is kept (no try charged)"
    assert _agents_running(place) == []
    slow[1].touch()
    assert place.run().outcomes == {7: "done", 8: "done"}  # although one attempt is all that an issue may have
    assert place.on_trunk("first-7.txt") == "the work"


def test_the_third_signal_leaves_at_once_and_the_next_run_goes_on(place: Place, slow: tuple[Path, Path]) -> None:
    """R32: the agent stays under its keeper; it is adopted, not started again."""
    process = running(place, slow[0])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)

    left = ended(process)
    slow[1].touch()
    ran = place.run()

    assert (left.code, left.error["code"], left.stdout) == (130, "cancelled", "")
    assert set(ran.outcomes) == {7, 8}, ran.stderr
    assert len(place.envelopes(7)) == 1
    assert place.claims() == {}
    assert _agents_running(place) == []


def test_a_stop_while_a_check_runs_ends_the_check(place: Place, tmp_path: Path) -> None:
    """R32: a stop is no verdict, whatever runs at that moment."""
    started = tmp_path / "started"
    place.configure(validation={"checks": [{"name": "slow", "run": f"touch {started}; sleep 600"}]})
    place.file(7)
    process = place.start("run", "--json")
    reach(process, started.exists, "the check")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)

    ran = ended(process)

    assert (ran.code, ran.error["code"]) == (130, "cancelled"), ran.stderr
    assert place.labels(7) == {"ready-for-agent"}
    assert "stopped by the operator" in section(place.envelopes(7)[0], "outcome")
    assert place.claims() == {}


# ── Deaths ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stop_is_heard_while_somebody_else_lands(place: Place, tmp_path: Path) -> None:
    """R32: waiting for the lander's lock is no reason to wait with a stop."""
    cache = tmp_path / "cache"
    place.environ["XDG_CACHE_HOME"] = str(cache)
    lock = cache / "afk/landing" / f"{hashlib.sha256(gitkit.url(place.origin).encode()).hexdigest()[:32]}.lock"
    lock.parent.mkdir(parents=True)
    place.file(7, body="agent: done\n")
    with FileLock(lock):
        process = place.start("run", "--json")
        reach(process, lambda: (place.attempts() or [tmp_path])[0].joinpath("afk.state.json").exists(), "the attempt")
        reach(process, lambda: place.state(7)["current"] and place.state(7)["current"]["stage"] == "merge", "landing")
        process.send_signal(signal.SIGINT)
        reach(process, lambda: not _is_pending(process.pid, signal.SIGINT), "the first signal")
        process.send_signal(signal.SIGINT)
        ran = ended(process)
    assert (ran.code, ran.error["code"]) == (130, "cancelled"), ran.stderr
    assert place.labels(7) == {"ready-for-agent"}


def test_an_agent_outlives_its_supervisor_and_is_adopted(place: Place, slow: tuple[Path, Path]) -> None:
    """R60, S54: one run of the agent, one envelope, done; the first half came from before the death."""
    process = running(place, slow[0])
    process.kill()
    ended(process)
    [agent] = _agents_running(place)

    again = place.start("run", "--json")
    reach(again, lambda: "agent.adopted" in _worker_log(place), "the adoption")
    assert _agents_running(place) == [agent]
    slow[1].touch()
    ran = ended(again)

    assert ran.outcomes == {7: "done", 8: "done"}, ran.stderr
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]
    assert place.on_trunk("first-7.txt") == "the work"
    assert place.on_trunk("second-7.txt") == "the rest"


def test_an_agent_that_ended_while_nobody_looked_is_not_started_again(place: Place, slow: tuple[Path, Path]) -> None:
    """R60: its exit record and its output are all there; its last commits are pushed by whoever comes."""
    process = running(place, slow[0])
    process.kill()
    ended(process)
    slow[1].touch()
    gitkit.wait_until(lambda: list(place.attempt(7).glob("runs/*-agent/exit")), "the agent's end")

    ran = place.run()

    assert ran.outcomes == {7: "done", 8: "done"}, ran.stderr
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1
    assert place.on_trunk("second-7.txt") == "the rest"


@pytest.mark.parametrize("whose", ["agent", "keeper"])
@pytest.mark.parametrize("when", ["during the run", "with the supervisor"])
def test_a_killed_agent_is_one_failed_try(place: Place, slow: tuple[Path, Path], whose: str, when: str) -> None:
    """S51, R27: `no-sentinel`, back in the queue with its commits, and the next attempt goes on from them."""
    process = running(place, slow[0])
    if when == "with the supervisor":
        process.kill()
        ended(process)
    os.kill(_tree(place)[whose], signal.SIGKILL)
    slow[1].touch()

    ran = ended(process) if when == "during the run" else place.run()

    assert [item["outcome"] for item in ran.payload["attempts"]] == ["no-sentinel", "done", "done"], ran.stderr
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["no-sentinel", "done"]
    told = {"agent": "killed by signal 9", "keeper": "its keeper was lost"}
    assert told[whose] in section(place.envelopes(7)[0], "outcome")
    assert place.on_trunk("first-7.txt") == "the work"
    assert _agents_running(place) == []


def test_a_keeper_that_never_came_to_life_is_started_anew(place: Place) -> None:
    """R20: what a crash or a full disk leaves of its file names no process; the agent has not run yet."""
    place.file(7)
    ended(place.start("after", "run-started:1", program=[PROGRAM]))
    run_dir = place.attempt(7) / "runs/1-agent"
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "tree").write_text('{"pid": ')

    ran = place.run()

    assert ran.outcomes == {7: "done"}, place.envelopes(7)


def _tree(place: Place) -> dict[str, int]:
    """The pids of the keeper and of the agent that it keeps."""
    [tree] = place.attempt(7).glob("runs/*-agent/tree")
    pids: list[Any] = [json.loads(line)["pid"] for line in tree.read_text().splitlines()[:2]]
    return dict(zip(("keeper", "agent"), pids, strict=True))


def _agents_running(place: Place) -> list[int]:
    """Pids of processes that work in a worktree of this place."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            cwd = (entry / "cwd").readlink()
        except OSError:
            continue
        if cwd.is_relative_to(place.clone / ".red/tmp/workers"):
            found.append(int(entry.name))
    return sorted(found)


def _worker_log(place: Place) -> str:
    return "".join(path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"))


def _is_pending(pid: int, number: int) -> bool:
    """Whether the kernel still holds the signal for the process."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool((int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)) >> (number - 1) & 1)
