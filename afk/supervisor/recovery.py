"""At boot: what dead runs left is taken up by the same function that runs an attempt."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from afk.adapters import gitlocks, worktrees
from afk.adapters.process import Kept
from afk.attempt.journal import JOURNAL, Journal, Seam, Step, no_seam
from afk.attempt.progress import Log
from afk.attempt.session import Attempt, Project
from afk.domain.attempt import AttemptId
from afk.errors import AfkError, DiskFull, JournalBroken
from afk.supervisor.slot import Slot

__all__ = ["SlotFor", "clear_locks", "take_up", "unfinished"]


def clear_locks(project: Project, log: Log) -> None:
    """What a git of a dead run, of its agents or of a machine that went down holds for ever."""
    dead = gitlocks.clear(project.root)
    with suppress(AfkError):  # a remote that is away for a moment
        dead += gitlocks.clear_of_remote(project.url, project.default_base)
    for lock in dead:
        log.add("recovery.lock", f"removed {lock}, whose git is dead")


_MOST_SLOTS = 999

SlotFor = Callable[[int], Slot]
"""Which slot takes up an attempt that began in the slot of this number."""


def unfinished(project: Project, slot_for: SlotFor, log: Log, *, seam: Seam = no_seam) -> Iterator[Attempt]:
    """Attempts whose owner is gone and that are not told to their end: those with an agent first, then the oldest.

    The caller holds the supervisor's lock, so every owner in this checkout is gone. A directory that cannot be read is
    reported and left; it never stops the others (L45). Raises `JournalTooNew`: an older afk must not guess.
    """
    for directory in sorted(
        project.workers.glob("w*/*-a*"), key=lambda path: (not _has_agent(path), path.stat().st_mtime, str(path))
    ):
        attempt_id = AttemptId.of_directory(directory.parent.name, directory.name)
        if attempt_id is None:
            log.add("recovery.foreign", f"{directory} is not ours; left alone")
            continue
        attempt = take_up(project, attempt_id, slot_for, log, seam=seam)
        if attempt is not None:
            yield attempt


def take_up(
    project: Project, attempt_id: AttemptId, slot_for: SlotFor, log: Log, *, seam: Seam = no_seam
) -> Attempt | None:
    """One attempt that nobody works on, from its journal; None when it has its end or cannot be read (see the log)."""
    journal = _journal(project, attempt_id, log, seam)
    if journal is None or journal.has(Step.CLEARED):
        return None
    try:
        attempt = slot_for(_slot_of(journal)).resume(journal)
        _end_left_commands(attempt)
        _take_over_worktree(attempt, log)
    except DiskFull:
        raise
    except Exception as error:  # noqa: BLE001 - one bad directory never stops the others (L45)
        log.add("recovery.broken", f"{journal.directory}: {type(error).__name__}: {error}")
        return None
    return attempt


def _slot_of(journal: Journal) -> int:
    """1 also for what an older afk wrote, and for what cannot be one."""
    slot = journal.fact("slot")
    return slot if type(slot) is int and 0 < slot <= _MOST_SLOTS else 1


def _has_agent(directory: Path) -> bool:
    """Whether a program of it may still run: its slot is not given to another attempt of the same one."""
    return any(not tree.with_name("exit").exists() for tree in directory.glob("runs/*-agent/tree"))


def _journal(project: Project, attempt_id: AttemptId, log: Log, seam: Seam) -> Journal | None:
    path = project.workers / attempt_id.worker / attempt_id.directory
    if not (path / JOURNAL).exists():
        _forget_empty(path, log)
        return None
    try:
        return Journal.load(path, clock=project.clock, seam=seam)
    except JournalBroken as error:
        log.add("recovery.broken", error.message)
        return None


def _forget_empty(path: Path, log: Log) -> None:
    """Opening makes the directory before the journal: one with nothing but a half written journal was never used."""
    if all(entry.name.startswith(f".{JOURNAL}.") for entry in path.iterdir()):
        shutil.rmtree(path)
    else:
        log.add("recovery.broken", f"{path} has work and no journal; left alone")


def _end_left_commands(attempt: Attempt) -> None:
    """Checks, setup commands and hooks of the dead owner are started anew; only the agent goes on."""
    for run_dir in sorted((attempt.directory / "runs").glob("*-*")):
        if run_dir.name.endswith("-agent") or not (run_dir / "tree").exists() or (run_dir / "exit").exists():
            continue
        try:
            Kept.adopt(run_dir).stop("owner-died")
        except AfkError as error:
            attempt.progress.log("recovery.kept", f"{run_dir.name}: {error.message}")


def _take_over_worktree(attempt: Attempt, log: Log) -> None:
    """The lock of the worktree names its living owner (R04)."""
    if not attempt.worktree.is_dir():
        return
    try:
        worktrees.take_over(attempt.project.root, attempt.worktree, str(attempt.id))
    except AfkError as error:
        log.add("recovery.worktree", error.message, journal=attempt.journal)
