"""What a slot has for itself on this machine, so that two workers never share a port, a cache or a file (R85).

A seat belongs to a slot of a checkout, not to an attempt: every attempt of that slot finds the same ports and the same
warm cache. It is leased under a lock from all of this person's checkouts, and stays leased when its supervisor dies,
because the agent that uses it goes on: until the checkout is gone, or all seats are taken and this one rested longest.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from afk.adapters.files import FileLock, owner, write_atomic
from afk.adapters.hostwide import host_folder, own_folder
from afk.adapters.regular import read_regular
from afk.errors import AfkError
from afk.wire.json_value import parse_json

__all__ = ["FIRST_PORT", "PORTS", "SEATS", "Seat", "empty", "lease"]

# Below the ports that the kernel gives to whoever asks for any (32768 and up), above those that services are known by.
FIRST_PORT, PORTS, SEATS = 20000, 20, 600
_LOCK_S = 2.0
_LEASE_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Seat:
    """`PORTS` ports from `port_base` on, a folder for temporary files, and one for what is worth keeping warm.

    `port_base` and `tmp` are None where this machine gives none; the cache is in the checkout.
    """

    slot: int
    cache: Path
    port_base: int | None = None
    tmp: Path | None = None

    @property
    def values(self) -> dict[str, str | int | None]:
        """What hooks are told of it, without their prefix; docs/configuration.md tells people."""
        return {
            "SLOT": self.slot,
            "CACHE_DIR": str(self.cache),
            "PORT_BASE": self.port_base,
            "PORT_COUNT": None if self.port_base is None else PORTS,
            "TMP_DIR": None if self.tmp is None else str(self.tmp),
        }

    @property
    def environment(self) -> dict[str, str]:
        """What agents, setup commands and checks are told of it; their temporary files go there by themselves."""
        told = {f"RED_AFK_{name}": str(value) for name, value in self.values.items() if value is not None}
        return told if self.tmp is None else told | {"TMPDIR": str(self.tmp)}

    def ready(self) -> dict[str, str]:
        """`environment`, with both folders made where they are absent: people and the system clean such places."""
        with suppress(OSError):
            self.cache.mkdir(parents=True, exist_ok=True)
        if self.tmp is not None and (own_folder(self.tmp.parent) is None or own_folder(self.tmp) is None):
            told = self.environment  # somebody else made a folder of that name meanwhile
            return {name: value for name, value in told.items() if name not in ("TMPDIR", "RED_AFK_TMP_DIR")}
        return self.environment


def lease(root: Path, slot: int, environ: Mapping[str, str]) -> Seat:
    """The seat of this slot of the checkout `root`: the same one each time, as long as the checkout is there.

    Asked again before each attempt, so that a seat in use is never the one that rested longest.
    """
    cache = root / ".red" / "tmp" / "build" / f"slot-{slot}"
    host = host_folder(environ)
    book = own_folder(host / "seats") if host else None
    if host is None or book is None:
        return Seat(slot, cache)
    try:
        with FileLock(host / "seats.lock", timeout_s=_LOCK_S):
            number = _number(book, str(root), slot)
    except (OSError, AfkError):  # ports are a convenience: no reason not to work
        return Seat(slot, cache)
    if number is None:
        return Seat(slot, cache)
    return Seat(slot, cache, FIRST_PORT + number * PORTS, own_folder(host / str(number)))


def empty(seat: Seat) -> None:
    """Before a new attempt: what earlier ones left among the temporary files. Nobody of ours works there any more."""
    if seat.tmp is not None and own_folder(seat.tmp) is not None:
        for folder, _, _ in os.walk(seat.tmp):  # module caches are left read-only
            with suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(seat.tmp, ignore_errors=True)
    seat.ready()


# ── The book of leases: one small file each, named by the seat's number ─────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Lease:
    number: int
    checkout: str
    slot: int
    asked_at: float

    @property
    def is_over(self) -> bool:
        """Only for a checkout that is surely gone: one on a disk that does not answer is not."""
        try:
            Path(self.checkout).stat()
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return True
        except OSError:
            return False
        return False

    @property
    def is_at_work(self) -> bool:
        try:
            return owner(Path(self.checkout) / ".red" / "tmp" / "supervisor.lock") is not None
        except OSError:
            return True


def _number(book: Path, checkout: str, slot: int) -> int | None:
    """The number of the seat; None when every one is taken by a checkout that is at work."""
    leases = _read(book)
    mine = [each for each in leases if (each.checkout, each.slot) == (checkout, slot)]
    number = mine[0].number if mine else _a_free_one(book, leases)
    if number is not None:
        write_atomic(_file(book, number), json.dumps({"checkout": checkout, "slot": slot}) + "\n")
    return number


def _a_free_one(book: Path, leases: list[_Lease]) -> int | None:
    """The lowest that nobody has and none of whose ports is in use; else that of whoever rested longest."""
    for gone in [each for each in leases if each.is_over]:
        leases.remove(gone)
        _file(book, gone.number).unlink(missing_ok=True)
    taken = {each.number for each in leases}
    for number in range(SEATS):
        if number not in taken and all(map(_can_bind, range(*_ports(number)))):
            return number
    resting = [each for each in leases if not each.is_at_work]
    return min(resting, key=lambda each: each.asked_at).number if resting else None


def _ports(number: int) -> tuple[int, int]:
    first = FIRST_PORT + number * PORTS
    return first, first + PORTS


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _file(book: Path, number: int) -> Path:
    return book / f"{number}.json"


def _read(book: Path) -> list[_Lease]:
    """By number; a file that nobody can read leases nothing."""
    found = (_lease(book, number) for number in range(SEATS) if _file(book, number).exists())
    return [each for each in found if each is not None]


def _lease(book: Path, number: int) -> _Lease | None:
    try:
        entry = parse_json(read_regular(_file(book, number), _LEASE_BYTES) or "")
        asked_at = _file(book, number).stat().st_mtime
        return _Lease(number, str(entry["checkout"]), int(entry["slot"]), asked_at)
    except (OSError, ValueError, LookupError, TypeError, OverflowError):
        return None
