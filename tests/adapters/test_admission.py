"""L36: checks of all checkouts take turns when the machine has no memory for all of them at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import gitkit
import pytest

from afk.adapters import admission
from afk.adapters.admission import MIB, Admission, Memory, Refused, memory_now
from afk.adapters.process import Identity, identity_of


class Bench:
    """One checkout's side of the machine; `said` is what its waiting commands told."""

    def __init__(self, machine: Path, name: str, total_mib: int = 1000, available_mib: int = 1000) -> None:
        self.memory = Memory(total_mib * MIB, available_mib * MIB)
        self.said: list[str] = []
        environ = {"TMPDIR": str(machine)}
        self.admission = Admission(Path(name), environ, said=self.said.append, memory=lambda: self.memory)

    def weigh(self, command: str, peak_mib: int) -> None:
        with self.admission.turn(command, lambda: False) as turn:
            turn.held(peak_mib * MIB)


@pytest.fixture
def somebody() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives, as a keeper does."""
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        yield process


def _who(process: subprocess.Popen[bytes]) -> Identity:
    found = identity_of(process.pid)
    assert found is not None
    return found


def test_a_heavy_check_waits_until_another_checkouts_heavy_check_has_ended(
    tmp_path: Path, somebody: subprocess.Popen[bytes]
) -> None:
    one, other = Bench(tmp_path, "one"), Bench(tmp_path, "other")
    one.weigh("make test", 500)
    other.weigh("make test", 500)
    may_end, began = Event(), Event()

    def second() -> None:
        with other.admission.turn("make test", lambda: False) as turn:
            began.set()
            turn.started(_who(somebody))

    with ThreadPoolExecutor() as pool:
        with one.admission.turn("make test", lambda: False) as turn:
            turn.started(_who(somebody))
            waits = pool.submit(second)
            gitkit.wait_until(lambda: bool(other.said), "the second says that it waits")
            assert not began.is_set()
            may_end.set()
        waits.result(60)
    assert other.said == ["`make test` waits for its turn: 1 at work may need 600 MiB of 1000 MiB, it 600 MiB", ""]


def test_light_checks_run_side_by_side(tmp_path: Path, somebody: subprocess.Popen[bytes]) -> None:
    bench = Bench(tmp_path, "one")
    bench.weigh("lint", 100)
    with ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(bench.admission.turn("lint", lambda: False)).started(_who(somebody))
    assert bench.said == []


def test_one_always_runs_whatever_it_needs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "one", total_mib=100, available_mib=1)
    bench.weigh("make world", 5000)
    with bench.admission.turn("make world", lambda: False):
        pass
    assert bench.said == []


def test_what_is_free_now_counts_too(tmp_path: Path, somebody: subprocess.Popen[bytes]) -> None:
    """Agents, browsers and other people's work take memory as well."""
    bench = Bench(tmp_path, "one")
    bench.weigh("lint", 50)
    with bench.admission.turn("lint", lambda: False) as turn:
        turn.started(_who(somebody))
        bench.memory = Memory(1000 * MIB, 20 * MIB)
        with pytest.raises(Refused), bench.admission.turn("lint", lambda: bool(bench.said)):
            pass
    assert bench.said == ["`lint` waits for its turn: it may need 60 MiB, 20 MiB are free"]


def test_a_check_whose_keeper_died_holds_nothing(tmp_path: Path, somebody: subprocess.Popen[bytes]) -> None:
    """Its supervisor was killed too: nobody took the ticket back."""
    bench = Bench(tmp_path, "one")
    bench.weigh("make test", 700)
    turn = bench.admission.turn("make test", lambda: False)
    turn.__enter__().started(_who(somebody))
    somebody.kill()
    somebody.wait()
    with bench.admission.turn("make test", lambda: False):
        pass
    assert bench.said == []


def test_who_waits_can_be_stopped(tmp_path: Path, somebody: subprocess.Popen[bytes]) -> None:
    bench = Bench(tmp_path, "one")
    bench.weigh("make test", 700)
    with bench.admission.turn("make test", lambda: False) as turn:
        turn.started(_who(somebody))
        with pytest.raises(Refused), bench.admission.turn("make test", lambda: bool(bench.said)):
            pass
    with bench.admission.turn("make test", lambda: False):  # and it does not hold up the line afterwards
        pass


def test_a_start_that_fails_lets_the_next_one_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "one")
    with pytest.raises(OSError, match="no keeper"), bench.admission.turn("make test", lambda: False):
        raise OSError("no keeper")
    with bench.admission.turn("make test", lambda: False):
        pass
    assert bench.said == []


