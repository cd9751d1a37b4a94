"""Landing: the tree that was validated is the tree that lands, and nothing is checked out for it.

The merge commit is built from trees alone and pushed to the base together with a renewed claim. The fast-forward rule
and the claim's lease are the compare-and-swap: when the base moved, or the claim is somebody else's, nothing happens.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from afk.adapters import git, lfs
from afk.adapters.claims import PushedStatus
from afk.adapters.files import FileLock
from afk.adapters.git import FAST_FORWARD, RefUpdate
from afk.attempt.journal import Step
from afk.attempt.session import Attempt, Project
from afk.domain.outcome import AttemptEnded, Outcome
from afk.errors import GitError, LockHeld, RemoteUnreachable
from afk.wire.safetext import title as safe_title

__all__ = ["build_merge", "demand_same_history", "landed_before", "lander", "push_merge", "reword", "signs"]

_LOOK_S = 1.0


@contextmanager
def lander(attempt: Attempt) -> Iterator[None]:
    """One lander per remote and host: optimistic ones only spoil each other's merges.

    Waits as long as an outage would be waited for, then `infra` with the owner's name: waiting is not failing (L03).
    """
    folder = _cache_folder(attempt.project.environ) / "landing"
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(attempt.project.url.encode()).hexdigest()[:32]
    lock = FileLock(folder / f"{name}.lock", timeout_s=_LOOK_S)
    with ExitStack() as held:
        _enter(attempt, held, lock)
        yield


def _enter(attempt: Attempt, held: ExitStack, lock: FileLock) -> None:
    """In short waits, so that a stop and a lost claim are heard between them."""
    clock, patience_s = attempt.project.clock, attempt.project.config.recovery.backoff_max_s
    began_s = clock.monotonic_s()
    while True:
        attempt.check_interrupt()
        try:
            held.enter_context(lock)
            return
        except LockHeld as error:
            if clock.monotonic_s() - began_s > patience_s:
                told = f"could not get the lander's lock in {patience_s:.0f} s: {error.message}"
                raise AttemptEnded(Outcome.INFRA, told) from error


def _cache_folder(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(environ.get("HOME", "/tmp")) / ".cache") / "afk"


def demand_same_history(attempt: Attempt, base_sha: str) -> None:
    """Raises `AttemptEnded` when the base lost commits that the work is built on: landing would bring them back (R24).

    `blocked`, because the next attempt then starts afresh from what the base is now.
    """
    built_on = str(attempt.journal.fact("base_sha"))
    if not git.is_ancestor(attempt.project.root, built_on, base_sha):
        base = attempt.journal.fact("base")
        raise AttemptEnded(
            Outcome.BLOCKED,
            f"the history of {base} was rewritten while this was worked: {built_on} is not in it any more",
        )


def build_merge(attempt: Attempt, base_sha: str, head_sha: str, tree: str) -> str:
    """The merge commit of head into base with exactly `tree`; safe to build twice, pushed by `push_merge`.

    Raises `AttemptEnded` (`infra`) when what git would merge is not the validated tree (R24, R51).
    """
    root, issue = attempt.project.root, attempt.issue
    merged = git.merge_tree(root, base_sha, head_sha)
    if merged.tree != tree:
        raise AttemptEnded(
            Outcome.INFRA, f"the merge of {head_sha} into {base_sha} is not the tree that was validated ({tree})"
        )
    message = (
        f"merge: #{issue.number} {safe_title(issue.title)}\n\n"
        f"Afk-Worker: {attempt.id.worker}\nAfk-Attempt: {attempt.id}\nRefs: #{issue.number}\n"
    )
    return git.commit_tree(
        root, tree, [base_sha, head_sha], message, env=git.committer(root), sign=signs(attempt.project)
    )


def signs(project: Project) -> bool:
    """Whether our merges are signed: `afk.landing.sign: keep` does as the person's own configuration says (R18)."""
    return project.config.landing.sign == "keep" and git.signs_commits(project.root)


