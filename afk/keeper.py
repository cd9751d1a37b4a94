"""The detached holder of one process tree: `python -I -m afk.keeper RUN_DIR`, its orders as JSON on standard input.

    start   own session, subreaper; forks the child, which waits until `tree` names it, then becomes the program
    watch   drains both pipes into `out` and `err`, notes new descendants in `tree`, watches the wall clock
    end     TERM, a grace, KILL for whatever is left of the tree: detached, orphaned and marked processes too
    record  `exit`, as the very last thing: who sees it knows that the whole tree is gone

Where the kernel allows one, the tree has a control group of its own, which nothing leaves and which ends as a whole.
It outlives whoever started it and answers to SIGTERM alone (the reason is in the file `stop`). There is one of these
for each agent that runs, so it is the standard library, and little of that: under 16 MB.
Source: AFK wire formats, Layout.
"""

# pathlib, subprocess and dataclasses would cost a fifth of the memory that this process may have:
# ruff: noqa: PTH104, PTH108, PTH119, PTH123, PTH208

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

from afk import kernel

__all__ = [
    "KEEPER_LOST",
    "OOM",
    "READY",
    "ROUND_S",
    "Birth",
    "Process",
    "births",
    "boot_id",
    "descendants",
    "end_all",
    "grouped",
    "marked",
    "process",
    "process_table",
    "read_bytes",
    "send",
    "write_exit",
]

MARKER = "AFK_KEEPER"  # in the environment of the whole tree, with the nonce of its keeper
KEEPER_LOST = "keeper-lost"  # `ended_by` of a tree that was ended because its keeper was gone
OOM = "oom"  # `ended_by` of a child that the kernel ended for want of memory (L40)
READY = b"ready\n"

CHUNK_BYTES = 64 * 1024  # what a Linux pipe holds
MOST_CHUNKS = 16  # in the largest pipe that an unprivileged process may make
TAIL_BYTES = 64 * 1024  # kept of the output that the files no longer take
TREE_BYTES = 256 * 1024  # past it `tree` is written anew with the living alone
RECORD_BYTES = 512  # more than `exit` or the line about left out bytes needs; taken while the disk has room

NOTE_EVERY_S = 0.5
DRAIN_S = 1.0  # for descendants that still write when the child has ended; then they are ended too (R27)
ROUND_S = 0.1  # between two looks at who is left
GAP_S = 30.0  # between two rounds that take half a second: the machine was suspended, which no clock charges
UNKILLABLE_S = 5.0  # after KILL: a process in uninterruptible sleep must not hold the record for ever
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
HANDLED = (signal.SIGTERM, signal.SIGCHLD)


# --- The process table ---------------------------------------------------------------------------------------------

Birth = tuple[int, str]
"""A pid and field 22 of its /proc/PID/stat: together they name one process of this boot, now and for ever (R26)."""


class Process:
    """One row of the process table; ticks are clock ticks of CPU, `reaped_ticks` those of children it waited for.

    `rss_pages` is what it holds in memory now, pages that it shares with others included.
    """

    __slots__ = ("birth", "own_ticks", "parent", "reaped_ticks", "rss_pages", "state")

    def __init__(self, pid: int, stat: str) -> None:
        # The name (field 2) may hold blanks and parentheses: fields are counted behind its last one.
        fields = stat.rpartition(")")[2].split()
        self.birth: Birth = (pid, fields[19])
        self.state = fields[0]
        self.parent = int(fields[1])
        self.own_ticks = int(fields[11]) + int(fields[12])
        self.reaped_ticks = int(fields[13]) + int(fields[14])
        self.rss_pages = int(fields[21])

    @property
    def is_dead(self) -> bool:
        """A zombie waits for its parent alone: it does nothing any more."""
        return self.state in "ZXx"


def read_bytes(path: str) -> bytes:
    """Empty when there is no such process, or it is not ours to look at.

    Raises: OSError for everything else (no descriptors left, say): not to know is not to know that it is gone (R26).
    """
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""


def process(pid: int) -> Process | None:
    """None when there is no such process."""
    stat = read_bytes(f"/proc/{pid}/stat").decode("utf-8", "replace")
    return Process(pid, stat) if stat else None


