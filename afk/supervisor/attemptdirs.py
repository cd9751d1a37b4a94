"""The directories below `.red/tmp/workers`: whose they are, whether they may go, and how they go.

A directory goes only when its journal says that it is this attempt's and is told to its end, and nobody who may be
alive has anything to do with it (R04, R05, R21). It goes in steps, each of which finds what the last one left after a
crash: save, put the worktree away, rename (from here on it is no attempt any more), delete.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from afk.adapters import git, worktrees
from afk.adapters.process import Identity, Kept, identity_of, is_alive
from afk.adapters.worktrees import WorktreeOwner
from afk.attempt.journal import JOURNAL, Journal, Step
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.retention import AttemptFacts, Verdict, judge_attempt, keep
from afk.errors import GitError, JournalBroken, JournalTooNew, KeeperFailed
from afk.supervisor import rescue
from afk.supervisor.rescue import Haven
from afk.supervisor.survey import Candidate, Kind, Left, Survey, nothing_to_do
from afk.wire.claim import ClaimRecord
from afk.wire.json_value import parse_json

__all__ = [
    "Found",
    "Seam",
    "attempts",
    "branch_of",
    "find",
    "judge",
    "lost_worktrees",
    "worker_folders",
]

Seam = Callable[[str], None]
"""Called with a word after each step of a removal; what the crash tests hold on to."""

_GONE = re.compile(r"gone\.[0-9a-f]{8}")
_WORKER = re.compile(r"w[A-Z0-9]{4}")
_WORKERS_OWN = re.compile(r"worker\.(json|log\.toonl(\.1)?)|\..*\.tmp")
_NO_ATTEMPT = re.compile(f"{_GONE.pattern}|{_WORKERS_OWN.pattern}")


@dataclass(frozen=True, slots=True)
class Found:
    """A directory that stands where attempts stand. `fault` says why it can be nobody's to remove; then the rest may be
    None."""

    path: Path
    attempt: AttemptId | None = None
    journal: Journal | None = None
    fault: str = ""


# ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def find(project: Project) -> list[Found]:
    """Whatever stands there and is not a worker's own file, by name; nothing is opened through a link."""
    ours = set(_worker_folders(project))
    strangers = [Found(path, fault="afk did not make it") for path in _listed(project.workers) if path not in ours]
    inside = [path for folder in sorted(ours) for path in _listed(folder)]
    return [
        *strangers,
        *(_found(project, path) for path in inside if not _NO_ATTEMPT.fullmatch(path.name)),
    ]


