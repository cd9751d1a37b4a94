"""Kind `command`: how it is started, and what its lines mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.agents import agent_for
from afk.agents.command import CommandAgent
from afk.config import AgentConfig, Config
from afk.domain.usage import Usage
from afk.errors import ConfigError
from afk.ports import AgentEvent, EventKind, RunContext

AGENT = CommandAgent("command", ("my-agent", "--flag", "a b"))


def kinds(line: str) -> list[EventKind]:
    return [event.kind for event in AGENT.read(line)]


def event(kind: str, payload: object, **more: object) -> str:
    return json.dumps({"kind": kind, kind: payload, **more})


# ── Start ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_program_is_verbatim_and_the_prompt_is_its_input() -> None:
    """S13, R28, R31"""
    command = AGENT.command(RunContext(Path("/w"), Path("/r/prompt"), Path("/s"), {}))
    assert command.argv == ("my-agent", "--flag", "a b")
    assert command.stdin == Path("/r/prompt")
    assert command.env_names == ()


def configured(**settings: object) -> Config:
    return Config(agents={"mine": AgentConfig(kind="command", **settings)})  # type: ignore[arg-type]


def test_a_runner_is_found_by_name() -> None:
    agent = agent_for(configured(argv=("prog", "$HOME"), extra_args=("-x",)), "mine")
    assert agent.name == "mine"
    assert agent.command(RunContext(Path(), Path(), Path(), {})).argv == ("prog", "$HOME", "-x")


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ({"argv": ("x",)}, "nobody", "`nobody` is no runner"),
        ({}, "mine", "`mine` has no program"),
        ({"argv": ("x",), "model": "gpt"}, "mine", "`model` means nothing"),
        ({"argv": ("x",), "effort": "high"}, "mine", "`effort` means nothing"),
    ],
)
def test_a_runner_that_cannot_be_made_says_why(settings: dict[str, object], name: str, message: str) -> None:
    """S10"""
    with pytest.raises(ConfigError, match=message):
        agent_for(configured(**settings), name)


# ── Stream ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "line",
    [
        "working on it",
        "<promise>DONE</promise>",
        '{"kind": "other"}',
        '{"kind": "log"}',
        '{"kind": "log", "log": {}, "extra": 1}',
        '{"kind": "error", "error": {"code": "", "message": "x"}}',
        '{"kind": "log", "log": {"message": "cut',
        "[1, 2]",
        '{"a": 1}',
        "{" * 5000,
        '{"kind":' + "[" * 200_000,
    ],
)
def test_what_is_no_event_is_text(line: str) -> None:
    """S63"""
    assert AGENT.read(line) == (AgentEvent(EventKind.TEXT, line),)


def test_blank_lines_say_nothing() -> None:
    assert AGENT.read("") == ()
    assert AGENT.read(" \t") == ()


def test_text_travels_in_messages() -> None:
    for kind in ("log", "progress"):
        assert AGENT.read(event(kind, {"message": "hello"}, trace={})) == (AgentEvent(EventKind.TEXT, "hello"),)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"tool": "shell", "command": "pytest"}, AgentEvent(EventKind.SHELL, "pytest")),
        ({"tool": "read", "path": "a.py"}, AgentEvent(EventKind.READ, "a.py")),
        ({"tool": "edit", "path": "a.py"}, AgentEvent(EventKind.EDIT, "a.py")),
        ({"tool": "write", "path": 7}, AgentEvent(EventKind.EDIT, "")),
        ({"tool": "browse", "path": "x"}, AgentEvent(EventKind.TOOL, "x")),
        ({"tool_output": "<promise>DONE</promise>"}, AgentEvent(EventKind.TOOL_OUTPUT, "<promise>DONE</promise>")),
        ({"usage": {"tokens_in": 5, "tokens_out": -1, "x": 2}}, AgentEvent(EventKind.USAGE, usage=Usage(5))),
        ({"usage": {"cost_usd_micro": 7}}, AgentEvent(EventKind.USAGE, usage=Usage(cost_usd_micro=7))),
        ({"percent": 50}, AgentEvent(EventKind.NOISE)),
        (None, AgentEvent(EventKind.NOISE)),
        ([1], AgentEvent(EventKind.NOISE)),
    ],
)
def test_progress_tells_tools_output_and_usage(payload: object, expected: AgentEvent) -> None:
    """S70; R43: what a tool prints is not the agent's word."""
    assert AGENT.read(event("progress", payload)) == (expected,)


def test_one_event_may_tell_several_things() -> None:
    line = event("progress", {"message": "testing", "tool": "shell", "command": "pytest", "tool_output": "ok"})
    assert kinds(line) == [EventKind.TEXT, EventKind.SHELL, EventKind.TOOL_OUTPUT]


def test_a_result_is_a_good_end() -> None:
    assert kinds(event("result", {"message": "<promise>DONE</promise>"})) == [EventKind.TEXT, EventKind.END_GOOD]
    assert kinds(event("result", None)) == [EventKind.END_GOOD]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("agent_quota_exhausted", EventKind.LIMIT),
        ("agent_unavailable", EventKind.TRANSIENT),
        ("agent_unauthorized", EventKind.REFUSED),
        ("agent_unfit", EventKind.UNFIT),
        ("quota_exhausted", EventKind.END_BAD),
        ("http_429", EventKind.END_BAD),
    ],
)
def test_an_error_is_a_bad_end_and_its_code_may_name_the_cause(code: str, kind: EventKind) -> None:
    """R53, R55: a number in a code or a message is no cause."""
    assert kinds(event("error", {"code": code, "message": "429 Too Many Requests: quota"})) == [kind]


def test_an_error_carries_its_hint_and_the_reset() -> None:
    """R54, S71"""
    error = {"code": "agent_quota_exhausted", "message": "used up", "hint": "agent login"}
    (told,) = AGENT.read(event("error", error | {"resets_at_rfc3339": "2026-05-17T15:00:00Z"}))
    assert told.text == "used up; next: agent login"
    assert told.resets_at == datetime(2026, 5, 17, 15, tzinfo=UTC)
    for nonsense in ("2026-05-17T15:00:00", "soon", 5, None):
        (told,) = AGENT.read(event("error", error | {"resets_at_rfc3339": nonsense}))
        assert told.resets_at is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["message", "tool", "command", "path", "tool_output", "usage", "code", "hint"])


@given(st.sampled_from(["log", "progress", "result", "error"]), st.dictionaries(names, json_values) | json_values)
def test_no_event_is_too_strange(kind: str, payload: object) -> None:
    """R38: drift in the stream is counted, never fatal."""
    assert all(isinstance(told, AgentEvent) for told in AGENT.read(event(kind, payload)))
