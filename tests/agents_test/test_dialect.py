"""How each known agent is started: its words, its prompt, its environment, and nothing of anybody else's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from captures import DIALECTS

from afk.agents import KINDS, agent_for
from afk.agents.environment import agent_environment
from afk.config import RUNNER_KINDS, AgentConfig, Config
from afk.errors import ConfigError
from afk.ports import AgentCommand, RunContext

CONTEXT = RunContext(Path("/w"), Path("/r/prompt"), Path("/a/agent"), {"HOME": "/home/ann"})
KEYS = {
    "claude": {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"},
    "codex": {"OPENAI_API_KEY", "CODEX_API_KEY"},
    "opencode": {"OPENCODE_API_KEY"},
    "gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
}


def command(kind: str, **settings: object) -> AgentCommand:
    config = Config(agents={"mine": AgentConfig(kind=kind, **settings)})  # type: ignore[arg-type]
    return agent_for(config, "mine").command(CONTEXT)


@pytest.mark.parametrize(
    ("kind", "argv"),
    [
        ("claude", "claude -p --output-format stream-json --verbose --dangerously-skip-permissions"),
        ("codex", "codex exec --json --dangerously-bypass-approvals-and-sandbox -C /w -"),
        ("opencode", "opencode run --format json"),
        ("gemini", "gemini --yolo --skip-trust --output-format stream-json"),
    ],
)
def test_it_starts_with_nobody_at_the_keyboard_and_the_prompt_as_its_input(kind: str, argv: str) -> None:
    """R28, R29, R31, S61, S66, L50"""
    made = command(kind)
    assert made.argv == tuple(argv.split())
    assert made.stdin == Path("/r/prompt")
    assert agent_for(Config(runner=kind), kind).command(CONTEXT).argv == made.argv


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("claude", "--model m --effort high --more"),
        ("codex", '--model m -c model_reasoning_effort="high" --more -'),
        ("opencode", "--model m --variant high --more"),
    ],
)
def test_model_effort_and_more_come_from_the_configuration(kind: str, end: str) -> None:
    made = command(kind, model="m", effort="high", extra_args=("--more",), argv=("/opt/it", "--profile"))
    assert made.argv[:2] == ("/opt/it", "--profile")
    assert " ".join(made.argv).endswith(end)


def test_an_effort_that_the_program_has_no_word_for_is_refused() -> None:
    """S10"""
    with pytest.raises(ConfigError, match="`effort` means nothing to kind `gemini`") as refused:
        command("gemini", effort="high")
    assert refused.value.hint == "take `effort` out of `afk.agents.mine`"


@pytest.mark.parametrize("kind", DIALECTS)
def test_it_gets_its_own_key_and_nobody_elses(kind: str) -> None:
    """R75, S72, L52"""
    others = {name for keys in KEYS.values() for name in keys}
    secrets = {*others, "GH_TOKEN", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"}
    made = command(kind)
    person = dict.fromkeys(secrets, "x") | {"PATH": "/bin"}
    environ = agent_environment(person, Path("/w"), allow=made.env_names, extra=made.env)
    assert secrets & set(environ) == KEYS[kind]


def test_every_kind_that_the_configuration_knows_can_be_run() -> None:
    """S9"""
    assert sorted(KINDS) == sorted(RUNNER_KINDS)


def test_nothing_updates_itself_or_asks_under_a_run() -> None:
    """R29, R33"""
    assert command("claude").env["DISABLE_AUTOUPDATER"] == "1"
    assert command("opencode").env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"
    assert json.loads(command("opencode").env["OPENCODE_PERMISSION"]) == {"*": "allow"}
    assert command("gemini").env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"


def test_claude_is_told_that_it_may_work_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    for uid, expected in ((0, "1"), (1000, None)):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        assert command("claude").env.get("IS_SANDBOX") == expected


def test_opencode_keeps_its_state_apart_and_the_persons_login() -> None:
    """L51: its database locks when several share it."""
    made = command("opencode")
    assert {made.env[f"XDG_{name}_HOME"] for name in ("DATA", "STATE", "CACHE")} == {
        f"/a/agent/XDG_{name}_HOME" for name in ("DATA", "STATE", "CACHE")
    }
    place = Path("/a/agent/XDG_DATA_HOME/opencode/auth.json")
    assert made.links == ((place, Path("/home/ann/.local/share/opencode/auth.json")),)
    elsewhere = RunContext(Path("/w"), Path("/p"), Path("/a/agent"), {"XDG_DATA_HOME": "/data"})
    assert agent_for(Config(), "opencode").command(elsewhere).links == ((place, Path("/data/opencode/auth.json")),)
