"""The validation sidecar: exact lines out; the whole of it in, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hostile import HOSTILE
from hypothesis import example, given
from hypothesis import strategies as st

from afk.wire.sidecar import CheckStatus, Infra, SidecarError, SidecarRecord, parse, parse_or_none, render

PASSED = SidecarRecord(
    "test:plugins/memory",
    CheckStatus.PASSED,
    command="pnpm -C /repo/plugins/memory test",
    duration_ms=1234,
    summary="command exited 0",
)
LINE = (
    '{"schema":"red.afk.validation.v1","name":"test:plugins/memory","command":"pnpm -C /repo/plugins/memory test",'
    '"status":"passed","durationMs":1234,"summary":"command exited 0"}\n'
)
STALLED = SidecarRecord("unit", CheckStatus.FAILED, "make test", 600_000, "no CPU for 60 s", Infra.STALL)
SKIPPED = SidecarRecord("lint", CheckStatus.SKIPPED, summary="no such script")

# Text that JSON gives back as it was: two half characters side by side are read as the one they make.
TEXT = HOSTILE.filter(lambda text: text == json.loads(json.dumps(text)))


def record(status: CheckStatus, infra: st.SearchStrategy[Infra | None]) -> st.SearchStrategy[SidecarRecord]:
    absent = st.none()
    counts = st.integers(0, 10**20)
    return st.builds(SidecarRecord, TEXT, st.just(status), absent | TEXT, absent | counts, absent | TEXT, infra)


RECORDS = st.one_of(
    record(CheckStatus.PASSED, st.none()),
    record(CheckStatus.SKIPPED, st.none()),
    record(CheckStatus.FAILED, st.none() | st.sampled_from(Infra)),
)


# ── Written ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_passed_check_is_exactly_this_line() -> None:
    assert render(PASSED) == LINE


def test_infra_evidence_comes_last_and_what_did_not_happen_is_absent() -> None:
    assert list(json.loads(render(STALLED))) == [
        "schema",
        "name",
        "command",
        "status",
        "durationMs",
        "summary",
        "infra",
    ]
    assert json.loads(render(STALLED))["infra"] == "stall"
    assert render(SKIPPED) == (
        '{"schema":"red.afk.validation.v1","name":"lint","status":"skipped","summary":"no such script"}\n'
    )


def test_the_words_for_infra_are_these_five() -> None:
    """R49"""
    assert [str(word) for word in Infra] == ["stall", "missing-tool", "oom", "setup", "timeout"]


@given(st.lists(RECORDS, max_size=4))
def test_any_records_are_a_line_each_and_read_back(records: list[SidecarRecord]) -> None:
    lines = [render(record) for record in records]
    assert all(line.isascii() and line[:-1].isprintable() and line.endswith("}\n") for line in lines)
    assert parse("".join(lines)) == records


# ── Read ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_line_is_a_sidecar_without_checks() -> None:
    assert parse("") == []


def test_keys_of_a_later_version_do_no_harm() -> None:
    assert parse(json.dumps(json.loads(LINE) | {"later": [1]}) + "\n") == [PASSED]


def test_a_duration_of_nothing_and_an_empty_summary_are_values() -> None:
    assert parse(LINE.replace("1234", "0").replace("command exited 0", ""))[0].duration_ms == 0


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("schema", ["red.afk.validation.v2", None, 1]),
        ("name", [None, 1, ["unit"]]),
        ("status", [None, "PASSED", "error", 1, ["passed"], {}]),
        ("command", [None, 1, ["make"]]),
        ("durationMs", [None, "1", 1.5, -1, True]),
        ("summary", [None, 1, {}]),
        ("infra", [None, "flaky", "STALL", 1, ["stall"], {}]),
    ],
)
def test_one_malformed_line_spoils_the_whole_sidecar(key: str, values: list[Any]) -> None:
    whole = json.loads(render(STALLED))
    broken = [whole | {key: value} for value in values]
    broken += [{name: value for name, value in whole.items() if name != key}] if key in ("schema", "name") else []
    for line in broken:
        text = LINE + json.dumps(line) + "\n" + LINE
        assert parse_or_none(text) is None, line
        with pytest.raises(SidecarError, match="line 2"):
            parse(text)


@pytest.mark.parametrize("status", ["passed", "skipped"])
def test_infra_evidence_without_a_failure_is_malformed(status: str) -> None:
    assert parse_or_none(render(STALLED)) == [STALLED]
    assert parse_or_none(render(STALLED).replace('"failed"', f'"{status}"')) is None


@pytest.mark.parametrize(
    "text",
    [
        LINE[:-1],
        LINE + LINE[:-1],
        LINE + LINE[:40],
        LINE + "\n",
        LINE.replace("\n", "\r\n") + "x\n",
        LINE.replace(",", ",\n", 1),
        f"[{LINE[:-1]}]\n",
        LINE[:-1] + LINE,
        LINE.replace("1234", "NaN"),
        LINE.replace('"status"', '"x":NaN,"status"'),
        LINE.replace("1234", "9" * 5000),
        "[" * 100_000 + "\n",
        "✔ test:plugins/memory 1.2s\n",
        "\ufeff" + LINE,
    ],
)
def test_a_sidecar_that_is_not_as_written_gives_none(text: str) -> None:
    """What only looks like a report, or was cut by a crash, is never guessed at."""
    assert parse_or_none(text) is None


@given(st.integers(1, 2 * len(LINE) - 1).filter(lambda place: place != len(LINE)))
def test_a_sidecar_cut_inside_a_line_gives_none(place: int) -> None:
    assert parse_or_none((LINE + LINE)[:place]) is None


@given(HOSTILE | st.recursive(st.none() | st.floats() | TEXT, st.lists).map(json.dumps))
@example("{}")
def test_any_other_text_gives_none(text: str) -> None:
    assert parse_or_none(f"{text}\n") is None
