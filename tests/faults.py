"""The kill matrix: `scripts/faults [--limit N] [--seed S] [--only DEATH] [-j PROCESSES]`.

Supervisor, keeper and agent are killed with -9 at every step of the journal and at every phase of setup, agent, checks
and hooks, alone and together and with the whole machine, over queues of every kind, with one worker and with four.
After each death `afk run` is started once, and the books must balance (`tests/books.py`).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import gitkit
from deaths import QUEUES, Death, deaths, steps, wrong_after

WORKERS = (1, 4)


def every() -> list[Death]:
    found: list[Death] = []
    for queue in QUEUES:
        with tempfile.TemporaryDirectory(prefix="afk-faults-") as folder:
            moments = steps(Path(folder), queue)
        for workers in WORKERS:
            found += deaths(queue, workers, moments)
    return found


def verdict(death: Death) -> tuple[Death, list[str]]:
    """Where something is wrong, the folder is named and kept."""
    folder = tempfile.mkdtemp(prefix="afk-faults-")
    try:
        wrong = wrong_after(Path(folder), death)
    except Exception as error:  # noqa: BLE001 - one case that cannot be judged must not hide the others
        wrong = [f"{type(error).__name__}: {error}"]
    if not wrong:
        shutil.rmtree(folder)
    return death, [*wrong, f"kept: {folder}"] if wrong else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--limit", type=int, default=0, help="so many of the deaths, by the seed (0: every one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="DEATH", help="one death, as a failed one is named")
    parser.add_argument("-j", dest="processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="afk-faults-") as home, gitkit.alone(Path(home)):
        return judged(options)


def judged(options: argparse.Namespace) -> int:
    chosen = [Death.parse(options.only)] if options.only else every()
    random.Random(options.seed).shuffle(chosen)
    chosen = chosen[: options.limit] if options.limit else chosen
    print(f"{len(chosen)} deaths", flush=True)
    failed = 0
    with ProcessPoolExecutor(options.processes) as pool:
        for death, wrong in pool.map(verdict, chosen):
            print(f"{'FAIL' if wrong else 'ok  '} {death}", *wrong, sep="\n     ", flush=True)
            failed += bool(wrong)
    print(f"{failed} of {len(chosen)} failed" + ("; repeat one with scripts/faults --only DEATH" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
