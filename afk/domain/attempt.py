"""An attempt's identity and the names it gives: worker id, attempt id, branch, directory, slug."""

from __future__ import annotations

import random
import re
import string
import unicodedata
from dataclasses import dataclass

__all__ = ["AttemptId", "branch_name", "draw_worker_id", "parse_branch", "slugify"]

WORKER_ID = re.compile(r"w[A-Z0-9]{4}\Z")
_ATTEMPT_ID = re.compile(r"(w[A-Z0-9]{4})-([1-9][0-9]*)-a([1-9][0-9]*)\Z")
_DIRECTORY = re.compile(r"([1-9][0-9]*)-a([1-9][0-9]*)\Z")
_BRANCH = re.compile(r"afk/(w[A-Z0-9]{4})/([1-9][0-9]*)-([a-z0-9-]+)\Z")
SLUG_MAX = 40


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One worker's try at one issue; written `wZ2R4-142-a1` everywhere. Source: spec/wire-formats.md 3."""

    worker: str
    issue: int
    n: int

    def __str__(self) -> str:
        return f"{self.worker}-{self.issue}-a{self.n}"

    @property
    def directory(self) -> str:
        """`142-a1`, below the worker's own directory."""
        return f"{self.issue}-a{self.n}"

    @classmethod
    def parse(cls, text: str) -> AttemptId | None:
        """None when the text is no attempt id."""
        match = _ATTEMPT_ID.match(text)
        return cls(match[1], int(match[2]), int(match[3])) if match else None

    @classmethod
    def of_directory(cls, worker: str, directory: str) -> AttemptId | None:
        """None when either name is not one that `afk` gives."""
        match = _DIRECTORY.match(directory)
        return cls(worker, int(match[1]), int(match[2])) if match and WORKER_ID.match(worker) else None


def draw_worker_id(source: random.Random | None = None) -> str:
    """`w` and four of `A-Z0-9`; the caller checks that it is not in use."""
    alphabet = string.ascii_uppercase + string.digits
    return "w" + "".join((source or random.SystemRandom()).choices(alphabet, k=4))


def slugify(title: str) -> str:
    """At most 40 characters of `[a-z0-9-]`; `issue` when nothing of the title survives. Never an identity (R11)."""
    folded = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9]+", "-", folded).strip("-")[:SLUG_MAX].strip("-") or "issue"


def branch_name(worker: str, issue: int, title: str) -> str:
    """`afk/{id}/{N}-{slug}`, the live branch of every attempt of this worker at this issue."""
    return f"afk/{worker}/{issue}-{slugify(title)}"


def parse_branch(branch: str) -> tuple[str, int] | None:
    """Worker id and issue number of a live branch; None for any other branch."""
    match = _BRANCH.match(branch)
    return (match[1], int(match[2])) if match else None