def _worker_folders(project: Project) -> list[Path]:
    listed = _listed(project.workers)
    return [path for path in listed if _WORKER.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


def _listed(folder: Path) -> list[Path]:
    """Nothing for a folder that is not there or may not be looked into: what is in it stays."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _found(project: Project, path: Path) -> Found:
    attempt = AttemptId.of_directory(path.parent.name, path.name)
    if attempt is None or not path.is_dir() or path.is_symlink():
        return Found(path, fault="afk did not make it")
    if not (path / JOURNAL).exists():
        return Found(path, attempt, fault="it has no journal, so nothing says what in it is done with")
    try:
        journal = Journal.load(path, clock=project.clock)
    except (JournalBroken, JournalTooNew) as error:
        return Found(path, attempt, fault=error.message)
    if journal.attempt != attempt:
        return Found(path, attempt, fault=f"its journal is that of {journal.attempt}")
    return Found(path, attempt, journal)


def _facts_of(survey: Survey, found: Found, here: list[Found]) -> AttemptFacts:
    """Raises KeyError, TypeError or ValueError for a journal that says nonsense."""
    journal, attempt = found.journal, found.attempt
    assert journal is not None  # without one there is a fault
    assert attempt is not None
    claim = ClaimRecord.parse(str(journal.fact("claim")))
    cleared = journal.get(Step.CLEARED)
    parked = journal.get(Step.ENDED).get("decision") == "park"
    return AttemptFacts(
        told_at=datetime.fromisoformat(cleared["at"]) if cleared else None,
        is_kept=parked or (found.path / "worktree").exists(),
        is_posted=bool(journal.fact("posted")),
        is_waiting=claim is not None and claim.state == "waiting",
        newer=sum(1 for o in here if o.attempt and o.attempt.issue == attempt.issue and o.attempt.n > attempt.n),
        in_use=_who_uses(survey, found.path, journal),
    )


def _who_uses(survey: Survey, path: Path, journal: Journal) -> str:
    """Who may be alive and has something to do with it, in words; our own process is done with what is told."""
    owner, host = Identity(**journal.fact("owner")), journal.fact("host")
    if host != survey.project.host:
        return f"it belongs to the machine {host}"
    if owner != identity_of() and is_alive(owner):
        return f"the process that works on it is alive (pid {owner.pid})"
    for run_dir in sorted((path / "runs").glob("*-*")):
        if not (run_dir / "exit").exists() and (keeper := _keeper_of(run_dir)) is not None and is_alive(keeper):
            return f"the program in {run_dir.name} still runs (keeper {keeper.pid})"
    real = path.resolve()
    pid = next((pid for pid, cwd in survey.working_directories.items() if cwd.is_relative_to(real)), None)
    return "" if pid is None else f"a process works in it (pid {pid})"


def _keeper_of(run_dir: Path) -> Identity | None:
    try:
        return Kept.adopt(run_dir).identity
    except KeeperFailed:
        return None


def branch_of(journal: Journal) -> str:
    return branch_name(journal.attempt.worker, journal.attempt.issue, str(journal.fact("title", "")))


# ── Attempts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def attempts(survey: Survey, here: list[Found], haven: Haven, seam: Seam) -> Iterator[Candidate]:
    """Every directory of an attempt, and what an interrupted removal left; sets whether the checkout is busy."""
    for found in here:
        _, verdict = judge(survey, found, here)
        survey.busy = survey.busy or verdict.code in ("unfinished", "waiting")
        yield Candidate(
            Kind.ATTEMPT,
            str(found.path),
            verdict,
            partial(_remove, survey, found, haven, seam),
            attempt=found.attempt,
            issue=found.attempt.issue if found.attempt else None,
        )
    for folder in _worker_folders(survey.project):
        for path in (path for path in _listed(folder) if _GONE.fullmatch(path.name) and not path.is_symlink()):
            verdict = Verdict(True, "interrupted", "its removal was interrupted")
            yield Candidate(Kind.ATTEMPT, str(path), verdict, partial(_delete, path))


def judge(survey: Survey, found: Found, here: list[Found]) -> tuple[AttemptFacts | None, Verdict]:
    """What is known of a directory (None: nothing that could be believed) and what becomes of it; `here` are all."""
    if found.fault:
        return None, keep("not_ours", found.fault)
    try:
        facts = _facts_of(survey, found, here)
    except (KeyError, TypeError, ValueError, OSError) as error:
        return None, keep("unreadable", f"its journal makes no sense: {type(error).__name__}: {error}")
    return facts, judge_attempt(facts, survey.terms, survey.now)


def _remove(survey: Survey, found: Found, haven: Haven, seam: Seam) -> str:
    project, attempt, journal = survey.project, found.attempt, found.journal
    assert attempt is not None
    assert journal is not None
    if found.path.is_symlink():
        raise Left("not_ours", "it is a symbolic link now")
    saved = rescue.save_directory(project, attempt, found.path, f"refs/heads/{branch_of(journal)}", haven)
    seam("saved")
    removal = worktrees.remove(project.root, found.path / "worktree", owner=str(attempt))
    if not removal.gone:
        raise Left("not_ours", removal.reason)
    seam("put away")
    gone = found.path.with_name(f"gone.{secrets.token_hex(4)}")
    found.path.rename(gone)
    seam("renamed")
    _delete(gone)
    return saved


def _delete(path: Path) -> str:
    resisted = worktrees.delete_tree(path)
    if resisted:
        raise GitError(resisted, hint=f"rm -r {path}")
    return ""


# ── Worktrees that git knows and nobody else, and folders of workers ────────────────────────────────────────────────


def lost_worktrees(survey: Survey, here: list[Found], haven: Haven) -> Iterator[Candidate]:
    """Registered worktrees of ours whose directory is gone; a person's from `afk checkout` are only named."""
    project = survey.project
    theirs = project.root / ".red" / "checkouts"
    unfinished = {f.attempt for f in here if f.journal is not None and not f.journal.has(Step.CLEARED)}
    for entry in git.worktree_list(project.root)[1:]:
        if entry.path.parent == theirs:
            said = keep("persons", f"it is a person's; when they are done: git worktree remove {entry.path}")
            yield Candidate(Kind.CHECKOUT, str(entry.path), said, nothing_to_do)
        elif not entry.path.exists() and not entry.path.is_symlink():
            owner = WorktreeOwner.parse(entry.locked)
            attempt = AttemptId.parse(owner.attempt) if owner else None
            yield Candidate(
                Kind.WORKTREE,
                str(entry.path),
                _judge_lost(survey, entry.path, owner, is_owed=attempt in unfinished),
                partial(_forget, survey, entry, owner.attempt if owner else "", haven),
                attempt=attempt,
                issue=attempt.issue if attempt else None,
            )


def _judge_lost(survey: Survey, path: Path, owner: WorktreeOwner | None, *, is_owed: bool) -> Verdict:
    """What our own lock says of it, and nothing else (R03, R05)."""
    if owner is None:
        return keep("not_ours", "afk did not make it; git worktree prune forgets it")
    if owner.host != survey.project.host:
        return keep("in_use", f"it belongs to the machine {owner.host}")
    if owner.process != identity_of() and is_alive(owner.process):
        return keep("in_use", f"the process that made it is alive (pid {owner.process.pid})")
    if is_owed:
        return keep("unfinished", "its attempt is not told to its end; the next `afk run` goes on with it")
    if not path.is_relative_to(survey.project.tmp.resolve()):
        return keep("not_ours", "another checkout of this repository made it")
    if not survey.project.tmp.is_dir():
        return keep("away", f"{survey.project.tmp} is not there, and perhaps only away")
    return Verdict(True, "gone", "git has it registered and its directory is gone")


def _forget(survey: Survey, entry: git.WorktreeEntry, owner: str, haven: Haven) -> str:
    project, attempt, saved = survey.project, AttemptId.parse(owner), ""
    if attempt is not None and entry.head is not None and entry.branch is None and not haven.has(entry.head, ""):
        into = rescue.folder_of(project, attempt)
        saved = f"saved in {into}: {rescue.save_commit(project, into, entry.head, haven)}"
    removal = worktrees.remove(project.root, entry.path, owner=owner)
    if not removal.gone:
        raise Left("not_ours", removal.reason)
    return saved


def worker_folders(survey: Survey) -> Iterator[Candidate]:
    """Folders of workers in which nothing but the worker's log is left; the log is read as long as attempts are."""
    for folder in _worker_folders(survey.project):
        if all(_WORKERS_OWN.fullmatch(path.name) for path in folder.iterdir()):
            verdict = _judge_worker(survey, folder)
            yield Candidate(Kind.WORKER, str(folder), verdict, partial(_remove_worker, folder))


def _judge_worker(survey: Survey, folder: Path) -> Verdict:
    owner = _worker_owner(folder)
    if owner is not None and is_alive(owner):
        return keep("in_use", f"the worker is alive (pid {owner.pid})")
    written = max((path.lstat().st_mtime for path in folder.iterdir()), default=0.0)
    age = survey.now - datetime.fromtimestamp(written, UTC)
    if age < survey.terms.attempt_age:
        return keep("young", "its log is kept as long as attempts are")
    return Verdict(
        True, "expired", f"none of its attempts is left, and nothing was written for {age // timedelta(days=1)} days"
    )


def _worker_owner(folder: Path) -> Identity | None:
    try:
        return Identity(**parse_json((folder / "worker.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _remove_worker(folder: Path) -> str:
    """File by file: what came in meanwhile keeps the folder."""
    for path in folder.iterdir():
        if _WORKERS_OWN.fullmatch(path.name):
            path.unlink()
    folder.rmdir()
    return ""
