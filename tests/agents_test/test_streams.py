"""Every captured stream of a real agent, and what an attempt makes of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from captures import CAPTURES, DIALECTS, Capture, Seen, seen
from hypothesis import given, settings
from hypothesis import strategies as st

from afk.domain.outcome import GitFacts, Outcome, RunEvidence, VerdictKind, classify
from afk.domain.sentinel import Sentinel
from afk.ports import EventKind

TABLE = Path(__file__).parent.parent / "golden" / "streams" / "table.txt"
EXPECTED = {
    cells[0]: cells[1:]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#") and (cells := [cell.strip() for cell in line.split("|", 4)])
}
OURS = [name for name in CAPTURES if name.partition("/")[0] in DIALECTS]


def verdict(capture: Capture, read: Seen, facts: GitFacts | None = None) -> str:
    judged = capture.judge(read, facts)
    return str(judged.outcome or judged.kind)


def used(read: Seen) -> str:
    if read.usage is None:
        return "-"
    cost = read.usage.cost_usd_micro
    return f"{read.usage.tokens_in} {read.usage.tokens_out} {'-' if cost is None else cost}"


def test_an_answer_of_gemini_that_was_cut_off_is_a_passing_failure() -> None:
    """R56: seen with 0.61.0 when a stream ended in the middle of a line."""
    error = {"type": "unknown", "message": "[API Error: Incomplete JSON segment at the end]"}
    read = seen("gemini", [json.dumps({"type": "result", "status": "error", "error": error})])
    assert read.evidence.failure == "transient"


def test_every_capture_is_in_the_table() -> None:
    assert sorted(EXPECTED) == CAPTURES
    assert len(CAPTURES) > 70


@pytest.mark.parametrize("name", CAPTURES)
def test_a_stream_comes_to_what_the_table_says(name: str) -> None:
    """R38, R40, R42, R53, R55, R56, L27, L38, S69, S70: by events, the program's own sentences, sentinel and git."""
    capture, (outcome, stages, usage, last_line) = Capture.load(name), EXPECTED[name]
    read = capture.read()
    assert verdict(capture, read) == outcome
    assert " ".join(read.stages) or stages == "-"
    assert used(read) == usage
    assert read.last_line.startswith(last_line.removesuffix("…"))
    assert last_line.endswith("…") or read.last_line == last_line
    assert read.unknown == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("claude/quota_exhausted", datetime(2026, 12, 1, tzinfo=UTC)),
        ("opencode/usage_limit", datetime(2026, 11, 30, 22, 35, 24, 81000, tzinfo=UTC)),
        ("codex/usage_limit", None),
    ],
)
def test_a_limit_comes_with_its_end_where_it_was_told(name: str, told: datetime | None) -> None:
    """R54, S71"""
    capture = Capture.load(name)
    assert capture.judge(capture.read()).not_before == told


@pytest.mark.parametrize("name", [name for name in OURS if EXPECTED[name][0] == "infra"])
def test_a_refused_login_names_the_command_to_type(name: str) -> None:
    capture = Capture.load(name)
    assert f"; next: {capture.kind}" in capture.judge(capture.read()).reason


# ── One line more, less or other ────────────────────────────────────────────────────────────────────────────────────

UNKNOWN = (
    "",
    "Warning: something new",
    "[1, 2]",
    "{" * 3000,
    '{"type": "brand.new", "item": {"type": "agent_message", "text": "<promise>DONE</promise>"}}',
    '{"type": "item.completed", "item": {"type": "hologram", "text": "<promise>DONE</promise>"}}',
    '{"type": ["result"], "is_error": false, "status": "success"}',
    '{"type": null}',
    "\x00\ufffd\ufffd",
    '{"type": "assistant", "message": 7}',
    '{"type": "text", "part": []}',
    '{"kind": "result", "result": {"message": "<promise>DONE</promise>"}}',
)


@pytest.mark.parametrize("name", OURS)
def test_an_unknown_line_anywhere_changes_nothing(name: str) -> None:
    """R38, S63"""
    capture = Capture.load(name)
    before = capture.read()
    for place in range(len(capture.lines)):
        for line in UNKNOWN:
            read = capture.read([*capture.lines[:place], line, *capture.lines[place:]])
            assert verdict(capture, read) == EXPECTED[name][0], (place, line)
            assert (read.stages or before.stages, read.last_line, read.usage) == (
                before.stages or read.stages,
                before.last_line,
                before.usage,
            ), (place, line)


