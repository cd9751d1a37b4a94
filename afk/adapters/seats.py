"""What a slot has for itself on this machine, so that two workers never share a port, a cache or a file (R85).

A seat belongs to a slot of a checkout, not to an attempt: every attempt of that slot finds the same ports and the same
warm cache. It is leased from all of this person's checkouts under one lock and stays leased when its supervisor dies,
because the agent that uses it goes on.
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from afk.adapters.files import FileLock, owner, write_atomic
from afk.adapters.hostwide import host_folder, own_folder
from afk.errors import AfkError, LockHeld
from afk.wire.json_value import parse_json

__all__ = ["FIRST_PORT", "PORTS", "SEATS", "Seat", "empty", "lease"]

# Below the ports that the kernel gives to whoever asks for any (32768 and up), above those that services are known by.
FIRST_PORT, PORTS, SEATS = 20000, 20, 600
_LOCK_S = 10.0
_FILE = "seats.json"


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
        self.make()
        return self.environment

    def make(self) -> None:
        for folder in (self.cache, self.tmp):
            with suppress(OSError):
                if folder is not None:
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def lease(root: Path, slot: int, environ: Mapping[str, str]) -> Seat:
    """The seat of this slot of the checkout `root`: the same one each time, as long as the checkout is there."""
    cache = root / ".red" / "tmp" / "build" / f"slot-{slot}"
    host = host_folder(environ)
    if host is None:
        return Seat(slot, cache)
    try:
        with FileLock(host / "seats.lock", timeout_s=_LOCK_S):
            number = _number(host / _FILE, str(root), slot)
    except (LockHeld, OSError, AfkError):  # ports are a convenience: no reason not to work
        return Seat(slot, cache)
    if number is None:
        return Seat(slot, cache)
    return Seat(slot, cache, FIRST_PORT + number * PORTS, own_folder(host / str(number)))


def empty(seat: Seat) -> None:
    """Before a new attempt: what earlier ones left among the temporary files. Nobody of ours works there any more."""
    if seat.tmp is not None and own_folder(seat.tmp) is not None:
        shutil.rmtree(seat.tmp, ignore_errors=True)
    seat.make()


# ── The book of leases ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Lease:
    number: int
    checkout: str
    slot: int
    at: float

    @property
    def is_over(self) -> bool:
        return not Path(self.checkout).is_dir()

    @property
    def is_at_work(self) -> bool:
        return owner(Path(self.checkout) / ".red" / "tmp" / "supervisor.lock") is not None


def _number(book: Path, checkout: str, slot: int) -> int | None:
    """The number of the seat; None when every one is taken by a checkout that is at work."""
    leases = _read(book)
    mine = next((lease for lease in leases if (lease.checkout, lease.slot) == (checkout, slot)), None)
    if mine is not None:
        return mine.number
    leases = [lease for lease in leases if not lease.is_over]
    number = _free(lease.number for lease in leases)
    if number is None:
        idle = [lease for lease in leases if not lease.is_at_work]
        if not idle:
            return None
        longest = min(idle, key=lambda lease: lease.at)
        leases.remove(longest)
        number = longest.number
    made = [*leases, _Lease(number, checkout, slot, time.time())]
    write_atomic(book, json.dumps([asdict(lease) for lease in made]) + "\n")
    return number


def _free(taken: Iterable[int]) -> int | None:
    """The lowest seat that nobody has and none of whose ports is in use by somebody who asked nobody."""
    held = set(taken)
    return next((number for number in range(SEATS) if number not in held and _answers_nowhere(number)), None)


def _answers_nowhere(number: int) -> bool:
    first = FIRST_PORT + number * PORTS
    return all(_can_bind(port) for port in range(first, first + PORTS))


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _read(book: Path) -> list[_Lease]:
    """Empty also for a book that nobody can read: it is written anew, and ports in use are seen when they are tried."""
    try:
        return [_lease_of(entry) for entry in parse_json(book.read_bytes())]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _lease_of(entry: Mapping[str, Any]) -> _Lease:
    return _Lease(int(entry["number"]), str(entry["checkout"]), int(entry["slot"]), float(entry["at"]))
