"""What a keeper promises about one process tree, with real processes under a real keeper."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from keptkit import AGENTS, SLOW_S, ended, first_line, is_running, program, until

from afk import keeper, kernel
from afk.adapters.process import Kept, KeptSpec, identity_of, tail_lines


def tree_lines(kept: Kept) -> list[dict[str, object]]:
    return [json.loads(line) for line in (kept.run_dir / "tree").read_bytes().splitlines()]


Keep = Callable[..., Kept]


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Keep]:
    """`keep(*argv, ...)` starts a run in a folder of its own; whatever still runs at the end is stopped."""
    kept: list[Kept] = []

    def start(*argv: str, env: dict[str, str] | None = None, kill_s: float = 0.5, **more: object) -> Kept:
        environ = {"PATH": os.environ["PATH"]} if env is None else env
        spec = KeptSpec(argv=argv, cwd=tmp_path, env=environ, kill_s=kill_s, **more)  # type: ignore[arg-type]
        kept.append(Kept.start(tmp_path / f"run{len(kept)}", spec))
        return kept[-1]

    yield start
    for each in kept:
        each.stop("test over")


def _can_divide() -> bool:
    """Whether we may make a control group of our own, as a delegated unit or root may."""
    group = kernel.make("probe")
    kernel.clear(group)
    return bool(group)


needs_groups = pytest.mark.skipif(not _can_divide(), reason="needs a control group (v2) that we may divide")


# --- How it ended --------------------------------------------------------------------------------------------------


def test_exit_is_one_json_line_with_the_six_fields(keep: Keep) -> None:
    kept = keep("sh", "-c", "exit 3")
    ended(kept)
    text = (kept.run_dir / "exit").read_text()
    record = json.loads(text)
    assert text.endswith("}\n") and text.count("\n") == 1
    assert list(record) == ["pid", "pid_start_time", "exit_code", "signal", "ended_by", "ended_at"]
    assert (record["exit_code"], record["signal"], record["ended_by"]) == (3, None, None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", record["ended_at"])
    assert {"pid": record["pid"], "pid_start_time": record["pid_start_time"]} == tree_lines(kept)[1]


def test_a_signal_is_recorded_as_one_and_not_as_a_code(keep: Keep) -> None:
    record = ended(keep("sh", "-c", "kill -9 $$"))
    assert (record.exit_code, record.signal, record.ended_by) == (None, 9, None)


@pytest.mark.parametrize(
    ("argv0", "code", "words"),
    [
        ("no-such-program", 127, "No such file"),
        ("./plain.txt", 126, "Permission denied"),
        ("./no-interpreter", 127, "No such file"),
    ],
)
def test_a_program_that_cannot_run_ends_as_in_a_shell_and_err_says_why(
    keep: Keep, tmp_path: Path, argv0: str, code: int, words: str
) -> None:
    """L39: never a hang, never a silent 1."""
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "no-interpreter").write_text("#!/no/such/interpreter\n")
    (tmp_path / "no-interpreter").chmod(0o755)
    kept = keep(argv0)
    assert ended(kept).exit_code == code
    err = (kept.run_dir / "err").read_text()
    assert argv0 in err and words in err


def test_a_death_in_the_middle_of_a_line_loses_no_byte(keep: Keep) -> None:
    kept = keep(*program("tree_dies_mid_line.py"))
    assert ended(kept).signal == signal.SIGKILL
    assert (kept.run_dir / "out").read_bytes() == b"caf\xe9 \xff\xfe\nhalf a li"
    assert tail_lines(kept.run_dir / "out", 5, 1000) == ["caf\ufffd \ufffd\ufffd", "half a li"]


# --- Input, output, environment ------------------------------------------------------------------------------------


def test_a_prompt_of_a_megabyte_arrives_whole_and_is_followed_by_its_end(keep: Keep, tmp_path: Path) -> None:
    """R28, R31: the prompt is a file on stdin, never an argument."""
    prompt = os.urandom(1_000_000)
    (tmp_path / "prompt").write_bytes(prompt)
    kept = keep(*program("tree_reads_stdin.py"), stdin=tmp_path / "prompt")
    assert first_line(kept) == f"1000000 {hashlib.sha256(prompt).hexdigest()}"
    assert ended(kept).exit_code == 0


def test_without_a_prompt_stdin_is_at_its_end(keep: Keep) -> None:
    """R28: nothing waits for a keyboard."""
    kept = keep(*program("tree_reads_stdin.py"))
    assert first_line(kept).startswith("0 ")
    assert ended(kept).exit_code == 0


def test_stdout_and_stderr_are_kept_apart(keep: Keep) -> None:
    """R39, S63: only `out` is protocol."""
    kept = keep("sh", "-c", "echo protocol; echo noise >&2; echo more")
    ended(kept)
    assert (kept.run_dir / "out").read_text() == "protocol\nmore\n"
    assert (kept.run_dir / "err").read_text() == "noise\n"


def test_both_pipes_are_drained_whichever_fills_first(keep: Keep) -> None:
    """R37: far more than a pipe holds, on one and then on the other, while nobody reads the files."""
    kept = keep("sh", "-c", "head -c 3000000 /dev/zero >&2; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    assert ended(kept).exit_code == 0
    assert (kept.run_dir / "out").stat().st_size == 3_000_000
    assert (kept.run_dir / "err").stat().st_size == 6_000_000


def test_the_tree_gets_the_given_environment_and_the_marker_and_nothing_else(keep: Keep) -> None:
    """R75: neither the keeper's nor the starter's environment leaks in."""
    kept = keep("/usr/bin/env", env={"ONE": "1", "UMLAUT": "grün", "RAW": "\udcff"})
    ended(kept)
    lines = (kept.run_dir / "out").read_bytes().splitlines()
    nonce = str(tree_lines(kept)[0]["nonce"])
    assert sorted(lines) == sorted(
        [b"ONE=1", "UMLAUT=grün".encode(), b"RAW=\xff", f"AFK_KEEPER={nonce}".encode()],
    )


def test_the_environment_is_never_written_down_nor_shown_by_the_keeper(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R74: a secret for the agent is in the agent's memory alone, and the starter's own stay with the starter."""
    monkeypatch.setenv("STARTERS_TOKEN", "s3cr3t-value")
    kept = keep(*program("tree_takes_term.py"), env={"TOKEN": "s3cr3t-value"})
    first_line(kept)
    for path in (*kept.run_dir.iterdir(), Path(f"/proc/{kept.identity.pid}/environ")):
        assert b"s3cr3t-value" not in path.read_bytes(), path


