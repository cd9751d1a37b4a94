"""What happens on a full disk. Run by test_bad_input.py inside a mount namespace, with everything on a small tmpfs."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import gitkit
import pytest
from drainkit import AGENTS, Place, status_of


@pytest.mark.parametrize("who", ["agent", "agent --after", "check", "post_merge"])
def test_a_disk_that_fills_up_ends_the_run_and_loses_nothing(place: Place, tmp_path: Path, who: str) -> None:
    """R20: the error names it; with space again the next run brings the attempt to its one end."""
    big = tmp_path / "big"
    fill = shlex.join([sys.executable, str(AGENTS / "fills_disk.py"), str(big), "--only"])
    name, _, option = who.partition(" ")
    place.file(7, "Say hello", f"agent: fills_disk {big} {option}\n" if name == "agent" else "agent: done\n")
    place.configure(
        setup=[fill] if who == "setup" else [],
        validation={"checks": [{"name": "test", "run": fill if who == "check" else "true"}]},
        hooks={who: fill} if who.endswith("_merge") else {},
    )

    full = place.run()
    big.unlink()
    ran = place.run()

    assert (full.code, full.error["code"], full.stdout) == (4, "disk_full", ""), full.stderr
    assert full.error["hint"].startswith("df -h ")
    assert [line for line in full.stderr.splitlines() if not line.startswith("{")] == []
    assert ran.outcomes == {7: "done"}, ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert [status_of(envelope) for envelope in place.envelopes(7)][-1:] == ["done"]
    assert place.landed() == ["merge: #7 Say hello"]
    assert (place.claims(), place.worktrees()) == ({}, [])
    assert len(place.live_branches()) == len(place.envelopes(7)) - 1  # that of an agent that could not write
    gitkit.git(place.origin, "fsck", "--no-dangling")


def test_nothing_is_started_with_little_space_left(place: Place, tmp_path: Path) -> None:
    """R20: what runs is finished, the next issue stays in the queue."""
    place.file(7, body=f"agent: fills_disk {tmp_path / 'big'} 100\n")
    place.file(8)

    ran = place.run()

    assert (ran.code, ran.error["code"]) == (4, "disk_full"), ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert place.labels(8) == {"ready-for-agent"}
    assert [path.name for path in place.attempts()] == ["7-a1"]
