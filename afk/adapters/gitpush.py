"""Pushing as a compare-and-swap: every ref under a lease on the sha that we decided on, all of them or none.

Source: git-push(1), "--porcelain" under OUTPUT, and "--force-with-lease".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from afk.adapters.gitrun import GitResult, masked, run_remote
from afk.errors import RemoteUnreachable

__all__ = ["FAST_FORWARD", "PushReport", "PushStatus", "RefUpdate", "push"]

FAST_FORWARD: Final = "fast-forward"
"""In place of an expected sha: git's own rule decides, the new commit has to contain what is there."""

_REF = re.compile(r"refs/[^\s:+*?\[\\~^]+\Z")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_FLAG_LINE = re.compile(r"([ +\-*!=])\t(\S*):(\S+)\t(.*)\Z")
_WON = frozenset("* +-")


class PushStatus(StrEnum):
    OK = "ok"  # every ref was moved by this very push
    REJECTED = "rejected"  # the remote said no, or there was nothing to move: this push won nothing
    UNKNOWN = "unknown"  # no answer that can be trusted; only reading the refs back tells


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """One ref of a push. `new` None deletes it; `expect` is the sha it has now, None when it must not exist yet.

    Raises `ValueError` for a ref that is not written out from `refs/` or a `new` that is no full sha: what reaches
    git's command line here was decided by us, and is never a name that could mean something else.
    """

    ref: str
    new: str | None
    expect: str | None

    def __post_init__(self) -> None:
        if not _REF.match(self.ref):
            raise ValueError(f"not a full ref name: {self.ref!r}")
        if self.new is not None and not _SHA.match(self.new):
            raise ValueError(f"not a full sha: {self.new!r}")
        if self.expect not in (None, FAST_FORWARD) and not _SHA.match(str(self.expect)):
            raise ValueError(f"not a full sha: {self.expect!r}")

    @property
    def lease(self) -> list[str]:
        """Never without a value: a bare lease is satisfied by whatever a sibling worktree fetched last (R87)."""
        return [] if self.expect == FAST_FORWARD else [f"--force-with-lease={self.ref}:{self.expect or ''}"]

    @property
    def refspec(self) -> str:
        return f"{self.new or ''}:{self.ref}"


@dataclass(frozen=True, slots=True)
class PushReport:
    """`refs` has git's flag for each ref it spoke of; `text` the words of git and of the remote, without secrets.

    Unless the status is OK, the caller reads the refs back, and they alone decide.
    """

    status: PushStatus
    refs: Mapping[str, str] = field(default_factory=dict)
    text: str = ""


def push(repo: Path, url: str, updates: Sequence[RefUpdate], *, timeout_s: float = 120.0) -> PushReport:
    """Apply all updates in one transaction of the remote, or none; no hook of ours runs, no ref is guessed.

    A remote that cannot be reached or does not answer in time is UNKNOWN, never an exception.
    """
    leases = [lease for update in updates for lease in update.lease]
    refspecs = [update.refspec for update in updates]
    try:
        result = run_remote(repo, url, *_PUSH, *leases, "--", url, *refspecs, timeout_s=timeout_s, check=False)
    except RemoteUnreachable as error:
        return PushReport(PushStatus.UNKNOWN, text=error.message)
    return _report(result, [update.ref for update in updates])


_PUSH = (
    "push",
    "--porcelain",
    "--atomic",
    "--no-verify",
    "--no-follow-tags",
    "--no-recurse-submodules",
    "--no-force-if-includes",
)


def _report(result: GitResult, wanted: Sequence[str]) -> PushReport:
    lines = [match for line in result.stdout.splitlines() if (match := _FLAG_LINE.match(line))]
    flags = {line[3]: line[1] for line in lines}
    refused = [f"{line[3]}: {line[4]}" for line in lines if line[1] in "!="]
    return PushReport(_status(result.returncode, lines, wanted), flags, masked("\n".join([*refused, result.stderr])))


def _status(returncode: int, lines: Sequence[re.Match[str]], wanted: Sequence[str]) -> PushStatus:
    flags = {line[3]: line[1] for line in lines}
    if any(line[1] == "!" and "[remote failure]" in line[4] for line in lines):
        return PushStatus.UNKNOWN  # the remote took the push and died before it said what became of it
    if "!" in flags.values() and returncode == 1:
        return PushStatus.REJECTED
    if returncode == 0 and all(flags.get(ref) in _WON for ref in wanted):
        return PushStatus.OK
    # "=" is up to date: git leaves such a ref out of the transaction, so nothing was won and nothing was fenced.
    return PushStatus.REJECTED if returncode == 0 and "=" in flags.values() else PushStatus.UNKNOWN
