"""`afk worktree list`: the worktrees that attempts left here, and how long each is kept.

It is told from this machine's files alone: neither tracker nor remote is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from afk.adapters import git
from afk.adapters.git import WorktreeEntry
from afk.attempt.journal import Step
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId
from afk.domain.retention import AttemptFacts, Verdict, expires_at
from afk.errors import AfkError
from afk.supervisor import attemptdirs
from afk.supervisor.attemptdirs import Found
from afk.supervisor.rescue import Haven
from afk.supervisor.survey import Kind, Survey
from afk.surfaces.commands.opening import instant, open_project, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

__all__ = ["worktree_list"]

_Registered = Mapping[Path, WorktreeEntry]


def worktree_list(context: CommandContext, _arguments: Arguments) -> Result:
    """Also those that git knows and whose directory is gone; a person's own from `afk checkout` stand apart."""
    project = open_project(context)
    registered = {entry.path: entry for entry in git.worktree_list(project.root)[1:]}
    survey, here = Survey(project, asking=False), attemptdirs.find(project)
    payload = {
        "worktrees": [*_present(survey, here, registered), *_lost(survey, here, registered)],
        "checkouts": [_checkout(entry) for path, entry in registered.items() if _is_persons(project, path)],
    }
    return Result(payload, text=_text(payload))


def _present(survey: Survey, here: list[Found], registered: _Registered) -> Iterator[dict[str, object]]:
    for found in here:
        path = found.path / "worktree"
        if found.attempt is not None and path.is_dir():
            facts, verdict = attemptdirs.judge(survey, found, here)
            entry = registered.get(path) or registered.get(path.resolve())
            yield _row(found.attempt, path, entry, verdict) | _known(survey, found, path, facts, entry)


def _lost(survey: Survey, here: list[Found], registered: _Registered) -> Iterator[dict[str, object]]:
    for lost in attemptdirs.lost_worktrees(survey, here, Haven(survey)):
        if lost.kind is Kind.WORKTREE and lost.attempt is not None:
            path = Path(lost.name)
            yield _row(lost.attempt, path, registered.get(path), lost.verdict)


def _row(attempt: AttemptId, path: Path, entry: WorktreeEntry | None, verdict: Verdict) -> dict[str, object]:
    """Every field, with what is known of a worktree that cannot be looked into."""
    return {
        "attempt_id": str(attempt),
        "issue_number": attempt.issue,
        "worktree_path": str(path),
        "branch": _short(entry.branch) if entry else None,
        "head_sha": entry.head if entry else None,
        "dirty": None,
        "merged": None,
        "ahead": None,
        "created_at_rfc3339": None,
        "ttl_s": None,
        "expires_at_rfc3339": None,
        "envelope_posted": None,
        "in_use": verdict.code == "in_use",
        "prunable": verdict.goes,
        "reasons": [verdict.reason],
    }


def _known(
    survey: Survey, found: Found, path: Path, facts: AttemptFacts | None, entry: WorktreeEntry | None
) -> dict[str, object]:
    """What the journal and git say beside that."""
    known: dict[str, object] = {}
    if found.journal is not None:
        made = found.journal.get(Step.BRANCHED).get("at") or found.journal.fact("started_at")
        known["created_at_rfc3339"] = instant(made)
    if facts is not None:
        known |= {"envelope_posted": facts.is_posted, "in_use": bool(facts.in_use)}
        until = expires_at(facts, survey.terms)
        if until is not None and facts.told_at is not None:
            known |= {"ttl_s": round((until - facts.told_at).total_seconds()), "expires_at_rfc3339": rfc3339(until)}
    if entry is not None:
        known |= _work(survey.project, found, path, entry.head)
    return known


def _work(project: Project, found: Found, path: Path, head: str | None) -> dict[str, object]:
    """Nothing where git cannot tell: a worktree that is broken, or commits that are not here."""
    journal = found.journal
    base_sha, merge_sha = (journal.fact("base_sha"), journal.fact("merge_sha")) if journal else (None, None)
    try:
        work: dict[str, object] = {"dirty": bool(git.dirty_paths(path))}
        if head is not None and base_sha:
            ahead = git.commits_ahead(project.root, str(base_sha), head)
            is_in = bool(merge_sha) and git.is_ancestor(project.root, head, str(merge_sha))
            work |= {"ahead": ahead, "merged": is_in or ahead == 0}
    except AfkError:
        return {}
    return work


def _is_persons(project: Project, path: Path) -> bool:
    return path.parent == project.root / ".red" / "checkouts"


def _checkout(entry: WorktreeEntry) -> dict[str, object]:
    number = entry.path.name
    return {
        "issue_number": int(number) if number.isdigit() else None,
        "worktree_path": str(entry.path),
        "branch": _short(entry.branch),
        "head_sha": entry.head,
    }


def _short(ref: str | None) -> str | None:
    return ref.removeprefix("refs/heads/") if ref else None


def _text(payload: Mapping[str, Any]) -> str:
    lines = []
    if payload["worktrees"]:
        rows = [["attempt", "worktree", "state", "kept until", "why"]]
        for each in payload["worktrees"]:
            state = (
                "in use" if each["in_use"] else "dirty" if each["dirty"] else "clean" if each["dirty"] is False else "?"
            )
            until = "goes next time" if each["prunable"] else each["expires_at_rfc3339"] or "-"
            rows.append([each["attempt_id"], each["worktree_path"], state, until, "; ".join(each["reasons"])])
        lines.append(columns(rows))
    lines += [f"a person's: {each['worktree_path']} on {each['branch']}" for each in payload["checkouts"]]
    return "\n".join(lines or ["No attempt has a worktree here."]) + "\n"