def pids() -> list[int]:
    """Of this pid namespace, zombies included."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def process_table() -> dict[int, Process]:
    """Every process of this pid namespace, zombies included."""
    return {pid: row for pid in pids() if (row := process(pid))}


def descendants(roots: Iterable[int], table: Mapping[int, Process]) -> list[Process]:
    """The children of `roots` (pids), their children and so on; the roots themselves are left out."""
    children: dict[int, list[Process]] = {}
    for row in table.values():
        children.setdefault(row.parent, []).append(row)
    found: dict[int, Process] = {}
    todo = list(roots)
    while todo:
        for child in children.get(todo.pop(), ()):
            if child.birth[0] not in found:
                found[child.birth[0]] = child
                todo.append(child.birth[0])
    return list(found.values())


def marked(nonce: str) -> list[Process]:
    """The living processes that carry this keeper's marker in the environment they were started with."""
    # The row is older than the look at the environment: a successor's number never gets its predecessor's marker.
    return [row for row in process_table().values() if not row.is_dead and _bears(row.birth[0], nonce)]


def _bears(pid: int, nonce: str) -> bool:
    return f"{MARKER}={nonce}".encode() in read_bytes(f"/proc/{pid}/environ").split(b"\0")


def grouped(group: str) -> set[Birth]:
    """The living members of a control group, which is a folder or empty."""
    return births(row for pid in kernel.members(group) if (row := process(pid)) and not row.is_dead) if group else set()


def births(rows: Iterable[Process]) -> set[Birth]:
    """Whom it is safe to end: never ourselves, never pid 1."""
    return {row.birth for row in rows if row.birth[0] not in (1, os.getpid())}


def boot_id() -> str:
    """Another one after every boot of the machine."""
    return read_bytes("/proc/sys/kernel/random/boot_id").decode().strip()


# --- Ending processes ----------------------------------------------------------------------------------------------


def send(birth: Birth, number: int) -> bool:
    """Signals exactly this process; False when it is gone, is ourselves or pid 1, or is not ours to signal (L24)."""
    pid, start_time = birth
    if pid <= 1 or pid == os.getpid():
        return False
    try:
        handle = os.pidfd_open(pid)  # holds this one process, whoever gets its number next
    except OSError:
        return False
    try:
        row = process(pid)
        if row is None or row.birth[1] != start_time:
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def end_all(
    find: Callable[[], set[Birth] | None], kill_s: float, pause: Callable[[], object], group: str = ""
) -> set[Birth] | None:
    """TERM once to each that `find` gives, KILL in every round after `kill_s`; None when all are gone, else the rest.

    `find` is asked again until it answers None, so that what is forked meanwhile is ended as well; an empty set means
    that something is left which it cannot see. A control `group` is killed as a whole, faster than it can fork.
    """
    kill_at = time.monotonic() + kill_s
    told: set[Birth] = set()
    while (victims := find()) is not None:
        now = time.monotonic()
        if now > kill_at + UNKILLABLE_S:
            return victims
        if group and now >= kill_at:
            kernel.kill(group)
        for victim in victims if now >= kill_at else victims - told:
            _end(victim, kill=now >= kill_at)
        told |= victims
        pause()
    return None


def _end(victim: Birth, *, kill: bool) -> None:
    if kill:
        send(victim, signal.SIGKILL)
    elif send(victim, signal.SIGTERM):
        send(victim, signal.SIGCONT)  # a stopped process takes its TERM only when it runs


# --- The files of a run --------------------------------------------------------------------------------------------


class Sink:
    """One output file with a ceiling: what it does not take (ceiling, full disk) is counted, and its end kept.

    `close` appends that end behind a line that says how many bytes are missing in between.
    """

    def __init__(self, path: str, ceiling_bytes: int) -> None:
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._ceiling = ceiling_bytes
        self._why = f"{os.path.basename(path)} may have {ceiling_bytes} bytes"
        self._kept = 0
        self._excess = 0
        self._tail = bytearray()

    def write(self, data: bytes) -> None:
        """Never raises: whatever the disk says, the pipe has to be drained (R37)."""
        taken = self._append(data[: self._ceiling - self._kept])
        self._excess += len(data) - taken
        self._tail += data[taken:]
        del self._tail[:-TAIL_BYTES]

    def close(self) -> None:
        end = bytes(self._tail)
        if self._excess > len(end):
            end = end[end.find(b"\n") + 1 :] or end  # begins with a whole line, if there is one
            end = self._record(self._excess - len(end)) + end
        size = self._kept
        if self._append(end) < len(end):
            self._overwrite_end(size)
        os.close(self.fd)

    def _append(self, data: bytes) -> int:
        """How many bytes the file took; a refusal is its new ceiling."""
        taken = 0
        try:
            while taken < len(data):
                taken += os.write(self.fd, data[taken:])
        except OSError as error:
            self._ceiling = self._kept + taken
            self._why = os.strerror(error.errno or errno.EIO)
        self._kept += taken
        return taken

    def _record(self, missing: int) -> bytes:
        return f"\n[afk] {missing} bytes left out here: {self._why}\n".encode()

    def _overwrite_end(self, size: int) -> None:
        # A full disk still lets us write over what it took before.
        keep = max(0, size - RECORD_BYTES)
        record = self._record(self._excess + size - keep)
        with suppress(OSError):
            os.pwrite(self.fd, record, keep)
            os.ftruncate(self.fd, keep + len(record))


