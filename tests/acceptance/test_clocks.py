"""The clocks of real agents: hours pass in a second, because the clock behind its port is in a hurry."""

from __future__ import annotations

import os
from pathlib import Path

import gitkit
from drainkit import Place, ended, reach, section, status_of

HURRIED = str(Path(__file__).parents[1] / "hurried_run.py")
ONCE = {"tries": {"stalled": 1, "wall-clock-capped": 1}}


def test_of_three_silent_agents_only_the_one_that_hangs_is_stalled(place: Place, tmp_path: Path) -> None:
    """L22, L23, R34: CPU and a test program are signs of life; what afk itself writes (here 100 s of it) is none."""
    hurry, fifo = tmp_path / "hurry", tmp_path / "over"
    bounds = {"silence_flag_s": 5, "silence_kill_s": 15, "wall_clock_s": "unlimited"}
    place.configure(workers=3, bounds=bounds, recovery=ONCE)
    place.file(1, body=f"agent: silent {tmp_path}/ready1\n")
    place.file(2, body=f"agent: quiet_work computes {tmp_path}/ready2 {fifo}2\n")
    place.file(3, body=f"agent: quiet_work tests {tmp_path}/ready3 {fifo}3\n")

    process = place.start(str(hurry), program=[HURRIED])
    reach(process, lambda: len(list(tmp_path.glob("ready?"))) == 3, "three silent agents")
    hurry.touch()
    reach(process, lambda: place.labels(1) == {"ready-for-human", "blocked:stalled"}, "the end of the one that hangs")
    reach(process, lambda: _log(place).count("agent.silent") >= 3, "word of the silence of all")
    for number in (2, 3):
        os.close(os.open(f"{fifo}{number}", os.O_WRONLY | os.O_NONBLOCK))  # raises when nobody reads any more
    ran = ended(process)

    assert ran.outcomes == {1: "stalled", 2: "done", 3: "done"}, ran.stderr
    assert "silent and idle for" in section(place.envelopes(1)[0], "outcome")


def test_one_that_chatters_for_ever_is_capped_and_its_branch_is_on_the_remote_before_it_is_stopped(
    place: Place, tmp_path: Path
) -> None:
    """L20, R34, R52: the remote refused each push beside the work; the next of those is due after the ceiling."""
    hurry, working, told = (tmp_path / name for name in ("hurry", "working", "told"))
    place.configure(bounds={"wall_clock_s": 12}, recovery=ONCE)
    place.file(7, "Say hello", body=f"agent: chatters {working} {hurry} {told}\n")
    hook = place.origin / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        f"""#!/bin/sh
        grep -q refs/heads/afk/ || exit 0
        [ -e "{working}" ] || exit 0
        grep -q agent.end {place.clone}/.red/tmp/workers/*/worker.log.toonl && exit 0
        touch "{hurry}"
        exit 1
        """
    )
    hook.chmod(0o755)

    ran = ended(place.start(str(hurry), program=[HURRIED]))

    assert ran.outcomes == {7: "wall-clock-capped"}, ran.stderr
    assert told.read_text() == "on the remote"
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "wall-clock-capped"
    assert "wall clock: limit 12 s" in section(envelope, "outcome")
    [branch] = place.live_branches()
    assert branch.endswith("7-say-hello")


def test_an_issue_whose_agent_stood_still_waits_and_is_tried_again(place: Place, tmp_path: Path) -> None:
    """S55: ended, told, and due at a time that the thread names; the branch it left is kept."""
    hurry = tmp_path / "hurry"
    place.configure(bounds={"silence_kill_s": 15}, recovery={"backoff_s": 600, "backoff_max_s": 3600})
    place.file(7, body=f"agent: silent {tmp_path}/ready\n")
    process = place.start(str(hurry), program=[HURRIED])
    reach(process, (tmp_path / "ready").exists, "a silent agent")
    hurry.touch()
    ran = ended(process)
    assert ran.outcomes == {7: "stalled"}, ran.stderr
    assert place.labels(7) == {"ready-for-agent"}
    [waiting] = place.afk("queue", "list").payload["items"]
    assert (waiting["state"], waiting["reasons"][0]["code"], place.claims()) == ("waiting", "backoff", {})
    assert waiting["eligible_at_rfc3339"]


def _log(place: Place) -> str:
    return "".join(path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"))


def test_an_agent_whose_tree_holds_more_memory_than_it_may_is_stopped_and_its_commits_kept(place: Place) -> None:
    place.configure(bounds={"peak_rss_mb": 150})
    place.file(7, body="agent: hoards\n")

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:budget"}
    assert "memory: limit 150 MiB, used " in place.envelopes(7)[0]
    [(branch, tip)] = place.live_branches().items()
    assert "work-7.txt" in gitkit.git(place.origin, "ls-tree", "--name-only", tip), branch
