"""Kept processes: started detached under a keeper, found again by anyone, ended with their whole tree.

A run's folder is all there is to know: `tree` (who runs), `out` and `err`, `stop` (why it was asked to end) and `exit`
(how it ended). `Kept.start` and `Kept.adopt` therefore give the same thing, and nothing here depends on being the
parent.
Source: AFK wire formats, Layout.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from errno import EDQUOT, ENOSPC
from functools import cache
from pathlib import Path
from typing import Any

from afk import keeper, kernel
from afk.adapters.follow import Line, LineFollower, tail_lines
from afk.adapters.regular import open_regular
from afk.errors import DiskFull, GroundUnfit, KeeperFailed
from afk.keeper import Birth
from afk.wire.json_value import parse_json

__all__ = [
    "ExitRecord",
    "Identity",
    "Kept",
    "KeptSpec",
    "Line",
    "LineFollower",
    "boot_id",
    "identity_of",
    "is_alive",
    "tail_lines",
    "working_directories",
]

START_S = 30.0  # a keeper takes 40 ms; more than this is a machine that cannot run anything
KEEPER_S = 15.0  # what a keeper may need to end a tree beside the grace itself
WAKE_S = 0.1
_RECORD_MAX_BYTES = 64 * 1024 * 1024


# --- Who a process is ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, now and for ever: `pid_start_time` is field 22 of its /proc/PID/stat, `boot_id` the kernel's (R26).

    Where there is no /proc, both are what psutil gives: seconds since the epoch.
    """

    pid: int
    pid_start_time: str
    boot_id: str

    @property
    def birth(self) -> Birth:
        return (self.pid, self.pid_start_time)


@cache
def boot_id() -> str:
    """Another one after every boot of the machine: readings of the monotonic clock compare within one only."""
    return keeper.boot_id() or _boot_time_by_psutil()


def identity_of(pid: int | None = None) -> Identity | None:
    """Of this very process without `pid`; None for one that is gone or a zombie."""
    number = os.getpid() if pid is None else pid
    if not Path("/proc/self/stat").exists():
        return _identity_by_psutil(number)
    row = keeper.process(number)
    return Identity(*row.birth, boot_id()) if row and not row.is_dead else None


def _identity_by_psutil(pid: int) -> Identity | None:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, str(process.create_time()), boot_id())
    except psutil.Error:
        return None


