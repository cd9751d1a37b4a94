from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from gitkit import all_at_once, python, wait_until

from afk.adapters import files
from afk.adapters.files import FileLock, LockOwner, append_line, owner, read_json, write_atomic
from afk.adapters.process import identity_of, is_alive
from afk.errors import InvalidInput, LockHeld


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# ── write_atomic ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_document_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "first")
    write_atomic(path, b"second", durable=True)
    assert path.read_bytes() == b"second"
    assert _names(tmp_path) == ["a.json"]


def test_a_replaced_document_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_atomic(path, "x")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    path.chmod(0o600)
    write_atomic(path, "y")
    assert path.stat().st_mode & 0o777 == 0o600


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_write_that_fails_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(OSError):
        write_atomic(tmp_path / "taken", "x")
    assert _names(tmp_path) == ["taken"]


def test_concurrent_readers_never_see_a_torn_or_missing_document(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomic(path, json.dumps({"n": -1, "pad": "x" * 20000}))
    done = threading.Event()
    seen: list[int] = []
    faults: list[str] = []

    def read() -> None:
        while not done.is_set():
            try:
                seen.append(json.loads(path.read_bytes())["n"])
            except (ValueError, OSError) as error:
                faults.append(repr(error))

    def write(start: int) -> None:
        for n in range(start, start + 150):
            write_atomic(path, json.dumps({"n": n, "pad": "x" * (n * 97 % 40000)}))

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 1000)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    assert faults == []
    assert len(set(seen)) > 1
    assert _names(tmp_path) == ["state.json"]


SMALL_DISK = """
set -e
mount -t tmpfs -o size=64k none "$1"
shift
exec "$@"
"""
FULL_DISK = """
import sys
from pathlib import Path
from afk.adapters.files import append_line, write_atomic
from afk.errors import DiskFull
disk = Path(sys.argv[1])
write_atomic(disk / "state", "good")
append_line(disk / "log", "good", ceiling_bytes=1_000_000)
for write in (
    lambda: write_atomic(disk / "state", "x" * 100_000, durable=True),
    lambda: append_line(disk / "log", "x" * 100_000, ceiling_bytes=1_000_000),
):
    try:
        write()
    except DiskFull as error:
        print(error.message, "|", error.hint)
print((disk / "state").read_text(), (disk / "log").read_text(), sorted(path.name for path in disk.iterdir()))
"""


def can_mount() -> bool:
    tool = shutil.which("unshare")
    return bool(tool) and subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small disk")
def test_a_full_disk_is_named_and_the_old_content_survives(tmp_path: Path) -> None:
    """R20: state writes survive ENOSPC, and the error says so in its own class."""
    argv = [
        "unshare",
        "-m",
        "sh",
        "-c",
        SMALL_DISK,
        "sh",
        str(tmp_path),
        sys.executable,
        "-c",
        FULL_DISK,
        str(tmp_path),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"no space left to write {tmp_path}/state | df -h {tmp_path}",
        f"no space left to write {tmp_path}/log | df -h {tmp_path}",
        "good good",
        " ['log', 'state']",
    ]


# ── read_json ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_document_that_is_not_there_is_none_and_one_that_is_broken_is_an_error(tmp_path: Path) -> None:
    """L06: a read that failed is never an empty answer."""
    path = tmp_path / "a.json"
    assert read_json(path) is None
    path.write_text('{"a": 1}')
    assert read_json(path) == {"a": 1}
    for broken in ("", '{"a"', "[1]", "null", "\udcff".encode("utf-8", "surrogateescape"), "[" * 200_000):
        path.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
        with pytest.raises(InvalidInput, match=r"a\.json is broken") as caught:
            read_json(path)
        assert caught.value.hint == f"mv {path} {path}.broken"


# ── append_line ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_never_grows_beyond_its_ceiling_and_keeps_one_older_file(tmp_path: Path) -> None:
    """L14: the ceiling is enforced on append, not at the next start."""
    path = tmp_path / "log"
    for n in range(1000):
        append_line(path, f"line {n:04}", ceiling_bytes=200, header="head")
        assert path.stat().st_size <= 200
    assert _names(tmp_path) == ["log", "log.1"]
    older, newer = (tmp_path / "log.1").read_text().splitlines(), path.read_text().splitlines()
    assert older[0] == newer[0] == "head"
    numbers = [int(line.split()[1]) for line in older[1:] + newer[1:]]
    assert numbers == list(range(1000 - len(numbers), 1000))


def test_what_a_crash_left_of_a_line_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n" + "torn" * 50_000)
    append_line(path, "two", ceiling_bytes=1000)
    assert path.read_text() == "one\ntwo\n"
    path.write_text("torn")
    append_line(path, "one", ceiling_bytes=1000, header="head")
    assert path.read_text() == "head\none\n"


def test_a_line_that_is_none_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    for line in ("a\nb", "x" * 100):
        with pytest.raises(ValueError, match="line"):
            append_line(tmp_path / "log", line, ceiling_bytes=50)
    assert _names(tmp_path) == []


