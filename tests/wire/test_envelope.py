"""The envelope as it is written: to the byte, for each status, and the same when it is read back."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from envelopes import BLOCKED, ENVELOPES, GOLDEN, HOSTS, SECRETS
from hostile import TOKENS
from hypothesis import HealthCheck, given, settings

from afk.domain.outcome import OUTCOMES, EnvelopeStatus, Outcome
from afk.domain.recovery import is_charged, marked
from afk.wire.envelope import (
    CheckLine,
    DiffStat,
    Discarded,
    Envelope,
    Hook,
    is_envelope,
    normalise,
    parse,
    parse_thread,
    render,
)

FOLDER = Path(__file__).parent.parent / "golden" / "envelope"


def written(envelope: Envelope) -> str:
    return render(envelope, secrets=SECRETS, hosts=HOSTS)


def sections(envelope: Envelope) -> dict[str, str]:
    return parse_thread(written(envelope)).envelopes[0].sections


# ── Golden files ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", GOLDEN)
def test_an_envelope_is_written_to_the_byte(name: str) -> None:
    assert written(GOLDEN[name]).encode() == (FOLDER / f"{name}.md").read_bytes()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_file_is_read_back(name: str) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert parse(text) == normalise(GOLDEN[name], secrets=SECRETS, hosts=HOSTS)


def test_every_status_has_a_golden_file_and_every_golden_file_an_envelope() -> None:
    assert {envelope.status for envelope in GOLDEN.values()} == set(EnvelopeStatus)
    assert {path.stem for path in FOLDER.glob("*.md")} == set(GOLDEN)


def test_the_example_of_the_reference_is_read() -> None:
    text = (
        '<details data-attempt-status="blocked"><summary>worker `wZ2R4` · status: blocked · duration: 2m5s'
        " · diff: +42 -10 · attempt: 1</summary>\n\n"
        '<details data-section="notes"><summary>notes</summary>\n\nno key there\n\n</details>\n\n</details>\n'
    )
    assert parse(text) == Envelope(
        EnvelopeStatus.BLOCKED,
        "wZ2R4",
        1,
        125,
        DiffStat(42, 10),
        notes="no key there",
        outcome=Outcome.BLOCKED,
    )


# ── Properties ──────────────────────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ENVELOPES)
def test_what_is_read_is_what_was_meant(envelope: Envelope) -> None:
    """R65: rendered, parsed back and compared; once more changes nothing."""
    text, meant = written(envelope), normalise(envelope, secrets=SECRETS, hosts=HOSTS)
    assert parse(text) == meant
    assert parse(text.replace("\n", "\r\n")) == meant
    assert normalise(meant, secrets=SECRETS, hosts=HOSTS) == meant
    assert written(envelope) == text == written(meant)


def fence_left_open(body: str) -> bool:
    """As CommonMark reads fences at the margin."""
    opened = ""
    for line in body.split("\n"):
        if opened:
            closes = re.fullmatch(r" {0,3}(`+|~+)[ \t]*", line)
            opened = "" if closes and closes[1].startswith(opened) else opened
        elif starts := re.match(r"`{3,}(?=[^`]*$)|~{3,}", line):
            opened = starts[0]
    return bool(opened)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ENVELOPES)
def test_no_section_can_be_left_or_entered_from_inside(envelope: Envelope) -> None:
    """R65: the only tags are the frame's, and no code fence is open where a section ends."""
    text = written(envelope)
    named = sections(envelope)
    assert text.count("<details ") == text.count("<summary>") == text.count("</details>") == len(named) + 1
    for body in named.values():
        assert "<details" not in body
        assert "</details" not in body
        assert not fence_left_open(body)
    assert SECRETS[0] not in text
    assert TOKENS["github"] not in text


# ── Sections ────────────────────────────────────────────────────────────────────────────────────────────────────────

FULL = replace(
    BLOCKED,
    validation=(CheckLine("failed", "lint", 1.0),),
    log=("x",),
    outcome=Outcome.INFRA,
    reason="why",
    merge_sha="9fceb02d",
    hooks=(Hook("pre_merge", "./g", 0),),
    discarded=Discarded(1, 5, "why", "log"),
)


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (EnvelopeStatus.BLOCKED, ["notes", "validation", "diff", "outcome", "hooks"]),
        (EnvelopeStatus.NO_SENTINEL, ["notes", "diff", "log", "outcome", "hooks"]),
        (EnvelopeStatus.MERGE_CONFLICT, ["diff", "log", "outcome", "hooks"]),
        (EnvelopeStatus.WALL_CLOCK_CAPPED, ["notes", "diff", "log", "outcome", "hooks"]),
        (EnvelopeStatus.DONE, ["validation", "hooks"]),
        (EnvelopeStatus.DISCARDED, ["notes"]),
    ],
)
def test_a_status_shows_its_sections_in_one_order(status: EnvelopeStatus, shown: list[str]) -> None:
    assert list(sections(replace(FULL, status=status))) == shown


def test_what_a_status_does_not_show_is_dropped() -> None:
    done = normalise(replace(FULL, status=EnvelopeStatus.DONE))
    assert done == Envelope(
        EnvelopeStatus.DONE,
        "wZ2R4",
        1,
        125,
        None,
        merge_sha="9fceb02d",
        validation=FULL.validation,
        outcome=Outcome.DONE,
        hooks=FULL.hooks,
    )
    assert normalise(FULL).merge_sha is None


