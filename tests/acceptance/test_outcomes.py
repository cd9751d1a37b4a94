"""Every end that one worker can meet: label, envelope, remote branch, worktree, history, state file, exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gitkit
import pytest
from drainkit import Place, section, status_of


@dataclass(frozen=True)
class Case:
    """`agent` is the issue's `agent:` line; `label` None means the issue is back in the queue."""

    agent: str
    outcome: str
    status: str
    label: str | None
    branch_kept: bool = True
    reason: str = ""
    settings: dict[str, Any] | None = None


FAILING = {"validation": {"checks": [{"name": "test", "run": "echo it broke; exit 3"}]}}
REFUSING = {"hooks": {"pre_merge": "echo not today >&2; exit 1"}}
ONCE = {"recovery": {"tries": {"crashed": 1, "stalled": 1, "wall-clock-capped": 1, "quota": 1, "runner-transient": 1}}}
QUIET = ONCE | {"bounds": {"silence_flag_s": 0.2, "silence_kill_s": 1}}
CAPPED = ONCE | {"bounds": {"wall_clock_s": 1.5}}

CASES = {
    "done": Case("done", "done", "done", None, branch_kept=False),
    "blocked": Case("blocked", "blocked", "blocked", "blocked:spec", reason="blocked"),
    "done-without-commit": Case(
        "done_without_commit", "blocked", "blocked", "blocked:spec", reason="committed nothing"
    ),
    "dirty-then-committed": Case("dirty_tree", "done", "done", None, branch_kept=False),
    "dirty-for-ever": Case("dirty_for_ever", "blocked", "blocked", "blocked:spec", reason="uncommitted"),
    "no-sentinel-again": Case("no_sentinel", "no-sentinel", "no-sentinel", "blocked:runner", settings=ONCE),
    "no-sentinel-requeued": Case("no_sentinel", "no-sentinel", "no-sentinel", None),
    "exits-three": Case("exits_three", "no-sentinel", "no-sentinel", "blocked:runner", settings=ONCE),
    "dies-mid-line": Case("dies_mid_line", "no-sentinel", "no-sentinel", "blocked:runner", settings=ONCE),
    "check-fails": Case("done", "feedback-failed", "blocked", "blocked:validation", settings=FAILING),
    "hook-refuses": Case("done", "hook-aborted", "blocked", "blocked:policy", settings=REFUSING),
    "quotes-the-sentinel": Case("quotes_sentinel", "no-sentinel", "no-sentinel", "blocked:runner", settings=ONCE),
    "stalled": Case("silent", "stalled", "blocked", "blocked:stalled", settings=QUIET),
    "wall-clock": Case(
        "silent", "wall-clock-capped", "wall-clock-capped", "blocked:wall-clock-capped", settings=CAPPED
    ),
    "setup-fails": Case("done", "infra", "blocked", "blocked:infra", settings={"setup": ["exit 7"]}, reason="setup"),
    "nothing-checked": Case(
        "done",
        "feedback-failed",
        "blocked",
        "blocked:validation",
        settings={"validation": {"checks": [{"name": "docs", "run": "true", "when": ["*.rst"]}]}},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_attempt_ends_the_same_way_everywhere(place: Place, name: str) -> None:
    """L15: the label that parks and the envelope that says why come together, and no other label is left beside it."""
    case = CASES[name]
    place.configure(**(case.settings or {}))
    place.file(7, "Say hello", f"agent: {case.agent}\n")
    extra = ["--once"] if case.label is None and case.outcome != "done" else []

    ran = place.run(*extra)

    assert ran.code == 0, ran.stderr
    assert ran.outcomes == {7: case.outcome}
    _labels_tell(place, case)
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == case.status
    assert case.reason in envelope
    assert bool(place.live_branches()) is case.branch_kept
    assert place.claims() == {}
    assert len(place.worktrees()) == (1 if case.label else 0)
    [row] = place.history()
    assert (row["issue"], row["outcome"], row["status"]) == (7, case.outcome, case.status)
    state = place.state(7)
    assert state["current"] is None
    assert state["envelope"] == {"posted": True}


def _labels_tell(place: Place, case: Case) -> None:
    if case.outcome == "done":
        assert place.issue(7)["state"] == "closed"
        assert place.labels(7) == set()
    elif case.label:
        assert place.issue(7)["state"] == "open"
        assert place.labels(7) == {"ready-for-human", case.label}
    else:
        assert place.labels(7) == {"ready-for-agent"}


def test_a_check_that_fails_is_told_wherever_a_person_looks(place: Place) -> None:
    """S74: by name, with the last thing it said."""
    place.configure(**FAILING)
    place.file(7, body="agent: done\n")
    place.run()
    [record] = [json.loads(line) for line in (place.attempt(7) / "validation.jsonl").read_text().splitlines()]
    assert (record["name"], record["status"], record["summary"]) == ("test", "failed", "it broke")
    assert "it broke" in place.envelopes(7)[0]
    shown = place.afk("attempt", "show", f"{place.attempt(7).parent.name}-7-a1").payload
    assert shown["validation"]["checks"][0]["summary"] == "it broke"
    assert "it broke" in shown["result"]["reason"]


def test_a_done_issue_is_a_merge_on_the_trunk_with_its_trailers(place: Place) -> None:
    """R51, R83: what landed is the validated tree under a title of ours."""
    place.file(7, "Say hello @team (#1)", "agent: done\n")

    ran = place.run()

    [attempt] = ran.payload["attempts"]
    assert place.on_trunk("work-7.txt") == "the work"
    message = gitkit.git(place.origin, "log", "-1", "--format=%B", "main")
    assert message.splitlines()[0] == "merge: #7 Say hello @\u200bteam (#\u200b1)"
    assert f"Afk-Attempt: {attempt['attempt_id']}\n" in message
    assert gitkit.sha(place.origin, "main") == attempt["merge_sha"]
    assert f"merge: {attempt['merge_sha']}" in place.envelopes(7)[0].splitlines()[0]
    assert ran.transitions(7) == [
        *("claimed", "setup", "explore", "impl", "commit", "validating", "merge", "push", "close", "ended")
    ]


def test_a_conflict_that_the_agent_cannot_resolve_is_named_with_its_paths(place: Place, tmp_path: Any) -> None:
    """L02: the conflicting paths are in the envelope, and the work is on the remote."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, body=f"agent: conflicts README.md {ready} {go}\n")
    place.configure(recovery={"tries": {"merge-conflict": 1}})

    ran = _conflicting_run(place, ready, go)

    assert ran.outcomes == {7: "merge-conflict"}
    assert place.labels(7) == {"ready-for-human", "blocked:merge-conflict"}
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "merge-conflict"
    assert "README.md" in section(envelope, "log")
    assert len(place.live_branches()) == 1
    assert place.on_trunk("README.md") == "by a person"


def test_a_conflict_that_the_agent_resolves_lands(place: Place, tmp_path: Any) -> None:
    """L18: one run of the agent resolves it, and the result is what was validated."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, body=f"agent: conflicts README.md {ready} {go} --resolve\n")

    ran = _conflicting_run(place, ready, go)

    assert ran.outcomes == {7: "done"}, place.envelopes(7)
    assert "by a person" in place.on_trunk("README.md")
    assert "by issue 7" in place.on_trunk("README.md")


def _conflicting_run(place: Place, ready: Any, go: Any) -> Any:
    from drainkit import ended

    process = place.start("run", "--json")
    gitkit.wait_until(ready.exists, "the agent's commit")
    other = gitkit.clone(gitkit.url(place.origin), place.origin.parent / "other")
    gitkit.commit(other, "by a person", {"README.md": "by a person\n"})
    gitkit.git(other, "push", "-q", "origin", "main")
    go.write_text("")
    return ended(process)
