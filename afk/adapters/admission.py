"""As many checks at once as this machine has memory for, whichever checkouts they come from (L36).

A check asks before it starts and waits for its turn. What it needs is what it held at most the last time; who runs now
stands on tickets that name keepers, so that a dead one holds nothing. One always runs, whatever it needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from afk import keeper, kernel
from afk.adapters.files import FileLock, LockOwner, owner, write_atomic
from afk.adapters.hostwide import host_folder, own_folder
from afk.adapters.process import Identity, is_alive
from afk.adapters.regular import read_regular
from afk.errors import AfkError, LockHeld
from afk.wire.json_value import parse_json

__all__ = ["Admission", "Memory", "Refused", "Turn", "memory_now"]

MIB = 1024**2
_UNKNOWN_BYTES = 2048 * MIB  # of a command that was never weighed; at most a quarter of the machine
_USABLE = 0.8  # of the machine, for all checks together
_MARGIN = 1.2  # a second run may hold a little more than the first
_LOOK_S = 0.2
_LINE = "heavy.lock"
_FADES = 0.7  # of the old weight counts, whatever the new one is
_RECORD_BYTES = 256 * 1024
_KNOWN = 500  # commands whose weight is remembered


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes: what there is for us at all, and what is free of it now, caches that may be dropped included."""

    total: int
    available: int


class Refused(Exception):
    """The run of `afk` is being stopped: nothing more may start."""


class Turn:
    """Leave to start one command; until it `started` nobody else is let in."""

    def __init__(self, tickets: Path | None, need: int, line: FileLock | None) -> None:
        self.peak = 0
        self._tickets = tickets
        self._need = need
        self._line = line
        self._ticket: Path | None = None

    def started(self, keeper: Identity) -> None:
        """It counts from here on, until the turn is over or this process is gone."""
        if self._tickets is not None:
            path = self._tickets / f"{uuid4().hex}.json"
            with suppress(OSError, AfkError):  # not to be counted is no reason not to run
                write_atomic(path, json.dumps({**asdict(keeper), "bytes": self._need}) + "\n")
                self._ticket = path
        self._next()

    def held(self, rss_bytes: int) -> None:
        """Its tree holds so much memory now."""
        self.peak = max(self.peak, rss_bytes)

    def over(self) -> None:
        if self._ticket is not None:
            self._ticket.unlink(missing_ok=True)
        self._next()

    def _next(self) -> None:
        """The line moves on: also when the start failed."""
        line, self._line = self._line, None
        if line is not None:
            line.__exit__(None, None, None)


class Admission:
    """Who may start now. `root` keeps the commands of one checkout apart from those of another.

    `said` is told once why a command has to wait, and the empty text when that one may start. Where the machine has no
    folder for us nobody waits.
    """

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str],
        *,
        said: Callable[[str], None] = lambda text: None,
        memory: Callable[[], Memory | None] | None = None,
    ) -> None:
        host = host_folder(environ)
        self._host = host
        self._tickets = own_folder(host / "heavy") if host else None
        self._root = root
        self._said = said
        self._memory = memory or memory_now

    @contextmanager
    def turn(self, command: str, stopping: Callable[[], bool]) -> Iterator[Turn]:
        """Waits until `command` may start; it counts until the block is left. Raises `Refused` while it waits."""
        key = hashlib.sha256(f"{self._root}\0{command}".encode("utf-8", "surrogateescape")).hexdigest()[:24]
        turn = self._admit(command, self._weights().get(key), stopping)
        try:
            yield turn
        finally:
            turn.over()
            if turn.peak:
                self._weighed(key, turn.peak)

    def _admit(self, command: str, known: int | None, stopping: Callable[[], bool]) -> Turn:
        """Waits for its place at the head of the line, then for memory: nobody overtakes whoever is there."""
        if self._tickets is None:
            return _unlimited()
        said = _Once(self._said, command)
        while not stopping():
            lock = FileLock(self._tickets.parent / _LINE)
            line: FileLock | None = lock
            try:
                lock.__enter__()
            except LockHeld:
                holder = owner(self._tickets.parent / _LINE)
                said(f"{holder or 'another one'} is before it")
                if not _is_stopped(holder):
                    continue
                line = None  # somebody pressed Ctrl-Z: nobody waits for that
            except (OSError, AfkError):  # a full disk, say: it is no reason to wait for ever
                return _unlimited()
            turn = self._at_the_head(line, known, said, stopping)
            if turn is not None:
                said("")
                return turn
        raise Refused

    def _at_the_head(
        self, line: FileLock | None, known: int | None, said: Callable[[str], None], stopping: Callable[[], bool]
    ) -> Turn | None:
        """None when it was stopped. Whatever goes wrong here, the line moves on."""
        handed_over = False
        try:
            while not stopping():
                memory = self._memory()
                need = _need(known, memory)
                why = self._why_not(need, memory)
                if not why:
                    handed_over = True
                    return Turn(self._tickets, need, line)
                said(why)
                time.sleep(_LOOK_S)
            return None
        finally:
            if line is not None and not handed_over:
                line.__exit__(None, None, None)

    def _why_not(self, need: int, memory: Memory | None) -> str:
        """Empty when nothing stands against it."""
        running = self._running()
        if not running or memory is None:
            return ""
        if sum(running) + need > memory.total * _USABLE:
            return f"{len(running)} at work may need {_mib(sum(running))} of {_mib(memory.total)}, it {_mib(need)}"
        if need > memory.available:
            return f"it may need {_mib(need)}, {_mib(memory.available)} are free"
        return ""

    def _running(self) -> list[int]:
        """What each command that runs now may need; the one that we run in is left out. Tickets of the dead go."""
        found: list[int] = []
        ours = _ancestors()
        for path in self._tickets.glob("*.json") if self._tickets else ():
            ticket = _read_ticket(path)
            if ticket is not None and is_alive(ticket[0]):
                found += [ticket[1]] if ticket[0].pid not in ours else []
            else:
                with suppress(OSError):
                    path.unlink()
        return found

    # ── What commands weigh ─────────────────────────────────────────────────────────────────────────────────────────

    def _weights(self) -> dict[str, int]:
        """Empty where nothing is known or the record cannot be read: then everything is weighed again."""
        try:
            text = read_regular(self._host / "weights.json", _RECORD_BYTES) if self._host else None
            read = parse_json(text) if text else {}
            return {str(key): int(weight) for key, weight in read.items()}
        except (ValueError, AttributeError, TypeError, OverflowError):
            return {}

    def _weighed(self, key: str, peak: int) -> None:
        if self._host is None:
            return
        with suppress(OSError, AfkError), FileLock(self._host / "weights.lock", timeout_s=1.0):
            weights = self._weights()
            # One that failed at once says little about the next run.
            weight = max(peak, int(weights.pop(key, 0) * _FADES))
            newest = dict([*weights.items(), (key, weight)][-_KNOWN:])
            write_atomic(self._host / "weights.json", json.dumps(newest) + "\n")