def _boot_time_by_psutil() -> str:
    import psutil

    return str(int(psutil.boot_time()))


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs: same pid, start time and boot, and no zombie."""
    return identity_of(identity.pid) == identity


def working_directories() -> dict[int, Path]:
    """Where each process works, by pid, as far as we may look; a directory that is gone keeps its name."""
    if not Path("/proc/self/cwd").exists():
        return _working_directories_by_psutil()
    found: dict[int, Path] = {}
    for pid in keeper.pids():
        with suppress(OSError):  # ended while we look, or somebody else's
            found[pid] = Path(f"/proc/{pid}/cwd").readlink()
    return found


def _working_directories_by_psutil() -> dict[int, Path]:
    import psutil

    return {each.pid: Path(each.info["cwd"]) for each in psutil.process_iter(["cwd"]) if each.info["cwd"]}


# --- Kept processes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptSpec:
    """What to run and within which bounds.

    `argv` is never a shell string; its first word is looked for in the PATH of `env`, which is the whole environment
    (the keeper's marker apart) and never touches the disk. `stdin` is a file, read to its end; None is empty input.
    `wall_clock_s` None is no limit. `kill_s` is the grace between TERM and KILL.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    stdin: Path | None = None
    out_ceiling_bytes: int = 256 * 1024 * 1024
    err_ceiling_bytes: int = 16 * 1024 * 1024
    wall_clock_s: float | None = None
    kill_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ExitRecord:
    """How a run ended. Exactly one of `exit_code` and `signal` is set, none when nobody could wait for the child.

    `ended_by` is None for a child that ended by itself, else the reason given to `stop`, `wall_clock`, `signal` (the
    keeper got a TERM without a reason), `oom` (the kernel ended it for want of memory) or `keeper-lost`. A program
    that is missing has exit code 127, one that cannot be executed 126; `err` says why. With `lost`, pid 0 means that
    there never was a child.
    """

    pid: int
    pid_start_time: str
    exit_code: int | None
    signal: int | None
    ended_by: str | None
    ended_at: datetime
    lost: bool = False


class Kept:
    """One process tree under its keeper; several threads may ask at once."""

    def __init__(self, run_dir: Path, tree: _Tree, *, launched: bool) -> None:
        self.run_dir = run_dir
        self.identity = tree.keeper
        self.kill_s = tree.kill_s
        self.started_at = tree.started_at
        self.started_monotonic_s = tree.started_monotonic_s
        self._child = tree.child
        self._launched = launched  # then the keeper is our child, and a zombie until we wait for it

    @classmethod
    def start(cls, run_dir: Path, spec: KeptSpec) -> Kept:
        """Returns when keeper and child are recorded in `tree`, before the program's first instruction.

        `run_dir` is made when absent and serves one run only. Raises: `KeeperFailed`, `DiskFull`, `GroundUnfit`.
        """
        _refuse_unfit_ground()
        _refuse_unusable(run_dir, spec)
        run_dir.mkdir(parents=True, exist_ok=True)
        pid, answer = _launch(run_dir.resolve(), _orders(spec))
        if not answer.endswith(keeper.READY):
            raise _why_not(run_dir, pid, answer)
        return cls(run_dir, _read_tree(run_dir), launched=True)

    @classmethod
    def adopt(cls, run_dir: Path) -> Kept:
        """Takes up a run that some other process started, whether or not it still runs.

        Raises: `KeeperFailed` when no keeper ever recorded itself there: then nothing was started either.
        """
        return cls(run_dir, _read_tree(run_dir), launched=False)

    def exit_record(self) -> ExitRecord | None:
        """None while the tree lives. When the keeper was lost this ends the tree first, which takes up to `kill_s`."""
        record = _read_exit(self.run_dir)
        if record is None and not is_alive(self.identity):
            record = _read_exit(self.run_dir) or self._settle_loss()
        if record:
            self._reap()
        return record

    def wait(self, timeout_s: float | None, wake: threading.Event | None = None) -> ExitRecord | None:
        """As `exit_record`, after the end, `timeout_s` (None: no limit) or `wake` being set, whichever is first."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        handle = _open_pidfd(self.identity)
        if handle is not None:
            try:
                if not _await_pidfd(handle, until, wake):
                    return None  # the record is the keeper's last act: while it lives there is none to look for
            finally:
                os.close(handle)
        return self.exit_record()

    def request_stop(self, ended_by: str) -> None:
        """Asks the keeper to end the tree and returns at once; harmless when it has ended already."""
        with suppress(OSError):  # a full disk takes the reason from the record, not the end from the tree
            note = self.run_dir / "stop.new"
            note.write_text(ended_by, encoding="utf-8")
            note.rename(self.run_dir / "stop")
        self._signal(signal.SIGTERM)

    def stop(self, ended_by: str) -> ExitRecord:
        """Ends the whole tree (TERM, `kill_s`, KILL) and gives its record; a keeper that does not answer is ended too.

        Takes `kill_s` and a few seconds at most. The record says `ended_by` only if the child had not ended before.
        """
        self.request_stop(ended_by)
        record = self.wait(self.kill_s + KEEPER_S)
        if record is None:
            self._signal(signal.SIGKILL)
            record = self.wait(KEEPER_S)
        return record or self._settle_loss()

    def tree_cpu_s(self) -> float:
        """CPU seconds of the whole tree, ended children included, the keeper's own left out; 0.0 when it is gone.

        Only a difference means something: a process whose parent never waits for it takes its seconds with it.
        """
        table = keeper.process_table()
        root = self._row_in(table)
        if root is None:
            return 0.0
        rows = keeper.descendants([self.identity.pid], table)
        ticks = root.reaped_ticks + sum(row.own_ticks + row.reaped_ticks for row in rows)
        return ticks / os.sysconf("SC_CLK_TCK")

    def tree_rss_bytes(self) -> int:
        """What the tree holds in memory now, the keeper's own left out; 0 when it is gone."""
        table = keeper.process_table()
        if self._row_in(table) is None:
            return 0
        rows = keeper.descendants([self.identity.pid], table)
        return sum(row.rss_pages for row in rows) * os.sysconf("SC_PAGE_SIZE")

    def has_descendant(self, names: frozenset[str]) -> bool:
        """Whether what was started itself started a program of one of these names that lives (L23).

        `python -m NAME`, scripts, and titles such as `npm test` included. What was started is none, whatever its name.
        """
        table = keeper.process_table()
        if self._row_in(table) is None:
            return False
        rows = keeper.descendants([self.identity.pid], table)
        return any(names & _names_of(row.birth[0]) for row in rows if row.birth != self._child)

    def _row_in(self, table: Mapping[int, keeper.Process]) -> keeper.Process | None:
        row = table.get(self.identity.pid)
        return row if row and row.birth == self.identity.birth and self.identity.boot_id == boot_id() else None

    def _signal(self, number: int) -> bool:
        return is_alive(self.identity) and keeper.send(self.identity.birth, number)

    def _reap(self) -> None:
        if not self._launched:
            return  # its pid may by now be that of another child of ours, whose status is not for us
        with suppress(ChildProcessError):  # another thread was faster
            if os.waitpid(self.identity.pid, os.WNOHANG) == (0, 0):
                return  # still on its last instructions; the next call gets it
        self._launched = False

    def _settle_loss(self) -> ExitRecord:
        """Ends what `tree` names and what carries the marker, and records that once for all."""
        tree = _read_tree(self.run_dir)
        keeper.end_all(lambda: _left_behind(tree), self.kill_s, lambda: time.sleep(keeper.ROUND_S), tree.group)
        kernel.clear(tree.group)
        with suppress(OSError):  # a full disk: whoever asks next finds the tree gone and says the same
            keeper.write_exit(str(self.run_dir), tree.child, status=None, ended_by=keeper.KEEPER_LOST)
        return _read_exit(self.run_dir) or _lost(tree.child)


def _names_of(pid: int) -> set[str]:
    """How a person would call this program: its name, and the base names of its first three arguments.

    Three, because of `python -m pytest` and `node /somewhere/jest`.
    """
    words = keeper.read_bytes(f"/proc/{pid}/cmdline").split(b"\0")[:3]
    title = words[0].split()[:1]
    names = [keeper.read_bytes(f"/proc/{pid}/comm").strip(), *(word.rpartition(b"/")[2] for word in (*title, *words))]
    return {name.decode("utf-8", "replace") for name in names if name}


def _left_behind(tree: _Tree) -> set[Birth] | None:
    # Two looks: during one, a parent can end whose child was not born when it began.
    return _look_for(tree) or _look_for(tree) or None


def _look_for(tree: _Tree) -> set[Birth]:
    """The living that `tree` names (of this boot), that carry the marker or are in its group, and their descendants."""
    table = keeper.process_table()
    named = tree.noted if tree.keeper.boot_id == boot_id() else frozenset()
    bearers = keeper.births(keeper.marked(tree.nonce)) | keeper.grouped(tree.group)
    # Without pid 1 and ourselves before the children are looked up: those of pid 1 are the whole machine.
    roots = keeper.births(row for row in table.values() if row.birth in named or row.birth in bearers)
    rows = [table[pid] for pid, _ in roots] + keeper.descendants([pid for pid, _ in roots], table)
    return keeper.births(row for row in rows if not row.is_dead)


# --- Starting a keeper ---------------------------------------------------------------------------------------------


def _refuse_unfit_ground() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        raise GroundUnfit("agents, checks and hooks run under a keeper, which needs Linux 5.3 or newer") from error


def _refuse_unusable(run_dir: Path, spec: KeptSpec) -> None:
    if (run_dir / "tree").exists():
        raise KeeperFailed(f"{run_dir} already holds a run; each one needs a folder of its own")
    if not spec.cwd.is_dir():
        raise KeeperFailed(f"cannot run {spec.argv[0]}: its working directory {spec.cwd} does not exist")


def _orders(spec: KeptSpec) -> dict[str, Any]:
    return {
        "argv": spec.argv,
        "cwd": str(spec.cwd.resolve()),
        "env": dict(spec.env),
        "stdin": str(spec.stdin.resolve()) if spec.stdin else None,
        "out_ceiling_bytes": spec.out_ceiling_bytes,
        "err_ceiling_bytes": spec.err_ceiling_bytes,
        "wall_clock_s": spec.wall_clock_s,
        "kill_s": spec.kill_s,
        "nonce": os.urandom(16).hex(),
    }


def _launch(run_dir: Path, orders: Mapping[str, Any]) -> tuple[int, bytes]:
    """The keeper's pid, and what it answered until it was ready, failed or was out of time."""
    inbox = _in_memory_file(json.dumps(orders).encode())
    ours, keepers = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            # Isolated: a repository's own modules are never taken for ours.
            [sys.executable, "-I", "-m", "afk.keeper", str(run_dir)],
            # Not our environment, which may hold secrets; what the loader may need to find the interpreter's libraries.
            {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((inbox, keepers, keepers))],
            setsid=True,
            setsigmask=signal.valid_signals(),  # until it has its handlers: a TERM that comes earlier waits
        )
    finally:
        os.close(inbox)
        os.close(keepers)
    try:
        return pid, _read_answer(ours)
    finally:
        os.close(ours)


