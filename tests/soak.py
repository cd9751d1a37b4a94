"""The soak: `scripts/soak [--seed N] [--issues N] [--workers N]`.

Many small issues, agents that misbehave at random by the seed, and every second or so something is killed with -9: the
supervisor, a keeper, or a program under one. Whenever `afk run` is gone it is started again, until every issue is
closed or parked. Then the books must balance (`tests/books.py`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import books
import gitkit
import psutil
from deaths import kept
from drainkit import Place

MOST_STARTS_PER_ISSUE = 10  # whoever needs more gets nowhere


@dataclass
class Told:
    """What came to pass; `wrong` are the books."""

    starts: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        killed = ", ".join(f"{count} {name}s" for name, count in sorted(self.killed.items()))
        return f"{self.starts} starts; killed {killed or 'nothing'}"


def soak(folder: Path, *, seed: int, issues: int, workers: int, every_s: float, deaths: int = sys.maxsize) -> Told:
    """Drain that many issues while something dies every `every_s` on average, `deaths` times at most."""
    origin = gitkit.make_origin(folder / "origin.git", {"README.md": "A project.\n"})
    chance = random.Random(seed)
    told = Told()
    with Place(origin, gitkit.clone(gitkit.url(origin), folder / "clone")) as place:
        books.keep_ledger(place)
        _configure(place, seed, workers)
        for number in range(1, issues + 1):
            place.file(number, f"Job {number}")
        was_killed = False  # then somebody has to clean up after it, though nothing is left to work
        while (_open(place) or was_killed) and told.starts < MOST_STARTS_PER_ISSUE * issues:
            told.starts += 1
            was_killed = _run_among_deaths(place, chance, told, every_s=every_s, deaths=deaths)
        told.wrong += [f"#{number} is neither done nor parked" for number in _open(place)] or books.imbalances(place)
    return told


def _configure(place: Place, seed: int, workers: int) -> None:
    """Everything that waits for minutes in earnest is short; tries are many, since most deaths are ours."""
    tries = dict.fromkeys(("crashed", "merge-conflict", "policy", "quota", "runner-transient", "stalled"), 20)
    place.configure(
        "at_random",
        str(seed),
        workers=workers,
        recovery={"backoff_s": 0.2, "backoff_max_s": 1, "per_issue": 30, "tries": tries},
        circuit={"fast_death_s": 1, "window_s": 5, "cooldown_s": 2},
        claim={"lease_s": 20, "renew_s": 5},
        setup=["sleep 0.1"],
        validation={"checks": [{"name": "test", "run": "sleep 0.2"}]},
    )


def _open(place: Place) -> list[int]:
    """Issues that are neither closed nor with people."""
    issues = {number: place.issue(number) for number in books.numbers(place)}
    return [n for n, issue in issues.items() if issue["state"] == "open" and "ready-for-human" not in issue["labels"]]


def _run_among_deaths(place: Place, chance: random.Random, told: Told, *, every_s: float, deaths: int) -> bool:
    """Whether it was killed itself."""
    with tempfile.TemporaryFile() as said:
        run = subprocess.Popen(
            [sys.executable, "-m", "afk", "run"], cwd=place.clone, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        try:
            while run.poll() is None:
                if told.killed.total() < deaths:
                    _wait(run, chance.expovariate(1 / every_s))
                    _kill_something(place, run, chance, told)
                else:
                    run.wait()
        finally:
            run.kill()
            run.wait()
        said.seek(0)
        words = said.read().decode("utf-8", "replace").rstrip()
        if run.returncode not in (0, 75, -9) or "Traceback" in words:
            told.wrong.append(f"start {told.starts} ended with {run.returncode}: {words[-2000:]}")
        return run.returncode == -9


def _wait(run: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        run.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _kill_something(place: Place, run: subprocess.Popen[bytes], chance: random.Random, told: Told) -> None:
    if run.poll() is not None:
        return
    living = {"supervisor": [psutil.Process(run.pid)], **kept(place.clone)}
    name = chance.choice([name for name, processes in living.items() if processes])
    process = chance.choice(living[name])
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return
    told.killed[name] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--issues", type=int, default=300)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--every-s", type=float, default=1.0, help="seconds between two deaths, on average")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="afk-soak-") as home, gitkit.alone(Path(home)):
        told = soak(Path(home), **vars(options))
    for sentence in told.wrong:
        print(sentence)
    print(f"{told}; {time.monotonic() - began:.0f} s; {'the books do not balance' if told.wrong else 'balanced'}")
    return 1 if told.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
