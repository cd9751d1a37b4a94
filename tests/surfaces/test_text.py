"""Payloads as people read them."""

from __future__ import annotations

from afk.surfaces.text import columns, readable


def test_a_payload_reads_from_top_to_bottom_without_its_schema() -> None:
    payload = {
        "schema": "afk.odd.v1",
        "session_id": "s1",
        "totals": {"done": 2, "queued": 0},
        "duration_ms": 1280,
        "pid": None,
        "in_use": True,
        "labels": ["a", "b"],
        "nothing": [],
        "paths": {},
    }
    assert readable(payload).splitlines() == [
        "session id: s1",
        "totals:",
        "  done: 2",
        "  queued: 0",
        "duration: 1.28s",
        "pid: -",
        "in use: yes",
        "labels: a, b",
        "nothing: -",
        "paths: -",
    ]


def test_rows_of_equal_shape_are_columns() -> None:
    items = [
        {"issue_number": 7, "size_bytes": 2048, "labels": ["x", "y"]},
        {"issue_number": 142, "size_bytes": None, "labels": []},
    ]
    assert readable({"items": items}) == (
        "items:\n  issue number  size bytes  labels\n  7             2.0KiB      x, y\n  142           -           -\n"
    )


def test_rows_that_do_not_fit_columns_are_written_one_by_one() -> None:
    assert readable({"items": [{"a": {"b": 1}}, 3]}) == "items:\n  -\n    a:\n      b: 1\n  -\n    value: 3\n"


def test_a_text_of_several_lines_stays_under_its_name() -> None:
    assert readable({"text": "one\ntwo"}) == "text: one\n      two\n"


def test_columns_are_no_wider_than_needed() -> None:
    assert columns([["a", "bb"], ["ccc", "d"]], indent=1) == " a    bb\n ccc  d"
