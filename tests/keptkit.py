"""Small things that tests do with kept processes, said in a word each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from afk.adapters.process import ExitRecord, Kept, identity_of

AGENTS = Path(__file__).parent / "agents"
SLOW_S = 20.0  # nothing here takes a second; a busy machine may


def program(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", str(AGENTS / name), *arguments)


def until(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + SLOW_S
    while not what():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.01)


def first_line(kept: Kept) -> str:
    out = kept.run_dir / "out"
    until(lambda: b"\n" in out.read_bytes())
    return out.read_text().splitlines()[0]


def ended(kept: Kept) -> ExitRecord:
    record = kept.wait(SLOW_S)
    assert record is not None, "the run did not end"
    return record


def is_running(pid: int) -> bool:
    return identity_of(pid) is not None
