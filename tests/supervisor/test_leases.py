"""How long foreign claims have stood, as this machine saw it: on its own clock, within one boot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from clockkit import HandClock

from afk.adapters.process import boot_id
from afk.supervisor.leases import Sight, Sights

OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "claims.json"


@pytest.fixture
def sights(path: Path, clock: HandClock) -> Sights:
    return Sights(path, clock)


def stored(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_a_claim_has_no_age_when_it_is_first_seen(sights: Sights) -> None:
    assert sights.look({7: OLD}) == {7: Sight(OLD, 0.0)}


def test_an_unchanged_claim_grows_older_each_by_itself(sights: Sights, clock: HandClock) -> None:
    sights.look({7: OLD})
    clock.reading_s += 100
    assert sights.look({7: OLD, 8: OLD}) == {7: Sight(OLD, 100.0), 8: Sight(OLD, 0.0)}
    clock.reading_s += 0.5
    assert sights.look({7: OLD, 8: OLD}) == {7: Sight(OLD, 100.5), 8: Sight(OLD, 0.5)}


def test_short_runs_of_one_boot_add_up(path: Path, clock: HandClock) -> None:
    for _ in range(3):
        Sights(path, clock).look({7: OLD})
        clock.reading_s += 300
    assert Sights(path, clock).look({7: OLD})[7].unchanged_s == 900


def test_a_claim_that_changed_starts_anew(sights: Sights, clock: HandClock) -> None:
    """Its owner renewed it: he lives."""
    sights.look({7: OLD})
    clock.reading_s += 100
    assert sights.look({7: NEW}) == {7: Sight(NEW, 0.0)}
    clock.reading_s += 100
    assert sights.look({7: NEW})[7].unchanged_s == 100


def test_a_claim_that_went_is_forgotten(sights: Sights, clock: HandClock, path: Path) -> None:
    sights.look({7: OLD, 8: NEW})
    clock.reading_s += 100
    assert sights.look({8: NEW}) == {8: Sight(NEW, 100.0)}
    assert list(stored(path)) == ["8"]
    assert sights.look({7: OLD, 8: NEW})[7].unchanged_s == 0


def test_another_boot_starts_anew(sights: Sights, clock: HandClock, path: Path) -> None:
    """The monotonic clock began again, so that an old reading may even lie ahead of ours."""
    sights.look({7: OLD})
    assert stored(path)["7"] == {"sha": OLD, "boot_id": boot_id(), "monotonic_s": 1000.0}
    path.write_text(json.dumps({"7": {"sha": OLD, "boot_id": "another", "monotonic_s": 1.0}}))
    assert sights.look({7: OLD})[7].unchanged_s == 0
    assert stored(path)["7"]["boot_id"] == boot_id()
    clock.reading_s += 50
    assert sights.look({7: OLD})[7].unchanged_s == 50


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"7": null}', b'{"7": []}', b'{"7": {}}']
)
def test_a_broken_file_means_that_ages_start_anew(sights: Sights, clock: HandClock, path: Path, content: bytes) -> None:
    """Too young is safe: a live owner is never robbed because a file was lost."""
    sights.look({7: OLD})
    clock.reading_s += 100
    path.write_bytes(content)
    assert sights.look({7: OLD})[7].unchanged_s == 0
    clock.reading_s += 10
    assert sights.look({7: OLD})[7].unchanged_s == 10


@pytest.mark.parametrize("seen", ["now", None, True, 1e12])
def test_a_sight_without_a_time_that_has_been_starts_anew(
    sights: Sights, clock: HandClock, path: Path, seen: object
) -> None:
    sights.look({7: OLD})
    known = json.loads(path.read_text())
    known["7"]["monotonic_s"] = seen
    path.write_text(json.dumps(known))
    assert sights.look({7: OLD})[7].unchanged_s == 0


def test_a_look_that_shows_nothing_new_writes_nothing(sights: Sights, clock: HandClock, path: Path) -> None:
    sights.look({7: OLD})
    file = path.stat().st_ino
    clock.reading_s += 100
    sights.look({7: OLD})
    assert path.stat().st_ino == file


def test_without_claims_nothing_is_seen_and_no_file_is_needed(sights: Sights, path: Path) -> None:
    assert sights.look({}) == {}
    assert not path.exists()
