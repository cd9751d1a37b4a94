"""Counts a drained place again, from git, the tracker and the process table alone: what does not add up.

Nothing here asks `afk` what it believes; the history file is compared, not trusted.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import gitkit
import psutil
from drainkit import Place, status_of

_HEAD = re.compile(r"<summary>worker `(?P<worker>w\w+)` .*? attempt: (?P<n>\d+)\b")
_LEDGER = "#!/bin/sh\ngit rev-parse HEAD >> '{}'\n"


def keep_ledger(place: Place) -> None:
    """From now on every commit that an agent makes is written down, by a hook that the person of the checkout has."""
    hook = place.clone / ".git/hooks/post-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(_LEDGER.format(_ledger(place)))
    hook.chmod(0o755)


def imbalances(place: Place) -> list[str]:
    """A sentence for each thing that is lost, left over or there twice, after a queue was drained; empty is good."""
    return [*_issues(place), *_trunk(place), *_refs(place), *_commits(place), *_leftovers(place), *_processes(place)]


def numbers(place: Place) -> list[int]:
    return sorted(int(folder.name) for folder in (place.clone / ".red/issues").iterdir() if folder.name.isdigit())


def statuses(place: Place, number: int) -> list[str]:
    return [status_of(envelope) for envelope in place.envelopes(number)]


def _told(place: Place, number: int, *, done: bool = False) -> list[re.Match[str]]:
    """The heads of the issue's envelopes, or of those that say done."""
    bodies = [body for body in place.envelopes(number) if not done or status_of(body) == "done"]
    return [found for body in bodies if (found := _HEAD.search(body.splitlines()[0]))]


def _issues(place: Place) -> Iterator[str]:
    """One envelope an attempt, one row an envelope, and labels that say what the last envelope says."""
    rows = Counter(str(row["attempt"]) for row in place.history())
    for number in numbers(place):
        told = _told(place, number)
        attempts = [f"{found['worker']}-{number}-a{found['n']}" for found in told]
        if [int(found["n"]) for found in told] != list(range(1, len(told) + 1)):
            yield f"#{number}: the envelopes are of {attempts}"
        mine = {id: count for id, count in rows.items() if id.split("-")[1] == str(number)}
        if mine != dict.fromkeys(attempts, 1):
            yield f"#{number}: told {attempts}, in the history {mine}"
        yield from _labels(place, number)


def _labels(place: Place, number: int) -> Iterator[str]:
    issue, told = place.issue(number), statuses(place, number)
    labels, is_done = set(issue["labels"]), told[-1:] == ["done"]
    if is_done != (issue["state"] == "closed"):
        yield f"#{number} is {issue['state']} after {told}"
    if is_done and labels:
        yield f"#{number} is done and has {labels}"
    if not is_done and ("ready-for-human" not in labels or labels & {"running", "ready-for-agent"}):
        yield f"#{number} has {sorted(labels)} after {told}"


def _trunk(place: Place) -> Iterator[str]:
    merged = Counter(int(found[1]) for subject in place.landed() if (found := re.match(r"merge: #(\d+) ", subject)))
    done = Counter(number for number in numbers(place) if "done" in statuses(place, number))
    if merged != done:
        yield f"merged {sorted(merged.elements())}, told as done {sorted(done.elements())}"


def _refs(place: Place) -> Iterator[str]:
    if claims := place.claims():
        yield f"claims are left: {claims}"
    landed = {(found["worker"], number) for number in numbers(place) for found in _told(place, number, done=True)}
    for name in place.live_branches():
        _, worker, rest = name.split("/", 2)
        if (worker, int(rest.partition("-")[0])) in landed:
            yield f"the live branch of an attempt that landed is left: {name}"
    kept = {gitkit.git(tree, "symbolic-ref", "-q", "HEAD") for tree in place.worktrees() if tree.is_dir()}
    for ref in gitkit.refs(place.clone, "refs/heads/afk/", "refs/afk/"):
        if ref not in kept:
            yield f"a local ref without a worktree is left: {ref}"


def _commits(place: Place) -> Iterator[str]:
    """Every commit that an agent made is on the remote: on the trunk, or on a preserved branch."""
    ledger = _ledger(place)
    made = set(ledger.read_text().split()) if ledger.exists() else set()
    kept = set(gitkit.git(place.origin, "rev-list", "--all").split())
    yield from (f"lost: commit {sha}" for sha in sorted(made - kept))


def _leftovers(place: Place) -> Iterator[str]:
    parked = {number for number in numbers(place) if place.issue(number)["state"] == "open"}
    for tree in place.worktrees():
        if not tree.is_dir() or int(tree.parent.name.partition("-")[0]) not in parked:
            yield f"a worktree is left: {tree}"
    for folder in (place.origin, place.clone / ".git"):
        yield from (f"a lock is left: {path}" for path in folder.rglob("*.lock"))
    tmp = place.clone / ".red/tmp"
    if (tmp / "supervisor.json").exists():
        yield "supervisor.json is left"
    for tree in tmp.glob("workers/*/*/runs/*/tree"):
        # An empty one is of a keeper that died as it began: it had started nothing.
        if tree.stat().st_size and not tree.with_name("exit").exists():
            yield f"a run without an end: {tree.parent}"


def _processes(place: Place) -> Iterator[str]:
    """Whoever works below the place, or was told of it in its environment, ourselves and our parents apart."""
    root = str(place.origin.parent)
    us = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.info["pid"] not in us and _works_below(process, root):
            yield f"a process is left: {process.info['pid']} {process.info['cmdline']}"


def _works_below(process: psutil.Process, root: str) -> bool:
    with suppress(psutil.Error, OSError):
        if process.status() != psutil.STATUS_ZOMBIE:
            return process.cwd().startswith(root) or any(root in value for value in process.environ().values())
    return False


def _ledger(place: Place) -> Path:
    return place.origin.parent / "ledger"


def is_sound(repository: Path) -> bool:
    """Whether git finds every object that a ref needs."""
    checked = subprocess.run(["git", "fsck", "--no-dangling", "--connectivity-only"], cwd=repository, check=False)
    return checked.returncode == 0
