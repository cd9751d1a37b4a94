"""An envelope is never too long for the tracker, and says what it left out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from envelopes import GOLDEN
from hostile import HOSTILE, TOKENS
from hypothesis import given, settings

from afk.domain.outcome import EnvelopeStatus
from afk.wire.envelope import BOUND, CheckLine, Envelope, Hook, normalise, parse, render

LOST = GOLDEN["no-sentinel"]


def fitted(envelope: Envelope) -> Envelope:
    """Read back from the comment, which fits and is stable."""
    text = render(envelope)
    assert len(text) <= BOUND
    read = parse(text)
    assert read == normalise(envelope) == normalise(read)
    return read


def parted(notes: str) -> tuple[str, int, str]:
    """What stands before a cut, the number that it names, and what stands after it."""
    head, number, tail = re.split(r"\n\n… (\d+) characters left out …\n\n", notes)
    return head, int(number), tail


def test_what_fits_is_left_alone() -> None:
    """R64"""
    notes, log = "n" * 30_000, ("l" * 25_000,)
    read = fitted(replace(LOST, notes=notes, log=log))
    assert (read.notes, read.log) == (notes, log)


def test_first_the_log_loses_its_head() -> None:
    """R64: and says how much, and where the whole of it is."""
    lines = tuple(f"{n} " + "x" * 1500 for n in range(50))
    read = fitted(replace(LOST, notes="n" * 20_000, log=lines))
    assert read.notes == "n" * 20_000
    note, *rest = read.log
    assert note == f"({50 - len(rest)} earlier lines left out; the whole log is in runs/ beside the worktree)"
    assert rest == list(lines[-len(rest) :])
    assert len(rest) > 20


def test_then_long_lines_are_cut() -> None:
    """R64"""
    read = fitted(replace(LOST, notes="short\n" + "n" * 40_000, log=("x" * 30_000, "the end")))
    assert read.log == ("x" * 1960 + "… (28040 characters left out)", "the end")
    assert read.notes == "short\n" + "n" * 1960 + "… (38040 characters left out)"


def test_then_the_notes_lose_their_middle() -> None:
    """R64"""
    words = "\n".join(f"line {n}" for n in range(20_000))
    read = fitted(replace(LOST, notes=words, log=("the end",)))
    head, left_out, tail = parted(read.notes)
    assert words.startswith(head)
    assert words.endswith(tail)
    assert len(head) + len(tail) + left_out == len(words)
    assert read.log == ("the end",)
    assert len(render(read)) > BOUND - 1000


def test_the_summary_and_the_hooks_are_never_cut() -> None:
    """R64"""
    hooks = tuple(Hook("pre_merge", f"./{n} " + "y" * 250, n) for n in range(150))
    read = fitted(replace(LOST, notes="n\n" * 100_000, log=("x" * 1900,) * 50, hooks=hooks))
    assert read.hooks == hooks
    assert "characters left out" in read.notes


def test_even_hooks_alone_fit_and_each_keeps_its_name_and_exit_code() -> None:
    """R64: a report that the tracker refuses would be no report."""
    hooks = tuple(Hook("on_attempt_error", "z" * 280, n) for n in range(1000))
    read = fitted(replace(LOST, notes="n" * 100_000, hooks=hooks))
    assert [hook.exit_code for hook in read.hooks] == list(range(1000))
    assert all(hook.command.endswith("z…") for hook in read.hooks)


@pytest.mark.parametrize("status", [EnvelopeStatus.DONE, EnvelopeStatus.BLOCKED])
def test_a_report_of_hundreds_of_checks_fits(status: EnvelopeStatus) -> None:
    """R64"""
    checks = tuple(CheckLine("passed", f"check-{n}-" + "c" * 80, 1.0, "s" * 500) for n in range(900))
    read = fitted(replace(GOLDEN["blocked"], status=status, validation=checks, notes="n" * 50_000))
    names = [check.name for check in read.validation]
    note = read.validation[names.index("…")]
    assert names[0].startswith("check-0-")
    assert names[-1].startswith("check-899-")
    assert note.summary == f"{900 - len(names) + 1} checks left out of this report"


def test_summaries_are_cut_before_checks_are_left_out() -> None:
    """R64"""
    checks = tuple(CheckLine("passed", f"check-{n}", 1.0, "s" * 500) for n in range(150))
    read = fitted(replace(GOLDEN["done"], validation=checks))
    assert [check.name for check in read.validation] == [check.name for check in checks]
    assert read.validation[0].summary == "s" * 80 + "… (420 characters left out)"


def test_a_log_that_is_cut_twice_counts_once() -> None:
    """R64"""
    hooks = tuple(Hook("pre_merge", "y" * 250, 0) for _ in range(160))
    read = fitted(replace(LOST, log=("x" * 1900,) * 50, hooks=hooks))
    assert len(read.log) < 10
    assert read.log[0].startswith(f"({50 - len(read.log) + 1} earlier lines left out;")
    assert read.log[1:] == ("x" * 1900,) * (len(read.log) - 1)


def test_a_fence_that_a_cut_leaves_open_is_closed_within_the_bound() -> None:
    """R64, R65: without a second cut, which would miscount."""
    fence = "~" * 80
    notes = f"{fence}\n" + "code\n" * 12_000 + f"{fence}\n" + "text\n" * 8_000 + "end"
    read = fitted(replace(LOST, notes=notes))
    head, left_out, tail = parted(read.notes)
    assert tail.endswith(f"end\n{fence}")
    assert len(head) + len(tail.removesuffix(f"\n{fence}")) + left_out == len(notes)


def test_a_report_in_prose_loses_its_middle() -> None:
    """R64"""
    read = fitted(replace(GOLDEN["done"], validation=(), validation_text="a line\n" * 20_000))
    assert "characters left out" in read.validation_text


def test_a_cut_shows_no_half_of_a_secret_and_opens_no_fence() -> None:
    """R65, R74"""
    read = fitted(replace(LOST, notes="```\n" + (TOKENS["github"] + "\n") * 50 + "code\n" * 20_000 + "```\nend"))
    assert "ghp_" not in read.notes
    assert len(re.findall("^```", read.notes, re.MULTILINE)) % 2 == 0


@settings(max_examples=15, deadline=None)
@given(HOSTILE, HOSTILE)
def test_anything_fits(notes: str, log: str) -> None:
    """R64"""
    times = 70_000 // max(1, len(notes))
    fitted(replace(LOST, notes=notes * times, log=(log * 50,) * 50, reason=log * 100))
