"""The attempt's worktree: which commit it starts from, and putting it away again.

The person's own checkout is never switched, cleaned, stashed or committed to. Fetches name the URL and write private
refs of this attempt only, so that parallel starts fight neither for configuration nor for remote-tracking refs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afk.adapters import git, lfs, submodules, worktrees
from afk.attempt.landing import signs
from afk.attempt.session import Attempt
from afk.domain.outcome import AttemptEnded, Outcome
from afk.domain.queue import base_directive
from afk.errors import GitError, RemoteUnreachable

__all__ = [
    "Left",
    "adopt_strays",
    "base_of",
    "fetch_base",
    "fetch_lfs",
    "fill_submodules",
    "keep_submodules",
    "make_worktree",
    "put_away",
    "start_sha",
]

# After these the next attempt goes on from the branch that was left, if it is ahead. Source: the lifecycle rules.
CONTINUES = frozenset(
    {
        Outcome.WALL_CLOCK_CAPPED,
        Outcome.STALLED,
        Outcome.EXHAUSTED,
        Outcome.RUNNER_TRANSIENT,
        Outcome.NO_SENTINEL,
        Outcome.INFRA,
        Outcome.MERGE_CONFLICT,
    }
)


@dataclass(frozen=True, slots=True)
class Left:
    """What the latest earlier attempt left: its outcome (None: unknown), its branch, whether guidance came after it."""

    outcome: Outcome | None
    branch: str
    directed_since: bool


def base_of(attempt: Attempt, flag: str | None) -> str:
    """`--base`, else the issue's `branch:` line, else configuration, else the remote's default branch."""
    return flag or base_directive(attempt.issue.body) or attempt.project.default_base


def fetch_base(attempt: Attempt) -> str:
    """Fetch the base afresh and return its tip; an old copy is never taken instead (R07).

    Raises `AttemptEnded` (`blocked`) when the branch does not exist, `RemoteUnreachable` when nobody answers.
    """
    project, base = attempt.project, str(attempt.journal.fact("base"))
    ref = attempt.private_ref("base")
    try:
        git.fetch(project.root, project.url, f"+refs/heads/{base}:{ref}")
    except RemoteUnreachable:
        raise
    except GitError as error:
        if f"refs/heads/{base}" not in git.ls_remote(project.root, project.url, f"refs/heads/{base}"):
            raise AttemptEnded(Outcome.BLOCKED, f"the base branch {base} is not on the remote") from error
        raise
    tip = git.rev_parse(project.root, ref)
    if tip is None:
        raise GitError(f"fetched {base}, but {ref} is not there", hint="afk doctor")
    return tip


def start_sha(attempt: Attempt, base_sha: str, left: Left | None) -> tuple[str, str | None]:
    """Where the new branch starts, and the left branch it goes on from (None: it starts afresh at the base's tip)."""
    if left is None or left.directed_since or left.outcome not in CONTINUES:
        return base_sha, None
    tip = fetch_left(attempt, left)
    if tip is None or git.commits_ahead(attempt.project.root, base_sha, tip) == 0:
        return base_sha, None
    return tip, left.branch


def fetch_left(attempt: Attempt, left: Left) -> str | None:
    """The tip of an earlier attempt's branch, fetched to a private ref; None when it is gone from the remote."""
    project, source = attempt.project, f"refs/heads/{left.branch}"
    if source not in git.ls_remote(project.root, project.url, source):
        return None
    ref = attempt.private_ref("left")
    git.fetch(project.root, project.url, f"+{source}:{ref}")
    return git.rev_parse(project.root, ref)


def make_worktree(attempt: Attempt, start: str, base_sha: str) -> Sequence[str]:
    """The worktree on a new branch at `start`, with the base merged in; returns paths left in conflict, usually none.

    Raises `AttemptEnded` (`infra`) with git's words when it cannot be made.
    """
    owner = str(attempt.id)
    try:
        worktrees.add(attempt.project.root, attempt.worktree, attempt.branch, start, owner=owner)
    except GitError as error:
        raise AttemptEnded(Outcome.INFRA, f"could not make the worktree: {error.message}") from error
    if git.is_ancestor(attempt.worktree, base_sha, start):
        return ()
    merged = git.merge_into_worktree(
        attempt.worktree, base_sha, f"merge: {attempt.journal.fact('base')} into the work", sign=signs(attempt.project)
    )
    return tuple(merged.conflicts)


def fill_submodules(attempt: Attempt) -> None:
    """Submodules as `afk.landing.submodules` wants them; ones that stay empty are said, never silent (R12).

    Raises what a fetch raises.
    """
    wanted, worktree = attempt.project.config.landing.submodules, attempt.worktree
    empty = ", ".join(link.path for link in submodules.links(worktree, "HEAD"))
    if not empty:
        return
    if wanted == "none":
        attempt.progress.log("submodules.empty", f"afk.landing.submodules is none: {empty}")
        return
    declared = [git.rev_parse(worktree, f"{rev}:.gitmodules") for rev in ("HEAD", attempt.private_ref("base"))]
    if declared[0] != declared[1]:  # an agent's branch names no address that we would fetch from
        attempt.progress.log("submodules.empty", f"{attempt.branch} and the base declare them differently: {empty}")
        return
    submodules.fill(worktree, attempt.project.url, shared=wanted == "shared")


def fetch_lfs(attempt: Attempt) -> None:
    """The content of LFS files where `afk.landing.lfs` is `pull`; else what stays a pointer is said (R13).

    Raises what a fetch raises.
    """
    pointers = lfs.pointers(attempt.worktree)
    if not pointers:
        return
    if attempt.project.config.landing.lfs == "pull":
        lfs.download(attempt.worktree, attempt.project.url)
        return
    attempt.progress.log("lfs.pointers", f"afk.landing.lfs is skip: {len(pointers)} files, the first is {pointers[0]}")


def keep_submodules(attempt: Attempt) -> str | None:
    """Commits that the agent made in submodules, kept under local refs: their worktree is all that has them.

    Returns one line for the report, or None when it moved no submodule.
    """
    root, base_sha = attempt.project.root, str(attempt.journal.fact("base_sha"))
    tip = git.rev_parse(root, attempt.branch_ref)
    if tip is None or git.merge_base(root, base_sha, tip) is None:
        return None
    moved = git.moved_submodules(root, base_sha, tip)
    kept = {path: _keep_submodule(attempt, path, sha) for path, sha in moved.items()}
    told = ", ".join(f"{path} at {sha[:12]} ({kept[path] or 'not here'})" for path, sha in moved.items())
    return f"the agent moved submodules: {told}" if moved else None


def _keep_submodule(attempt: Attempt, path: str, sha: str) -> str | None:
    ref = f"refs/afk/kept/{attempt.id}/submodule-{sha[:12]}"
    options = ("--quiet", "--no-tags", "--no-write-fetch-head")
    source = str(attempt.worktree / path)
    fetched = git.run(attempt.project.root, "fetch", *options, "--", source, f"{sha}:{ref}", check=False)
    return ref if fetched.returncode == 0 else None


def adopt_strays(attempt: Attempt) -> str | None:
    """After the agent: bring commits from a detached HEAD or another branch onto ours, or keep them by a pointer.

    Returns one line for the report, or None when HEAD is on our branch. The worktree ends on our branch either way;
    a HEAD that diverged is kept under a local ref and pushed nowhere.
    """
    worktree = attempt.worktree
    where = git.run(worktree, "symbolic-ref", "-q", "HEAD", check=False).stdout.strip()
    if where == attempt.branch_ref:
        return None
    head = git.rev_parse(worktree, "HEAD")
    branch = git.rev_parse(worktree, attempt.branch_ref) or str(attempt.journal.fact("start_sha"))
    told = where.removeprefix("refs/heads/") or "a detached HEAD"
    if head is not None and git.is_ancestor(worktree, branch, head):
        git.update_ref(worktree, attempt.branch_ref, head, git.rev_parse(worktree, attempt.branch_ref))
        git.run(worktree, "symbolic-ref", "HEAD", attempt.branch_ref)
        return f"the agent worked on {told}; its commits were brought to {attempt.branch}"
    if head is None:
        git.run(worktree, "symbolic-ref", "HEAD", attempt.branch_ref)
        return f"the agent left {told} without a commit"
    kept = _keep(attempt, head)
    if git.dirty_paths(worktree):
        git.save_patch(worktree, attempt.directory / f"stray-{kept.rpartition('/')[2]}.patch")
    git.run(worktree, "checkout", "--force", attempt.branch)
    return f"the agent left {told} at {head}, which does not continue {attempt.branch}; it is kept as {kept}"


def _keep(attempt: Attempt, sha: str) -> str:
    """A local ref that holds the commit from now on; one that is there already is never moved."""
    root, k = attempt.project.root, 1
    while not git.update_ref(root, ref := f"refs/afk/kept/{attempt.id}/{k}", sha, None):
        k += 1
    return ref


def put_away(attempt: Attempt, *, keep_worktree: bool) -> None:
    """Remove worktree, local branch and private refs, as far as nothing is lost with them."""
    root = attempt.project.root
    if not keep_worktree:
        worktrees.remove(root, attempt.worktree, owner=str(attempt.id))
        tip = git.rev_parse(root, attempt.branch_ref)
        if tip is not None and _is_safe_elsewhere(attempt, tip):
            git.delete_branch(root, attempt.branch, tip)
    for name in ("base", "left"):
        sha = git.rev_parse(root, attempt.private_ref(name))
        if sha is not None:
            git.update_ref(root, attempt.private_ref(name), None, sha)


def _is_safe_elsewhere(attempt: Attempt, tip: str) -> bool:
    """Whether a branch's tip is on the remote, in what landed, or nothing but its start."""
    journal = attempt.journal
    landed = journal.fact("merge_sha")
    if landed and git.is_ancestor(attempt.project.root, tip, str(landed)):
        return True
    if tip in (journal.fact("start_sha"), journal.fact("base_sha")):
        return True
    # What was pushed once may have been taken away since: the last copy of a commit is not deleted on a memory.
    project, ref = attempt.project, attempt.branch_ref
    return git.ls_remote(project.root, project.url, ref).get(ref) == tip
