"""Drains over HTTP with a fault in every place: `scripts/e2e-github [--faults] [--limit N] [--only K:FAULT]`.

First one drain without a fault, whose requests are written down. Then, for each request and each fault, the same drain
again with that one request answered so; `afk run` is started until nothing is owed, three times at most. The books must
be those of the first drain: issues, labels, envelopes, merges, branches, claims.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import gitkit
from hostedkit import Hosted, hosted

FAULTS: dict[str, dict[str, Any]] = {
    "502": {"do": "status", "status": 502},
    "lost-before": {"do": "drop"},
    "lost-after": {"do": "drop", "after": True},
    "502-after": {"do": "status", "status": 502, "after": True},
    "slow": {"do": "delay", "seconds": 2.0},
    "limit": {"do": "status", "status": 403, "headers": {"Retry-After": "1"}, "body": {"message": "rate limit"}},
    "limit-untold": {"do": "status", "status": 403, "body": {"message": "You have exceeded a secondary rate limit"}},
    "401": {"do": "status", "status": 401, "body": {"message": "Bad credentials"}},
    "404": {"do": "status", "status": 404, "body": {"message": "Not Found"}},
    "422": {"do": "status", "status": 422, "body": {"message": "Validation Failed"}},
}
_RUNS = 3
_WAITS_LONG = ("limit-untold",)  # a minute each: only with --all


def drained(place: Hosted, order: dict[str, Any] | None) -> object:
    """What is there after the queue was drained; with `order` for one of its requests."""
    numbers = [place.put("agent: done\n", "Say hello"), place.put("agent: blocked\n", "Ask first")]
    place.github.log.clear()
    if order is not None:
        place.github.order(".", **order)
    for _ in range(_RUNS):
        place.run()
        place.github.orders.clear()
        if not place.claims() and not any(is_owed(place, number) for number in numbers):
            break
    branches = [name.partition("/")[2].partition("/")[2] for name in place.live_branches()]
    return place.books(*numbers), place.landed(), branches, place.claims()


def is_owed(place: Hosted, number: int) -> bool:
    """Whether the next run has something to do about it: a fault at boot stops a run before it has begun."""
    issue = place.tracker.issue(number)
    return issue.has_label("running") or (issue.is_open and issue.has_label("ready-for-agent"))


def one(order: dict[str, Any] | None) -> tuple[object, list[str]]:
    with tempfile.TemporaryDirectory(prefix="afk-e2e-") as folder, hosted(Path(folder)) as place:
        return drained(place, order), list(place.github.log)


def cases(requests: int, options: argparse.Namespace) -> list[tuple[int, str]]:
    if options.only:
        number, _, fault = options.only.partition(":")
        return [(int(number), fault)]
    names = [name for name in FAULTS if options.all or name not in _WAITS_LONG]
    every = [(number, name) for number in range(requests) for name in names]
    random.Random(options.seed).shuffle(every)
    return every[: options.limit] if options.limit else every


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--faults", action="store_true", help="after the drain without a fault, one for each fault")
    parser.add_argument("--all", action="store_true", help="also the faults that are waited for, a minute each")
    parser.add_argument("--limit", type=int, default=0, help="so many of the cases, by the seed (0: every one)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="K:FAULT", help="one case, as a failed one is named")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="afk-e2e-") as home, gitkit.alone(Path(home)):
        return compare(options)


def compare(options: argparse.Namespace) -> int:
    wanted, log = one(None)
    print(f"without a fault: {len(log)} requests, {wanted}")
    if not options.faults and not options.only:
        return 0
    failed = [case for case in cases(len(log), options) if not _holds(case, log, wanted)]
    for number, fault in failed:
        print(f"repeat: scripts/e2e-github --only {number}:{fault}")
    print(f"{len(failed)} failed")
    return 1 if failed else 0


def _holds(case: tuple[int, str], log: list[str], wanted: object) -> bool:
    number, fault = case
    found, _ = one({**FAULTS[fault], "skip": number})
    about = log[number].rpartition(" ")[0] if number < len(log) else "?"
    print(f"{'ok  ' if found == wanted else 'FAIL'} {number:3}:{fault:12} {about}", flush=True)
    if found != wanted:
        print(f"     wanted {wanted}\n     found  {found}")
    return found == wanted


if __name__ == "__main__":
    sys.exit(main())
