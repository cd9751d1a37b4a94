"""`afk run --watch`: it stays up, says why nothing happens, and nothing that passes by itself ends it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drainkit
import gitkit
import pytest
from drainkit import Place, ended

from afk import __version__

LIMIT_S = 120  # waits of an outage double, and the machine may be busy


def reach(process: subprocess.Popen[str], is_true: Callable[[], object], what: str) -> None:
    drainkit.reach(process, is_true, what, limit_s=LIMIT_S)


def watching(place: Place, *arguments: str) -> subprocess.Popen[str]:
    """`afk run --watch`, at the moment when it has nothing left to do."""
    place.file(99, labels=["for-people"])
    process = place.start("run", "--watch", "--json", *arguments)
    reach(process, lambda: codes(place) == ["queue_empty"], "an idle run")
    return process


def activity(place: Place) -> dict[str, Any]:
    """What the supervisor publishes; {} before it has."""
    path = place.clone / ".red/tmp/supervisor.state.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def codes(place: Place) -> list[str]:
    return [why["code"] for why in activity(place).get("waits_for", [])]


def is_closed(place: Place, number: int) -> bool:
    return bool(place.issue(number)["state"] == "closed")


def log(place: Place) -> str:
    path = place.clone / ".red/tmp/supervisor.log.toonl"
    return path.read_text() if path.exists() else ""


def test_it_stays_up_and_works_what_comes_and_falls_idle_once_each_time(place: Place, tmp_path: Path) -> None:
    """R33, S78: what comes later is worked by the same run; the status shows one that an upgrade has left behind."""
    idle = tmp_path / "idle"
    place.configure(hooks={"on_idle": [{"run": f"echo idle >> {idle}"}]})
    place.file(1)
    process = watching(place)
    assert is_closed(place, 1)
    reach(process, lambda: log(place).count("queue.idle") == 1, "the first idle time")

    place.file(2)
    reach(process, lambda: is_closed(place, 2), "the second issue")
    reach(process, lambda: idle.read_text().count("idle") == 2, "the second idle time")
    status = place.afk("status").payload
    state = place.clone / ".red/tmp/supervisor.state.json"
    state.write_text(state.read_text().replace(f'"afk_version": "{__version__}"', '"afk_version": "0.0.1"'))
    upgraded = place.afk("status").payload
    place.afk("stop")
    ran = ended(process)

    assert status["activity"]["watching"]
    assert ([note["code"] for note in upgraded["notes"]], status["notes"]) == (["version_drift"], [])
    assert [(slot["state"], slot["reason"]) for slot in status["activity"]["slots"]] == [
        ("idle", "no open issue is ready to be worked")
    ]
    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (0, "stop", {1: "done", 2: "done"}), ran.stderr
    assert idle.read_text().count("idle") == 2
    assert not activity(place)


def test_issues_that_wait_are_picked_when_their_time_comes(place: Place) -> None:
    """S54, S57: a backoff and a dependency; meanwhile the status says what is waited for and until when."""
    place.configure(recovery={"backoff_s": 4, "backoff_max_s": 4, "tries": {"crashed": 3}})
    place.file(1, body="agent: exits_three\n")
    place.file(2, labels=["ready-for-agent", "req:1"])
    process = place.start("run", "--watch", "--json")
    reach(process, lambda: set(codes(place)) == {"backoff", "dependency_open"}, "both to wait")
    waits = {why["issue_number"]: why for why in place.afk("status").payload["activity"]["waits_for"]}
    place.edit(1)
    issue = place.clone / ".red/issues/1/issue.md"
    issue.write_text(issue.read_text().replace("agent: exits_three", "agent: done"))

    reach(process, lambda: is_closed(place, 1) and is_closed(place, 2), "both issues")
    place.afk("stop")
    ran = ended(process)

    assert waits[1]["until_rfc3339"] is not None
    assert (waits[2]["until_rfc3339"], waits[2]["message"]) == (None, "#2: #1 is open")
    assert ran.outcomes == {1: "done", 2: "done"}, ran.stderr


def test_a_pause_is_told_as_the_reason(place: Place) -> None:
    place.afk("pause")
    place.file(1)
    process = place.start("run", "--watch", "--json")
    reach(process, lambda: codes(place) == ["paused"], "the pause")
    assert "paused until `afk resume`" in ended(place.start("status")).stdout

    place.afk("resume")
    reach(process, lambda: is_closed(place, 1), "the issue")
    place.afk("stop")
    assert ended(process).code == 0


def test_a_remote_that_goes_away_ends_nothing_and_is_told_once(place: Place) -> None:
    """R59: it is said once, asked again after a while, and work goes on when it answers; no try is charged."""
    process = watching(place, "--verbose")
    away = place.origin.rename(place.origin.with_name("away.git"))
    place.file(1)
    reach(process, lambda: codes(place) == ["away"], "the outage")
    [why] = place.afk("status").payload["activity"]["waits_for"]
    assert why["until_rfc3339"] is not None
    reach(process, lambda: log(place).count("queue.wait") >= 2, "a second look")

    away.rename(place.origin)
    reach(process, lambda: is_closed(place, 1), "the issue")
    place.afk("stop")
    ran = ended(process)

    assert ran.outcomes == {1: "done"}, ran.stderr
    assert ran.stderr.count("nothing new is started until that has passed") == 1
    assert len(place.envelopes(1)) == 1


def test_a_remote_that_is_away_at_the_start_is_waited_for(place: Place) -> None:
    """R59: the machine came up before its network; without `--watch` that is an error."""
    place.file(1)
    port = gitkit.free_port()
    gitkit.git(place.clone, "remote", "set-url", "origin", f"git://127.0.0.1:{port}/{place.origin.name}")
    refused = place.run()
    process = place.start("run", "--watch", "--json")
    reach(process, lambda: codes(place) == ["away"], "the wait")

    with gitkit.daemon(place.origin.parent, port):
        reach(process, lambda: is_closed(place, 1), "the issue")
        place.afk("stop")
        ran = ended(process)

    assert (refused.code, refused.error["code"]) == (4, "ground_unfit")
    assert (ran.code, ran.outcomes) == (0, {1: "done"}), ran.stderr


def test_a_stop_is_heard_while_nobody_answers(place: Place) -> None:
    process = watching(place)
    place.origin.rename(place.origin.with_name("away.git"))
    place.file(1)
    reach(process, lambda: codes(place) == ["away"], "the outage")
    place.afk("stop")
    ran = ended(process)
    assert (ran.code, ran.payload["stopped_by"]) == (0, "stop"), ran.stderr


def test_what_could_not_be_told_is_told_by_the_same_run(place: Place, tmp_path: Path) -> None:
    """R86: the tracker refuses for longer than an attempt's patience; the run takes the attempt up again by itself."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(1, body=f"agent: slow {ready} {go}\n")
    place.file(2, labels=[])
    process = place.start("run", "--watch", "--json", "--verbose")
    reach(process, ready.exists, "the agent's commit")
    issue = place.clone / ".red/issues/1/issue.md"
    text = issue.read_text()
    issue.write_text("---\ntitle: [\n---\n")
    go.touch()
    reach(process, lambda: "attempt.owed" in log(place), "an end that cannot be told")
    issue.write_text(text)

    reach(process, lambda: is_closed(place, 1), "the end")
    reach(process, lambda: codes(place) == ["queue_empty"], "an idle run")
    place.afk("stop")
    ran = ended(process)

    assert (ran.code, ran.payload["stranded"]) == (0, []), ran.stderr
    assert ran.outcomes == {1: "done"}
    assert len(place.envelopes(1)) == 1
    assert place.claims() == {}


