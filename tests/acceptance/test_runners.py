"""The known agents end to end through `afk run`: their names in PATH, their captured streams, real git and keepers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, section, status_of
from replaykit import stand_in

KINDS = ("claude", "codex", "opencode", "gemini")
KEYS = {
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "OPENAI_API_KEY": "key-of-openai",
    "GEMINI_API_KEY": "key-of-gemini",
    "OPENCODE_API_KEY": "key-of-opencode",
    "GH_TOKEN": "token-of-tracker",
}
OWN = {
    "claude": "ANTHROPIC_API_KEY",
    "codex": "OPENAI_API_KEY",
    "opencode": "OPENCODE_API_KEY",
    "gemini": "GEMINI_API_KEY",
}
CASES = {
    1: "success",
    2: "blocked",
    3: "killed_sigkill",
    4: "unauthorized_401",
    5: "stream_cut_mid",
    6: "quota_exhausted",
}
ENDS = {1: "done", 2: "blocked", 3: "no-sentinel", 4: "infra", 5: "runner-transient", 6: "exhausted"}
LABELS = {2: "blocked:spec", 3: "blocked:runner", 4: "blocked:infra", 5: "blocked:runner-transient"}


def prepare(place: Place, kind: str, **changes: object) -> None:
    place.configure(
        runner=kind,
        agents={kind: {}},
        recovery={"tries": {"crashed": 1, "runner-transient": 1, "quota": 1}},
        **changes,
    )


def ends_of(kind: str) -> dict[int, str]:
    """gemini has no capture of a cut stream; opencode heals one by itself."""
    return {
        number: "done" if (kind, CASES[number]) == ("opencode", "stream_cut_mid") else outcome
        for number, outcome in ENDS.items()
        if (kind, CASES[number]) != ("gemini", "stream_cut_mid")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_each_end_of_a_known_agent_becomes_its_outcome(place: Place, tmp_path: Path, kind: str) -> None:
    """R40, R53, R56, R75, L38, S61, S72: done, blocked, killed, refused, cut, out of quota; each with one envelope."""
    place.environ |= KEYS
    agent = stand_in(place, tmp_path / "bin", kind)
    prepare(place, kind)
    expected = ends_of(kind)
    for number in expected:
        place.file(number, body=f"Add a greeting.\n\nreplay: {CASES[number]}\n")

    ran = place.run()

    assert ran.outcomes == expected, ran.stderr
    assert ran.code == 75  # the only runner has nothing left
    assert [len(place.envelopes(number)) for number in expected] == [1] * len(expected)
    assert place.on_trunk("work-1.txt") == f"the work of {kind}"
    for number, label in LABELS.items():
        if expected.get(number) == ENDS[number]:
            assert label in place.labels(number)
    assert "; next: " in section(place.envelopes(4)[0], "outcome")
    stages = [to for to in ran.transitions(1) if to in ("setup", "explore", "impl", "tests", "commit")]
    assert stages == ["setup", "explore", "impl", "tests", "commit"]
    assert place.state(2)["envelope"]["posted"] is True
    for note in agent.notes:
        assert note["cwd"].endswith("/worktree")
        assert set(KEYS) & set(note["names"]) == {OWN[kind]}
    shown = place.afk("attempt", "show", _id(place, 2)).payload["usage"]
    assert (shown["tokens_in"], shown["tokens_out"]) == (2100, 100)


def test_a_prompt_of_a_megabyte_that_begins_like_an_option_arrives_whole(place: Place, tmp_path: Path) -> None:
    """R31: it is standard input (for every kind: test_dialect), so that no limit and no parser is in between."""
    text = "--version\n" + "All of this is one task. \n" * 40_000
    gitkit.write(place.clone, {".red/prompt.md": text})
    agents = {kind: stand_in(place, tmp_path / "bin", kind) for kind in ("codex", "gemini")}
    place.file(1)
    for kind, agent in agents.items():
        place.edit(1, labels=["ready-for-agent"], state="open")
        prepare(place, kind)
        ran = place.run()
        assert ran.outcomes == {1: "done"}, ran.stderr
        [note] = agent.notes
        assert note["prompt_chars"] > 1_000_000
        assert note["prompt_sha256"] == hashlib.sha256(text.encode()).hexdigest()
        assert not any("--version" in word for word in note["arguments"])


@pytest.mark.parametrize(
    ("kind", "lines", "bounds", "told"),
    [
        ("claude", 12, {"tokens": 4800}, "tokens: limit 4800, used 4800"),
        ("opencode", 16, {"tokens": 4000}, "tokens: limit 4000, used 4800"),
    ],
)
def test_a_spent_budget_stops_the_agent_and_is_named(
    place: Place, tmp_path: Path, kind: str, lines: int, bounds: dict[str, object], told: str
) -> None:
    """L20; `blocked:budget`, envelope `blocked`; what is committed is pushed before the agent is stopped."""
    stand_in(place, tmp_path / "bin", kind)
    prepare(place, kind, bounds=bounds)
    place.file(7, body=f"replay: success\nhold: {lines}\n")

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:budget"}
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "blocked"
    assert f"budget spent: {told}" in section(envelope, "outcome")
    [sha] = place.live_branches().values()
    assert gitkit.git(place.origin, "show", f"{sha}:work-7.txt") == f"the work of {kind}"
    record = json.loads((place.attempt(7) / "runs/1-agent/exit").read_text())
    assert record["ended_by"] == "budget"
    assert place.afk("attempt", "show", _id(place, 7)).payload["usage"]["tokens_in"] == 4600


def test_no_further_run_is_started_on_a_spent_budget(place: Place, tmp_path: Path) -> None:
    """Usage is told with the end here, so the budget is found spent when the agent should run again."""
    agent = stand_in(place, tmp_path / "bin", "codex")
    prepare(place, "codex", bounds={"tokens": 6000})
    place.file(7, body="replay: success\nleave: scratch\n")

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:budget"}
    assert "budget spent: tokens: limit 6000, used 6250" in section(place.envelopes(7)[0], "outcome")
    assert len(agent.notes) == 1
    assert len(place.live_branches()) == 1


def test_a_cost_budget_that_a_runner_cannot_tell_is_refused_before_anything_is_claimed(
    place: Place, tmp_path: Path
) -> None:
    stand_in(place, tmp_path / "bin", "codex")
    prepare(place, "codex", bounds={"cost_usd": 1})
    place.file(7)

    ran = place.run()

    assert (ran.code, ran.error["code"]) == (4, "ground_unfit")
    assert "does not tell what it costs" in ran.error["message"]
    assert ran.error["hint"] == "set afk.bounds.tokens in its place"
    assert place.claims() == {}


def test_opencode_works_with_the_persons_login_in_a_state_of_its_own(place: Place, tmp_path: Path) -> None:
    """L51"""
    login = tmp_path / "home/.local/share/opencode/auth.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    place.environ["HOME"] = str(tmp_path / "home")
    stand_in(place, tmp_path / "bin", "opencode")
    prepare(place, "opencode")
    place.file(2, body="replay: blocked\n")

    ran = place.run()

    assert ran.outcomes == {2: "blocked"}, ran.stderr
    assert (place.attempt(2) / "agent/XDG_DATA_HOME/opencode/auth.json").resolve() == login


def test_the_flag_chooses_the_runner_and_a_missing_program_is_found_first(place: Place, tmp_path: Path) -> None:
    stand_in(place, tmp_path / "bin", "codex")
    place.file(1)
    assert place.run("--runner", "codex").outcomes == {1: "done"}
    place.environ["PATH"] = "/usr/bin:/bin"
    place.file(2)
    refused = place.run("--runner", "gemini")
    assert refused.error["code"] == "ground_unfit"
    assert "gemini was not found" in refused.error["message"]


def _id(place: Place, number: int) -> str:
    folder = place.attempt(number)
    return f"{folder.parent.name}-{folder.name}"
