"""Beside the work: the claim stays ours, and what the agent commits is on the remote moments later (L26, R60, R68).

No hook of the repository is installed: the worktree's HEAD and the branch are watched. Each push travels with a renewed
claim. A push that fails is tried again and never stops the agent; a branch that somebody else moved is left alone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from afk.adapters import git
from afk.adapters.claims import ClaimLost, PushedStatus
from afk.adapters.git import RefUpdate
from afk.adapters.refwatch import look_of_refs
from afk.attempt.session import Attempt
from afk.errors import AfkError, GitError, NotARepository

__all__ = ["DELETED", "KeptClaim", "LivePush", "push_branch"]

DELETED = "deleted"  # in place of a sha: a person took the live branch away
_BUSY = re.compile(r"cannot lock ref|failed to lock|failed to update ref|unable to create", re.IGNORECASE)
_LOOK_S = 0.5
_QUIET_S, _QUIET_LOOK_S = 15.0, 1.5  # after so long without a change of the refs, which are all that this costs
_MOST_S = 2.0  # between two looks at the age of the claim
_LOOK_ANYWAY_S = 30.0  # although nothing changed as far as the files of the refs tell
_RETRY_S = 15.0  # after a failed push; a remote that is away is not hammered


class _Beside:
    """A thread beside the attempt that looks again and again while this is entered. Nothing ends it but the end."""

    def __init__(self, attempt: Attempt, look: Callable[[], None], every_s: float) -> None:
        self._attempt = attempt
        self._every_s = every_s
        self._look = look
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"{type(self).__name__}-{attempt.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(self._every_s) and not self._attempt.lost:
            try:
                self._look()
            except ClaimLost:
                self._attempt.lost = True
            except Exception as error:  # noqa: BLE001 - a full disk or a bug: the claim dies with its thread
                told = f"will be tried again: {type(error).__name__}: {error}"
                self._attempt.progress.log("push.failed", told)


class KeptClaim(_Beside):
    """Renews the claim from its taking to the outcome: setup, checks, hooks and waiting take longer than a lease."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt, self._renew, min(_MOST_S, attempt.project.config.claim.renew_s / 2))
        self._tried_s = 0.0

    def _renew(self) -> None:
        claim, now = self._attempt.claim, self._attempt.project.clock.monotonic_s()
        since_s = max(claim.renewed_s or 0.0, self._tried_s)
        if now - since_s > self._attempt.project.config.claim.renew_s:
            self._tried_s = now
            if not (pushed := claim.renew()).ok:
                self._attempt.progress.log("claim.renew", f"failed, will be tried again: {pushed.text}")


class LivePush(_Beside):
    """Pushes every new commit; `sync` pushes at once and waits."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt, self._push_new, _LOOK_S)
        self._tried: tuple[str | None, float] = (None, 0.0)  # the tip that was last tried, and when
        self._seen: tuple[object, float] = (None, 0.0)  # how the refs looked when nothing was to be done, and when
        self._changed_s = 0.0  # when they last looked different

    def sync(self) -> None:
        """Push what is there now, in the caller's thread. Never raises for a remote that refuses or is away."""
        try:
            push_branch(self._attempt)
        except ClaimLost:
            self._attempt.lost = True

    def _push_new(self) -> None:
        attempt, now = self._attempt, self._attempt.project.clock.monotonic_s()
        looks = look_of_refs(attempt.worktree, attempt.branch_ref)
        if looks != self._seen[0]:
            self._changed_s = now
        self._every_s = _LOOK_S if now - self._changed_s < _QUIET_S else _QUIET_LOOK_S
        if looks is not None and looks == self._seen[0] and now - self._seen[1] < _LOOK_ANYWAY_S:
            return
        tip = live_tip(attempt)
        if tip == attempt.journal.fact("pushed_sha"):
            self._seen = (looks, now)
        tried_tip, tried_s = self._tried
        if tip != self._attempt.journal.fact("pushed_sha") and (tip != tried_tip or now - tried_s > _RETRY_S):
            self._tried = (tip, now)
            push_branch(self._attempt)


def live_tip(attempt: Attempt) -> str | None:
    """The commit that should be on the remote: HEAD when it continues our branch, else the branch. None: neither."""
    root = attempt.project.root
    head, branch = _head(attempt), git.rev_parse(root, attempt.branch_ref)
    if head is None or branch is None or head == branch:
        return head or branch
    return head if git.is_ancestor(root, branch, head) else branch


def _head(attempt: Attempt) -> str | None:
    """None for a worktree that is gone, or none any more: the branch still has what was committed on it."""
    try:
        return git.rev_parse(attempt.worktree, "HEAD")
    except (GitError, NotARepository):
        return None


def push_branch(attempt: Attempt) -> bool:
    """Bring the remote's live branch to our tip; True when it is there afterwards.

    The push names the sha that we pushed last (R87): the agent may rewrite its own commits, but a commit that somebody
    else put there is never overwritten. Raises `ClaimLost`. The slot and the thread beside it take turns: a push that
    names what the other one has just replaced would look like somebody else's.
    """
    with attempt.pushing:
        return _push_branch(attempt)


def _push_branch(attempt: Attempt) -> bool:
    tip, last = live_tip(attempt), attempt.journal.fact("pushed_sha")
    if tip is None or attempt.journal.fact("foreign_sha"):
        return False
    if tip == last:
        return True
    before = attempt.journal.fact("pushing_sha")
    attempt.journal.set_facts(pushing_sha=tip, durable=True)
    try:
        pushed = attempt.claim.push(RefUpdate(attempt.branch_ref, tip, last))
    except AfkError as error:
        attempt.progress.log("push.failed", error.message)
        return False
    if pushed.ok:
        attempt.journal.set_facts(pushed_sha=tip)
        return True
    there = (pushed.refs or {}).get(attempt.branch_ref)
    if there is not None and (there in (tip, before) or _leads_to(attempt, there, tip)):
        # An answer was lost, in this process or in one that died; going on from there takes nothing from anybody.
        attempt.journal.set_facts(pushed_sha=there)
        return there == tip or _push_branch(attempt)
    return _refused(attempt, last, pushed.status, pushed.text, there)


def _leads_to(attempt: Attempt, there: str, tip: str) -> bool:
    root = attempt.project.root
    return git.rev_parse(root, f"{there}^{{commit}}") is not None and git.is_ancestor(root, there, tip)


def _refused(attempt: Attempt, last: str | None, status: PushedStatus, text: str, there: str | None) -> bool:
    if status is PushedStatus.REJECTED and there is None and last is not None:
        attempt.journal.set_facts(foreign_sha=DELETED)
        attempt.progress.log("push.foreign", f"somebody deleted {attempt.branch} on the remote; it is not pushed again")
        return False
    if status is PushedStatus.REJECTED and there is not None and there != last:
        attempt.journal.set_facts(foreign_sha=there)
        attempt.progress.log("push.foreign", f"somebody else moved {attempt.branch} to {there}; it is left alone")
        return False
    if status is PushedStatus.REJECTED and not _BUSY.search(text):
        attempt.journal.set_facts(push_refused=text)
    attempt.progress.log("push.failed", text)
    return False
