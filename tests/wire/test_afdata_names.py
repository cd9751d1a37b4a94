"""Endings of names: for people, and as promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afk.wire import afdata_names as names

FIXTURES = Path(__file__).parent.parent / "fixtures" / "afdata"
HELPERS = {
    "format_bytes_human": names.bytes_for_people,
    "format_with_commas": names.with_commas,
    "extract_currency_code": names.currency_of,
    "normalize_utc_offset": names.normal_utc_offset,
    "is_valid_rfc3339": names.is_rfc3339,
    "is_valid_rfc3339_date": names.is_rfc3339_date,
    "is_valid_rfc3339_time": names.is_rfc3339_time,
    "is_valid_bcp47": names.is_bcp47,
}
GROUPS = json.loads((FIXTURES / "helpers.json").read_text(encoding="utf-8"))
PAIRS = [(group["name"], given, expected) for group in GROUPS for given, expected in group["cases"]]


def test_every_helper_of_the_fixture_is_here() -> None:
    assert {group["name"] for group in GROUPS} == HELPERS.keys()


@pytest.mark.parametrize(("helper", "given", "expected"), PAIRS)
def test_helpers_answer_as_the_fixture_says(helper: str, given: object, expected: object) -> None:
    assert HELPERS[helper](given) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("latency_ms", 1280, ("latency", "1.28s")),
        ("size_bytes", 5_242_880, ("size", "5.0MiB")),
        ("lease_s", 900, ("lease", "900s")),
        ("cost_usd_micro", 170_000, ("cost", "0.170000 USD")),
        ("size_bytes", -1, None),
        ("size_bytes", True, None),
        ("lease_s", None, None),
        ("name", "x", None),
    ],
)
def test_a_field_reads_as_people_would_say_it(name: str, value: object, expected: object) -> None:
    assert names.display(name, value) == expected


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("at_rfc3339", "2026-05-17 12:00"),
        ("due_rfc3339_date", "2026-02-30"),
        ("open_rfc3339_time", "24:00:00"),
        ("language_bcp47", "zh_CN"),
        ("zone_utc_offset", "Asia/Shanghai"),
        ("duration_ms", "3"),
        ("size_bytes", -1),
        ("size_bytes", 1.5),
        ("load_percent", True),
        ("worktree_path", "relative/path"),
        ("issue_url", 7),
        ("since_epoch_ms", "yesterday"),
    ],
)
def test_a_broken_promise_is_named_by_its_place(name: str, bad: object) -> None:
    assert [problem.split(":")[0] for problem in names.naming_problems({"rows": [{name: bad}]})] == [
        f"$.rows[0].{name}"
    ]


def test_kept_promises_and_nulls_are_no_problem() -> None:
    payload = {
        "at_rfc3339": "2026-05-17T12:00:00Z",
        "finished_at_rfc3339": None,
        "duration_ms": 3,
        "worktree_path": "/tmp/x",
        "size_bytes": 3.0,
        "title": "anything",
    }
    assert names.naming_problems(payload) == []
