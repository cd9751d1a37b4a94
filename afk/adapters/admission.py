"""As many checks at once as this machine has memory for, whichever checkouts they come from (L36).

A check asks before it starts and waits for its turn. What it needs is what it held at most the last time; who runs now
stands on tickets that name keepers, so that a dead one holds nothing. One always runs, whatever it needs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

from afk.adapters.files import FileLock, write_atomic
from afk.adapters.hostwide import host_folder, own_folder
from afk.adapters.process import Identity, is_alive
from afk.errors import AfkError, LockHeld
from afk.wire.json_value import parse_json

__all__ = ["Admission", "Memory", "Refused", "Turn", "memory_now"]

MIB = 1024**2
_UNKNOWN_BYTES = 2048 * MIB  # of a command that was never weighed; at most a quarter of the machine
_USABLE = 0.8  # of the machine, for all checks together
_MARGIN = 1.2  # a second run may hold a little more than the first
_LOOK_S = 0.2
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
        line, self._line = self._line, None
        if line is not None:
            line.__exit__(None, None, None)


class Admission:
    """Who may start now. `root` keeps the commands of one checkout apart from those of another.

    `said` is told once by each command that has to wait. Where the machine has no folder for us nobody waits.
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
        """First come, first served: who waits holds the line, so that a small one never overtakes a large one."""
        if self._tickets is None:
            return Turn(None, 0, None)
        told = False
        while not stopping():
            line = FileLock(self._tickets.parent / "heavy.lock")
            try:
                line.__enter__()
            except LockHeld:
                told = told or self._say(command, "others are before it")
                continue
            except (OSError, AfkError):  # a full disk, say: it is no reason to wait for ever
                return Turn(None, 0, None)
            memory = self._memory()
            need = _need(known, memory)
            while (why := self._why_not(need, memory)) and not stopping():
                told = told or self._say(command, why)
                time.sleep(_LOOK_S)
                memory = self._memory()
            if not why:
                return Turn(self._tickets, need, line)
            line.__exit__(None, None, None)
        raise Refused

    def _say(self, command: str, why: str) -> bool:
        self._said(f"`{command}` waits for its turn: {why}")
        return True

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
        """What each command that runs now may need; tickets of the dead are removed."""
        found: list[int] = []
        for path in self._tickets.glob("*.json") if self._tickets else ():
            try:
                record = parse_json(path.read_bytes())
                keeper = Identity(int(record["pid"]), str(record["pid_start_time"]), str(record["boot_id"]))
                need = int(record["bytes"])
            except FileNotFoundError:
                continue
            except (OSError, ValueError, LookupError, TypeError):
                keeper, need = Identity(0, "", ""), 0
            if is_alive(keeper):
                found.append(need)
            else:
                path.unlink(missing_ok=True)
        return found

    # ── What commands weigh ─────────────────────────────────────────────────────────────────────────────────────────

    def _weights(self) -> dict[str, int]:
        """Empty where nothing is known or the record cannot be read: then everything is weighed again."""
        try:
            read = parse_json((self._host / "weights.json").read_bytes()) if self._host else {}
            return {str(key): int(weight) for key, weight in read.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}

    def _weighed(self, key: str, peak: int) -> None:
        if self._host is None:
            return
        with suppress(OSError, AfkError), FileLock(self._host / "weights.lock", timeout_s=1.0):
            weights = self._weights()
            weights.pop(key, None)
            newest = dict([*weights.items(), (key, peak)][-_KNOWN:])
            write_atomic(self._host / "weights.json", json.dumps(newest) + "\n")


def _need(known: int | None, memory: Memory | None) -> int:
    if known:
        return int(known * _MARGIN)
    return min(_UNKNOWN_BYTES, memory.total // 4) if memory else _UNKNOWN_BYTES


def _mib(number: float) -> str:
    return f"{number / MIB:.0f} MiB"


def memory_now() -> Memory | None:
    """Of this machine, or of the container that limits us; None when nobody says."""
    import psutil

    try:
        machine = psutil.virtual_memory()
    except (OSError, psutil.Error):
        return None
    limit, used = _limit_of_container()
    if limit is None or limit >= machine.total:
        return Memory(machine.total, machine.available)
    return Memory(limit, min(machine.available, max(0, limit - used)))


def _limit_of_container() -> tuple[int | None, int]:
    """Source: kernel documentation, cgroup-v2 `memory.max`; cgroup-v1 `memory.limit_in_bytes`."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # "max" is no number: no limit
            return int(Path(limit).read_text()), int(Path(used).read_text())
    return None, 0
