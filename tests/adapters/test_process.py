"""Kept processes as their users see them: identity, start, adoption, loss, stop, and signs of life."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from keptkit import SLOW_S, ended, first_line, is_running, program, until

from afk.adapters import process
from afk.adapters.process import ExitRecord, Identity, Kept, KeptSpec, boot_id, identity_of, is_alive
from afk.errors import KeeperFailed


def noted(kept: Kept) -> list[int]:
    return [json.loads(line)["pid"] for line in (kept.run_dir / "tree").read_bytes().splitlines()[1:]]


Keep = Callable[..., Kept]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    """`keep(*argv, ...)` starts a run in a folder of its own; whatever still runs at the end is stopped."""
    kept: list[Kept] = []

    def start(*argv: str, kill_s: float = 0.3, **more: object) -> Kept:
        environ = {"PATH": os.environ["PATH"]}
        spec = KeptSpec(argv=argv, cwd=tmp_path, env=environ, kill_s=kill_s, **more)  # type: ignore[arg-type]
        kept.append(Kept.start(tmp_path / f"run{len(kept)}", spec))
        return kept[-1]

    yield start
    for each in kept:
        each.stop("test over")


@pytest.fixture
def bystander() -> Iterator[Identity]:
    """A process that is none of our business."""
    sleeper = subprocess.Popen(["sleep", "600"])
    identity = identity_of(sleeper.pid)
    assert identity is not None
    yield identity
    sleeper.kill()
    sleeper.wait()


# --- Identity ------------------------------------------------------------------------------------------------------


def test_identity_is_pid_start_time_and_boot(bystander: Identity) -> None:
    """R26."""
    assert bystander.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip() == boot_id()
    started_s = int(bystander.pid_start_time) / os.sysconf("SC_CLK_TCK") + psutil.boot_time()
    assert abs(started_s - psutil.Process(bystander.pid).create_time()) < 2
    me = identity_of()
    assert me is not None and me.pid == os.getpid() and is_alive(me)


def test_a_name_with_blanks_and_parentheses_does_not_shift_the_fields(tmp_path: Path) -> None:
    """R26: field 22 is counted behind the last parenthesis."""
    path = shutil.copy("/bin/sleep", tmp_path / "a) S 1 (b) 2")
    odd = subprocess.Popen([path, "600"])
    try:
        until(lambda: b"a) S 1" in Path(f"/proc/{odd.pid}/comm").read_bytes())
        identity = identity_of(odd.pid)
        me = identity_of()
        assert identity is not None and me is not None
        assert int(identity.pid_start_time) >= int(me.pid_start_time)
        assert is_alive(identity)
    finally:
        odd.kill()
        odd.wait()


def test_another_start_time_or_another_boot_is_another_process(bystander: Identity) -> None:
    """R26: a number that was given out again is not the process that had it."""
    assert is_alive(bystander)
    assert not is_alive(replace(bystander, pid_start_time="1"))
    assert not is_alive(replace(bystander, boot_id="another"))


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert Path(f"/proc/{child.pid}/stat").exists()
    assert identity_of(child.pid) is None
    assert process._identity_by_psutil(child.pid) is None
    child.wait()
    assert identity_of(child.pid) is None
    assert process._identity_by_psutil(child.pid) is None


def test_without_proc_psutil_tells_who_a_process_is(bystander: Identity) -> None:
    identity = process._identity_by_psutil(bystander.pid)
    assert identity is not None
    assert float(identity.pid_start_time) == psutil.Process(bystander.pid).create_time()
    assert identity == process._identity_by_psutil(bystander.pid)


# --- Start ---------------------------------------------------------------------------------------------------------


def test_start_returns_when_keeper_and_child_are_recorded(keep: Keep) -> None:
    kept = keep(*program("tree_takes_term.py"))
    assert is_alive(kept.identity)
    assert len(noted(kept)) == 1 and is_running(noted(kept)[0])
    assert 0 <= time.monotonic() - kept.started_monotonic_s < SLOW_S
    assert kept.started_at.tzinfo is not None


def test_a_folder_serves_one_run(keep: Keep, tmp_path: Path) -> None:
    kept = keep("true")
    ended(kept)
    with pytest.raises(KeeperFailed, match="already holds a run"):
        Kept.start(kept.run_dir, KeptSpec(argv=("true",), cwd=tmp_path, env={}))
    assert not (kept.run_dir / "stop").exists()


def test_what_cannot_be_started_is_a_typed_error_and_leaves_the_folder_usable(tmp_path: Path) -> None:
    with pytest.raises(KeeperFailed, match=r"working directory .*/gone does not exist"):
        Kept.start(tmp_path / "run", KeptSpec(argv=("true",), cwd=tmp_path / "gone", env={}))
    with pytest.raises(KeeperFailed, match=r"No such file.*prompt"):
        Kept.start(tmp_path / "run", KeptSpec(argv=("true",), cwd=tmp_path, env={}, stdin=tmp_path / "prompt"))
    assert ended(Kept.start(tmp_path / "run", KeptSpec(argv=("/bin/true",), cwd=tmp_path, env={}))).exit_code == 0


def test_a_repository_with_a_package_of_our_name_changes_nothing(tmp_path: Path) -> None:
    """The keeper is isolated from the starter's working directory and from PYTHONPATH."""
    trap = tmp_path / "afk"
    trap.mkdir()
    for name in ("__init__.py", "keeper.py", "../json.py"):
        (trap / name).write_text("raise SystemExit('taken for ours')\n")
    code = """
        import sys
        from pathlib import Path
        from afk.adapters.process import Kept, KeptSpec
        spec = KeptSpec(argv=("/bin/sh", "-c", "exit 6"), cwd=Path.cwd(), env={})
        print(Kept.start(Path("run"), spec).wait(20).exit_code)
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("6\n", "")


# --- Waiting -------------------------------------------------------------------------------------------------------


def test_wait_ends_with_its_time_with_the_run_or_when_woken(keep: Keep, tmp_path: Path) -> None:
    kept = keep(*program("tree_waits.py"))
    first_line(kept)
    wake = threading.Event()
    assert kept.wait(0.0) is None
    assert kept.wait(0.05, wake) is None
    threading.Timer(0.05, wake.set).start()
    assert kept.wait(None, wake) is None
    assert wake.is_set()
    (tmp_path / "go").touch()
    record = kept.wait(None)
    assert record is not None and record.exit_code == 4


def test_a_keeper_that_was_waited_for_is_no_zombie(keep: Keep) -> None:
    kept = keep("true")
    assert ended(kept).exit_code == 0
    until(lambda: kept.exit_record() and not Path(f"/proc/{kept.identity.pid}").exists())


# --- Adoption and loss ---------------------------------------------------------------------------------------------

STARTER = """
    import sys, time
    from pathlib import Path
    from afk.adapters.process import Kept, KeptSpec
    run_dir, cwd, *argv = sys.argv[1:]
    Kept.start(Path(run_dir), KeptSpec(argv=tuple(argv), cwd=Path(cwd), env={}))
    print("started", flush=True)
    time.sleep(600)
