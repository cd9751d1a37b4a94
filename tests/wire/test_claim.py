"""The claim's one line: exact bytes out, and nothing assumed about what comes in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hostile import HOSTILE
from hypothesis import example, given
from hypothesis import strategies as st

from afk.wire.claim import ClaimRecord

CLAIM = ClaimRecord("0123456789abcdef" * 2, 0, "wZ2R4", "build-3", "wZ2R4-142-a1", 900)
LINE = (
    '{"schema":"afk.claim.v1","nonce":"0123456789abcdef0123456789abcdef","seq":0,"worker":"wZ2R4","host":"build-3",'
    '"attempt":"wZ2R4-142-a1","lease_s":900,"state":"working"}'
)
# Text that JSON gives back as it was: two half characters side by side are read as the one they make.
TEXT = HOSTILE.filter(lambda text: text == json.loads(json.dumps(text)))
CLAIMS = st.builds(
    ClaimRecord,
    nonce=st.text(st.sampled_from("0123456789abcdef"), min_size=32, max_size=32),
    seq=st.integers(0, 2**53),
    worker=TEXT,
    host=TEXT,
    attempt=TEXT,
    lease_s=st.integers(1, 2**53),
    state=st.sampled_from(["working", "waiting"]),
)
# Any JSON at all, and JSON that is nearly a claim.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*json.loads(LINE), "x"]), inner),
    max_leaves=6,
)


def test_a_claim_is_one_compact_line_with_its_keys_in_order() -> None:
    assert CLAIM.message() == LINE
    assert replace(CLAIM, seq=7, state="waiting").message() == LINE.replace('"seq":0', '"seq":7').replace(
        "working", "waiting"
    )


@given(CLAIMS)
def test_any_claim_is_one_ascii_line_and_reads_back(claim: ClaimRecord) -> None:
    line = claim.message()
    assert line.isascii() and line.isprintable()
    assert ClaimRecord.parse(line) == claim


def test_a_claim_is_read_as_git_shows_a_commit_message() -> None:
    assert ClaimRecord.parse(f"{LINE}\n") == CLAIM


def test_keys_of_a_later_version_and_another_order_do_no_harm() -> None:
    record = dict(reversed(json.loads(LINE).items())) | {"later": [1]}
    assert ClaimRecord.parse(json.dumps(record, indent=1)) == CLAIM


BROKEN: dict[str, list[Any]] = {
    "schema": ["afk.claim.v2", None, 1],
    "nonce": ["", "0" * 31, "0" * 33, "F" * 32, "0" * 32 + "\n", 0, None],
    "seq": [-1, "0", 0.0, True, None, 2**53 + 1],
    "worker": [1, None, ["wZ2R4"]],
    "host": [1, None, {}],
    "attempt": [1, None, False],
    "lease_s": [0, -900, "900", 900.0, True, None, 10**400],
    "state": ["", "done", "Working", None, ["working"], {}],
}


@pytest.mark.parametrize("key", BROKEN)
def test_a_claim_that_lacks_a_key_or_has_a_wrong_value_is_none(key: str) -> None:
    record = json.loads(LINE)
    without = {name: value for name, value in record.items() if name != key}
    assert ClaimRecord.parse(json.dumps(without)) is None
    for value in BROKEN[key]:
        assert ClaimRecord.parse(json.dumps(record | {key: value})) is None, value


@given(JSON.map(json.dumps) | HOSTILE)
@example("")
@example("[" * 100_000)
@example('{"schema":"afk.claim.v1","seq":' + "9" * 5000 + "}")
@example(LINE[:-1])
@example("Merge branch 'main'")
def test_any_other_message_is_none(text: str) -> None:
    assert ClaimRecord.parse(text) is None