def test_a_command_that_was_never_weighed_takes_a_quarter_of_a_small_machine(
    tmp_path: Path, somebody: subprocess.Popen[bytes]
) -> None:
    bench = Bench(tmp_path, "one")
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(bench.admission.turn("new", lambda: False)).started(_who(somebody))
        with pytest.raises(Refused):
            stack.enter_context(bench.admission.turn("new", lambda: bool(bench.said)))


def _shared(tmp_path: Path) -> Path:
    return tmp_path / f"afk-{os.getuid()}"


@pytest.mark.parametrize("rubbish", ["", "{", '{"pid": 1e999}', "a folder", "a pipe", "a loop"])
def test_rubbish_among_the_tickets_stops_nobody(
    tmp_path: Path, somebody: subprocess.Popen[bytes], rubbish: str
) -> None:
    one, other = Bench(tmp_path, "one"), Bench(tmp_path, "other")
    odd = _shared(tmp_path) / "heavy/odd.json"
    if rubbish == "a folder":
        odd.mkdir()
    elif rubbish == "a pipe":
        os.mkfifo(odd)
    elif rubbish == "a loop":
        odd.symlink_to(odd)
    else:
        odd.write_text(rubbish)
    for bench in (one, other):
        with bench.admission.turn("lint", lambda: False) as turn:
            turn.started(_who(somebody))


def test_a_bug_while_it_waits_lets_the_next_one_in(tmp_path: Path) -> None:
    """Whatever it is: a line that nobody gives up would stop the checks of every checkout."""
    one, other = Bench(tmp_path, "one"), Bench(tmp_path, "other")
    one.memory = None  # type: ignore[assignment]
    one.admission._memory = lambda: 1 // 0  # type: ignore[assignment,return-value]
    with pytest.raises(ZeroDivisionError), one.admission.turn("lint", lambda: False):
        pass
    with other.admission.turn("lint", lambda: False):
        pass
    assert other.said == []


@pytest.mark.parametrize("text", ["[]", "null", '{"x": 1e999}', "{", "a pipe"])
def test_weights_that_nobody_can_read_are_taken_anew(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path, "one")
    weights = _shared(tmp_path) / "weights.json"
    os.mkfifo(weights) if text == "a pipe" else weights.write_text(text)
    bench.weigh("lint", 5)
    assert list(json.loads(weights.read_text()).values()) == [5 * MIB]


def test_a_run_that_failed_at_once_does_not_make_a_heavy_check_light(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "one")
    bench.weigh("make test", 700)
    bench.weigh("make test", 3)
    [weight] = json.loads((_shared(tmp_path) / "weights.json").read_text()).values()
    assert weight > 480 * MIB


def test_nobody_waits_for_a_run_that_was_stopped_in_the_line(tmp_path: Path) -> None:
    """Ctrl-Z at a terminal."""
    Bench(tmp_path, "one")
    hold = (
        "import sys; from pathlib import Path; from afk.adapters.files import FileLock\n"
        f"with FileLock(Path({str(_shared(tmp_path) / 'heavy.lock')!r})):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        other = Bench(tmp_path, "other")
        with other.admission.turn("lint", lambda: False):
            pass
        holder.kill()
    assert f"pid {holder.pid}" in other.said[0]


def test_a_check_inside_a_check_does_not_wait_for_the_outer_one(tmp_path: Path) -> None:
    """A project's own check may run `afk run`."""
    bench = Bench(tmp_path, "one")
    bench.weigh("make test", 700)
    us = identity_of()
    assert us is not None
    with bench.admission.turn("make test", lambda: False) as turn:
        turn.started(us)  # as if we ran inside it
        with bench.admission.turn("make test", lambda: bool(bench.said)):
            pass
    assert bench.said == []


def test_what_is_only_cached_is_free_in_a_container_too(tmp_path: Path) -> None:
    group = tmp_path / "group"
    group.mkdir()
    for name, text in {"memory.max": f"{1000 * MIB}", "memory.current": f"{950 * MIB}"}.items():
        (group / name).write_text(f"{text}\n")
    (group / "memory.stat").write_text(f"anon {50 * MIB}\ninactive_file {900 * MIB}\n")
    assert admission._limit_of(group, Memory(4000 * MIB, 4000 * MIB)) == Memory(1000 * MIB, 950 * MIB)
    (group / "memory.max").write_text("max\n")
    assert admission._limit_of(group, Memory(4000 * MIB, 4000 * MIB)) is None


def test_a_machine_without_a_folder_for_us_makes_nobody_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    admission = Admission(Path("one"), {"TMPDIR": str(tmp_path / "file")})
    with admission.turn("a", lambda: False) as turn, admission.turn("b", lambda: False):
        turn.held(MIB)


def test_this_machine_has_memory() -> None:
    memory = memory_now()
    assert memory is not None
    assert 0 <= memory.available <= memory.total
