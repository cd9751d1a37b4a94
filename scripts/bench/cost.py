"""What ten workers cost while their agents are idle: memory and CPU of the supervisor with its git, and of keepers.

Baseline: the same with one worker. Bounds with ten: 60 MB resident for the supervisor, 16 MB for each keeper, 1 % of
one core for the supervisor and all its children. Exit 1 beyond.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import gitkit
from drainkit import Place

from afk import keeper
from afk.adapters.process import Kept

SUPERVISOR_MB, KEEPER_MB, CORE_PERCENT = 60.0, 16.0, 1.0
WORKERS = 10
SETTLE_S, WINDOW_S = 20.0, 30.0
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """`supervisor_mb` is its peak, `keeper_mb` the largest keeper's; CPU is in percent of one core."""

    supervisor_mb: float
    keeper_mb: float
    supervisor_percent: float
    keepers_percent: float

    def __str__(self) -> str:
        return (
            f"supervisor {self.supervisor_mb:.1f} MB, {self.supervisor_percent:.2f} % of one core; "
            f"largest keeper {self.keeper_mb:.1f} MB, all keepers {self.keepers_percent:.2f} %"
        )


def main() -> int:
    os.environ |= {"GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost"}
    os.environ |= {"GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@localhost"}
    print(f"baseline, 1 worker:  {cost(1)}")
    found = cost(WORKERS)
    print(f"{WORKERS} workers:          {found}")
    print(f"bounds: {SUPERVISOR_MB:.0f} MB and {CORE_PERCENT:.0f} % of one core, {KEEPER_MB:.0f} MB a keeper")
    small = found.supervisor_mb < SUPERVISOR_MB and found.keeper_mb < KEEPER_MB
    return 0 if small and found.supervisor_percent < CORE_PERCENT else 1


def cost(workers: int) -> Cost:
    with tempfile.TemporaryDirectory() as name, gitkit.alone(Path(name)):
        base = Path(name)
        origin = gitkit.make_origin(base / "origin.git", {"README.md": "A project.\n"})
        with Place(origin, gitkit.clone(gitkit.url(origin), base / "clone")) as place:
            place.configure(workers=workers, poll_s=60)
            for number in range(1, workers + 1):
                place.file(number, body=f"agent: silent {base}/ready{number}\n")
            process = place.start("run", "--json")
            gitkit.wait_until(lambda: len(list(base.glob("ready*"))) == workers, "the agents", limit_s=120)
            time.sleep(SETTLE_S)
            keepers = [
                Kept.adopt(tree.parent).identity.pid for tree in base.glob("clone/.red/tmp/workers/*/*/runs/*/tree")
            ]
            before = [cpu_s(pid) for pid in (process.pid, *keepers)]
            began = time.monotonic()
            time.sleep(WINDOW_S)
            passed_s = time.monotonic() - began
            used = [
                100 * (cpu_s(pid) - then) / passed_s for pid, then in zip((process.pid, *keepers), before, strict=True)
            ]
            return Cost(
                memory_mb(process.pid, "VmHWM"),
                max(memory_mb(pid, "VmRSS") for pid in keepers),
                used[0],
                sum(used[1:]),
            )


def cpu_s(pid: int) -> float:
    """Of the process and of the children that it waited for: here, each git that it ran."""
    row = keeper.process(pid)
    assert row is not None, f"{pid} has ended"
    return (row.own_ticks + row.reaped_ticks) * TICK_S


def memory_mb(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith(f"{field}:"))) / 1024


if __name__ == "__main__":
    sys.exit(main())