def _in_memory_file(data: bytes) -> int:
    """The orders hold the child's environment: they must neither touch the disk nor wait for room in a pipe."""
    fd = os.memfd_create("afk-keeper-orders")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read_answer(fd: int) -> bytes:
    answer = b""
    until = time.monotonic() + START_S
    while not answer.endswith(keeper.READY) and _is_readable(fd, until - time.monotonic()):
        data = os.read(fd, 4096)
        if not data:
            break
        answer += data
    return answer


def _why_not(run_dir: Path, pid: int, answer: bytes) -> KeeperFailed | DiskFull:
    """Leaves nothing of a keeper that did not become ready: killed, waited for, and what it may have begun is ended."""
    os.kill(pid, signal.SIGKILL)  # our own child and not waited for yet: the pid is still its own
    os.waitpid(pid, 0)
    with suppress(KeeperFailed):
        Kept.adopt(run_dir).exit_record()
    text = answer.decode("utf-8", "replace").strip() or f"no answer within {START_S:.0f} s"
    told = re.search(r"^errno (\d+) ", text, re.MULTILINE)
    if told and int(told[1]) in (ENOSPC, EDQUOT):
        return DiskFull(f"no room for a run in {run_dir}: {text}", hint="df -h")
    return KeeperFailed(f"the keeper for {run_dir} did not start: {text}")