def push_merge(attempt: Attempt, base: str, base_sha: str, merge_sha: str) -> bool:
    """Push the merge to the base, fenced by the claim; False: the base is no longer what the merge was built on.

    Raises `ClaimLost`, `AttemptEnded` when the remote refuses, `RemoteUnreachable` when nothing is known about it.
    """
    ref = f"refs/heads/{base}"
    pushed = attempt.claim.push(RefUpdate(ref, merge_sha, FAST_FORWARD))
    if pushed.ok:
        return True
    if pushed.status is PushedStatus.UNKNOWN:
        raise RemoteUnreachable(f"could not push the merge of #{attempt.issue.number}: {pushed.text}")
    if (pushed.refs or {}).get(ref) != base_sha:
        return False
    raise AttemptEnded(Outcome.INFRA, f"the remote refused the merge into {base}: {pushed.text}")


def send_lfs(attempt: Attempt, base_sha: str, head: str) -> None:
    """Upload what new LFS pointers stand for, before anybody can find the pointers on the base (R13)."""
    root = attempt.project.root
    if any(lfs.is_pointer(root, entry) for entry in git.new_entries(root, base_sha, head)):
        lfs.upload(attempt.worktree, attempt.project.url, attempt.branch)


def landed_before(attempt: Attempt, base_sha: str) -> str | None:
    """The merge of this attempt that is in the base already, whoever saw it get there; None when there is none."""
    journal, root = attempt.journal, attempt.project.root
    built = [str(journal.get(Step.MERGED, k)["merge_sha"]) for k in range(1, journal.count(Step.MERGED) + 1)]
    return next((sha for sha in reversed(built) if git.is_ancestor(root, sha, base_sha)), None)


# ── Commit messages ─────────────────────────────────────────────────────────────────────────────────────────────────

_TAKES_EFFECT = re.compile(r"(?<![\w/])[@#](?=\w)|\bGH-\d", re.IGNORECASE)


def reword(attempt: Attempt, base_sha: str) -> str:
    """Make the agent's commit messages harmless (no mention, no closing keyword); trees and authors stay.

    Returns the branch's tip, which is a new sha when a message had to change. Runs before validation, so that what is
    validated is what lands. The branch is moved under its old sha; the worktree's content is not touched.
    """
    worktree = attempt.worktree
    tip = git.rev_parse(worktree, "HEAD")
    if tip is None:
        raise GitError(f"{worktree} has no commit", hint=f"git -C {worktree} log")
    commits = git.run(worktree, "rev-list", "--reverse", "--topo-order", f"{base_sha}..{tip}").stdout.split()
    if not any(_TAKES_EFFECT.search(git.commit_message(worktree, sha)) for sha in commits):
        return tip
    mapped: dict[str, str] = {}
    for sha in commits:
        mapped[sha] = _reworded(worktree, sha, mapped)
    new = mapped[tip]
    if new != tip:
        git.update_ref(worktree, attempt.branch_ref, new, tip)
    return new


def _reworded(worktree: Path, sha: str, mapped: Mapping[str, str]) -> str:
    """The commit itself when neither it nor a parent changed, else its harmless twin."""
    old_parents = git.run(worktree, "show", "-s", "--format=%P", sha).stdout.split()
    parents = [mapped.get(parent, parent) for parent in old_parents]
    message = git.commit_message(worktree, sha)
    safe = _TAKES_EFFECT.sub(
        lambda match: match[0] + "\u200b" if len(match[0]) == 1 else "GH\u200b" + match[0][2:], message
    )
    if parents == old_parents and safe == message:
        return sha
    who = git.run(worktree, "show", "-s", "--format=%an%n%ae%n%aI%n%cn%n%ce%n%cI", sha).stdout.splitlines()
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "AUTHOR_DATE", "COMMITTER_NAME", "COMMITTER_EMAIL", "COMMITTER_DATE")
    env = {f"GIT_{name}": value for name, value in zip(names, who, strict=True)}
    return git.commit_tree(worktree, git.tree_of(worktree, sha), parents, safe, env=env)
