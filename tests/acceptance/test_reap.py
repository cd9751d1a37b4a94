"""The sweep as people meet it: at the beginning of a run, and by hand."""

from __future__ import annotations

from pathlib import Path

import gitkit
from drainkit import Place, ended, reach

SOON = {"parked_posted_days": 1e-9, "attempt_days": 1e-9}


def test_a_run_sweeps_what_earlier_runs_left_before_it_works(place: Place) -> None:
    """L42: once, in the supervisor; the work itself is on the remote and stays, and the log names what went."""
    place.file(1, body="agent: blocked\n")
    assert place.run().outcomes == {1: "blocked"}
    path = place.attempt(1)
    [shown] = place.afk("worktree", "list").payload["worktrees"]
    assert (shown["attempt_id"], shown["ttl_s"], shown["prunable"]) == (f"{path.parent.name}-1-a1", 86400, False)
    assert (shown["worktree_path"], shown["dirty"], shown["in_use"]) == (str(path / "worktree"), False, False)
    [branch] = place.afk("branch", "list").payload["branches"]
    assert (branch["attempt_id"], branch["outcome"], branch["issue_state"]) == (shown["attempt_id"], "blocked", "open")
    assert branch["local_sha"] == branch["remote_sha"] == place.live_branches()[branch["branch"]]

    place.configure(retention=SOON)
    [shown] = place.afk("worktree", "list").payload["worktrees"]
    assert shown["prunable"] is True
    place.file(2, body="agent: done\n")
    ran = place.run()

    assert ran.outcomes == {2: "done"}
    assert "sweep.removed" in (place.clone / ".red/tmp/supervisor.log.toonl").read_text()
    assert not path.exists()
    assert place.worktrees() == []
    assert place.afk("worktree", "list").payload == {
        "schema": "afk.worktree.list.v1",
        "worktrees": [],
        "checkouts": [],
    }
    assert place.afk(*branch["command"].split()[1:]).payload["head_sha"] == branch["remote_sha"]


def test_a_person_may_sweep_by_hand_but_not_beside_a_run(place: Place, tmp_path: Path) -> None:
    """L43: what only the supervisor may touch is refused with its pid; a dry run only looks."""
    place.configure(retention=SOON)
    place.file(1, body=f"agent: slow {tmp_path / 'ready'} {tmp_path / 'go'}\n")
    process = place.start("run", "--json")
    reach(process, (tmp_path / "ready").exists, "the agent's first commit")
    for command in (["reap"], ["worktree", "prune"]):
        refused = place.afk(*command)
        assert (refused.code, refused.error["code"], refused.error["hint"]) == (4, "supervisor_running", "afk status")
        assert str(process.pid) in refused.error["message"]
    looked = place.afk("reap", "--dry-run")
    assert [each["code"] for each in looked.payload["decisions"] if each["kind"] == "attempt"] == ["unfinished"]
    (tmp_path / "go").touch()
    assert ended(process).outcomes == {1: "done"}

    id = f"{place.attempt(1).parent.name}-1-a1"
    would = place.afk("worktree", "prune", "--dry-run").payload
    assert (would["dry_run"], would["removed"], place.attempt(1).exists()) == (True, [id], True)
    pruned = place.afk("worktree", "prune").payload
    assert (pruned["removed"], pruned["kept"], pruned["failed"]) == ([id], [], [])
    assert place.attempts() == []


def test_every_decision_is_listed_with_its_reason(place: Place) -> None:
    place.file(1, body="agent: blocked\n")
    place.run()
    stranger = place.attempt(1).parent / "notes"
    gitkit.write(stranger, {"mine.txt": "1"})
    seen = place.afk("reap", "--dry-run").payload
    kinds = {each["kind"]: (each["action"], each["code"]) for each in seen["decisions"] if each["issue_number"] == 1}
    assert kinds == {
        "attempt": ("kept", "young"),
        "live_branch": ("kept", "open"),
        "branch": ("kept", "in_use"),
    }
    assert seen["counts"]["kept"] == len(seen["decisions"]) == 4
    text = ended(place.start("reap")).stdout
    assert f"{stranger}  afk did not make it" in text
    assert text.endswith("\n4 kept\n")
    assert (stranger / "mine.txt").exists()
