"""The person's checkout while an agent runs (R22): looked at before and after, told when it changed, never undone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from afk.adapters import git
from afk.adapters.files import write_atomic
from afk.adapters.git import CheckoutSnapshot
from afk.attempt.session import Attempt
from afk.errors import GitError
from afk.wire.json_value import parse_json

__all__ = ["changes", "look_before"]

_NAMED = 5  # paths in the sentence


def look_before(attempt: Attempt, k: int) -> None:
    """Keep what is there before run `k`; whoever takes the run up again compares with the first look."""
    path = _path(attempt, k)
    if path.exists():
        return
    try:
        write_atomic(path, json.dumps(asdict(git.snapshot_checkout(attempt.project.root))))
    except GitError as error:  # an index that git cannot read is the person's to mend, and costs no attempt
        attempt.progress.log("checkout.unread", error.message)


def changes(attempt: Attempt, k: int) -> str | None:
    """What changed since `look_before`, as a sentence; None when nothing did. It may have been the person."""
    before = _read(_path(attempt, k))
    if before is None:
        return None
    try:
        changed = git.changed_paths(before, git.snapshot_checkout(attempt.project.root))
    except GitError as error:
        return f"the checkout cannot be looked at any more: {error.message}"
    if not changed:
        return None
    more = " …" if len(changed) > _NAMED else ""
    return f"the checkout changed while the agent ran: {', '.join(changed[:_NAMED])}{more}"


def _path(attempt: Attempt, k: int) -> Path:
    return attempt.directory / f"checkout-{k}.json"


def _read(path: Path) -> CheckoutSnapshot | None:
    """None without a first look, or with one that somebody broke."""
    try:
        told = parse_json(path.read_bytes())
        return CheckoutSnapshot(told["head"], told["branch"], tuple((name, mark) for name, mark in told["dirty"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None
