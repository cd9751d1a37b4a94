"""The state file: the documented snapshot both ways, and readers that outlive the writers' versions."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE
from hypothesis import example, given, settings
from hypothesis import strategies as st

from afk.wire.statefile import Current, EnvelopeState, FilterState, State, StateFileError, dump, load

DOCUMENTED = Path(__file__).parent.parent / "golden" / "statefile" / "documented.json"
STATE = State(
    worker_id="wZ2R4",
    pid=12340,
    pid_start_time="123456789",
    log=".red/tmp/workers/wZ2R4/worker.log.toonl",
    started_at="2026-05-16T12:00:00-03:00",
    runner="codex",
    filter=FilterState("prd", "42"),
    total=12,
    done=3,
    completed=(139, 140, 141),
    queue=(143, 144, 145, 146),
    current=Current(
        number=142,
        title="wire OAuth callback",
        slug="wire-oauth-callback",
        worktree=".red/tmp/workers/wZ2R4/142-a1/worktree",
        handoff=".red/tmp/workers/wZ2R4/142-a1/handoff.md",
        started_at="2026-05-16T12:14:00-03:00",
        stage="impl",
        runner="codex",
        last_stream_line="writing tests for callback handler",
    ),
    durations_seconds=(820, 940, 760),
)

# Text that JSON gives back as it was: two half characters side by side are read as the one they make.
TEXT = HOSTILE.filter(lambda text: text == json.loads(json.dumps(text)))
NUMBERS = st.integers(-(10**20), 10**20)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": NUMBERS,
    "bool": st.booleans(),
    "str": TEXT,
    "int | None": st.none() | NUMBERS,
    "str | None": st.none() | TEXT,
    "Sequence[int]": st.lists(NUMBERS, max_size=3).map(tuple),
}


def section(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a section, with unknown fields, some of them named like those of another level."""
    known = {each.name: VALUES[str(each.type)] for each in fields(kind) if str(each.type) in VALUES}
    foreign = TEXT | st.sampled_from(["extra", "later", "number", "posted", "kind"])
    extra = st.dictionaries(foreign.filter(lambda name: name not in {each.name for each in fields(kind)}), JSON)
    return st.builds(kind, **known, extra=extra)


STATES = st.builds(
    lambda state, filter_, current, envelope: replace(state, filter=filter_, current=current, envelope=envelope),
    section(State),
    section(FilterState),
    st.none() | section(Current),
    section(EnvelopeState),
)


# ── Both ways ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_documented_snapshot_is_read() -> None:
    assert load(DOCUMENTED.read_text()) == STATE


def test_the_documented_snapshot_is_written_key_for_key() -> None:
    documented = json.loads(DOCUMENTED.read_text())
    assert dump(STATE) == dump(load(DOCUMENTED.read_text())) == json.dumps(documented, indent=2) + "\n"


def test_a_new_worker_is_idle_and_has_posted_nothing() -> None:
    assert load("{}") == State()
    assert json.loads(dump(State()))["current"] is None
    assert json.loads(dump(State()))["envelope"] == {"posted": False}


@settings(max_examples=25, deadline=None)
@given(STATES)
def test_any_snapshot_is_ascii_and_reads_back(state: State) -> None:
    text = dump(state)
    assert text.isascii() and text.endswith("}\n")
    assert load(text) == state


def test_lists_are_written_from_whatever_holds_them() -> None:
    assert dump(replace(STATE, queue=[143, 144, 145, 146])) == dump(STATE)


# ── Other versions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_unknown_fields_are_kept_at_every_level_and_written_last() -> None:
    document = json.loads(DOCUMENTED.read_text())
    later = {
        "later": 1,
        **document,
        "version": 7,
        "current": {"later": [2], **document["current"]},
        "filter": {"later": None, **document["filter"]},
        "envelope": {"later": {"a": "b"}, **document["envelope"]},
    }
    written = json.loads(dump(load(json.dumps(later))))
    assert written == later
    assert list(written) == [*document, "later"]
    assert list(written["current"]) == [*document["current"], "later"]


def test_a_field_of_ours_is_never_overwritten_by_an_unknown_one_of_its_name() -> None:
    assert json.loads(dump(replace(STATE, extra={"pid": 1})))["pid"] == 12340


@pytest.mark.parametrize("name", json.loads(DOCUMENTED.read_text()))
def test_a_missing_field_defaults(name: str) -> None:
    document = json.loads(DOCUMENTED.read_text())
    del document[name]
    assert load(json.dumps(document)) == replace(STATE, **{name: getattr(State(), name)})


@pytest.mark.parametrize("name", ["filter", "current", "envelope"])
def test_a_section_that_is_null_is_a_missing_one(name: str) -> None:
    document = json.loads(DOCUMENTED.read_text()) | {name: None}
    assert load(json.dumps(document)) == replace(STATE, **{name: getattr(State(), name)})


# ── Broken ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "1", '"state"', "{", '{"pid":1}}', '{"a":NaN}', '{"a":Infinity}', "\ufeff{}", "[" * 100_000],
)
def test_what_is_no_object_is_broken(text: str) -> None:
    with pytest.raises(StateFileError):
        load(text)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("pid", ["12340", 1.0, None, True, [], 2.5]),
        ("version", ["1", None]),
        ("worker_id", [1, None, [], {}]),
        ("pid_start_time", [123456789, None]),
        ("completed", [None, {}, "139", 139, [139, "140"], [True], [[1]], [1.5]]),
        ("filter", [[], "all", 0, False]),
        ("filter.value", [42, [], {}, False]),
        ("filter.kind", [None, 1]),
        ("current", [[], "", 0, False]),
        ("current.number", ["142", None]),
        ("current.heartbeat_pid", ["1", False, {}]),
        ("current.heartbeat_glyph", [1]),
        ("envelope", [[], "", 0]),
        ("envelope.posted", [0, 1, "false", None]),
    ],
)
def test_a_value_of_another_type_is_broken_and_named(path: str, values: list[object]) -> None:
    for value in values:
        document = json.loads(DOCUMENTED.read_text())
        *outer, name = path.split(".")
        (document[outer[0]] if outer else document)[name] = value
        with pytest.raises(StateFileError, match=name):
            load(json.dumps(document))


@given(JSON.map(json.dumps) | HOSTILE, st.integers(0, 800))
@example('{"pid":' + "9" * 5000 + "}", 0)
def test_any_text_is_a_snapshot_or_broken_and_nothing_else(text: str, cut: int) -> None:
    for candidate in (text, DOCUMENTED.read_text()[:cut]):
        try:
            assert load(dump(load(candidate))) == load(candidate)
        except StateFileError as error:
            assert str(error)
