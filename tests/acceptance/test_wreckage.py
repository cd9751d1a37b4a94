"""Whatever is broken in one attempt's folder or behind its back: the others are worked, and later runs are fit."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, ended


def no_administration(place: Place) -> None:
    shutil.rmtree(place.clone / ".git" / "worktrees")


def no_branch(place: Place) -> None:
    for ref in gitkit.refs(place.clone, "refs/heads/afk/"):
        gitkit.git(place.clone, "update-ref", "-d", ref)


def no_runs(place: Place) -> None:
    shutil.rmtree(place.attempt(1) / "runs")


def no_worktree(place: Place) -> None:
    shutil.rmtree(place.attempt(1) / "worktree")


def broken_index(place: Place) -> None:
    for index in (place.clone / ".git" / "worktrees").glob("*/index"):
        index.write_bytes(b"junk")


def broken_journal(place: Place) -> None:
    (place.attempt(1) / "attempt.json").write_text("{")


def foreign_journal(place: Place) -> None:
    journal = '{"version": 1, "attempt_id": "wABCD-1-a1", "facts": {}, "steps": {}}'
    (place.attempt(1) / "attempt.json").write_text(journal)


WRECKS = (no_administration, no_branch, no_runs, no_worktree, broken_index, broken_journal, foreign_journal)


@pytest.mark.parametrize("wreck", WRECKS, ids=lambda wreck: wreck.__name__)
def test_one_wrecked_attempt_never_stops_the_others(
    place: Place, tmp_path: Path, wreck: Callable[[Place], None]
) -> None:
    """L45: the other issue lands, the wrecked one is told, taken over or left in the queue, and the next run is fit."""
    place.configure(claim={"lease_s": 3, "renew_s": 1}, recovery={"tries": {"crashed": 1}})
    place.file(1, body=f"agent: slow {tmp_path / 'ready'} {tmp_path / 'go'}\n")
    process = place.start("run", "--json")
    gitkit.wait_until((tmp_path / "ready").exists, "the agent's first commit")
    process.send_signal(signal.SIGKILL)
    ended(process)
    wreck(place)
    place.file(2)
    (tmp_path / "go").write_text("")

    ran = place.run()

    assert ran.code in (0, 1), ran.stderr
    assert ran.outcomes.get(2) == "done", ran.stderr
    again = place.run()
    assert again.code == 0, again.stderr
    assert place.claims() == {}
    assert "running" not in place.labels(1)
    work = {ref: gitkit.log(place.origin, ref) for ref in place.live_branches()}
    place.configure(retention={"parked_posted_days": 1e-9, "parked_unposted_days": 1e-9, "attempt_days": 1e-9})
    reaped = place.afk("reap")
    assert reaped.code == 0, reaped.stdout
    told = {each["name"]: each["action"] for each in reaped.payload["decisions"] if each["kind"] == "attempt"}
    assert {name: action for name, action in told.items() if Path(name).exists()} == dict.fromkeys(
        (str(path) for path in place.attempts()), "kept"
    )
    assert {ref: gitkit.log(place.origin, ref) for ref in place.live_branches()} == work
    assert place.run().code == 0


def test_an_agent_that_deletes_all_that_afk_keeps_loses_neither_its_work_nor_its_end(place: Place) -> None:
    """R05, R86: the owner knows what it did: this run tells the end, or the next, and neither waits for a lease."""
    place.file(7, body="agent: wrecks_worktree tmp\n")

    runs = [ended(place.start("run")), ended(place.start("run"))]

    assert runs[0].code in (0, 1), runs[0].stderr
    assert runs[1].code == 0, runs[1].stderr
    assert [row["outcome"] for row in place.history()] == ["infra"]
    assert len(place.envelopes(7)) == 1
    assert len(place.live_branches()) == 1
    assert (place.claims(), "running" in place.labels(7)) == ({}, False)