"""


def test_a_run_outlives_its_starter_and_anyone_can_take_it_up(tmp_path: Path) -> None:
    """R25 as read here: the tree ends with its attempt, not with a supervisor that was killed with -9."""
    argv = [sys.executable, "-I", "-c", textwrap.dedent(STARTER), str(tmp_path / "run"), str(tmp_path)]
    starter = subprocess.Popen([*argv, *program("tree_waits.py")], stdout=subprocess.PIPE, start_new_session=True)
    assert starter.stdout is not None and starter.stdout.readline() == b"started\n"
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    kept = Kept.adopt(tmp_path / "run")
    assert first_line(kept) == "ready"
    assert kept.exit_record() is None
    (tmp_path / "go").touch()
    assert ended(kept).exit_code == 4
    assert (kept.run_dir / "out").read_text() == "ready\ndone\n"


def test_an_adopted_run_can_be_stopped_and_an_ended_one_be_asked(keep: Keep) -> None:
    kept = keep(*program("tree_setsid.py"))
    escapee = int(first_line(kept))
    record = Kept.adopt(kept.run_dir).stop("withdrawn")
    assert (record.ended_by, record.lost) == ("withdrawn", False)
    assert not is_running(escapee)
    assert Kept.adopt(kept.run_dir).exit_record() == kept.exit_record() == record


def test_where_no_keeper_ever_was_there_is_nothing_to_adopt(tmp_path: Path) -> None:
    for content in (None, b"", b'{"pid": 12', b"[]\n"):
        if content is not None:
            (tmp_path / "tree").write_bytes(content)
        with pytest.raises(KeeperFailed, match="holds no run"):
            Kept.adopt(tmp_path)


def test_when_the_keeper_is_killed_its_tree_is_ended_and_recorded_once(keep: Keep) -> None:
    """A pidfd that fired without an exit record: the keeper was lost. What `tree` noted is ended, marker or not."""
    kept = keep(*program("tree_daemon.py", "stay"))
    daemon = int(first_line(kept))
    until(lambda: daemon in noted(kept))
    os.kill(kept.identity.pid, signal.SIGKILL)
    record = ended(kept)
    assert record == ExitRecord(
        pid=noted(kept)[0],
        pid_start_time=record.pid_start_time,
        exit_code=None,
        signal=None,
        ended_by="keeper-lost",
        ended_at=record.ended_at,
        lost=True,
    )
    assert not any(is_running(pid) for pid in noted(kept))
    assert Kept.adopt(kept.run_dir).exit_record() == record


def test_a_lost_tree_is_found_by_its_marker_too(keep: Keep) -> None:
    """What was never noted still carries the marker; who ignores TERM is killed."""
    kept = keep(*program("tree_ignores_term.py"))
    grandchild, child = int(first_line(kept)), noted(kept)[0]
    tree = kept.run_dir / "tree"
    os.kill(kept.identity.pid, signal.SIGKILL)
    until(lambda: not is_alive(kept.identity))
    tree.write_bytes(tree.read_bytes().splitlines(keepends=True)[0])
    assert ended(kept).lost
    assert not is_running(grandchild) and not is_running(child)


def test_children_of_a_noted_process_are_ended_with_it(keep: Keep) -> None:
    """Neither noted nor marked, but the child of one that is."""
    kept = keep("sh", "-c", "env -i sleep 600 & echo $!; wait")
    unmarked = int(first_line(kept))
    tree = kept.run_dir / "tree"
    os.kill(kept.identity.pid, signal.SIGKILL)
    until(lambda: not is_alive(kept.identity))
    tree.write_bytes(b"".join(tree.read_bytes().splitlines(keepends=True)[:2]))
    assert ended(kept).lost
    assert not is_running(unmarked)


def forge(run_dir: Path, boot: str, *noted: tuple[int, str]) -> None:
    """The folder of a run whose keeper is gone and noted these."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    head = {
        "pid": gone.pid,
        "pid_start_time": "1",
        "boot_id": boot,
        "nonce": "f" * 32,
        "kill_s": 0.1,
        "started_at": "2026-01-01T00:00:00+00:00",
        "started_monotonic_s": 1.0,
    }
    records = [head, *({"pid": pid, "pid_start_time": start} for pid, start in noted)]
    run_dir.mkdir()
    (run_dir / "tree").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_note_with_another_start_time_kills_nobody(tmp_path: Path, bystander: Identity) -> None:
    """R26, L24: the number was given to somebody else since."""
    forge(tmp_path / "run", bystander.boot_id, (bystander.pid, str(int(bystander.pid_start_time) - 1)))
    record = Kept.adopt(tmp_path / "run").exit_record()
    assert record is not None and record.lost
    assert is_alive(bystander)


