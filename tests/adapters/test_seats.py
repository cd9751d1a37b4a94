"""R85: workers of one machine share no port, no temporary files and no cache, whichever checkouts they serve."""

from __future__ import annotations

import json
import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from afk.adapters import seats
from afk.adapters.files import FileLock
from afk.adapters.seats import FIRST_PORT, PORTS, Seat, lease


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TMPDIR": str(tmp_path / "machine")}


def checkout(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir(exist_ok=True)
    return made


def test_no_two_slots_of_a_machine_share_ports_or_folders(tmp_path: Path, environ: dict[str, str]) -> None:
    one, other = checkout(tmp_path, "one"), checkout(tmp_path, "other")
    wanted = [(root, slot) for root in (one, other) for slot in range(1, 9)]
    with ThreadPoolExecutor(len(wanted)) as pool:  # all at once, as supervisors that boot together ask
        taken = list(pool.map(lambda each: lease(*each, environ), wanted))
    ports = [port for seat in taken for port in range(seat.port_base or 0, (seat.port_base or 0) + PORTS)]
    assert len(set(ports)) == len(ports) == 16 * PORTS
    assert min(ports) >= FIRST_PORT
    assert len({seat.tmp for seat in taken} | {seat.cache for seat in taken}) == 32


def test_a_slot_gets_the_same_seat_each_time(tmp_path: Path, environ: dict[str, str]) -> None:
    """Its agent may still run when the next supervisor asks."""
    one, other = checkout(tmp_path, "one"), checkout(tmp_path, "other")
    first = lease(one, 2, environ)
    lease(other, 2, environ)
    assert lease(one, 2, environ) == first


def test_the_seat_of_a_checkout_that_is_gone_is_free_again(tmp_path: Path, environ: dict[str, str]) -> None:
    one, other = checkout(tmp_path, "one"), checkout(tmp_path, "other")
    first = lease(one, 1, environ)
    shutil.rmtree(one)
    assert lease(other, 1, environ).port_base == first.port_base


def test_ports_that_somebody_else_uses_are_not_leased(tmp_path: Path, environ: dict[str, str]) -> None:
    free = lease(checkout(tmp_path, "one"), 1, environ).port_base
    assert free is not None
    shutil.rmtree(tmp_path / "machine")
    with socket.socket() as service:
        service.bind(("127.0.0.1", free + PORTS - 1))
        service.listen()
        found = lease(checkout(tmp_path, "one"), 1, environ).port_base
        assert found is not None
        assert found > free


def test_when_all_are_taken_the_one_that_rested_longest_is_given_and_none_that_works(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "SEATS", 2)
    old, busy, new = checkout(tmp_path, "old"), checkout(tmp_path, "busy"), checkout(tmp_path, "new")
    with FileLock(busy / ".red/tmp/supervisor.lock"):
        lease(busy, 1, environ)
        rested = lease(old, 1, environ)
        assert lease(new, 1, environ).port_base == rested.port_base
        with FileLock(new / ".red/tmp/supervisor.lock"):
            assert lease(old, 1, environ).port_base is None


def _book(tmp_path: Path) -> Path:
    return tmp_path / "machine" / f"afk-{os.getuid()}" / "seats"


@pytest.mark.parametrize(
    "text",
    ["", "[1", '{"slot": 1}', "null", '{"checkout": "a\\u0000b", "slot": 1}', '{"checkout": "/", "slot": 1e999}'],
)
def test_what_nobody_can_read_leases_nothing(tmp_path: Path, environ: dict[str, str], text: str) -> None:
    one = checkout(tmp_path, "one")
    lease(one, 1, environ)
    (_book(tmp_path) / "0.json").write_text(text)
    assert lease(one, 1, environ).port_base is not None
    assert any(json.loads(path.read_text()) == {"checkout": str(one), "slot": 1} for path in _book(tmp_path).iterdir())


def test_a_pipe_in_place_of_a_lease_holds_nobody_up(tmp_path: Path, environ: dict[str, str]) -> None:
    lease(checkout(tmp_path, "one"), 1, environ)
    (_book(tmp_path) / "0.json").unlink()
    os.mkfifo(_book(tmp_path) / "0.json")
    assert lease(checkout(tmp_path, "other"), 1, environ).port_base is not None


def test_a_checkout_that_cannot_be_reached_keeps_its_seat_and_stops_nobody(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    lease(checkout(tmp_path, "one"), 1, environ)
    (_book(tmp_path) / "0.json").write_text(json.dumps({"checkout": "/" + "x" * 5000, "slot": 1}))
    taken = lease(checkout(tmp_path, "other"), 1, environ).port_base
    assert taken is not None
    assert taken > FIRST_PORT


def test_a_seat_that_was_used_of_late_is_not_the_one_that_rested_longest(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seats, "SEATS", 2)
    old, new, third = (checkout(tmp_path, name) for name in ("old", "new", "third"))
    first, second = lease(old, 1, environ), lease(new, 1, environ)
    for number, age in ((0, 50), (1, 40)):
        os.utime(_book(tmp_path) / f"{number}.json", (1e9 - age, 1e9 - age))
    assert lease(old, 1, environ) == first
    assert lease(third, 1, environ).port_base == second.port_base


def test_an_afk_inside_a_seat_gets_another_one(tmp_path: Path, environ: dict[str, str]) -> None:
    """A check may run `afk run` itself."""
    outer = lease(checkout(tmp_path, "one"), 1, environ)
    inner = lease(checkout(tmp_path, "inner"), 1, outer.ready())
    assert inner.port_base != outer.port_base
    assert inner.tmp is not None
    assert inner.tmp.parent == outer.tmp.parent if outer.tmp else False


@pytest.mark.parametrize("relative", ["rel", "../x"])
def test_a_relative_directory_for_temporary_files_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    """To a program that works in a worktree it would be another place."""
    monkeypatch.chdir(tmp_path)
    seat = lease(checkout(tmp_path, "one"), 1, {"TMPDIR": relative})
    assert seat.tmp is None or seat.tmp.is_absolute()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one"]


@pytest.mark.parametrize("spoil", ["a file", "a link", "open to all"])
def test_a_folder_that_others_could_have_made_is_not_used(tmp_path: Path, environ: dict[str, str], spoil: str) -> None:
    """The directory for temporary files is everybody's."""
    place = tmp_path / "machine" / f"afk-{os.getuid()}"
    place.parent.mkdir(exist_ok=True)
    if spoil == "a file":
        place.write_text("")
    elif spoil == "a link":
        place.symlink_to(checkout(tmp_path, "elsewhere"))
    else:
        place.mkdir()
        place.chmod(0o777)
    seat = lease(checkout(tmp_path, "one"), 1, environ)
    assert (seat.port_base, seat.tmp) == (None, None)
    assert set(seat.environment) == {"RED_AFK_SLOT", "RED_AFK_CACHE_DIR"}


def test_temporary_files_of_an_earlier_attempt_are_gone_and_the_cache_is_kept(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    seat = lease(checkout(tmp_path, "one"), 1, environ)
    seat.ready()
    assert seat.tmp is not None
    (seat.tmp / "left").write_text("by an earlier one")
    (seat.tmp / "modules").mkdir()
    (seat.tmp / "modules/one").write_text("read-only, as a module cache is")
    (seat.tmp / "modules").chmod(0o555)
    (seat.tmp / "out").symlink_to(checkout(tmp_path, "person's"))
    (tmp_path / "person's/file").write_text("a person's")
    (seat.cache / "warm").write_text("kept")
    seats.empty(seat)
    assert list(seat.tmp.iterdir()) == []
    assert (seat.cache / "warm").read_text() == "kept"
    assert (tmp_path / "person's/file").read_text() == "a person's"


def test_what_a_worker_is_told_of_its_seat() -> None:
    seat = Seat(3, Path("/c"), 20040, Path("/t"))
    assert seat.environment == {
        "RED_AFK_SLOT": "3",
        "RED_AFK_CACHE_DIR": "/c",
        "RED_AFK_PORT_BASE": "20040",
        "RED_AFK_PORT_COUNT": "20",
        "RED_AFK_TMP_DIR": "/t",
        "TMPDIR": "/t",
    }
