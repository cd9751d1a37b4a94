"""The commands that look, at a project that was drained and at places where there is nothing to see."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gitkit
import pytest
from demokit import Demo
from drainkit import Place, ended

SUMMARY = {
    "attempt_id",
    "worker_id",
    "issue_number",
    "attempt",
    "state",
    "outcome",
    "envelope_status",
    "started_at_rfc3339",
    "finished_at_rfc3339",
    "duration_ms",
    "diff",
    "merge_sha",
}


# ── status ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_status_tells_what_came_of_the_last_run(demo: Demo) -> None:
    seen = demo.payload("status")
    assert seen["daemon"]["state"] == "stopped"
    assert seen["runner"] == "command"
    assert {name: seen["totals"][name] for name in ("done", "failed", "in_flight")} == {
        "done": 2,
        "failed": 0,
        "in_flight": 0,
    }
    assert seen["last_attempt"]["attempt_id"] == demo.attempt_id(7)
    assert seen["last_attempt"]["outcome"] == "hook-aborted"
    assert (seen["workers"], seen["notes"]) == ([], [])
    assert "stopped; 2 landed" in demo.afk("status").stdout


def test_two_looks_at_one_state_are_equal(demo: Demo) -> None:
    assert demo.payload("status") == demo.payload("status")


def test_status_of_a_fresh_checkout_has_every_field(place: Place) -> None:
    (place.clone / ".red/config.yaml").unlink()
    seen = place.afk("status").payload
    assert seen["project"] == {
        "root_path": str(place.clone),
        "repo": place.clone.name,
        "base_branch": "main",
        "config_path": str(place.clone / ".red/config.yaml"),
    }
    assert set(seen["totals"].values()) == {0}
    assert seen["last_attempt"] is None
    assert [note["code"] for note in seen["notes"]] == ["config_missing"]


def test_status_survives_whatever_stands_in_the_files(place: Place) -> None:
    """S58: what cannot be read is seen, and holds nobody up."""
    place.write_config("afk: [\n")
    gitkit.write(
        place.clone,
        {
            ".red/tmp/supervisor.json": "{",
            ".red/tmp/workers/wAAAA/7-a1/afk.state.json": '{"current": 7}',
            ".red/state/history.toonl": b"[]{at,issue\n\xff\xfe\n",
        },
    )
    seen = place.afk("status").payload
    assert seen["daemon"]["state"] == "stale"
    assert [(worker["worker_id"], worker["state"]) for worker in seen["workers"]] == [("wAAAA", "unreadable")]
    assert [note["code"] for note in seen["notes"]] == ["config_unreadable", "state_unreadable"]


def state_file(pid: int, start: str) -> str:
    current = {"number": 7, "title": "Seven", "stage": "impl"}
    return json.dumps({"worker_id": "wAAAA", "pid": pid, "pid_start_time": start, "total": 3, "current": current})


def test_a_worker_is_live_only_while_its_very_process_is(place: Place) -> None:
    """R26: the pid alone proves nothing."""
    from afk.adapters.process import identity_of

    us = identity_of()
    assert us is not None
    path = ".red/tmp/workers/wAAAA/7-a1/afk.state.json"
    for start, state, alive in ((us.pid_start_time, "working", True), ("1", "stale", False)):
        gitkit.write(place.clone, {path: state_file(us.pid, start)})
        seen = place.afk("status").payload
        [worker] = seen["workers"]
        assert (worker["state"], worker["alive"], worker["stage"]) == (state, alive, "impl")
        assert (worker["issue_number"], worker["attempt_id"]) == (7, "wAAAA-7-a1")
        assert seen["totals"]["in_flight"] == int(alive)
    assert [note["code"] for note in seen["notes"]] == ["attempt_orphaned"]


def test_status_loads_nothing_heavy(place: Place) -> None:
    """S78: a look must not cost what a run costs."""
    script = (
        "import sys; from afk.surfaces import cli; cli.main(['status', '--json']);"
        "print([name for name in ('git', 'github', 'pydantic') if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=place.clone, capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"
    assert json.loads(ran.stdout)["kind"] == "result"


@pytest.mark.parametrize("command", ["status", "queue list", "history 1", "issue show 1", "attempt show wAAAA-1-a1"])
def test_outside_a_repository_no_look_has_a_result(tmp_path: Path, command: str) -> None:
    ran = ended(Place(tmp_path, tmp_path).start(*command.split(), "--json"))
    assert (ran.code, ran.stdout, ran.error["code"]) == (4, "", "not_a_repository")


# ── queue list ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_queue_explains_every_open_issue(demo: Demo) -> None:
    """L47: an empty queue with open work must say why."""
    seen = demo.payload("queue", "list")
    states = {item["issue_number"]: item["state"] for item in seen["items"]}
    assert states == {**dict.fromkeys([3, 4, 5, 6, 7], "ineligible"), 8: "blocked"}
    assert all(item["reasons"] for item in seen["items"])
    assert seen["items"][-1]["blocked_by"] == [3]
    assert seen["counts"] == {"ready": 0, "waiting": 0, "blocked": 1, "claimed": 0, "ineligible": 5}
    assert seen["filter"] == {"kind": "all", "value": None}


def test_a_ready_issue_needs_no_reason_and_a_broken_one_is_told(place: Place) -> None:
    place.file(1, "Ready")
    gitkit.write(place.clone, {".red/issues/2/issue.md": "---\ntitle: [\n---\n"})
    before = gitkit.contents(place.clone)
    [item] = place.afk("queue", "list").payload["items"]
    assert (item["state"], item["reasons"], item["position"]) == ("ready", [], 1)
    assert (item["attempts_used"], item["attempts_max"]) == (0, 6)
    assert item["issue_url"] == (place.clone / ".red/issues/1/issue.md").as_uri()
    told = ended(place.start("queue", "list")).stdout
    assert "left out:" in told
    assert ".red/issues/2/issue.md" in told
    assert gitkit.contents(place.clone) == before


def test_a_remote_that_is_away_is_no_empty_queue(place: Place) -> None:
    """L06."""
    place.file(1)
    place.origin.rename(place.origin.with_name("away.git"))
    ran = place.afk("queue", "list")
    assert (ran.code, ran.stdout) == (4, "")


# ── history and attempt show ────────────────────────────────────────────────────────────────────────────────────────


def test_history_is_read_from_the_thread(demo: Demo) -> None:
    [attempt] = demo.payload("history", "7")["attempts"]
    assert (attempt["status"], attempt["outcome"], attempt["attempt"]) == ("blocked", "hook-aborted", 1)
    assert attempt["diff"] == {"kind": "stat", "added": 1, "removed": 0}
    assert attempt["hooks"] == [{"lifecycle": "pre_merge", "command": "./scripts/guard.sh", "exit_code": 1}]
    assert attempt["comment_url"].endswith("/.red/issues/7/comments/0001.md")
    [landed] = demo.payload("history", "1")["attempts"]
    assert landed["diff"] == {"kind": "merged", "added": None, "removed": None}
    assert landed["merge_sha"] == demo.result["issues"][0]["merge_sha"]
    assert demo.payload("history", "8")["attempts"] == []


def test_a_broken_envelope_is_told_and_a_quoted_one_is_nobodys(place: Place) -> None:
    place.file(1)
    place.say(1, '<details data-attempt-status="blocked"><summary>not ours</summary>\n')
    place.say(1, 'I saw this:\n\n<details data-attempt-status="blocked"><summary>x</summary>\n\n</details>\n')
    seen = place.afk("history", "1").payload
    assert seen["attempts"] == []
    assert [(fault["comment_id"], fault["code"]) for fault in seen["malformed"]] == [("0001", "bad-summary")]


def test_the_history_of_an_issue_that_is_not_there_is_an_error(demo: Demo) -> None:
    ran = demo.afk("history", "99", "--json")
    assert ran.returncode == 4
    assert json.loads(ran.stderr)["error"]["code"] == "issue_not_found"


def test_an_attempt_is_shown_whole(demo: Demo) -> None:
    id = demo.attempt_id(5)
    seen = demo.payload("attempt", "show", id)
    assert seen.keys() >= SUMMARY
    assert (seen["attempt_id"], seen["state"], seen["outcome"]) == (id, "finished", "feedback-failed")
    assert seen["result"]["label"] == "blocked:validation"
    assert seen["stages"][0]["stage"] == "setup"
    assert (seen["branch"]["pushed"], seen["branch"]["on_remote"]) == (True, True)
    assert all(Path(seen["paths"][name]).exists() for name in ("worktree", "handoff", "log", "state", "validation"))
    assert (seen["validation"]["failed"], seen["validation"]["passed"]) == (1, 0)
    assert seen["envelope"]["posted"] is True
    assert seen["diff"]["files"] == 2
    text = demo.afk("attempt", "show", id).stdout
    assert "feedback-failed" in text


def test_every_attempt_has_the_same_fields_whatever_is_known_of_it(demo: Demo, tmp_path: Path) -> None:
    """The files of this machine, or the thread alone, as another machine would see it."""
    elsewhere = gitkit.clone(str(demo.origin), tmp_path / "elsewhere")
    config = (demo.checkout / ".red/config.yaml").read_text()
    issues = json.dumps(str(demo.checkout / ".red/issues"))
    gitkit.write(elsewhere, {".red/config.yaml": config.replace("tracker: local", f"local: {{path: {issues}}}")})
    id = demo.attempt_id(6)
    here = demo.payload("attempt", "show", id)
    there = Place(demo.origin, elsewhere).afk("attempt", "show", id).payload
    assert there.keys() == here.keys()
    for key in ("branch", "paths", "envelope"):
        assert there[key].keys() == here[key].keys()
    assert there["outcome"] == here["outcome"] == "merge-conflict"
    assert there["diff"] == here["diff"]
    assert there["result"]["reason"] == here["result"]["reason"]
    assert there["branch"]["name"] == here["branch"]["name"]
    assert set(there["paths"].values()) == {None}


def test_an_attempt_that_nobody_knows_is_an_error(demo: Demo) -> None:
    ran = demo.afk("attempt", "show", "wNONE-1-a9", "--json")
    assert ran.returncode == 4
    error = json.loads(ran.stderr)["error"]
    assert (error["code"], error["hint"]) == ("attempt_not_found", "afk history 1")


# ── issue show, checkout ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_issue_is_shown_with_all_that_is_known_of_it(demo: Demo) -> None:
    seen = demo.payload("issue", "show", "5")
    assert seen["issue"]["labels"] == ["ready-for-human", "blocked:validation"]
    assert (seen["queue_state"], [reason["code"] for reason in seen["reasons"]]) == ("ineligible", ["parked"])
    assert seen["claim"] is None
    [attempt] = seen["attempts"]
    assert attempt.keys() == SUMMARY
    assert seen["last_outcome"] == "feedback-failed"
    assert seen["recovery"] == {"policy": None, "remaining": 5, "next_action": "people"}
    assert [each["status"] for each in seen["envelopes"]] == ["blocked"]


def test_a_closed_issue_waits_for_nothing(demo: Demo) -> None:
    seen = demo.payload("issue", "show", "1")
    assert seen["issue"]["state"] == "closed"
    assert [reason["code"] for reason in seen["reasons"]] == ["closed"]
    assert seen["recovery"]["next_action"] is None
    assert seen["attempts"][0]["merge_sha"] == demo.result["issues"][0]["merge_sha"]


def test_a_kept_branch_is_put_into_a_worktree_of_the_persons_own(demo: Demo) -> None:
    first = demo.payload("checkout", "5")
    assert first["changed"] is True
    path = Path(first["worktree_path"])
    assert (path / "wording/truncate.py").exists()
    assert gitkit.git(path, "symbolic-ref", "HEAD") == f"refs/heads/{first['branch']}"
    assert first["live_branch"] == demo.result["issues"][4]["branch"]
    assert gitkit.git(demo.checkout, "status", "--porcelain") == ""
    mine = gitkit.commit(path, "mine", {"mine": "1"})
    again = demo.payload("checkout", "5")
    assert (again["changed"], again["head_sha"]) == (False, mine)
    gitkit.git(demo.checkout, "worktree", "remove", str(path))
    back = demo.payload("checkout", "5")
    assert (back["changed"], back["head_sha"]) == (True, mine)


def test_an_issue_without_a_branch_has_nothing_to_check_out(demo: Demo) -> None:
    ran = demo.afk("checkout", "8", "--json")
    assert ran.returncode == 4
    assert json.loads(ran.stderr)["error"]["code"] == "attempt_not_found"
    assert not (demo.checkout / ".red/checkouts/8").exists()
