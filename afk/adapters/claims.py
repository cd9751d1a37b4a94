"""Leases on issues: a compare-and-swap on `refs/afk/claims/{N}` of the shared remote.

A claim is a commit with an empty tree and no parent whose message is one JSON line (`wire/claim.py`). Whoever creates
the ref has the issue, whatever the number of machines. "Ours" is the nonce in the attempt's journal, never a name.

Every push of an attempt (live branch, landing, deletion) goes through its `Claim`, one at a time, and moves the claim
to a new sha in the same atomic push. A stale owner therefore cannot push anything: its lease no longer matches.
Renewal has to change the ref, because git leaves an unchanged ref out of the transaction and nothing would be fenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from afk.adapters import git
from afk.adapters.git import PushStatus, RefUpdate
from afk.errors import GitError, RemoteUnreachable
from afk.ports import Clock
from afk.wire.claim import ClaimRecord

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimLost",
    "Pushed",
    "PushedStatus",
    "claim_ref",
    "claims_among",
    "held_claims",
    "read_claim",
]

CLAIMS = "refs/afk/claims/"
_ROUNDS = 5  # another seq of our own nonce is taken over and tried again; more than a few times means a bug or a fight


class ClaimLost(Exception):
    """Somebody else holds the issue now; nothing more may be written for it, here or in the tracker."""


class PushedStatus(StrEnum):
    DONE = "done"
    REJECTED = "rejected"  # the claim is ours and nothing of the push was applied; `text` has the remote's words
    UNKNOWN = "unknown"  # the remote did not answer; asking again later decides


@dataclass(frozen=True, slots=True)
class Pushed:
    """`refs` is what stood on the remote when it was read back after a refusal; empty when nothing had to be read."""

    status: PushedStatus
    text: str = ""
    refs: Mapping[str, str] | None = None

    @property
    def ok(self) -> bool:
        return self.status is PushedStatus.DONE


Intend = Callable[[ClaimRecord, str], None]
"""Called with a claim and its sha before it is pushed; returns when both are safely on disk."""


def claim_ref(issue: int) -> str:
    return f"{CLAIMS}{issue}"


def held_claims(repo: Path, url: str) -> dict[int, str]:
    """Issue number to claim sha, for every claim on the remote; one `ls-remote`."""
    return claims_among(git.ls_remote(repo, url, f"{CLAIMS}*"))


def claims_among(refs: Mapping[str, str]) -> dict[int, str]:
    """The same, out of a listing of the remote that has other refs too."""
    numbers = ((ref.removeprefix(CLAIMS), sha) for ref, sha in refs.items() if ref.startswith(CLAIMS))
    return {int(number): sha for number, sha in numbers if number.isdigit()}


def read_claim(repo: Path, url: str, issue: int, sha: str) -> ClaimRecord | None:
    """The record behind a claim's sha; None when it is no claim of ours to read, or gone meanwhile."""
    if git.rev_parse(repo, f"{sha}^{{commit}}") is None:
        try:
            git.fetch(repo, url, claim_ref(issue))
        except RemoteUnreachable:
            raise
        except GitError:
            return None
    if git.rev_parse(repo, f"{sha}^{{commit}}") is None:
        return None
    return ClaimRecord.parse(git.commit_message(repo, sha))


