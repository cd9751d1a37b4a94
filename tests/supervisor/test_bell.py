"""Real signals in a real process: each raises the stop by one, and whoever waits is woken."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gitkit

from afk.supervisor.signals import Bell

PROGRAM = """
from afk.attempt.session import Stop
from afk.supervisor.signals import Bell, Signals
stop, bell = Stop(), Bell()
with Signals(stop, bell) as signals:
    print("ready", flush=True)
    for _ in range(3):
        bell.wait(3600)
        print(stop.level, stop.draining, stop.now, signals.count, signals.last, flush=True)
print("left", flush=True)
bell.wait(3600)
"""


@contextmanager
def program(script: str) -> Iterator[subprocess.Popen[str]]:
    """Ended with the test, and by a watchdog when it does not answer: then its next line is empty."""
    process = gitkit.python(script)
    watchdog = threading.Timer(gitkit.READY_S, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_three_signals_drain_then_stop_then_leave_and_each_wakes_the_loop() -> None:
    """R32: the loop waits an hour and prints at once, because the handler rings its bell."""
    with program(PROGRAM) as process:
        assert line(process) == "ready"
        process.send_signal(signal.SIGINT)
        assert line(process) == "1 True False 1 SIGINT"
        process.send_signal(signal.SIGTERM)
        assert line(process) == "2 True True 2 SIGTERM"
        process.send_signal(signal.SIGHUP)
        assert line(process) == "3 True True 3 SIGHUP"
        assert line(process) == "left"


def test_the_same_signal_counts_each_time() -> None:
    with program(PROGRAM) as process:
        assert line(process) == "ready"
        for level in (1, 2, 3):
            process.send_signal(signal.SIGINT)
            assert line(process).startswith(f"{level} ")


def test_afterwards_signals_do_what_they_did_before() -> None:
    with program(PROGRAM) as process:
        assert line(process) == "ready"
        for _ in range(3):
            process.send_signal(signal.SIGTERM)
            line(process)
        assert line(process) == "left"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=gitkit.READY_S) == -signal.SIGTERM


def test_a_signal_does_not_break_into_what_the_loop_is_doing() -> None:
    """The handler raises nothing: a landing that is under way is not cut in two."""
    script = PROGRAM.replace("bell.wait(3600)", "input()", 1)
    with program(script) as process:
        assert process.stdin is not None
        assert line(process) == "ready"
        process.send_signal(signal.SIGINT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert line(process) == "1 True False 1 SIGINT"


def ends(work: Callable[[], None]) -> bool:
    """Whether it comes to an end; a thread that hangs is left behind."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(gitkit.READY_S)
    return not thread.is_alive()


def test_a_bell_wakes_the_waiter_from_another_thread() -> None:
    bell = Bell()
    ringer = threading.Timer(0.05, bell.ring)
    ringer.start()
    assert ends(lambda: bell.wait(3600))
    ringer.join()


def test_a_bell_that_was_rung_too_early_is_heard() -> None:
    bell = Bell()
    bell.ring()
    assert ends(lambda: bell.wait(3600))


def test_ringing_never_blocks_and_one_wait_hears_it_all() -> None:
    bell = Bell()

    def ring_often() -> None:
        for _ in range(70_000):  # more than a pipe holds
            bell.ring()

    assert ends(ring_often)
    bell.wait(0)
    began = time.monotonic()
    bell.wait(0.05)
    assert time.monotonic() - began >= 0.05  # nothing was left of it: a wait is never shorter by itself