class Notes:
    """The file `tree`: whom to end when the keeper is lost. First the keeper's line, then the child, then the rest."""

    def __init__(self, path: str, keeper: Mapping[str, object]) -> None:
        self._path = path
        self._head = _json_line(keeper)
        self._family = {os.getpid(): (os.getpid(), str(keeper["pid_start_time"]))}
        self._seen = set(pids())
        self._limit = TREE_BYTES
        try:
            self._size = self._write(path, self._head, os.O_EXCL)
        except FileExistsError:
            raise
        except OSError:  # a full disk: nobody may take this for a run that began
            os.unlink(path)
            raise

    def add(self, birth: Birth) -> None:
        self._family[birth[0]] = birth
        self._size += self._write(self._path, _birth_line(birth), os.O_APPEND)

    def remove(self) -> None:
        os.unlink(self._path)

    def look(self) -> None:
        """Notes each new descendant.

        A process is one of ours from its birth or never, so each is looked at once: a look costs one directory
        listing, however many processes the machine has.
        """
        with suppress(OSError):  # a full disk, say: the marker in their environment still finds them
            present = set(pids())
            fresh = [row for pid in present - self._seen if (row := process(pid))]
            self._seen = present
            self._family = {pid: birth for pid, birth in self._family.items() if pid in present}
            self._add_kin(fresh)
            if self._size > self._limit:
                self._forget_the_dead()

    def _add_kin(self, fresh: list[Process]) -> None:
        while kin := [row for row in fresh if row.birth[0] not in self._family and self._is_ours(row.parent)]:
            for row in kin:
                self.add(row.birth)

    def _is_ours(self, parent: int) -> bool:
        row = process(parent) if parent in self._family else None
        return row is not None and row.birth == self._family[parent]

    def _forget_the_dead(self) -> None:
        living = [_birth_line(birth) for pid, birth in self._family.items() if pid != os.getpid()]
        self._size = self._write(f"{self._path}.new", self._head + b"".join(living), os.O_TRUNC)
        os.rename(f"{self._path}.new", self._path)
        self._limit = max(TREE_BYTES, 2 * self._size)

    @staticmethod
    def _write(path: str, data: bytes, flag: int) -> int:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o666)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)


def _json_line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _birth_line(birth: Birth) -> bytes:
    return _json_line({"pid": birth[0], "pid_start_time": birth[1]})


def reserve_exit(run_dir: str) -> None:
    """Takes the room that `exit` will need: a run that filled the disk still gets its record."""
    fd = os.open(f"{run_dir}/exit.new", os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.write(fd, b" " * RECORD_BYTES)
    finally:
        os.close(fd)


def write_exit(run_dir: str, birth: Birth, *, status: int | None, ended_by: str | None) -> None:
    """Writes `exit`, whole and durable or not at all.

    `status` is what wait(2) gave; None when nobody could wait for the child. `birth` is (0, "") when there never
    was one. Source: AFK wire formats, Layout.
    """
    code = None if status is None else os.waitstatus_to_exitcode(status)
    record = {
        "pid": birth[0],
        "pid_start_time": birth[1],
        "exit_code": code if code is None or code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "ended_by": ended_by,
        "ended_at": _now(),
    }
    line = _json_line(record)
    fd = os.open(f"{run_dir}/exit.new", os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.pwrite(fd, line, 0)
        os.ftruncate(fd, len(line))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(f"{run_dir}/exit.new", f"{run_dir}/exit")
    _sync_directory(run_dir)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _now() -> str:
    seconds = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds * 1000) % 1000:03}+00:00"


# --- The keeper itself ---------------------------------------------------------------------------------------------


