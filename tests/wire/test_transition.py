"""Transition lines: what a program sees that watches a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from afk.domain.outcome import Outcome
from afk.domain.stage import Stage
from afk.wire import afdata, transition
from afk.wire.afdata_render import to_json

LINE = (
    '{"kind":"progress","progress":{"schema":"afk.transition.v1","at_rfc3339":"2026-05-17T15:14:00Z",'
    '"worker_id":"wZ2R4","issue_number":142,"attempt_id":"wZ2R4-142-a1","from":"explore","to":"impl",'
    '"runner":"codex","outcome":null},"trace":{}}'
)


def told(**changes: Any) -> dict[str, object]:
    values: dict[str, Any] = {
        "at": datetime(2026, 5, 17, 15, 14, tzinfo=UTC),
        "worker_id": "wZ2R4",
        "issue_number": 142,
        "attempt_id": "wZ2R4-142-a1",
        "before": "explore",
        "after": "impl",
        "runner": "codex",
        "outcome": None,
    }
    return transition.payload(**(values | changes))


def test_a_transition_is_exactly_this_line() -> None:
    assert to_json(afdata.progress(told())) == LINE


def test_the_outcome_is_told_with_the_end() -> None:
    end = told(before="close", after="ended", outcome=Outcome.DONE)
    assert (end["to"], end["outcome"]) == ("ended", "done")
    assert end.keys() == told().keys()


def test_times_are_told_in_utc_and_whole_seconds() -> None:
    at = datetime(2026, 5, 17, 12, 14, 0, 999_999, tzinfo=timezone(timedelta(hours=-3)))
    assert told(at=at) == told()


def test_the_states_are_the_stages_in_order_and_five_more() -> None:
    on_the_way = ["queued", "claimed", *Stage, "validating", "waiting"]
    assert list(transition.STATES) == [*on_the_way, "ended"]
    assert [told(after=state)["to"] for state in on_the_way] == on_the_way


@pytest.mark.parametrize(
    "changes",
    [
        {"after": "implementing"},
        {"before": ""},
        {"after": "ended"},
        {"outcome": Outcome.BLOCKED},
        {"at": datetime(2026, 5, 17, 15, 14)},
    ],
)
def test_what_no_watcher_knows_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        told(**changes)