def test_only_what_is_needed_to_tell_outcomes_apart_is_said() -> None:
    shown = {
        outcome: "outcome" in sections(replace(BLOCKED, status=row.status, outcome=outcome))
        for outcome, row in OUTCOMES.items()
    }
    assert {outcome for outcome in shown if not shown[outcome]} == {"done", "blocked", "no-sentinel", "merge-conflict"}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.DONE])
def test_every_outcome_is_told_by_its_envelope(outcome: Outcome) -> None:
    assert parse(written(replace(BLOCKED, status=OUTCOMES[outcome].status, outcome=outcome))).outcome is outcome


def test_the_outcome_line_has_a_reason_and_a_time() -> None:
    envelope = replace(BLOCKED, outcome=Outcome.EXHAUSTED, not_before=datetime(2026, 5, 17, 15, 0, tzinfo=UTC))
    assert sections(envelope)["outcome"] == "exhausted · not before 2026-05-17T15:00:00Z"
    assert sections(replace(envelope, reason=" limit\nreached "))["outcome"] == (
        "exhausted · limit reached · not before 2026-05-17T15:00:00Z"
    )


def test_no_words_of_an_agent_set_the_time_to_wait() -> None:
    for reason in ("not before 2099-01-01T00:00:00Z", "quota · not before 2099-01-01T00:00:00Z"):
        read = parse(written(replace(BLOCKED, outcome=Outcome.EXHAUSTED, reason=reason)))
        assert read.not_before is None
        assert "2099" in read.reason


def test_a_long_reason_keeps_the_end_that_tells_whether_a_try_was_charged() -> None:
    reason = marked("stopped " + "x" * 5000, charged=False)
    read = parse(written(replace(BLOCKED, outcome=Outcome.INFRA, reason=reason)))
    assert len(read.reason) <= 500
    assert read.reason.startswith("stopped xxx")
    assert not is_charged(read.reason)


def test_nothing_to_say_is_said() -> None:
    empty = replace(
        BLOCKED, status=EnvelopeStatus.NO_SENTINEL, notes=" \n\n", log=("", " "), branch_link="", worktree_path=""
    )
    told = sections(empty)
    assert told["notes"] == "_no notes_"
    assert told["log"] == "```\n(no captured output)\n```"
    assert told["diff"] == "(no branch)\nworktree: (none)\n+42 -10 files=3"
    assert sections(Envelope(EnvelopeStatus.DONE, "wZ2R4", 1, 0, None))["validation"] == "_no check is recorded_"
    assert "validation" not in sections(BLOCKED)
    assert "hooks" not in sections(BLOCKED)


def test_the_log_is_the_last_fifty_lines() -> None:
    lines = tuple(str(n) for n in range(70))
    assert parse(written(replace(FULL, status=EnvelopeStatus.NO_SENTINEL, log=lines))).log == lines[-50:]


def test_the_log_is_fenced_with_more_backticks_than_it_holds() -> None:
    """R65"""
    body = sections(replace(FULL, status=EnvelopeStatus.NO_SENTINEL, log=("`````", "x")))["log"]
    assert body == "``````\n`````\nx\n``````"


def test_a_hook_line_is_one_line_of_at_most_300_characters() -> None:
    line = sections(replace(FULL, hooks=(Hook("pre_merge", "a\n" + "@x " * 500, 7),)))["hooks"]
    assert len(line) <= 300
    assert line.startswith("pre_merge a @\u200bx")
    assert line.endswith("… exit=7")


def test_a_cut_that_lays_a_token_bare_is_masked_again() -> None:
    """R74: twenty characters are a key, more of them are not."""
    name = "x" * 78 + " " + TOKENS["aws"] + "MORE"
    read = normalise(replace(BLOCKED, validation=(CheckLine("failed", name, 1.0),)))
    assert read.validation[0].name == "x" * 78 + " ***…"
    assert normalise(read) == read


def test_blank_lines_at_the_edges_of_notes_belong_to_the_frame() -> None:
    read = parse(written(replace(BLOCKED, notes=" \t\n\n    code\n \n text \n \n")))
    assert read.notes == "    code\n \n text"


def test_the_live_branch_is_read_off_its_link() -> None:
    assert parse(written(GOLDEN["blocked"])).branch == "afk/wZ2R4/142-wire-oauth-callback"
    assert parse(written(GOLDEN["merge-conflict"])).branch == "afk/wZ2R4/142-wire-oauth-callback"
    assert parse(written(GOLDEN["done"])).branch == ""


def test_a_report_in_another_form_is_kept_as_text() -> None:
    done = replace(GOLDEN["done"], validation=(), validation_text="pnpm test: ok\n\n- passed: 3")
    assert parse(written(done)).validation_text == done.validation_text
    assert parse(written(done)).validation == ()


def test_an_envelope_is_known_by_its_first_byte() -> None:
    """R66"""
    text = written(BLOCKED)
    assert is_envelope(text)
    assert not is_envelope(f" {text}")
    assert not is_envelope(f"> {text}")