def test_an_exhausted_account_rests_the_run_and_does_not_end_it(place: Place) -> None:
    """L05: nothing new is started for a while; the status says until when."""
    place.configure(recovery={"backoff_s": 3, "backoff_max_s": 3, "tries": {"quota": 1}})
    place.file(1, body="agent: fails_with agent_quota_exhausted\n")
    process = place.start("run", "--watch", "--json")
    reach(process, lambda: codes(place) == ["exhausted"], "the rest")
    place.file(2)
    reach(process, lambda: is_closed(place, 2), "the next issue")
    place.afk("stop")
    ran = ended(process)
    assert (ran.code, ran.payload["stopped_by"]) == (0, "stop"), ran.stderr


# ── The issue changes under us ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"state": "closed"}, "was closed"),
        ({"labels": ["mine"]}, "the label `running` was taken away"),
        ({"assignees": ["Person"]}, "was assigned to Person"),
        (None, ""),
    ],
    ids=["closed", "unlabelled", "reassigned", "deleted"],
)
def test_an_issue_that_people_take_back_stops_its_agent(
    place: Place, tmp_path: Path, change: dict[str, Any] | None, told: str
) -> None:
    """R69, S47, S48: agent stopped, branch kept, claim released, and no label touched but our own `running`."""
    ready = tmp_path / "ready"
    place.file(1, body=f"agent: slow {ready} {tmp_path / 'never'}\n")
    process = place.start("run", "--json")
    reach(process, lambda: ready.exists() and place.labels(1) == {"running"}, "the agent at work")
    if change is None:
        (place.clone / ".red/issues/1").rename(tmp_path / "deleted")
    else:
        place.edit(1, **change)
    ran = ended(process)

    assert (ran.code, ran.outcomes) == (0, {1: "blocked"}), ran.stderr
    assert place.claims() == {}
    [tip] = place.live_branches().values()
    assert "first-1.txt" in gitkit.git(place.origin, "ls-tree", "--name-only", tip)
    if change is not None:
        assert place.issue(1)["state"] == change.get("state", "open")
        assert place.labels(1) == set(change.get("labels", []))
        [envelope] = place.envelopes(1)
        assert told in envelope