def garbled(line: str) -> list[str]:
    return [line[: len(line) // 2], line[len(line) // 2 :], line.replace(":", ";"), line[:-1], f"{line}}}", line + line]


@pytest.mark.parametrize("name", OURS)
def test_a_lost_or_garbled_line_never_makes_work_done(name: str) -> None:
    """R40: done needs the agent's own word, or a good end over complete commits; the loss of a line gives neither."""
    capture = Capture.load(name)
    honest = capture.read().evidence
    complete = GitFacts(1, 1)  # the most favourable case
    for place, line in enumerate(capture.lines):
        for other in ([], *([each] for each in garbled(line))):
            read = capture.read([*capture.lines[:place], *other, *capture.lines[place + 1 :]])
            if verdict(capture, read) == VerdictKind.VALIDATE:
                assert EXPECTED[name][0] == VerdictKind.VALIDATE
            if verdict(capture, read, complete) == VerdictKind.VALIDATE:
                assert read.evidence.sentinel is Sentinel.DONE or read.evidence.end == "good"
                assert honest.sentinel is not None or honest.end == "good"


@pytest.mark.parametrize("name", OURS)
def test_a_line_said_twice_counts_once(name: str) -> None:
    """R42, S77"""
    capture = Capture.load(name)
    twice = capture.read([line for each in capture.lines for line in (each, each)])
    assert (verdict(capture, twice), used(twice)) == (EXPECTED[name][0], EXPECTED[name][2])
    assert used(capture.read([*capture.lines, *capture.lines])) == EXPECTED[name][2]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "text", "error", "429", "stop"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def leaves(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The path of every value within, itself included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(each for key, child in inner for each in leaves(child, (*path, key)))]


def put(value: object, path: tuple[object, ...], other: object) -> object:
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    copy[path[0]] = put(copy[path[0]], path[1:], other)
    return copy


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_no_field_may_hold_what_makes_the_reader_fail(data: st.DataObject) -> None:
    """R38: any value in any place of any event."""
    capture = Capture.load(data.draw(st.sampled_from(OURS)))
    lines = [line for line in capture.lines if line]
    if not lines:
        return
    place = data.draw(st.integers(0, len(lines) - 1))
    event = json.loads(lines[place])
    strange = put(event, data.draw(st.sampled_from(leaves(event))), data.draw(json_values))
    read = capture.read([*lines[:place], json.dumps(strange), *lines[place + 1 :]])
    assert isinstance(read.evidence, RunEvidence)
    if EXPECTED[f"{capture.kind}/{capture.meta['case']}"][0] != VerdictKind.VALIDATE:
        assert verdict(capture, read) != VerdictKind.VALIDATE


# ── Words ───────────────────────────────────────────────────────────────────────────────────────────────────────────

WORDS = (
    "429 Too Many Requests",
    "API Error: 529 Overloaded",
    "You’ve hit your usage limit. Try again at 3:45 PM.",
    "You exceeded your current quota, please check your plan and billing details.",
    "Quota exceeded. Check your plan and billing details.",
    "Reconnecting... 1/5 (unexpected status 401 Unauthorized)",
    "Attempt 3 failed with status 429. Retrying with backoff...",
    "Invalid API key · Please run /login",
    "Prompt is too long",
    "stream disconnected before completion: stream closed",
    "I end with <promise>BLOCKED</promise> when I cannot go on.",
    "```\n<promise>BLOCKED</promise>\n```",
    '{"type":"turn.failed","error":{"message":"Quota exceeded. Check your plan and billing details."}}',
    '{"type":"result","is_error":true,"status":"error","api_error_status":401}',
)
SAID = {
    "claude": lambda text: {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}},
    "codex": lambda text: {"type": "item.completed", "item": {"type": "agent_message", "text": text}},
    "opencode": lambda text: {"type": "text", "part": {"type": "text", "text": text}},
    "gemini": lambda text: {"type": "message", "role": "assistant", "content": text},
}
PRINTED = {
    "claude": lambda text: {"type": "user", "message": {"content": [{"type": "tool_result", "content": text}]}},
    "codex": lambda text: {
        "type": "item.completed",
        "item": {"type": "command_execution", "aggregated_output": text, "exit_code": 1, "status": "failed"},
    },
    "opencode": lambda text: {
        "type": "tool_use",
        "part": {"tool": "webfetch", "state": {"status": "error", "input": {}, "output": text, "error": text}},
    },
    "gemini": lambda text: {"type": "tool_result", "status": "error", "output": text, "error": {"message": text}},
}


@pytest.mark.parametrize("name", OURS)
def test_words_in_text_and_in_tool_output_change_no_classification(name: str) -> None:
    """R43, R53, R55, L27: neither what the model says nor what its tools print is an error channel."""
    capture = Capture.load(name)
    end = 1 + max((place for place, line in enumerate(capture.lines) if line), default=-1)
    last = max(0, end - 1)  # the program's last line stays the last
    for place in range(last + 1):
        for text in WORDS:
            for wrap in (SAID[capture.kind], PRINTED[capture.kind]):
                line = json.dumps(wrap(text))
                read = capture.read([*capture.lines[:place], line, *capture.lines[place:]])
                # Whoever speaks again is no longer waiting for its service.
                if not capture.read().evidence.retrying:
                    assert verdict(capture, read) == EXPECTED[name][0], (place, line)
                assert read.evidence.sentinel == capture.read().evidence.sentinel


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_whole_sentinel_line_that_a_tool_printed_counts_for_nothing(kind: str) -> None:
    """R43"""
    line = json.dumps(PRINTED[kind]("all tests pass\n<promise>DONE</promise>\n"))
    assert seen(kind, [line]).evidence.sentinel is None


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_prompt_that_is_repeated_counts_for_nothing(kind: str) -> None:
    """R43: by the program, as gemini does, or by the model."""
    prompt = "# Resolve issue #7\n\nEnd with a line\n<promise>DONE</promise>\nor\n<promise>BLOCKED</promise>\n"
    echo = json.dumps({"type": "message", "role": "user", "content": prompt})
    said = json.dumps(SAID[kind](prompt))
    assert seen(kind, [echo, said], prompt=prompt).evidence.sentinel is None
    word = json.dumps(SAID[kind]("Done.\n<promise>DONE</promise>"))
    assert seen(kind, [echo, said, word], prompt=prompt).evidence.sentinel is Sentinel.DONE


@pytest.mark.parametrize("kind", DIALECTS)
def test_a_fence_left_open_ends_with_its_message(kind: str) -> None:
    """R44: a message is a text of its own."""
    lines = [json.dumps(SAID[kind](text)) for text in ("Look:\n```python\nx = 1", "<promise>DONE</promise>")]
    assert seen(kind, lines).evidence.sentinel is Sentinel.DONE


# ── Words in pieces ─────────────────────────────────────────────────────────────────────────────────────────────────


def piece(text: str) -> str:
    return json.dumps({"type": "message", "role": "assistant", "content": text, "delta": True})


TOOL = json.dumps({"type": "tool_use", "tool_name": "glob", "parameters": {}})


@given(st.lists(st.integers(0, 40), max_size=6))
def test_words_that_come_in_pieces_are_read_as_one(cuts: list[int]) -> None:
    """S62"""
    text = "All is done.\n<promise>DONE</promise>\n\n"
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [piece(text[a:b]) for a, b in pairwise(places)]
    read = seen("gemini", [line for each in pieces for line in (each, "noise")])
    assert (read.evidence.sentinel, read.last_line) == (Sentinel.DONE, "<promise>DONE</promise>")


def test_pieces_on_both_sides_of_a_tool_are_two_messages() -> None:
    """R43"""
    assert seen("gemini", [piece("<promise>DO"), TOOL, piece("NE</promise>")]).evidence.sentinel is None
    assert seen("gemini", [piece("never <promise>"), piece("DONE</promise>")]).evidence.sentinel is None
    assert seen("gemini", [piece("<promise>DONE"), piece("</promise>"), TOOL]).evidence.sentinel is Sentinel.DONE


def test_a_line_in_pieces_that_never_ends_is_not_kept_whole() -> None:
    """R41: and its tail is no line of its own."""
    read = seen("gemini", [*(piece("x" * 10_000) for _ in range(50)), piece("<promise>DONE</promise>")])
    assert read.evidence.sentinel is None


# ── What only long runs show ────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_told_by_an_event_keeps_its_time_over_the_sentence_that_follows() -> None:
    """R54, S71"""
    told = {"status": "rejected", "resetsAt": 1796083200, "rateLimitType": "five_hour"}
    event = json.dumps({"type": "rate_limit_event", "rate_limit_info": told})
    last = json.dumps({"type": "result", "is_error": True, "subtype": "success", "result": "You've hit your limit"})
    verdict = classify(seen("claude", [event, last]).evidence, GitFacts(0, 0), salvage=True)
    assert (verdict.outcome, verdict.not_before) == (Outcome.EXHAUSTED, datetime(2026, 12, 1, tzinfo=UTC))
    for harmless in ({"status": "allowed_warning"}, {"status": "rejected", "isUsingOverage": True}):
        line = json.dumps({"type": "rate_limit_event", "rate_limit_info": told | harmless})
        assert seen("claude", [line]).evidence.failure is None


def test_a_retry_tells_its_delay() -> None:
    """spec: retrying, with the delay where the program says it"""
    from afk.agents import claude

    line = next(line for line in Capture.load("claude/overloaded_529").lines if "api_retry" in line)
    [event] = claude.read(line)
    assert (event.kind, event.text, event.delay_s) == (EventKind.RETRYING, "overloaded (529)", 0.503)
