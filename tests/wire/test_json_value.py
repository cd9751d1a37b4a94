"""What becomes JSON, and what is refused."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum, IntEnum, StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.wire.json_value import NotJson, jsonable, rfc3339, without_lone_surrogates


class Word(StrEnum):
    DONE = "done"


class Number(IntEnum):
    TWO = 2


class Pair(Enum):
    BOTH = ("a", "b")


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    at: Path


NOON = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Path("/tmp/x"), "/tmp/x"),
        (NOON, "2026-05-17T12:00:00Z"),
        (NOON.astimezone(timezone(timedelta(hours=8))), "2026-05-17T12:00:00Z"),
        (NOON.replace(microsecond=1500), "2026-05-17T12:00:00.001500Z"),
        (date(2026, 5, 17), "2026-05-17"),
        (Word.DONE, "done"),
        (Number.TWO, 2),
        (Pair.BOTH, ["a", "b"]),
        (Point(1, Path("/a")), {"x": 1, "at": "/a"}),
        ((1, (2,)), [1, [2]]),
        ({Word.DONE: True}, {"done": True}),
        (True, True),
        (None, None),
    ],
)
def test_values_of_ours_have_one_json_form(value: object, expected: object) -> None:
    converted = jsonable(value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        datetime(2026, 5, 17),
        b"bytes",
        {1, 2},
        {1: "a"},
        object(),
        timedelta(seconds=1),
        Point,
        ValueError("secret"),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_has_no_honest_form_is_refused_by_place_and_not_by_value(value: object) -> None:
    with pytest.raises(NotJson) as refused:
        jsonable({"field": [value]})
    assert "$.field[0]" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_value_inside_itself_is_refused() -> None:
    knot: list[object] = []
    knot.append(knot)
    with pytest.raises(NotJson, match="deep"):
        jsonable(knot)


def test_a_naive_datetime_has_no_rfc3339() -> None:
    with pytest.raises(NotJson):
        rfc3339(datetime(2026, 5, 17))


def test_a_file_name_that_is_not_utf8_shows_its_bytes() -> None:
    assert jsonable(Path(os.fsdecode(b"/tmp/\xff.txt"))) == "/tmp/\\xff.txt"


def test_half_a_character_is_shown_and_a_whole_one_kept() -> None:
    assert without_lone_surrogates("a\ud800b😀") == "a\\ud800b😀"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING)
def test_what_comes_out_is_strict_json_and_utf8(value: object) -> None:
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode("utf-8")) == jsonable(value)