def _need(known: int | None, memory: Memory | None) -> int:
    if known:
        return int(known * _MARGIN)
    return min(_UNKNOWN_BYTES, memory.total // 4) if memory else _UNKNOWN_BYTES


def _mib(number: float) -> str:
    return f"{number / MIB:.0f} MiB"


def _unlimited() -> Turn:
    """Leave for a command that nobody counts."""
    return Turn(None, 0, None)


class _Once:
    """Tells a reason the first time, and the empty text only after one."""

    def __init__(self, said: Callable[[str], None], command: str) -> None:
        self._said, self._command, self._told = said, command, False

    def __call__(self, why: str) -> None:
        if not why and self._told:
            self._said("")
        elif why and not self._told:
            self._told = True
            self._said(f"`{self._command}` waits for its turn: {why}")


def _is_stopped(holder: LockOwner | None) -> bool:
    row = keeper.process(holder.pid) if holder is not None and holder.pid else None
    return row is not None and row.state in "Tt"


def _ancestors() -> set[int]:
    """Our own pid, our parent's and so on: an afk inside a check must not wait for that check."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1 and pid not in found and (row := keeper.process(pid)) is not None:
        found.add(pid)
        pid = row.parent
    return found


def _read_ticket(path: Path) -> tuple[Identity, int] | None:
    """None for what is no ticket."""
    try:
        record = parse_json(read_regular(path, _RECORD_BYTES) or "")
        who = Identity(int(record["pid"]), str(record["pid_start_time"]), str(record["boot_id"]))
        return who, int(record["bytes"])
    except (ValueError, LookupError, TypeError, OverflowError):
        return None


def memory_now() -> Memory | None:
    """Of this machine, or of what limits us on it; None when nobody says."""
    import psutil

    try:
        machine = psutil.virtual_memory()
    except (OSError, ValueError, psutil.Error):
        return None
    found = Memory(machine.total, machine.available)
    for folder in _limiting_groups():
        limit = _limit_of(folder, found)
        found = found if limit is None else Memory(min(found.total, limit.total), min(found.available, limit.available))
    return found


def _limiting_groups() -> list[Path]:
    """Our own group and those around it (v2), and a container's (v1)."""
    own = kernel.own_group()
    around = [Path(own), *Path(own).parents] if own else []
    return [*(each for each in around if (each / "memory.max").exists()), Path("/sys/fs/cgroup/memory")]


def _limit_of(folder: Path, machine: Memory) -> Memory | None:
    """Source: kernel documentation, cgroup-v2 `memory.max`; cgroup-v1 `memory.limit_in_bytes`."""
    for limit, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            most, held = int((folder / limit).read_text()), int((folder / used).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            kept = held - int(stat.get(cache, 0))  # what is only cached can be had back
            return Memory(most, max(0, most - kept)) if most < machine.total else None
    return None