# --- Reading a run's folder ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tree:
    """The file `tree`; `child` is (0, "") when the keeper was lost before it had one, `group` empty without one."""

    keeper: Identity
    nonce: str
    group: str
    kill_s: float
    started_at: datetime
    started_monotonic_s: float
    child: Birth
    noted: frozenset[Birth]


def _record(path: Path) -> bytes:
    """A record that the kept program's tree could have put something else in the place of."""
    with open_regular(path) as file:
        return file.read(_RECORD_MAX_BYTES)


def _read_tree(run_dir: Path) -> _Tree:
    try:
        lines = _record(run_dir / "tree").splitlines()
        head = parse_json(lines[0])
        noted = list(_births_in(lines[1:]))
        group = str(head["cgroup"]) if "cgroup" in head else ""  # an older afk wrote none
        return _Tree(
            keeper=Identity(head["pid"], head["pid_start_time"], head["boot_id"]),
            nonce=head["nonce"],
            group=group if kernel.is_ours(group, head["nonce"]) else "",
            kill_s=head["kill_s"],
            started_at=datetime.fromisoformat(head["started_at"]),
            started_monotonic_s=head["started_monotonic_s"],
            child=noted[0] if noted else (0, ""),
            noted=frozenset(noted),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise KeeperFailed(f"{run_dir} holds no run that a keeper began: {error}") from error


def _births_in(lines: Sequence[bytes]) -> Iterator[Birth]:
    for line in lines:
        with suppress(ValueError, LookupError, TypeError):  # a full disk or a lost keeper leaves half a line
            record = parse_json(line)
            yield int(record["pid"]), str(record["pid_start_time"])


def _read_exit(run_dir: Path) -> ExitRecord | None:
    try:
        record = parse_json(_record(run_dir / "exit"))
        return ExitRecord(
            pid=record["pid"],
            pid_start_time=record["pid_start_time"],
            exit_code=record["exit_code"],
            signal=record["signal"],
            ended_by=record["ended_by"],
            ended_at=datetime.fromisoformat(record["ended_at"]),
            lost=record["ended_by"] == keeper.KEEPER_LOST,
        )
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _lost(child: Birth) -> ExitRecord:
    return ExitRecord(*child, None, None, keeper.KEEPER_LOST, datetime.now().astimezone(), lost=True)


# --- Waiting -------------------------------------------------------------------------------------------------------


def _open_pidfd(identity: Identity) -> int | None:
    """None when it is gone. Who it is, is looked at while the handle holds its pid."""
    try:
        handle = os.pidfd_open(identity.pid)
    except (ProcessLookupError, OverflowError, ValueError):  # no such number, or none that ever was one
        return None
    if is_alive(identity):
        return handle
    os.close(handle)
    return None


def _await_pidfd(handle: int, until: float | None, wake: threading.Event | None) -> bool:
    """True when the process has ended; False at `until` (monotonic) or within `WAKE_S` of `wake` being set."""
    while wake is None or not wake.is_set():
        left_s = None if until is None else max(0.0, until - time.monotonic())
        step_s = left_s if wake is None else min(WAKE_S, WAKE_S if left_s is None else left_s)
        if _is_readable(handle, step_s):
            return True
        if left_s == 0.0:
            return False
    return False


def _is_readable(fd: int, timeout_s: float | None) -> bool:
    # Not select(2), which refuses descriptors above 1023.
    watch = select.poll()
    watch.register(fd, select.POLLIN)
    return bool(watch.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))
