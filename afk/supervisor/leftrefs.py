"""Branches and pointers that attempts left: on the remote, here, and what earlier sweeps saved out of directories.

A live branch goes when its issue has been closed for a while and nobody holds it. On the remote it goes by a
compare-and-swap on the sha that was judged; here only if a record of ours names it, and commits that are nowhere else
are bundled first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from afk.adapters import git, worktrees
from afk.adapters.git import PushStatus, RefUpdate
from afk.attempt import history
from afk.attempt.journal import Step
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, LiveBranch
from afk.domain.retention import Verdict, judge_closed, keep
from afk.errors import GitError
from afk.supervisor import rescue
from afk.supervisor.attemptdirs import Found, branch_of
from afk.supervisor.rescue import Haven
from afk.supervisor.survey import Candidate, Kind, Left, Survey

__all__ = ["branches", "live_branches", "pointers", "saved"]

_OURS = "refs/heads/afk/"
_FETCHED = frozenset({"base", "left"})  # copies of what the remote has, and no work of anybody here
_PASSING = frozenset({"landings", "takeover", "bundle"})  # made and deleted within one step
_LAST_COPIES = frozenset({"kept", "stray", "strays"})


# ── Branches ────────────────────────────────────────────────────────────────────────────────────────────────────────


def live_branches(survey: Survey) -> Iterator[Candidate]:
    """On the remote, whichever machine pushed them."""
    for ref, sha in sorted(survey.heads.items()):
        if ref.startswith(_OURS):
            branch = LiveBranch.parse(ref.removeprefix("refs/heads/"))
            verdict = (
                keep("not_ours", "it is no name that afk gives") if branch is None else _closed(survey, branch.issue)
            )
            act = partial(_delete_remote, survey, ref, sha)
            yield Candidate(Kind.LIVE_BRANCH, ref, verdict, act, issue=branch.issue if branch else None)


def _closed(survey: Survey, number: int) -> Verdict:
    return judge_closed(survey.stand(number), survey.terms, survey.now)


def _delete_remote(survey: Survey, ref: str, sha: str) -> str:
    project = survey.project
    pushed = git.push(project.root, project.url, [RefUpdate(ref, None, sha)])
    if pushed.status is not PushStatus.OK:
        there = git.ls_remote(project.root, project.url, ref).get(ref)
        if there == sha:
            raise GitError(f"the remote did not delete {ref}: {pushed.text}", hint=f"afk checkout {_issue_of(ref)}")
        if there is not None:
            raise Left("moved", f"somebody moved it to {there} meanwhile")
    survey.heads.pop(ref, None)
    return f"it was at {sha}"


def _issue_of(ref: str) -> int:
    branch = LiveBranch.parse(ref.removeprefix("refs/heads/"))
    assert branch is not None  # nothing else is judged to go
    return branch.issue


def branches(survey: Survey, here: list[Found], haven: Haven) -> Iterator[Candidate]:
    """In this repository."""
    root = survey.project.root
    local = git.local_refs(root, _OURS)
    if not local:
        return
    taken = {entry.branch: entry.path for entry in git.worktree_list(root)}
    recorded = _recorded(survey.project, here)
    for ref, sha in sorted(local.items()):
        branch = LiveBranch.parse(ref.removeprefix("refs/heads/"))
        if branch is None or branch.name not in recorded:
            verdict = keep("not_ours", "no record of afk's names it")
        elif ref in taken:
            verdict = keep("in_use", f"it is checked out in {taken[ref]}")
        else:
            verdict = _judge_branch(survey, branch, is_there=survey.heads.get(ref) == sha, here=here)
        attempt = recorded.get(branch.name) if branch else None
        act = partial(_delete_local, survey, ref, sha, attempt, haven)
        yield Candidate(Kind.BRANCH, ref, verdict, act, attempt=attempt, issue=branch.issue if branch else None)


def _judge_branch(survey: Survey, branch: LiveBranch, *, is_there: bool, here: list[Found]) -> Verdict:
    """`is_there`: the remote has the same."""
    own = [
        each
        for each in here
        if each.attempt and (each.attempt.worker, each.attempt.issue) == (branch.worker, branch.issue)
    ]
    if any(each.journal is None or not each.journal.has(Step.CLEARED) for each in own):
        return keep("unfinished", "its attempt is not told to its end")
    if is_there and not own:
        return Verdict(True, "redundant", "its attempt's directory is gone, and the remote has the same")
    return _closed(survey, branch.issue)


def _delete_local(survey: Survey, ref: str, sha: str, attempt: AttemptId | None, haven: Haven) -> str:
    project = survey.project
    assert attempt is not None  # nothing without a record is judged to go
    told = f"it was at {sha}"
    if not haven.has(sha, ref):
        into = rescue.folder_of(project, attempt)
        told += f"; saved in {into}: {rescue.save_commit(project, into, sha, haven)}"
    if not git.delete_branch(project.root, ref.removeprefix("refs/heads/"), sha):
        raise Left("moved", "it was moved or checked out meanwhile")
    return told


def _recorded(project: Project, here: list[Found]) -> dict[str, AttemptId]:
    """Branch to the latest attempt that worked on it, from the history and from the journals that are here."""
    journals = {branch_of(each.journal): each.attempt for each in here if each.journal and each.attempt}
    return history.branches(project.state) | journals


# ── Pointers ────────────────────────────────────────────────────────────────────────────────────────────────────────


def pointers(survey: Survey, here: list[Found], haven: Haven) -> Iterator[Candidate]:
    """Everything of ours below `refs/afk/` in this repository."""
    others = _attempts_of_other_checkouts(survey.project)
    directories = {found.attempt for found in here if found.attempt is not None} | others
    is_busy = survey.busy or bool(others)
    for ref, sha in sorted(git.local_refs(survey.project.root, "refs/afk/").items()):
        attempt = next((found for part in ref.split("/") if (found := AttemptId.parse(part))), None)
        issue = attempt.issue if attempt else None
        if attempt in directories:
            verdict = keep("in_use", "its attempt's directory is here")
        else:
            verdict = _judge_pointer(survey, ref, attempt, partial(haven.holds_here, sha), is_busy=is_busy)
        yield Candidate(Kind.REF, ref, verdict, partial(_delete_ref, survey, ref, sha), attempt=attempt, issue=issue)


def _attempts_of_other_checkouts(project: Project) -> set[AttemptId | None]:
    """Other worktrees of this repository may have supervisors of their own, and the pointers are common to all."""
    roots = (entry.path for entry in git.worktree_list(project.root) if entry.path != project.root)
    paths = (path for root in roots for path in (root / ".red" / "tmp" / "workers").glob("w*/*-a*"))
    return {AttemptId.of_directory(path.parent.name, path.name) for path in paths} - {None}


def _judge_pointer(
    survey: Survey, ref: str, attempt: AttemptId | None, is_elsewhere: Callable[[], bool], *, is_busy: bool
) -> Verdict:
    kind, *rest = ref.split("/")[2:]
    gone = Verdict(True, "leftover", "its attempt is gone, and the commit is elsewhere")
    if kind == "attempts" and attempt is not None and rest[-1] in _FETCHED:
        return gone
    if kind == "checkouts" and rest and rest[0].isdigit():
        return _judge_checkout(survey, rest[0], is_elsewhere)
    if kind in _PASSING:
        if is_busy:
            return keep("in_use", "an attempt is at work here, and may need it")
        return gone if kind == "landings" or is_elsewhere() else keep("last_copy", "nothing else holds the commit")
    if kind in _LAST_COPIES and attempt is not None:
        return gone if is_elsewhere() else _judge_last_copy(survey, attempt.issue)
    return keep("unknown", "this version of afk makes no such pointer")


def _judge_checkout(survey: Survey, number: str, is_elsewhere: Callable[[], bool]) -> Verdict:
    if (survey.project.root / ".red" / "checkouts" / number).exists():
        return keep("persons", "a person has the checkout that it was made for")
    if is_elsewhere():
        return Verdict(True, "leftover", "the checkout that it was made for is gone, and the commit is elsewhere")
    return keep("last_copy", "nothing else here holds the commit")


def _judge_last_copy(survey: Survey, number: int) -> Verdict:
    """Work of an agent that is nowhere else stays as long as the issue may want it."""
    closed = _closed(survey, number)
    return closed if closed.goes else keep("last_copy", f"nothing else holds the commit; {closed.reason}")


def _delete_ref(survey: Survey, ref: str, sha: str) -> str:
    if not git.update_ref(survey.project.root, ref, None, sha):
        raise Left("moved", "it was moved meanwhile")
    return f"it was at {sha}"


# ── What was saved ──────────────────────────────────────────────────────────────────────────────────────────────────


def saved(survey: Survey) -> Iterator[Candidate]:
    """Folders of `.red/state/kept`: last copies, kept like the pointers to them, and for some time in any case."""
    kept = survey.project.state / "kept"
    for path in sorted(kept.iterdir()) if kept.is_dir() else ():
        attempt = AttemptId.parse(path.name)
        if attempt is None or path.is_symlink() or not path.is_dir():
            verdict = keep("not_ours", "afk did not make it")
        elif survey.now - datetime.fromtimestamp(path.lstat().st_mtime, UTC) < survey.terms.attempt_age:
            verdict = keep("young", "it is kept as long as attempts are")
        else:
            verdict = _closed(survey, attempt.issue)
        act = partial(_delete_saved, path)
        yield Candidate(Kind.SAVED, str(path), verdict, act, attempt=attempt, issue=attempt.issue if attempt else None)


def _delete_saved(path: Path) -> str:
    if resisted := worktrees.delete_tree(path):
        raise GitError(resisted, hint=f"rm -r {path}")
    return ""