def test_the_program_starts_with_default_signals_and_none_blocked(keep: Keep) -> None:
    kept = keep("grep", "^Sig[BI]", "/proc/self/status")
    ended(kept)
    masks = dict(line.split(":\t") for line in (kept.run_dir / "out").read_text().splitlines())
    # Above 31 are the C library's own: glibc's posix_spawn ignores two of them in every child.
    assert {name: int(mask, 16) & 0x7FFF_FFFF for name, mask in masks.items()} == {"SigBlk": 0, "SigIgn": 0}


# --- Ceilings ------------------------------------------------------------------------------------------------------


def test_a_flood_is_cut_at_the_ceiling_counted_and_its_end_kept_in_little_memory(keep: Keep) -> None:
    """R37, R41, L14: 100 MB against 8 MB; the agent is never blocked, the keeper stays under 16 MB."""
    ceiling = 8 * 1024 * 1024
    kept = keep(*program("tree_floods.py", "100000000", "wait"), out_ceiling_bytes=ceiling)
    err = kept.run_dir / "err"
    until(lambda: err.read_bytes().endswith(b"\n"))
    status = Path(f"/proc/{kept.identity.pid}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 16 * 1024, status
    assert (kept.run_dir / "out").stat().st_size == ceiling
    kept.stop("enough")
    out = (kept.run_dir / "out").read_bytes()
    total = int(err.read_text().split()[1])
    left_out = re.search(rb"\n\[afk\] (\d+) bytes left out here: out may have 8388608 bytes\n", out)
    assert left_out and left_out.start() == ceiling
    tail = out[left_out.end() :]
    assert ceiling + int(left_out[1]) + len(tail) == total
    assert 60_000 < len(tail) <= 64 * 1024
    assert re.match(rb"\d{9} x+\n", tail) and tail.endswith(b"\nthe last line\n")


def test_little_more_than_the_ceiling_is_kept_whole(keep: Keep) -> None:
    """What fits into the kept end is no loss, so no line speaks of one."""
    kept = keep("sh", "-c", "echo 12345678; echo abcdefgh", out_ceiling_bytes=10)
    ended(kept)
    assert (kept.run_dir / "out").read_bytes() == b"12345678\nabcdefgh\n"


def test_an_endless_line_is_cut_too(keep: Keep) -> None:
    kept = keep("sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' y; echo", out_ceiling_bytes=1000)
    ended(kept)
    out = (kept.run_dir / "out").read_bytes()
    missing = 10_000_001 - 1000 - 64 * 1024
    record = f"\n[afk] {missing} bytes left out here: out may have 1000 bytes\n".encode()
    assert out == b"y" * 1000 + record + b"y" * (64 * 1024 - 1) + b"\n"


def test_tree_forgets_the_dead_when_it_grows_past_its_ceiling(tmp_path: Path) -> None:
    """L14: a run that forks all night does not fill the disk with notes."""
    me = identity_of()
    assert me is not None
    notes = keeper.Notes(str(tmp_path / "tree"), {"pid": me.pid, "pid_start_time": me.pid_start_time})
    child = subprocess.Popen(["sleep", "600"])
    try:
        for n in range(8000):
            notes.add((10_000_000 + n, str(n)))  # above the largest pid that a kernel gives
        grown = (tmp_path / "tree").stat().st_size
        notes.look()
        lines = (tmp_path / "tree").read_text().splitlines()
        assert grown > 256 * 1024
        assert [json.loads(line)["pid"] for line in lines] == [me.pid, child.pid]
    finally:
        child.kill()
        child.wait()


def test_children_of_a_noted_pids_successor_are_not_noted(tmp_path: Path) -> None:
    """R26: else a stranger's child would be ended should the keeper be lost."""
    me = identity_of()
    assert me is not None
    notes = keeper.Notes(str(tmp_path / "tree"), {"pid": me.pid, "pid_start_time": me.pid_start_time})
    script = "sleep 600 & echo $! $$ > pids.new; mv pids.new pids; wait"
    subprocess.run(["setsid", "--fork", "sh", "-c", script], cwd=tmp_path, check=True)
    until((tmp_path / "pids").exists)
    child, stranger = map(int, (tmp_path / "pids").read_text().split())
    try:
        notes.add((stranger, "1"))
        notes.look()
        assert f'"pid":{child},' not in (tmp_path / "tree").read_text()
    finally:
        os.kill(child, signal.SIGKILL)


needs_tmpfs = pytest.mark.skipif(
    not shutil.which("unshare")
    or subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False
    ).returncode,
    reason="a full disk needs a tmpfs of our own, hence a mount namespace and root",
)