# ── Reload ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_changed_configuration_applies_to_the_next_attempt_and_to_no_running_one(
    place: Place, tmp_path: Path
) -> None:
    """S3, S4: more workers are opened at once; a broken file is told and changes nothing; what runs keeps its own."""
    first, second = tmp_path / "first", tmp_path / "second"
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.configure(validation={"checks": [{"name": "one", "run": f"touch {first}"}]})
    place.file(1, body=f"agent: slow {ready} {go}\n")
    process = place.start("run", "--watch", "--json", "--verbose")
    reach(process, ready.exists, "the first agent")

    place.write_config("afk: {workers: 0}\n")
    reach(process, lambda: activity(place)["config_problem"], "the broken file")
    notes = {note["code"]: note["message"] for note in place.afk("status").payload["notes"]}
    place.configure(validation={"checks": [{"name": "two", "run": f"touch {second}"}]}, workers=2, remote="elsewhere")
    place.file(2)
    reach(process, lambda: is_closed(place, 2), "the second issue, in a second slot")
    assert (first.exists(), second.exists(), is_closed(place, 1)) == (False, True, False)
    assert [slot["slot"] for slot in activity(place)["slots"]] == [1, 2]
    go.touch()
    reach(process, lambda: is_closed(place, 1), "the first issue")
    place.configure()
    reach(process, lambda: len(activity(place)["slots"]) == 1, "the second slot to be closed")
    place.afk("stop")
    ran = ended(process)

    assert first.exists()
    assert "afk.workers" in notes["config_broken"]
    assert log(place).count("config.broken") == 1
    assert "afk.remote applies to the next `afk run`" in ran.stderr
    assert ran.outcomes == {1: "done", 2: "done"}, ran.stderr