class Claim:
    """A lease that we hold, and the only door to the remote for its attempt.

    `renewed_s` is the monotonic time before which the last successful renewal was sent; None until one succeeded in
    this process. Raises `ClaimLost` from every method that talks to the remote once the claim is somebody else's.
    """

    def __init__(
        self, repo: Path, url: str, issue: int, record: ClaimRecord, *, sha: str | None, clock: Clock, intend: Intend
    ) -> None:
        self.issue = issue
        self.record = record
        self.sha = sha
        self.renewed_s: float | None = None
        self._repo = repo
        self._url = url
        self._clock = clock
        self._intend = intend
        self._lock = threading.Lock()

    @property
    def ref(self) -> str:
        return claim_ref(self.issue)

    def acquire(self, *, over: str | None = None) -> bool:
        """Take the issue if it is free (`over` = None) or still held under the stale sha `over`; False: somebody else.

        Raises `RemoteUnreachable` when nothing is known, `GitError` when the remote refuses claims as such.
        """
        with self._lock:
            sent = self._clock.monotonic_s()
            sha = self._make(self.record)
            report = git.push(self._repo, self._url, [RefUpdate(self.ref, sha, over)])
            if report.status is PushStatus.OK:
                return self._won(self.record, sha, sent)
            there = git.ls_remote(self._repo, self._url, self.ref).get(self.ref)
            if there == sha:
                return self._won(self.record, sha, sent)
            if there is None and report.status is PushStatus.REJECTED and over is None:
                raise GitError(f"the remote refuses claims below {CLAIMS}: {report.text}", hint="afk doctor")
            if there is None and report.status is PushStatus.UNKNOWN:
                raise RemoteUnreachable(f"could not claim issue #{self.issue}: {report.text}", hint="afk doctor")
            return False

    def recover(self) -> bool:
        """After a crash: whether the remote's claim carries our nonce; if so it is taken up under the sha it has."""
        with self._lock:
            there = git.ls_remote(self._repo, self._url, self.ref).get(self.ref)
            return there is not None and self._adopt(there)

    def renew(self) -> Pushed:
        return self.push()

    def ensure_fresh(self) -> None:
        """Renew unless the last renewal is younger than a third of the lease; called before every tracker write.

        Raises `RemoteUnreachable` when the remote cannot be asked.
        """
        age_s = None if self.renewed_s is None else self._clock.monotonic_s() - self.renewed_s
        if age_s is not None and age_s < self.record.lease_s / 3:
            return
        pushed = self.renew()
        if not pushed.ok:
            raise RemoteUnreachable(f"could not renew the claim on issue #{self.issue}: {pushed.text}")

    def push(self, *updates: RefUpdate, timeout_s: float = 120.0) -> Pushed:
        """Apply all updates together with a renewal, or none of them."""
        with self._lock:
            for _ in range(_ROUNDS):
                pushed = self._push_once(updates, timeout_s)
                if pushed is not None:
                    return pushed
            return Pushed(PushedStatus.REJECTED, "the claim keeps changing under its own nonce")

    def release(self, *updates: RefUpdate) -> Pushed:
        """Give the issue back, together with `updates` (the deletion of a live branch); an absent claim is released.

        When the remote refuses what goes with it, the claim goes alone, and `text` has the remote's words.
        """
        pushed = self._release(updates)
        if not updates or pushed.status is not PushedStatus.REJECTED:
            return pushed
        return replace(self._release(()), text=pushed.text)

    def _release(self, updates: tuple[RefUpdate, ...]) -> Pushed:
        with self._lock:
            for _ in range(_ROUNDS):
                report = git.push(self._repo, self._url, [RefUpdate(self.ref, None, self.sha), *updates])
                if report.status is PushStatus.OK:
                    return Pushed(PushedStatus.DONE)
                try:
                    refs = git.ls_remote(self._repo, self._url, self.ref, *(update.ref for update in updates))
                except GitError as error:
                    return Pushed(PushedStatus.UNKNOWN, f"{report.text}; {error.message}")
                there = refs.get(self.ref)
                if there is None:
                    return Pushed(PushedStatus.DONE, refs=refs)
                if there == self.sha:
                    return Pushed(_status(report.status), report.text, refs)
                if not self._adopt(there):
                    raise ClaimLost(self.issue)
            return Pushed(PushedStatus.REJECTED, "the claim keeps changing under its own nonce")

    def _push_once(self, updates: tuple[RefUpdate, ...], timeout_s: float) -> Pushed | None:
        """None: the claim was ours under another seq, which has been taken up; push again."""
        sent = self._clock.monotonic_s()
        record = replace(self.record, seq=self.record.seq + 1)
        sha = self._make(record)
        report = git.push(self._repo, self._url, [RefUpdate(self.ref, sha, self.sha), *updates], timeout_s=timeout_s)
        if report.status is PushStatus.OK:
            self._won(record, sha, sent)
            return Pushed(PushedStatus.DONE)
        try:
            refs = git.ls_remote(self._repo, self._url, self.ref, *(update.ref for update in updates))
        except GitError as error:
            return Pushed(PushedStatus.UNKNOWN, f"{report.text}; {error.message}")
        there = refs.get(self.ref)
        if there == sha:  # the answer was lost, the push was not: it is atomic, so all of it happened
            self._won(record, sha, sent)
            return Pushed(PushedStatus.DONE, refs=refs)
        if there is not None and there == self.sha:
            return Pushed(_status(report.status), report.text, refs)
        if there is None or not self._adopt(there):
            raise ClaimLost(self.issue)
        return None

    def _make(self, record: ClaimRecord) -> str:
        sha = git.commit_tree(self._repo, git.empty_tree(self._repo), [], record.message(), env=_NOBODY)
        self._intend(record, sha)
        return sha

    def _won(self, record: ClaimRecord, sha: str, sent: float) -> bool:
        self.record, self.sha, self.renewed_s = record, sha, sent
        return True

    def _adopt(self, there: str) -> bool:
        record = read_claim(self._repo, self._url, self.issue, there)
        if record is None or record.nonce != self.record.nonce:
            return False
        self.record, self.sha = record, there
        return True


def _status(status: PushStatus) -> PushedStatus:
    return PushedStatus.UNKNOWN if status is PushStatus.UNKNOWN else PushedStatus.REJECTED


# A claim names its owner in its message; the commit itself is nobody's work and shows up in no one's statistics.
_NOBODY = {
    "GIT_AUTHOR_NAME": "afk",
    "GIT_AUTHOR_EMAIL": "afk@localhost",
    "GIT_COMMITTER_NAME": "afk",
    "GIT_COMMITTER_EMAIL": "afk@localhost",
}