APPENDER = """
import sys
from pathlib import Path
from afk.adapters.files import append_line
print("ready", flush=True)
sys.stdin.readline()
for n in range(300):
    append_line(Path(sys.argv[1]), f"{sys.argv[2]}-{n}-" + "x" * (n % 50), ceiling_bytes=20_000)
print("done")
"""


def test_lines_of_several_processes_are_whole_and_none_is_lost_in_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert all_at_once(APPENDER, [[str(path), name] for name in "abc"]) == ["done"] * 3
    text = (tmp_path / "log.1").read_text() + path.read_text()
    written = {f"{name}-{n}-" + "x" * (n % 50) for name in "abc" for n in range(300)}
    assert set(text.splitlines()) == written
    assert max(path.stat().st_size, (tmp_path / "log.1").stat().st_size) <= 20_000


def test_a_line_that_waited_while_the_log_was_rotated_goes_into_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        writer = threading.Thread(target=append_line, args=(path, "late"), kwargs={"ceiling_bytes": 100})
        writer.start()
        wait_until(lambda: _descriptors_of(path) == 2, "the other writer to open the log")
        path.rename(tmp_path / "log.1")
        path.write_text("new\n")
    writer.join()
    assert (tmp_path / "log.1").read_text() == ""
    assert path.read_text() == "new\nlate\n"


def _descriptors_of(path: Path) -> int:
    count = 0
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += each.readlink() == path
    return count


# ── FileLock ────────────────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = """
import sys, time
from pathlib import Path
from afk.adapters.files import FileLock
with FileLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
print("released", flush=True)
sys.stdin.readline()
"""


def test_a_held_lock_names_its_owner_and_refuses_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    holder = python(HOLDER, str(path))
    try:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockHeld, match=f"pid {holder.pid}") as caught, FileLock(path):
            raise AssertionError("two holders")
        held_by = FileLock(path).owner()
        assert held_by is not None
        assert held_by.pid == holder.pid
        assert held_by.identity == identity_of(holder.pid)
        assert is_alive(held_by.identity)
        assert caught.value.details["owner"] == {
            "pid": holder.pid,
            "pid_start_time": held_by.pid_start_time,
            "boot_id": held_by.boot_id,
            "host": os.uname().nodename,
        }
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "released\n"
        assert owner(path) is None
        with FileLock(path) as lock:
            assert lock.owner() == LockOwner(os.getpid(), *_ourselves(), os.uname().nodename)
    finally:
        holder.kill()
        holder.communicate()


def _ourselves() -> tuple[str, str]:
    us = identity_of()
    assert us is not None
    return us.pid_start_time, us.boot_id


def test_the_kernel_frees_the_lock_of_a_holder_that_was_killed(tmp_path: Path) -> None:
    """L10: the record of the dead stays in the file, and is believed by nobody."""
    path = tmp_path / "lock"
    holder = python(HOLDER, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    assert json.loads(path.read_text())["pid"] == holder.pid
    assert owner(path) is None
    with FileLock(path) as lock:
        held_by = lock.owner()
        assert held_by is not None
        assert held_by.pid == os.getpid()


def test_a_lock_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = python(HOLDER, str(path))
    try:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockHeld), FileLock(path, timeout_s=0.2):
            raise AssertionError("two holders")
        entered = threading.Event()

        def enter() -> None:
            with FileLock(path, timeout_s=None):
                entered.set()

        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.is_set()
        holder.stdin.write("\n")
        holder.stdin.flush()
        waiting.join(20)
        assert entered.is_set()
    finally:
        holder.kill()
        holder.communicate()


CONTENDER = """
import sys
from pathlib import Path
from afk.adapters.files import FileLock
print("ready", flush=True)
sys.stdin.readline()
counter = Path(sys.argv[2])
for _ in range(50):
    with FileLock(Path(sys.argv[1]), timeout_s=30):
        counter.write_text(str(int(counter.read_text()) + 1))
print("done")
"""


def test_two_processes_that_contend_never_hold_it_both(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    arguments = [[str(tmp_path / "lock"), str(counter)]] * 2
    assert all_at_once(CONTENDER, arguments) == ["done", "done"]
    assert counter.read_text() == "100"


GLANCER = """
import fcntl, sys, threading, time
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
done = threading.Event()
print("ready", flush=True)
while not done.is_set():
    with open(sys.argv[1]) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
    time.sleep(0.0002)
"""


def test_a_look_at_the_owner_does_not_make_an_entering_process_fail(tmp_path: Path) -> None:
    """Looking takes the lock for a moment; whoever enters just then must not be told that it is held."""
    path = tmp_path / "lock"
    path.touch()
    lookers = [python(GLANCER, str(path)) for _ in range(2)]
    try:
        for looker in lookers:
            assert looker.stdout is not None
            assert looker.stdout.readline() == "ready\n"
        for _ in range(500):
            with FileLock(path):
                pass
    finally:
        for looker in lookers:
            looker.communicate()


def test_a_holder_that_has_not_signed_yet_is_still_a_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with FileLock(path):
        path.write_text("")
        assert owner(path) == LockOwner(0)
        assert str(files.owner(path)) == "another process"


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    """An agent or keeper that outlives us must not hold our locks."""
    path = tmp_path / "lock"
    with FileLock(path):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert owner(path) is None
    finally:
        child.kill()
        child.wait()
