"""The line log: what is written is read, line by line, whatever stands in it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hostile import HOSTILE
from hypothesis import example, given
from hypothesis import strategies as st

from afk.domain.stage import Stage
from afk.wire import toonl

LOG = """\
[]{at,kind,issue,attempt,msg}:
"2026-05-17T12:14:00-03:00",agent.stage,142,1,impl
"2026-05-17T12:14:03-03:00",hook.exit,142,1,"pre_merge ./guard.sh exit=0"
"2026-05-17T12:14:09-03:00",queue.idle,null,null,"drained"
"""
ODD = [
    "\u2028",
    "\u2029",
    "\x85",
    "\0",
    "\x0b",
    "\x0c",
    "\x1c",
    "\r",
    "\n",
    "\ud800",
    "\udfff",
    "\u202e",
    '"',
    "\\",
    ",",
]
WORDS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,8}", fullmatch=True)
# Text that JSON gives back as it was: two half characters side by side are read as the one they make.
TEXT = (HOSTILE | WORDS | st.sampled_from(["null", "true", "-", "1", "", *ODD])).filter(
    lambda text: text == json.loads(json.dumps(text))
)
CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT


# ── Written ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_documented_log_is_read() -> None:
    read = toonl.parse(LOG)
    assert read.broken == ()
    assert [list(row.values()) for row in read.rows] == [
        ["2026-05-17T12:14:00-03:00", "agent.stage", 142, 1, "impl"],
        ["2026-05-17T12:14:03-03:00", "hook.exit", 142, 1, "pre_merge ./guard.sh exit=0"],
        ["2026-05-17T12:14:09-03:00", "queue.idle", None, None, "drained"],
    ]
    assert list(read.rows[0]) == ["at", "kind", "issue", "attempt", "msg"]


def test_the_documented_log_is_written() -> None:
    first, second, third, _ = LOG.split("\n", 3)
    assert toonl.header(["at", "kind", "issue", "attempt", "msg"]) == first
    assert toonl.row(["2026-05-17T12:14:00-03:00", "agent.stage", 142, 1, Stage.IMPL]) == second
    assert toonl.row(["2026-05-17T12:14:03-03:00", "hook.exit", 142, 1, "pre_merge ./guard.sh exit=0"]) == third


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (-0.5, "-0.5"),
        (1e22, "1e+22"),
        (math.nan, "null"),
        (math.inf, "null"),
        ("null", '"null"'),
        ("true", '"true"'),
        ("nullable", "nullable"),
        ("a.b-c_1", "a.b-c_1"),
        ("1a", '"1a"'),
        ("", '""'),
        ("a\n", '"a\\n"'),
        ("é", '"\\u00e9"'),
        ({"a": [1, "b"]}, '"{\\"a\\":[1,\\"b\\"]}"'),
    ],
)
def test_each_value_has_its_cell(value: object, cell: str) -> None:
    assert toonl.row([value]) == cell


@given(st.lists(CELLS, min_size=1, max_size=6))
@example(ODD)
def test_any_row_is_one_ascii_line_and_reads_back(values: list[Any]) -> None:
    line = toonl.row(values)
    assert line.isascii() and line.isprintable()
    fields = [f"f{number}" for number in range(len(values))]
    read = toonl.parse(f"{toonl.header(fields)}\n{line}\n")
    assert read == toonl.Rows((dict(zip(fields, values, strict=True)),), ())
    assert [type(cell) for cell in read.rows[0].values()] == [type(value) for value in values]


@given(st.lists(WORDS, min_size=1, max_size=5, unique=True))
def test_any_header_is_read_back(fields: list[str]) -> None:
    text = f"{toonl.header(fields)}\n{toonl.row([0] * len(fields))}\n"
    assert list(toonl.parse(text).rows[0]) == fields


@pytest.mark.parametrize("fields", [[], [""], ["a b"], ["1"], ["a,b"], ["a", "a"], ["a\n"], ["a}:"]])
def test_fields_that_could_not_be_read_back_make_no_header(fields: list[str]) -> None:
    with pytest.raises(ValueError):
        toonl.header(fields)


@pytest.mark.parametrize("value", [object(), b"bytes", {"a": math.nan}, {1, 2}])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        toonl.row([value])


# ── Read ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_last_line_without_its_end_is_absent() -> None:
    whole = "[]{a,b}:\n1,2\n"
    read = toonl.parse(whole)
    assert toonl.parse(whole + "3,4") == toonl.parse(whole + "garbage (") == read
    assert toonl.parse("[]{a,b}:\n1,2\n3,4\n").rows == (*read.rows, {"a": 3, "b": 4})
    assert toonl.parse("") == toonl.parse("[]{a}:") == toonl.Rows((), ())


@given(st.integers(0, len(LOG)))
def test_a_log_cut_anywhere_gives_the_rows_before_the_cut(place: int) -> None:
    read = toonl.parse(LOG[:place])
    assert read.broken == ()
    assert read.rows == toonl.parse(LOG).rows[: max(0, LOG[:place].count("\n") - 1)]


def test_a_new_header_begins_a_new_schema() -> None:
    read = toonl.parse("[]{a}:\n1\n[]{b,c}:\n2,3\n4\n")
    assert read.rows == ({"a": 1}, {"b": 2, "c": 3})
    assert read.broken == (5,)


def test_rows_under_a_broken_header_are_not_read_by_the_names_of_the_one_before() -> None:
    read = toonl.parse("[]{a,b}:\n1,2\n[]{c,c}:\n3,4\n[]{d,e:\n5,6\n[]{f,g}:\n7,8\n")
    assert read.rows == ({"a": 1, "b": 2}, {"f": 7, "g": 8})
    assert read.broken == (3, 4, 5, 6)


def test_lines_before_any_header_are_broken() -> None:
    assert toonl.parse("1,2\n\nno row\n[]{a,b}:\n1,2\n") == toonl.Rows(({"a": 1, "b": 2},), (1, 2, 3))


@pytest.mark.parametrize(
    "line",
    [
        "",
        ",",
        "a,",
        ",a",
        "a b",
        "a, b",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "12abc",
        "-",
        "-a",
        "é",
        "NaN,",
        "1e999",
        "9" * 5000,
        '"open',
        '"a"b',
        '"a\\q"',
        '"a\tb"',
        "'a'",
        "{}",
        "a\r",
    ],
)
def test_a_line_that_is_no_row_costs_itself_alone(line: str) -> None:
    for fields in (["a"], ["a", "b"]):
        good = toonl.row(range(len(fields)))
        read = toonl.parse(f"{toonl.header(fields)}\n{good}\n{line}\n{good}\n")
        assert read.broken == (3,)
        assert len(read.rows) == 2


def test_a_number_may_be_longer_than_a_float_holds() -> None:
    assert toonl.parse("[]{a}:\n" + "1" * 400 + "\n").rows == ({"a": int("1" * 400)},)


@given(st.text(st.sampled_from('[]{}:,"\\nulltrue10-.eE+ \n\r\u2028ab'), max_size=40) | HOSTILE)
def test_any_text_is_read_without_a_crash_and_every_whole_line_is_accounted_for(text: str) -> None:
    read = toonl.parse(text)
    headers = sum(line.startswith("[]{") for line in text.split("\n")[:-1])
    assert len(read.rows) + len(read.broken) <= text.count("\n") <= len(read.rows) + len(read.broken) + headers
