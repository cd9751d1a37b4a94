"""Sentinels: a whole line of the assistant's own text, and nothing that only looks like one."""

from __future__ import annotations

import pytest

from afk.domain.sentinel import Sentinel, SentinelReader, is_sentinel_line

DONE = "<promise>DONE</promise>"
BLOCKED = "<promise>BLOCKED</promise>"


def read(*lines: str, prompt: str = "") -> Sentinel | None:
    reader = SentinelReader(prompt)
    for line in lines:
        reader.feed(line)
    return reader.sentinel


def test_a_whole_line_counts_trimmed() -> None:
    """L27"""
    assert read("all good", f"  {DONE}\t\r") == Sentinel.DONE
    assert read(BLOCKED) == Sentinel.BLOCKED
    assert read(f"all good\n\n{DONE}\n") == Sentinel.DONE
    assert is_sentinel_line(f" {DONE} ")


@pytest.mark.parametrize(
    "line",
    [
        f"I end with {DONE}",
        f"`{DONE}`",
        f"> {DONE}",
        f"{DONE}.",
        f"{DONE}{DONE}",
        "<promise>done</promise>",
        "<promise> DONE </promise>",
        "<promise>NO MORE TASKS</promise>",
        "&lt;promise>DONE</promise>",
        "DONE",
        "",
    ],
)
def test_a_quotation_counts_for_nothing(line: str) -> None:
    """R43, L27"""
    assert read(line) is None


def test_the_last_one_counts() -> None:
    assert read(BLOCKED, "no, it works after all", DONE) == Sentinel.DONE
    assert read(DONE, "a check fails", BLOCKED) == Sentinel.BLOCKED
    assert read(DONE, "<promise>NO MORE TASKS</promise>") == Sentinel.DONE


@pytest.mark.parametrize("mark", ["```", "~~~", "`````", "  ```text", "```python title=x"])
def test_a_fence_quotes(mark: str) -> None:
    """R43"""
    closing = mark.strip().split("text")[0].split("python")[0].strip()
    assert read(mark, DONE) is None
    assert read(mark, DONE, closing, BLOCKED) == Sentinel.BLOCKED


def test_a_fence_ends_only_with_its_own_mark() -> None:
    assert read("````", "```", DONE) is None
    assert read("```", "~~~", DONE) is None
    assert read("```", "```python", DONE, "```", DONE) == Sentinel.DONE


def test_inline_code_opens_no_fence() -> None:
    assert read("```not a fence```", DONE) == Sentinel.DONE


def test_a_fence_may_span_messages_as_a_plain_stream_has_only_lines() -> None:
    reader = SentinelReader()
    reader.feed("```\nsome")
    reader.feed(DONE)
    assert reader.feed("```") is None
    assert reader.feed(DONE) == Sentinel.DONE


PROMPT = f"# Work on this issue\n\nWhen you are done:\n{DONE}\n\n```\nan example nobody closed\n"


def test_the_echo_of_the_prompt_counts_for_nothing_and_opens_no_fence() -> None:
    """R43: the echo holds a bare sentinel and an open fence; the agent's own word after it counts all the same."""
    echo = PROMPT.split("\n")
    assert read(*echo, prompt=PROMPT) is None
    assert read("starting up", *echo, "I worked.", BLOCKED, prompt=PROMPT) == Sentinel.BLOCKED
    assert read(*echo, *echo, prompt=PROMPT) is None


def test_only_an_echo_from_the_first_line_on_is_one() -> None:
    """An agent that repeats a line of its task, then speaks for itself, is believed."""
    assert read("When you are done:", DONE, prompt=PROMPT) == Sentinel.DONE
    assert read("# Work on this issue", "is what I did", DONE, prompt=PROMPT) == Sentinel.DONE
