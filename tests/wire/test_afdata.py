"""Events of AFDATA v1, against the protocol's own fixtures and its JSON schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from afk.wire import afdata
from afk.wire.afdata import ProtocolViolation, check_event, check_stream
from afk.wire.json_value import NotJson

FIXTURES = Path(__file__).parent.parent / "fixtures" / "afdata"


def cases(name: str) -> list[dict]:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


BUILT = [case for case in cases("protocol.json") if "type" in case]
INVALID = [case for case in cases("protocol.json") if "invalid" in case]
SCHEMA = json.loads((FIXTURES / "protocol-v1.schema.json").read_text(encoding="utf-8"))


def build(kind: str, args: dict) -> dict:
    """What the fixture's name of a builder means here."""
    if kind.startswith("error"):
        return afdata.error(**args)
    if kind.startswith("result"):
        return afdata.result(args["result"], trace=args.get("trace"))
    builder = {"progress": afdata.progress, "log": afdata.log}[kind]
    return builder({key: value for key, value in args.items() if key != "fields"} | args.get("fields", {}))


@pytest.mark.parametrize("case", BUILT, ids=lambda case: case["name"])
def test_builders_give_the_event_of_the_fixture(case: dict) -> None:
    event = build(case["type"], case["args"])
    assert event == case["expected"]
    check_event(event)


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["name"])
def test_an_invalid_event_is_refused_in_both_profiles(case: dict) -> None:
    for strict in (True, False):
        with pytest.raises(ProtocolViolation):
            check_event(case["invalid"], strict=strict)


@pytest.mark.parametrize("case", cases("protocol_streams.json"), ids=lambda case: case["name"])
def test_streams_are_judged_as_the_fixture_says(case: dict) -> None:
    if case["valid"]:
        check_stream(case["events"], strict=False)
    else:
        with pytest.raises(ProtocolViolation):
            check_stream(case["events"], strict=False)


def test_a_stream_of_our_own_events_is_strict() -> None:
    check_stream([afdata.log({"category": "retry"}), afdata.progress({}), afdata.error("no", "it is not there")])


def test_the_strict_profile_wants_trace_and_a_boolean_retryable() -> None:
    with pytest.raises(ProtocolViolation, match="trace"):
        check_event({"kind": "result", "result": 1})
    with pytest.raises(ProtocolViolation, match="retryable"):
        check_event({"kind": "error", "error": {"code": "a", "message": "b"}, "trace": {}})
    with pytest.raises(ProtocolViolation, match="retryable"):
        check_event({"kind": "error", "error": {"code": "a", "message": "b", "retryable": 0}, "trace": {}})


def test_the_schema_is_the_first_key_inside_the_payload() -> None:
    event = afdata.result({"version": "1"}, schema="afk.version.v1")
    assert list(event) == ["kind", "result", "trace"]
    assert list(event["result"]) == ["schema", "version"]


def test_a_payload_does_not_bring_a_second_schema() -> None:
    with pytest.raises(ProtocolViolation):
        afdata.result({"schema": "afk.other.v1"}, schema="afk.version.v1")
    with pytest.raises(ProtocolViolation):
        afdata.result([1], schema="afk.version.v1")


def test_an_errors_extension_cannot_hide_its_code() -> None:
    with pytest.raises(ProtocolViolation, match="code"):
        afdata.error("a", "b", fields={"code": "c"})


@pytest.mark.parametrize(("code", "message"), [("", "b"), ("a", "")])
def test_an_error_without_code_or_message_is_not_built(code: str, message: str) -> None:
    with pytest.raises(ProtocolViolation):
        afdata.error(code, message)


def test_what_is_not_json_is_refused_where_the_event_is_built() -> None:
    with pytest.raises(NotJson, match=r"\$\.loss"):
        afdata.result({"loss": float("nan")})


WORDS = st.sampled_from(["kind", "result", "error", "progress", "log", "trace", "code", "message", "hint", "retryable"])
SCALARS = st.sampled_from(["result", "error", "progress", "log", "", "x", None, True, 3])
ALMOST_EVENTS = st.dictionaries(WORDS, SCALARS | st.dictionaries(WORDS, SCALARS, max_size=4), max_size=4)


@given(event=ALMOST_EVENTS, strict=st.booleans())
def test_the_validator_agrees_with_the_published_schema(event: dict, strict: bool) -> None:
    schema = SCHEMA | {"$ref": "#/$defs/strictEvent" if strict else "#/$defs/event"}
    try:
        check_event(event, strict=strict)
        ours = True
    except ProtocolViolation:
        ours = False
    assert ours == Draft202012Validator(schema).is_valid(event)