class Keeper:
    """One child, its tree, and the five files that speak of them.

    `orders` has `argv`, `cwd`, `env`, `stdin` (a path or null), `out_ceiling_bytes`, `err_ceiling_bytes`,
    `wall_clock_s` (null: no limit), `kill_s` and `nonce`.
    """

    def __init__(self, run_dir: str, orders: Mapping[str, Any]) -> None:
        self._run_dir = run_dir
        self._orders = orders
        self._nonce: str = orders["nonce"]
        self._status: int | None = None
        self._stop_asked = False
        self._child: Birth = (0, "")
        self._bell = self._open_bell()
        self._group = kernel.make(self._nonce)
        self._oom_kills = kernel.oom_kills()
        try:
            self._notes = Notes(f"{run_dir}/tree", self._identity())
            reserve_exit(run_dir)
        except OSError:
            kernel.clear(self._group)
            raise
        self._sinks: dict[int, Sink] = {}  # by the end of the pipe that we read
        self._err = Sink(f"{run_dir}/err", orders["err_ceiling_bytes"])
        self._out = Sink(f"{run_dir}/out", orders["out_ceiling_bytes"])
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)

    @property
    def err_fd(self) -> int:
        """Where our own last words belong, should there be any."""
        return self._err.fd

    def start(self, starter: int) -> None:
        """The child is noted, then whoever started us is told, then it runs: nothing of it is ever unknown.

        Raises: OSError, also when nobody listens any more; then nothing ran, and the folder is as good as unused.
        """
        try:
            go = self._fork()
            os.write(starter, READY)
        except OSError:
            self._notes.remove()
            kernel.clear(self._group)
            raise
        os.close(starter)
        os.write(go, b"!")
        os.close(go)

    def _fork(self) -> int:
        """Where the word is to be written on which the child becomes the program."""
        stdin = os.open(self._orders["stdin"] or os.devnull, os.O_RDONLY)
        outputs = [self._open_pipe(sink) for sink in (self._out, self._err)]
        go_read, go = os.pipe()
        # Blocked until the child has shed our handlers: one would swallow the TERM of a stop that comes at once.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if pid == 0:
            os.close(go)
            _become(self._orders, go_read, (stdin, *outputs))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for fd in (stdin, *outputs, go_read):
            os.close(fd)
        row = process(pid)  # alive or a zombie: we alone can wait for it
        self._child = row.birth if row else (pid, "")
        self._notes.add(self._child)
        kernel.enter(self._group, pid)
        return go

    def run(self) -> None:
        """Returns when the tree is gone and recorded."""
        ended_by = self._watch() or self._oom()
        if ended_by is None:
            self._drain()
        survivors = end_all(self._rest_of_the_tree, self._orders["kill_s"], self._await_a_death, self._group)
        kernel.clear(self._group)
        if survivors is not None:
            self._err.write(f"[afk] would not die: {sorted(pid for pid, _ in survivors)}\n".encode())
        self._drain()
        self._out.close()
        self._err.close()
        write_exit(self._run_dir, self._child, status=self._status, ended_by=ended_by)

    def _watch(self) -> str | None:
        """Why the child has to be ended; None when it ended by itself."""
        limit_s = self._orders["wall_clock_s"]
        wall = float("inf") if limit_s is None else time.monotonic() + limit_s
        before = time.monotonic()
        look_at = before + NOTE_EVERY_S
        while self._status is None:
            now = time.monotonic()
            wall += now - before if now - before > GAP_S else 0.0
            before = now
            if self._stop_asked:
                return self._stop_reason()
            if now >= wall:
                return "wall_clock"
            if now >= look_at:
                self._notes.look()
                look_at = now + NOTE_EVERY_S
            self._pump(max(0.0, min(look_at, wall) - now))
            self._reap()
        return None

    def _oom(self) -> str | None:
        """A KILL that was not ours, while the kernel was ending processes for want of memory."""
        killed = self._status is not None and os.waitstatus_to_exitcode(self._status) == -signal.SIGKILL
        return OOM if killed and kernel.oom_kills() > self._oom_kills else None

    def _stop_reason(self) -> str:
        return read_bytes(f"{self._run_dir}/stop").decode("utf-8", "replace").strip() or "signal"

    def _rest_of_the_tree(self) -> set[Birth] | None:
        # A scan can miss a child whose parent dies during it. The kernel cannot: whatever loses its parent becomes
        # ours, so the tree is gone exactly when we have no child left.
        has_children = self._reap()
        try:
            found = births(descendants([os.getpid()], process_table()) if has_children else marked(self._nonce))
            found |= grouped(self._group)
        except OSError:
            return set()
        return found if found or has_children else None

    def _reap(self) -> bool:
        """Whether we still have a child, having waited for each that ended."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child[0] and self._status is None:
                    self._status = ended[1]
        except ChildProcessError:
            return False
        return True

    def _drain(self) -> None:
        """Until the last writer has closed both pipes, or `DRAIN_S`: a grandchild that holds one holds nobody up."""
        until = time.monotonic() + DRAIN_S
        while self._sinks and (left_s := until - time.monotonic()) > 0:
            self._pump(left_s)
            self._reap()
        for _ in range(MOST_CHUNKS if self._sinks else 0):  # what had been in the pipes before, should we have slept
            self._pump(0.0)

    def _await_a_death(self) -> None:
        until = time.monotonic() + ROUND_S
        while (left_s := until - time.monotonic()) > 0 and not self._pump(left_s):
            pass

    def _pump(self, timeout_s: float) -> bool:
        """Moves what the pipes hold, one chunk each; returns early on output and on a signal: True for a signal."""
        rang = False
        for fd, _ in self._poll.poll(int(timeout_s * 1000) + 1):
            if fd == self._bell:
                rang = bool(os.read(fd, CHUNK_BYTES))
            elif data := os.read(fd, CHUNK_BYTES):
                self._sinks[fd].write(data)
            else:
                self._poll.unregister(fd)
                del self._sinks[fd]
                os.close(fd)
        return rang

    def _open_pipe(self, sink: Sink) -> int:
        ours, theirs = os.pipe()
        self._sinks[ours] = sink
        self._poll.register(ours, select.POLLIN)
        return theirs

    def _open_bell(self) -> int:
        """A pipe that every handled signal rings, so that `poll` never sleeps through one."""
        ours, kernels = os.pipe()
        os.set_blocking(ours, False)
        os.set_blocking(kernels, False)
        signal.set_wakeup_fd(kernels, warn_on_full_buffer=False)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # blocked by whoever started us, until now
        return ours

    def _on_term(self, *_: object) -> None:
        self._stop_asked = True

    def _identity(self) -> dict[str, object]:
        row = process(os.getpid())
        return {
            "pid": os.getpid(),
            "pid_start_time": row.birth[1] if row else "",
            "boot_id": boot_id(),
            "nonce": self._nonce,
            "cgroup": self._group,
            "kill_s": self._orders["kill_s"],
            "started_at": _now(),
            "started_monotonic_s": time.monotonic(),
        }


def _become(orders: Mapping[str, Any], go: int, stdio: Iterable[int]) -> NoReturn:
    """The child's side of the fork: waits for the word, then is the program. A keeper that died first gives none."""
    try:
        os.setsid()
        for number in (*IGNORED, *HANDLED, *IGNORED_BY_PYTHON):
            signal.signal(number, signal.SIG_DFL)
        kernel.take_blame()
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if os.read(go, 1):
            for target, fd in enumerate(stdio):
                os.dup2(fd, target)
            os.chdir(orders["cwd"])
            os.execvpe(orders["argv"][0], orders["argv"], {**orders["env"], MARKER: orders["nonce"]})
    except (OSError, ValueError) as error:
        os.write(2, f"[afk] cannot run {orders['argv'][0]} in {orders['cwd']}: {error}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError | NotADirectoryError) else 126)  # as a shell would
    finally:
        os._exit(125)


def _become_subreaper() -> None:
    # PR_SET_CHILD_SUBREAPER: a descendant that loses its parent becomes our child, whatever session it is in.
    if ctypes.CDLL(None, use_errno=True).prctl(36, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) was refused")


def _let_go_of_starter(err: int) -> int:
    """Our standard files are the starter's: they become nothing and `err`. Returns where `ready` is to be told."""
    starter = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for target, fd in enumerate((null, null, err)):
        os.dup2(fd, target)
    os.close(null)
    return starter


def main(run_dir: str) -> int:
    """0 when the tree was kept to its end; 1 when nothing was started, which `errno N text` on stdout explains."""
    starter = 1
    try:
        os.chdir("/")
        orders = json.load(sys.stdin.buffer)
        _become_subreaper()
        keeper = Keeper(run_dir, orders)
        starter = _let_go_of_starter(keeper.err_fd)
        keeper.start(starter)
    except OSError as error:
        with suppress(OSError):  # whoever started us may be gone
            os.write(starter, f"errno {error.errno} {error}\n".encode())
        return 1
    keeper.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
