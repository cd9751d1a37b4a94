"""L36: checks of all checkouts take turns when the machine has no memory for all of them at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import gitkit
import pytest

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
    assert other.said == ["`make test` waits for its turn: 1 at work may need 600 MiB of 1000 MiB, it 600 MiB"]


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


def test_a_machine_without_a_folder_for_us_makes_nobody_wait(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    admission = Admission(Path("one"), {"TMPDIR": str(tmp_path / "file")})
    with admission.turn("a", lambda: False) as turn, admission.turn("b", lambda: False):
        turn.held(MIB)


def test_this_machine_has_memory() -> None:
    memory = memory_now()
    assert memory is not None
    assert 0 <= memory.available <= memory.total
