"""One setup command or check, run to its end, and whether that end says anything about the branch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from afk.adapters.admission import Admission, Refused, Turn
from afk.adapters.process import ExitRecord, Kept, KeptSpec, tail_lines
from afk.wire.sidecar import Infra

__all__ = ["Ran", "Runner", "StoppedEarly"]

_UNWATCHED_S = 60.0  # past the limit; then the keeper itself ends what nobody watches any more
_POLL_S = 0.2
_WEIGH_S = 1.0
_SUDDEN_S = 1.0
_TAIL_BYTES = 64 * 1024
_OUTPUT_BYTES = 32 * 1024 * 1024  # past it the end alone is kept
_LINE_CHARS = 200

# The command is a word of its own, so that the shell that reads it is the one a person would start; both of its outputs
# go to one file, in the order in which a person would have seen them.
_SHELL = 'exec sh -c "$1" 2>&1'


class StoppedEarly(Exception):
    """The run of `afk` is being stopped: the command was ended, or never begun."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One try of one command; `last_line` is empty when it said nothing, `out` holds both of its outputs."""

    command: str
    record: ExitRecord
    duration_s: float
    limit_s: float
    out: Path
    last_line: str

    @property
    def code(self) -> int:
        """As a shell tells it: 128 + N for signal N."""
        signal = 15 if self.record.signal is None else self.record.signal
        return 128 + signal if self.record.exit_code is None else self.record.exit_code

    @property
    def infra(self) -> Infra | None:
        """None when the end says something about the branch (R49, L33)."""
        ended_by = self.record.ended_by
        if ended_by == "wall_clock":  # we were not there to end it in time
            return Infra.TIMEOUT
        if ended_by in (Infra.STALL, Infra.TIMEOUT):
            return Infra(ended_by)
        if ended_by is not None or self.code == 137:  # a KILL that was not ours; the kernel's are for memory
            return Infra.OOM
        return Infra.MISSING_TOOL if self.code in (126, 127) else None

    @property
    def failed(self) -> bool:
        return self.code != 0 or self.infra is not None

    @property
    def is_suspect(self) -> bool:
        """A failure at once and without a word is often a broken tool (L33); but `grep -q` fails just so."""
        return self.code != 0 and not self.last_line and self.duration_s < _SUDDEN_S

    @property
    def summary(self) -> str:
        """One line for people, not masked."""
        if self.infra in (Infra.STALL, Infra.TIMEOUT):
            idle = " and used no CPU any more" if self.infra is Infra.STALL else ""
            return f"had not ended after {self.limit_s:g} s{idle}"
        if self.infra is Infra.OOM:
            return f"killed from outside ({self.record.ended_by or f'exit {self.code}'})"
        if self.is_suspect:
            return f"command exited {self.code} at once and without a word"
        return self.last_line or f"command exited {self.code}"


@dataclass(frozen=True, slots=True)
class Runner:
    """How the commands of one worktree are run.

    `run_dir` gives a folder that does not exist yet, for each try another. A command that is over its limit and used no
    CPU during the last `stall_window_s` before it (half of the limit, if that is less) has stalled; otherwise it was
    too slow.
    """

    cwd: Path
    environment: Mapping[str, str] = field(repr=False)
    run_dir: Callable[[], Path]
    stopping: Callable[[], bool]
    stall_window_s: float
    kill_s: float
    admission: Admission

    def run(self, command: str, limit_s: float) -> Ran:
        """One try under a keeper of its own, once this machine has room for it; its time counts from then on.

        Raises `StoppedEarly`; `KeeperFailed` or `DiskFull` when this machine cannot start anything.
        """
        try:
            with self.admission.turn(command, self.stopping) as turn:
                return self._run(command, limit_s, turn)
        except Refused:
            raise StoppedEarly from None

    def _run(self, command: str, limit_s: float, turn: Turn) -> Ran:
        folder = self.run_dir()
        kept = Kept.start(folder, self._spec(command, limit_s))
        turn.started(kept.identity)
        watch = _Watch(kept, turn, self.stopping)
        record = watch.to_the_end(kept.started_monotonic_s + limit_s, min(self.stall_window_s, limit_s / 2))
        duration_s = time.monotonic() - kept.started_monotonic_s
        said = _last_line(folder / "out") or _last_line(folder / "err")
        return Ran(command, record, duration_s, limit_s, folder / "out", said)

    def _spec(self, command: str, limit_s: float) -> KeptSpec:
        return KeptSpec(
            argv=("sh", "-c", _SHELL, "sh", command),
            cwd=self.cwd,
            env=self.environment,
            out_ceiling_bytes=_OUTPUT_BYTES,
            wall_clock_s=limit_s + _UNWATCHED_S,
            kill_s=self.kill_s,
        )


@dataclass
class _Watch:
    """Waits for one command, and weighs it once a second."""

    kept: Kept
    turn: Turn
    stopping: Callable[[], bool]
    weighed_s: float = 0.0

    def to_the_end(self, limit_at_s: float, window_s: float) -> ExitRecord:
        """Ended at `limit_at_s` (monotonic), as stalled when it used no CPU for `window_s` before."""
        record = self._await(limit_at_s - window_s)
        if record is not None:
            return record
        cpu_s = self.kept.tree_cpu_s()
        record = self._await(limit_at_s)
        if record is not None:
            return record
        return self.kept.stop(Infra.STALL if self.kept.tree_cpu_s() == cpu_s else Infra.TIMEOUT)

    def _await(self, until_s: float) -> ExitRecord | None:
        """None when it still runs at `until_s` (monotonic)."""
        while (left_s := until_s - time.monotonic()) > 0:
            if (record := self.kept.wait(min(_POLL_S, left_s))) is not None:
                return record
            if self.stopping():
                self.kept.stop("stop")
                raise StoppedEarly
            self._weigh()
        return None

    def _weigh(self) -> None:
        now_s = time.monotonic()
        if now_s - self.weighed_s >= _WEIGH_S:
            self.weighed_s = now_s
            with suppress(OSError):  # a failed sample is no sample (L21)
                self.turn.held(self.kept.tree_rss_bytes())


_ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")


def _last_line(path: Path) -> str:
    """The last line that says something: no colour, no ruler, nothing that a progress display wrote over."""
    for line in reversed(tail_lines(path, 100, _TAIL_BYTES)):
        seen = _ESCAPE.sub("", line).rstrip("\r").rpartition("\r")[2]
        words = " ".join("".join(char if char.isprintable() else " " for char in seen).split()).strip("=-*#_~ ")
        if any(char.isalnum() for char in words):
            return words if len(words) <= _LINE_CHARS else words[: _LINE_CHARS - 1] + "…"
    return ""
