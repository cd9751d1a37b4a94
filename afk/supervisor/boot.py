"""Before the loop: folders and ignore lines, one supervisor per checkout, the ground, the session's hooks."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from afk.adapters import git
from afk.adapters.files import FileLock, write_atomic
from afk.adapters.process import identity_of
from afk.attempt.progress import Log
from afk.attempt.session import Project
from afk.errors import ConfigError, DiskFull, GroundUnfit, LockHeld, SupervisorRunning
from afk.supervisor import ledger
from afk.wire.json_value import parse_json

if TYPE_CHECKING:
    from afk.supervisor.ground import DoctorCheck
    from afk.supervisor.terms import Options

__all__ = [
    "SUPERVISOR",
    "Session",
    "demand_space",
    "ignore_issues",
    "make_ground",
    "no_supervisor",
    "only_supervisor",
    "refuse_unsupported",
    "supervisor_log",
    "unfit",
    "unfit_error",
]

SUPERVISOR = "supervisor.json"


def make_ground(project: Project) -> None:
    """The folders that a run writes to, each ignored from within; no tracked file and no setting is touched."""
    refuse_unsupported(project)
    for folder in (project.tmp, project.state):
        folder.mkdir(parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, "*\n")
    if project.config.tracker == "local" and not project.config.local.path:
        ignore_issues(project.root)


def ignore_issues(root: Path) -> str | None:
    """Keep `.red/issues` out of git through the repository's own exclude file; if tracked, only what is ours.

    Returns the pattern that was written; None when it stood there already.
    """
    tracked = git.run(root, "ls-files", "--", ".red/issues").stdout
    pattern = "/.red/issues/.*" if tracked else "/.red/issues/"
    return pattern if git.local_exclude(root, pattern) else None


def refuse_unsupported(project: Project) -> None:
    """Raises `ConfigError` for what this version reads but cannot do: nothing is silently ignored (S9)."""
    problems = project.loaded.unsupported()
    if problems:
        told = "; ".join(str(problem) for problem in problems)
        raise ConfigError(f"this version cannot do what is configured: {told}", problems=problems)


@dataclass
class Session:
    """One run's stay in its checkout; `how` it ended, for the ledger, is set by whoever knows."""

    id: str
    how: str = ""


@contextmanager
def only_supervisor(project: Project) -> Iterator[Session]:
    """Hold the checkout's supervisor lock for one session, and write down how it ended, whatever ended it (L41).

    Raises `SupervisorRunning` with the other's pid. The kernel drops the lock with its holder, so none is ever stale;
    what a dead supervisor wrote into `supervisor.json` is replaced.
    """
    lock = _supervisors_lock(project)
    try:
        ledger.note_silent_death(project)
        session = Session(secrets.token_hex(6))
        us = identity_of()
        assert us is not None  # our own process is there
        write_atomic(
            project.tmp / SUPERVISOR,
            json.dumps(
                {
                    "version": 1,
                    "session_id": session.id,
                    "pid": us.pid,
                    "pid_start_time": us.pid_start_time,
                    "boot_id": us.boot_id,
                    "host": project.host,
                    "started_at": project.clock.now().isoformat(),
                },
                indent=1,
            )
            + "\n",
        )
        with ledger.kept(project, session):
            yield session
    finally:
        (project.tmp / SUPERVISOR).unlink(missing_ok=True)
        lock.__exit__(None, None, None)


@contextmanager
def no_supervisor(project: Project) -> Iterator[None]:
    """Keep every supervisor out of this checkout, for what only one may do. Raises `SupervisorRunning`."""
    lock = _supervisors_lock(project)
    try:
        yield
    finally:
        lock.__exit__(None, None, None)


def _supervisors_lock(project: Project) -> FileLock:
    """Held from here on; whoever takes it gives it back."""
    lock = FileLock(project.tmp / "supervisor.lock")
    try:
        lock.__enter__()
    except LockHeld as error:
        owner = lock.owner()
        raise SupervisorRunning(
            f"another `afk run` works in {project.root}" + (f" (pid {owner.pid}{_since(project)})" if owner else ""),
            hint="afk status",
        ) from error
    return lock


def _since(project: Project) -> str:
    """Since when, as the other one wrote it down; empty while it has not."""
    try:
        return f", since {parse_json((project.tmp / SUPERVISOR).read_bytes())['started_at']}"
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def supervisor_log(project: Project) -> Log:
    return Log(project.tmp / "supervisor.log.toonl", project)


def demand_space(project: Project) -> None:
    """Before each new attempt (R20). Raises `DiskFull`: what begins on a nearly full disk tears what others write."""
    from afk.supervisor.ground import FREE_FLOOR_BYTES

    free = shutil.disk_usage(project.root).free
    if free < FREE_FLOOR_BYTES:
        raise DiskFull(
            f"only {free // 1024**2} MiB are free for {project.root}; nothing new is started below"
            f" {FREE_FLOOR_BYTES // 1024**2} MiB",
            hint=f"df -h {project.root}",
        )


def unfit_error(failed: Sequence[DoctorCheck]) -> GroundUnfit:
    """Every fault and the first cure."""
    told = "; ".join(check.summary for check in failed)
    return GroundUnfit(f"not ready to run: {told}", hint=failed[0].fix or "afk doctor")


def unfit(project: Project, options: Options) -> list[DoctorCheck]:
    """The checks of `afk doctor` with which a run would not begin; it changes nothing."""
    from afk.supervisor.ground import ground_checks

    checks = ground_checks(project, base=options.base, runner=options.runner)
    return [check for check in checks if check.status in ("fail", "error")]
