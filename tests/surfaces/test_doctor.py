"""`afk doctor` as a process; what each check finds is tested with `supervisor/ground.py`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from drainkit import Place, ended

from afk.supervisor.ground import CheckStatus
from afk.surfaces.commands.doctor import _verdict


@pytest.fixture
def ready(place: Place) -> Place:
    """Everything in order, one issue in the queue."""
    place.file(1)
    (place.clone / ".git/info/exclude").write_text("/.red/issues/\n")
    return place


def test_a_place_in_order_is_fit(ready: Place) -> None:
    ran = ready.afk("doctor")
    assert (ran.code, ran.payload["verdict"]) == (0, "ok"), ran.stdout
    assert set(ran.payload["counts"]) == {"pass", "warn", "fail", "skipped", "error"}
    odd = {check["id"]: check["status"] for check in ran.payload["checks"] if check["status"] != "pass"}
    assert odd == {"answers": "skipped"}  # a program of their own is not started to see what it does
    assert all(check["fix"] is None for check in ran.payload["checks"])


def test_a_broken_configuration_fails_and_leaves_the_rest_open(ready: Place) -> None:
    ready.write_config("afk:\n  labell: x\n")
    ran = ready.afk("doctor")
    assert (ran.code, ran.payload["verdict"]) == (1, "fail")
    found = {check["id"]: check for check in ran.payload["checks"]}
    assert "labell" in found["config"]["summary"]
    assert found["config"]["fix"] == "afk config validate"
    assert {check["status"] for id, check in found.items() if id != "config"} == {"skipped"}
    assert "Not fit for a run" in ended(ready.start("doctor")).stdout


def test_outside_a_repository_there_is_nothing_to_say(place: Place, tmp_path: Path) -> None:
    ran = place.afk("-C", str(tmp_path), "doctor")
    assert (ran.code, ran.stdout, ran.error["code"]) == (4, "", "not_a_repository")


def test_a_failure_outranks_what_could_not_be_checked() -> None:
    assert _verdict(Counter({CheckStatus.ERROR: 1, CheckStatus.FAIL: 1})) == ("fail", 1)
    assert _verdict(Counter({CheckStatus.ERROR: 1, CheckStatus.WARN: 1})) == ("unknown", 3)
    assert _verdict(Counter({CheckStatus.WARN: 1, CheckStatus.SKIPPED: 1})) == ("warn", 0)