def on_small_disk(tmp_path: Path, size: str, body: str) -> object:
    """What `body` (Python; `disk` is the mount, `spec(*argv)` makes a KeptSpec) leaves in `result`."""
    script = """
        import json, sys
        from pathlib import Path
        from afk.adapters.process import Kept, KeptSpec
        from afk.errors import AfkError
        disk, agents = Path(sys.argv[1]), sys.argv[2]
        def spec(*argv):
            return KeptSpec(argv=(sys.executable, "-I", f"{agents}/{argv[0]}", *argv[1:]), cwd=Path("/"), env={})
    """
    code = f"{textwrap.dedent(script)}\n{textwrap.dedent(body)}\nprint(json.dumps(result))"
    mount = 'mount -t tmpfs -o "size=$0" none "$1" && exec "$2" -I -c "$3" "$1" "$4"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, size, str(tmp_path), sys.executable, code, str(AGENTS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=SLOW_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_tmpfs
def test_a_full_disk_neither_blocks_the_agent_nor_loses_the_exit_record(tmp_path: Path) -> None:
    """R20: ENOSPC on `out`; the run ends by itself, the count is in the file, `exit` has its reserved room."""
    result = on_small_disk(
        tmp_path,
        "1m",
        """
        kept = Kept.start(disk / "run", spec("tree_floods.py", "4000000"))
        record = kept.wait(20)
        out = (disk / "run" / "out").read_bytes()
        result = [record.exit_code, record.lost, len(out), out[-200:].decode(), (disk / "run" / "exit").exists()]
        """,
    )
    code, lost, size, end, has_exit = result  # type: ignore[misc]
    assert (code, lost, has_exit) == (0, False, True)
    assert 800_000 < size < 1_048_576
    said = re.search(r"\n\[afk\] (\d+) bytes left out here: No space left on device\n\Z", end)
    assert said
    total = -(-4_000_000 // 65_536) * 65_536 + len("the last line\n")  # whole blocks of 1024 lines
    assert size - len(said[0]) + int(said[1]) == total


@needs_tmpfs
def test_no_run_begins_on_a_full_disk_and_the_error_says_so(tmp_path: Path) -> None:
    """R20."""
    result = on_small_disk(
        tmp_path,
        "64k",
        """
        (disk / "run").mkdir()
        with open(disk / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        try:
            Kept.start(disk / "run", spec("tree_takes_term.py"))
        except AfkError as error:
            result = [error.code, error.retryable]
        """,
    )
    assert result == ["disk_full", True]


# --- Ending the tree -----------------------------------------------------------------------------------------------


def test_a_grandchild_that_holds_stdout_holds_nobody_up(keep: Keep) -> None:
    """R27, L28: bounded drain, then the rest of the tree is ended; the child's own exit counts."""
    kept = keep(*program("tree_holds_stdout.py"))
    record = ended(kept)
    assert (record.exit_code, record.ended_by) == (0, None)
    assert not is_running(int(first_line(kept)))


def test_who_ignores_term_is_killed_after_the_grace_with_its_children(keep: Keep) -> None:
    """R25, L24: TERM, grace, KILL, and the death is confirmed before anybody is told."""
    kept = keep(*program("tree_ignores_term.py"), kill_s=0.3)
    grandchild = int(first_line(kept))
    record = kept.stop("enough")
    assert (record.exit_code, record.signal, record.ended_by) == (None, signal.SIGKILL, "enough")
    assert not is_running(grandchild)


@needs_groups
def test_who_left_its_group_and_ignores_term_is_killed_one_by_one(keep: Keep) -> None:
    """R25, L24: where the kernel offers no group, or its agent found a way out of it."""
    ignores = " ".join(map(shlex.quote, program("tree_ignores_term.py")))
    kept = keep("sh", "-c", f"{_leave_group()}; exec {ignores}", kill_s=0.3)
    grandchild = int(first_line(kept))
    group = str(tree_lines(kept)[0]["cgroup"])
    assert kernel.members(group) == []
    record = kept.stop("enough")
    assert (record.signal, record.ended_by) == (signal.SIGKILL, "enough")
    assert not is_running(grandchild)


def _leave_group() -> str:
    group = kernel.make("way-out")
    kernel.clear(group)
    return f"echo $$ > {Path(group).parent}/cgroup.procs"


def test_who_takes_its_leave_on_term_is_given_the_time_and_heard_to_the_end(keep: Keep) -> None:
    kept = keep(*program("tree_takes_term.py"), kill_s=SLOW_S)
    first_line(kept)
    record = kept.stop("enough")
    assert (record.exit_code, record.signal, record.ended_by) == (7, None, "enough")
    assert (kept.run_dir / "out").read_text() == "ready\nleaving\n"


def test_a_stop_that_comes_at_once_is_not_lost_on_the_way_to_the_program(keep: Keep) -> None:
    """Between fork and exec the child is the keeper's copy, whose handler would swallow the TERM."""
    records = [keep("sleep", "600", kill_s=SLOW_S).stop("changed our mind") for _ in range(10)]
    assert {(record.signal, record.ended_by) for record in records} == {(signal.SIGTERM, "changed our mind")}


def test_a_stopped_program_gets_its_term_too(keep: Keep) -> None:
    """TERM to a stopped process stays pending: it has to be continued as well."""
    kept = keep(*program("tree_takes_term.py"), kill_s=SLOW_S)
    first_line(kept)
    pid = int(str(tree_lines(kept)[1]["pid"]))
    os.kill(pid, signal.SIGSTOP)
    assert kept.stop("enough").exit_code == 7


def test_a_descendant_in_a_session_of_its_own_is_ended(keep: Keep) -> None:
    """R25, L25: a group is not the tree."""
    kept = keep(*program("tree_setsid.py"))
    escapee = int(first_line(kept))
    assert os.getsid(escapee) == escapee
    kept.stop("enough")
    assert not is_running(escapee)


def test_a_daemon_without_parent_group_pipe_or_marker_is_ended(keep: Keep) -> None:
    """R25: it forked twice and emptied its environment; the subreaper still has it."""
    kept = keep(*program("tree_daemon.py"))
    record = ended(kept)
    assert (record.exit_code, record.ended_by) == (0, None)
    assert not is_running(int(first_line(kept)))


def test_what_carries_the_marker_is_ended_wherever_it_was_started(keep: Keep) -> None:
    """A process that some other daemon started on the tree's behalf, with the tree's environment."""
    kept = keep(*program("tree_waits.py"), kill_s=SLOW_S)
    nonce = str(tree_lines(kept)[0]["nonce"])
    marked = subprocess.Popen(["sleep", "600"], env={"AFK_KEEPER": nonce})
    other = subprocess.Popen(["sleep", "600"], env={"AFK_KEEPER": nonce[:-1], "X": f"AFK_KEEPER={nonce}"})
    try:
        until(lambda: b"sleep" in Path(f"/proc/{other.pid}/comm").read_bytes())
        kept.stop("enough")
        assert marked.wait(SLOW_S) == -signal.SIGTERM
        assert other.poll() is None
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()


def test_the_wall_clock_ends_the_tree_though_nobody_watches(keep: Keep) -> None:
    """R34: its own clock, its own name in the record."""
    kept = keep(*program("tree_setsid.py"), wall_clock_s=0.3)
    escapee = int(first_line(kept))
    until((kept.run_dir / "exit").exists)
    assert ended(kept).ended_by == "wall_clock"
    assert not is_running(escapee)


def test_a_term_without_a_reason_ends_the_tree_as_signal(keep: Keep) -> None:
    kept = keep(*program("tree_takes_term.py"))
    first_line(kept)
    os.kill(kept.identity.pid, signal.SIGTERM)
    assert ended(kept).ended_by == "signal"


def test_the_terminals_signals_do_not_reach_the_tree(keep: Keep, tmp_path: Path) -> None:
    """R32: Ctrl-C and a closed terminal are for the supervisor; even sent by hand the keeper ignores them."""
    kept = keep(*program("tree_waits.py"))
    first_line(kept)
    pid = int(str(tree_lines(kept)[1]["pid"]))
    assert len({os.getsid(0), os.getsid(kept.identity.pid), os.getsid(pid)}) == 3
    assert os.getpgid(pid) == pid
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(kept.identity.pid, number)
    (tmp_path / "go").touch()
    record = ended(kept)
    assert (record.exit_code, record.ended_by) == (4, None)


def test_two_keepers_do_not_touch_each_others_trees(keep: Keep, tmp_path: Path) -> None:
    one, two = keep(*program("tree_waits.py")), keep(*program("tree_waits.py"))
    first_line(one), first_line(two)
    assert one.stop("enough").ended_by == "enough"
    assert two.exit_record() is None
    (tmp_path / "go").touch()
    assert ended(two).exit_code == 4


def test_a_signal_reaches_exactly_the_process_that_is_meant(keep: Keep) -> None:
    """R26, L24: not its successor, not ourselves, not pid 1, and no group by a number that is none."""
    kept = keep(*program("tree_waits.py"))
    first_line(kept)
    child, me, init = (identity_of(pid) for pid in (int(str(tree_lines(kept)[1]["pid"])), None, 1))
    assert child is not None and me is not None and init is not None
    for wrong in ((child.pid, "1"), me.birth, init.birth, (0, "0"), (-1, "0"), (-child.pid, child.pid_start_time)):
        assert not keeper.send(wrong, signal.SIGCONT)
    assert kept.exit_record() is None
    assert keeper.send(child.birth, signal.SIGTERM)
    assert ended(kept).signal == signal.SIGTERM
    assert not keeper.send(child.birth, signal.SIGTERM)


# --- What is noted -------------------------------------------------------------------------------------------------


def test_tree_names_keeper_child_and_each_descendant_it_saw(keep: Keep) -> None:
    """R26, L25: pid with start time, so that whoever comes later knows whom to end."""
    kept = keep(*program("tree_daemon.py", "stay"))
    daemon = identity_of(int(first_line(kept)))
    assert daemon is not None
    until(lambda: len(tree_lines(kept)) >= 3)
    head, child, *rest = tree_lines(kept)
    assert (head["pid"], head["pid_start_time"], head["boot_id"]) == (
        kept.identity.pid,
        kept.identity.pid_start_time,
        kept.identity.boot_id,
    )
    assert re.fullmatch("[0-9a-f]{32}", str(head["nonce"]))
    assert identity_of(int(str(child["pid"]))) is not None
    assert {"pid": daemon.pid, "pid_start_time": daemon.pid_start_time} in rest


def test_the_program_is_noted_before_its_first_instruction(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sh", "-c", f'grep -c "\\"pid\\":$$," {tmp_path}/run0/tree')
    assert ended(kept).exit_code == 0
    assert first_line(kept) == "1"


def test_a_keeper_whose_starter_died_before_it_was_ready_starts_nothing(tmp_path: Path) -> None:
    """Else the next supervisor, which finds no `tree` yet, would start the same agent once more."""
    ours, keepers = os.pipe()
    os.close(ours)
    orders = {
        "argv": ["touch", str(tmp_path / "ran")],
        "cwd": str(tmp_path),
        "env": {"PATH": os.environ["PATH"]},
        "stdin": None,
        "out_ceiling_bytes": 1000,
        "err_ceiling_bytes": 1000,
        "wall_clock_s": None,
        "kill_s": 1,
        "nonce": "0" * 32,
    }
    done = subprocess.run(
        [sys.executable, "-I", "-m", "afk.keeper", str(tmp_path)],
        input=json.dumps(orders).encode(),
        stdout=keepers,
        stderr=subprocess.PIPE,
        check=False,
        timeout=SLOW_S,
    )
    os.close(keepers)
    assert done.returncode == 1
    until(lambda: not keeper.marked("0" * 32))
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "tree").exists()


# --- The keeper itself ---------------------------------------------------------------------------------------------


def test_the_keeper_stands_outside_every_repository_and_needs_the_standard_library_alone(keep: Keep) -> None:
    """It must not pin a worktree, and a repository's own `afk` or `json` is never taken for ours."""
    kept = keep(*program("tree_takes_term.py"))
    first_line(kept)
    assert Path(f"/proc/{kept.identity.pid}/cwd").readlink() == Path("/")
    assert b"-I\0-m\0afk.keeper" in Path(f"/proc/{kept.identity.pid}/cmdline").read_bytes()
    code = "import sys; before = {*sys.modules}; import afk.keeper; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"afk"}


# --- What the kernel offers ----------------------------------------------------------------------------------------


@needs_groups
def test_a_tree_has_a_control_group_of_its_own_and_leaves_none(keep: Keep) -> None:
    """L37"""
    kept = keep("sh", "-c", "cat /proc/self/cgroup; sleep 60 & wait")
    group = str(tree_lines(kept)[0]["cgroup"])
    until(lambda: len(kernel.members(group)) == 2)
    until(lambda: Path(group).name in (kept.run_dir / "out").read_text())
    kept.stop("stop")
    assert not Path(group).exists()


@needs_groups
def test_what_hides_from_everything_else_is_found_in_its_group(keep: Keep) -> None:
    """L25, R25: no parent, no session, no marker, not noted yet, and the keeper is gone: the group still has it."""
    hide = "import os, sys, time; os.fork() and sys.exit(); os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
    kept = keep("sh", "-c", f"env -i {sys.executable} -I -c '{hide}'; sleep 60")
    hidden = int(first_line(kept))
    notes = kept.run_dir / "tree"
    os.kill(kept.identity.pid, signal.SIGKILL)
    lines = [line for line in notes.read_text().splitlines() if json.loads(line)["pid"] != hidden]
    notes.write_text("\n".join(lines) + "\n")
    assert ended(kept).lost
    assert not is_running(hidden)
    assert not Path(str(tree_lines(kept)[0]["cgroup"])).exists()


@needs_groups
def test_what_hides_in_a_group_inside_its_group_is_found_too(keep: Keep) -> None:
    """L25: everything below counts, and nothing of it is left."""
    hide = "import os, sys, time; os.fork() and sys.exit(); os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
    mount = str(Path(kernel.make("probe")).parent)
    kernel.clear(f"{mount}/afk-probe")
    inside = f'd={mount}/afk-$AFK_KEEPER/sub; mkdir "$d"; echo $$ > "$d/cgroup.procs"'
    kept = keep("sh", "-c", f"({inside}; exec env -i {sys.executable} -I -c '{hide}'); sleep 60")
    hidden = int(first_line(kept))
    os.kill(kept.identity.pid, signal.SIGKILL)
    notes = kept.run_dir / "tree"
    lines = [line for line in notes.read_text().splitlines() if json.loads(line)["pid"] != hidden]
    notes.write_text("\n".join(lines) + "\n")
    assert ended(kept).lost
    assert not is_running(hidden)
    assert not Path(str(tree_lines(kept)[0]["cgroup"])).exists()


@needs_groups
def test_a_record_that_names_a_folder_of_its_own_as_its_group_holds_nobody_up(keep: Keep, tmp_path: Path) -> None:
    kept = keep("sleep", "60")
    head, *rest = tree_lines(kept)
    forged = tmp_path / f"afk-{head['nonce']}"
    forged.mkdir()
    os.mkfifo(forged / "cgroup.procs")
    lines = [head | {"cgroup": str(forged)}, *rest]
    (kept.run_dir / "tree").write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.kill(kept.identity.pid, signal.SIGKILL)
    assert ended(kept).lost
    assert forged.exists()


@needs_groups
def test_a_record_that_names_another_group_kills_nobody(keep: Keep, tmp_path: Path) -> None:
    """R26: a tree can write over its own notes."""
    other = keep("sleep", "60")
    kept = keep("sleep", "60")
    head, *rest = tree_lines(kept)
    lines = [head | {"cgroup": tree_lines(other)[0]["cgroup"]}, *rest]
    (kept.run_dir / "tree").write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.kill(kept.identity.pid, signal.SIGKILL)
    assert ended(kept).lost
    assert other.exit_record() is None


def test_the_kernel_takes_the_tree_before_the_keeper_when_memory_is_short(keep: Keep) -> None:
    """L37: and so before the terminal and the supervisor."""
    kept = keep("sh", "-c", "cat /proc/self/oom_score_adj; sleep 60")
    assert int(first_line(kept)) == kernel.OOM_SCORE
    assert int(Path(f"/proc/{kept.identity.pid}/oom_score_adj").read_text()) < kernel.OOM_SCORE


def _small_group() -> Path | None:
    """A group (v1, for memory) in which 64 MiB are all there is; None where we may not make one."""
    place = Path("/sys/fs/cgroup/memory")
    groups = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line.split(":", 2)[2] for line in groups if ":memory:" in line), "")
    group = place / own.strip("/") / f"afk-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(64 * 1024**2))
    except OSError:
        return None
    return group


def test_an_end_for_want_of_memory_is_told_from_the_kernels_receipt(keep: Keep) -> None:
    """L40: a KILL that nobody sent, while the kernel counted one more."""
    group = _small_group()
    if group is None:
        pytest.skip("needs a control group (v1) for memory that we may divide")
    hoard = f"{sys.executable} -I -c 'x = bytearray(256 * 1024 ** 2)'"
    kept = keep("sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {hoard}")
    record = ended(kept)
    group.rmdir()
    assert (record.signal, record.ended_by) == (9, "oom")


def test_a_kill_that_anybody_sent_is_none_for_want_of_memory(keep: Keep) -> None:
    """L40: without the kernel's receipt nothing is guessed."""
    kept = keep("sh", "-c", "kill -9 $$")
    record = ended(kept)
    assert (record.signal, record.ended_by) == (9, None)
