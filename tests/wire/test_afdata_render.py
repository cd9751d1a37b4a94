"""Events as text: the fixtures, and that no text ever breaks a line that is not its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from afk.wire import afdata
from afk.wire.afdata_render import Format, render, to_plain, to_yaml
from afk.wire.redact import Policy, Rules, redact

FIXTURES = Path(__file__).parent.parent / "fixtures" / "afdata"
OUTPUTS = json.loads((FIXTURES / "output_formats.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", OUTPUTS, ids=lambda case: case["name"])
def test_a_value_is_written_as_the_fixture_says(case: dict) -> None:
    shown = redact(case["input"])
    assert shown == case["expected_json"]
    assert to_yaml(shown) == case["expected_yaml"]
    if "expected_plain" in case:
        assert to_plain(shown) == case["expected_plain"]


def test_json_is_one_compact_ascii_line_in_the_order_given() -> None:
    event = afdata.result({"b": "ü\u2028", "a": 1})
    assert render(event, Format.JSON) == '{"kind":"result","result":{"b":"\\u00fc\\u2028","a":1},"trace":{}}\n'


def test_every_yaml_event_is_a_document_of_its_own() -> None:
    stream = "".join(
        render(event, Format.YAML) for event in (afdata.progress({}), afdata.result({"a": [1, {"b": []}]}))
    )
    assert list(yaml.safe_load_all(stream)) == [
        {"kind": "progress", "progress": {}, "trace": {}},
        {"kind": "result", "result": {"a": [1, {"b": []}]}, "trace": {}},
    ]


def test_a_plain_event_is_one_line_of_pairs() -> None:
    event = afdata.error("no_such", "it is gone", trace={"duration_ms": 1500})
    assert render(event, Format.PLAIN) == (
        'error.code=no_such error.message="it is gone" error.retryable=false kind=error trace.duration=1.5s\n'
    )


@pytest.mark.parametrize("form", Format)
def test_redaction_happens_in_every_format(form: Format) -> None:
    text = render(afdata.result({"api_key_secret": "canary", "clone_url": "https://u:canary@h/"}), form)
    assert "canary" not in text
    assert text.count("***") == 2


def test_the_rules_are_the_callers() -> None:
    event = afdata.result({"a_secret": "shown"})
    assert "shown" in render(event, Format.JSON, rules=Rules(policy=Policy.OFF))


HOSTILE = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    [
        "a\nb",
        "a\r\nb",
        "a\u2028b",
        "a\u2029b",
        "a\u0085b",
        "\x1b[2J",
        "\x9b1m",
        "a\x7fb",
        "\x00",
        "\ufeff",
        "\uffff",
        "---",
        "- a",
        "k: v",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=8,
)
EVENTS = VALUES.map(afdata.result)
OFF = Rules(policy=Policy.OFF)


@given(EVENTS)
def test_json_and_plain_are_one_line_whatever_is_in_them(event: dict) -> None:
    for form in (Format.JSON, Format.PLAIN):
        assert len(render(event, form, rules=OFF).splitlines()) == 1


@given(EVENTS)
def test_json_reads_back_as_it_was(event: dict) -> None:
    assert json.loads(render(event, Format.JSON, rules=OFF)) == event


NUMBERS = st.integers(-(2**53), 2**53)  # YAML 1.1 and the protocol write floats differently
YAML_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | HOSTILE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(HOSTILE | st.sampled_from(["on", "1", "-", "~", "null", "1e3", "0x1"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(YAML_VALUES)
def test_yaml_reads_back_as_it_was(value: object) -> None:
    event = afdata.result({"value": value})
    text = render(event, Format.YAML, rules=OFF)
    assert yaml.safe_load(text) == event
    assert text.splitlines() == text.split("\n")[:-1]


@given(HOSTILE)
def test_a_lone_text_is_one_plain_line(text: str) -> None:
    assert len(to_plain(text).splitlines()) <= 1