def test_a_note_of_another_boot_kills_nobody(tmp_path: Path, bystander: Identity) -> None:
    """R26: start times begin anew with every boot."""
    forge(tmp_path / "run", "another-boot", (bystander.pid, bystander.pid_start_time))
    record = Kept.adopt(tmp_path / "run").exit_record()
    assert record is not None and record.lost
    assert is_alive(bystander)


NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode,
    reason="where this fails it ends the whole machine: it needs a pid namespace of its own, hence root",
)
def test_notes_that_name_ourselves_or_pid_1_kill_nobody(tmp_path: Path) -> None:
    """L24: neither these two, nor their children, which would be everybody."""
    code = """
        import json, signal, sys
        from pathlib import Path
        from afk.adapters.process import Kept, identity_of, is_alive
        run_dir, bystander, told = Path(sys.argv[1]), identity_of(int(sys.argv[2])), []
        signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
        us, init = identity_of(), identity_of(1)
        with (run_dir / "tree").open("a") as tree:
            for pid, start in (us.birth, init.birth, (0, "0"), (-1, "0")):
                tree.write(json.dumps({"pid": pid, "pid_start_time": start}) + "\\n")
        print(Kept.adopt(run_dir).exit_record().lost, told, is_alive(init), is_alive(bystander))
    """
    forge(tmp_path / "run", boot_id())
    script = 'sleep 600 & "$0" -I -c "$1" "$2" "$!"; exit $?'
    done = subprocess.run(
        [*NAMESPACE, "sh", "-c", script, sys.executable, textwrap.dedent(code), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=False,
        timeout=SLOW_S,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True [] True True\n", "", 0)


def test_notes_that_a_full_disk_cut_in_half_are_passed_over(tmp_path: Path, bystander: Identity) -> None:
    forge(tmp_path / "run", bystander.boot_id, bystander.birth)
    with (tmp_path / "run" / "tree").open("a") as tree:
        tree.write('{"pid":12345,"pid_st')
    assert Kept.adopt(tmp_path / "run").exit_record() is not None
    assert not is_alive(bystander)


def test_a_keeper_lost_before_it_had_a_child_is_lost_with_pid_0(tmp_path: Path) -> None:
    forge(tmp_path / "run", boot_id())
    record = Kept.adopt(tmp_path / "run").exit_record()
    assert record is not None
    assert (record.pid, record.pid_start_time, record.lost) == (0, "", True)


def test_not_being_able_to_look_is_not_a_death(keep: Keep) -> None:
    """R26: an adopter without file descriptors must not take every run for lost and end it."""
    kept = keep(*program("tree_takes_term.py"))
    first_line(kept)
    code = """
        import os, resource, sys
        from pathlib import Path
        from afk.adapters.process import Kept
        kept = Kept.adopt(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        try:
            while True:
                os.open("/", os.O_RDONLY)
        except OSError:
            pass
        try:
            print(kept.exit_record())
        except OSError as error:
            print(error.strerror)
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(code), str(kept.run_dir)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Too many open files\n"
    assert kept.exit_record() is None


# --- Stopping ------------------------------------------------------------------------------------------------------


def test_stop_names_its_reason_and_may_be_asked_for_again(keep: Keep) -> None:
    kept = keep(*program("tree_takes_term.py"), kill_s=SLOW_S)
    first_line(kept)
    kept.request_stop("sentinel")
    record = ended(kept)
    assert (record.exit_code, record.ended_by) == (7, "sentinel")
    assert kept.stop("another reason") == record


def test_a_stop_after_the_end_changes_nothing(keep: Keep) -> None:
    """Who ended by itself was not ended by us, whatever was asked for later."""
    kept = keep("sh", "-c", "exit 5")
    record = ended(kept)
    assert kept.stop("late") == record
    assert (record.exit_code, record.ended_by) == (5, None)


def test_a_keeper_that_does_not_answer_is_ended_with_its_tree(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything has a time limit, a stopped keeper included."""
    monkeypatch.setattr(process, "KEEPER_S", 0.2)
    kept = keep(*program("tree_setsid.py"))
    escapee = int(first_line(kept))
    os.kill(kept.identity.pid, signal.SIGSTOP)
    record = kept.stop("enough")
    assert (record.ended_by, record.lost) == ("keeper-lost", True)
    assert not is_running(escapee) and not is_alive(kept.identity)


# --- Signs of life -------------------------------------------------------------------------------------------------


def test_cpu_of_the_tree_counts_children_that_ended_and_stands_still_when_it_idles(keep: Keep) -> None:
    """R34, L23: silence is no death while somebody computes; the keeper's own CPU is no sign of life."""
    kept = keep(*program("tree_burns.py"))
    first_line(kept)
    before = kept.tree_cpu_s()
    assert before >= 0.5
    assert kept.wait(0.3) is None
    assert kept.tree_cpu_s() - before < 0.03
    kept.stop("enough")
    assert kept.tree_cpu_s() == 0.0


def test_a_build_or_test_program_in_the_tree_is_seen_however_it_was_started(keep: Keep, tmp_path: Path) -> None:
    """L23."""
    script = tmp_path / "gradlew"
    script.write_text("#!/bin/sh\necho up\nsleep 600 & wait\n")
    script.chmod(0o755)
    (tmp_path / "pytest.py").write_text("print('up', flush=True)\nimport time\ntime.sleep(600)\n")
    by_name = keep("sh", "-c", "./gradlew & wait")
    by_module = keep("sh", "-c", f"{sys.executable} -m pytest & wait")
    by_title = keep("sh", "-c", "bash -c 'echo up; exec -a \"npm test\" sleep 600' & wait")
    first_line(by_name), first_line(by_module), first_line(by_title)
    assert by_name.has_descendant(frozenset({"make", "gradlew"}))
    assert by_name.has_descendant(frozenset({"sleep"}))
    assert not by_name.has_descendant(frozenset({"pytest", "grad"}))
    assert by_module.has_descendant(frozenset({"pytest"}))
    until(lambda: by_title.has_descendant(frozenset({"npm"})))
    by_name.stop("enough")
    assert not by_name.has_descendant(frozenset({"gradlew"}))


def test_an_agent_is_no_test_program_because_of_its_own_name(keep: Keep) -> None:
    """L23: started by one that bears such a name, it would hang for ever."""
    kept = keep("sh", "-c", "echo up; sleep 600 & wait")
    first_line(kept)
    assert not kept.has_descendant(frozenset({"sh"}))
    assert kept.has_descendant(frozenset({"sleep"}))
