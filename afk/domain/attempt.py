"""An attempt's identity and the names it gives: worker id, attempt id, branch, directory, slug.

The numbers are the identity (S17, S18); the slug is for people alone. Every name is ASCII and short enough for any file
system, whatever the issue is called (R10), and names that others made are read or refused, never cut.

Source: AFK wire formats, Layout.
"""

from __future__ import annotations

import random
import re
import string
import unicodedata
from dataclasses import dataclass

__all__ = ["AttemptId", "DiffStat", "LiveBranch", "branch_name", "draw_worker_id", "slugify"]

_WORKER = r"w[A-Z0-9]{4}"
_NUMBER = r"[1-9][0-9]{0,17}"  # anybody can push a name; Python refuses to read a number of thousands of digits
_ATTEMPT_ID = re.compile(rf"({_WORKER})-({_NUMBER})-a({_NUMBER})")
_LIVE_BRANCH = re.compile(rf"afk/({_WORKER})/({_NUMBER})-[a-z0-9-]+")
_SLUG_MAX = 40


@dataclass(frozen=True, slots=True)
class AttemptId:
    """One worker's try at one issue; written `wZ2R4-142-a1` everywhere. `n` counts the tries at the issue, from 1."""

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
        match = _ATTEMPT_ID.fullmatch(text)
        return cls(match[1], int(match[2]), int(match[3])) if match else None

    @classmethod
    def of_directory(cls, worker: str, directory: str) -> AttemptId | None:
        """None when either name is not one that `afk` gives."""
        found = cls.parse(f"{worker}-{directory}")
        return found if found is not None and found.worker == worker else None


@dataclass(frozen=True, slots=True)
class LiveBranch:
    """Whose a live branch is, read from its name; which of the worker's attempts left it, the name does not say."""

    name: str
    worker: str
    issue: int

    @classmethod
    def parse(cls, name: str) -> LiveBranch | None:
        """None for a name that `afk` does not give, whoever pushed it."""
        match = _LIVE_BRANCH.fullmatch(name)
        return cls(name, match[1], int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class DiffStat:
    """What an attempt changed: lines and files against the merge base with the resolved base."""

    added: int
    removed: int
    files: int = 0


def draw_worker_id(source: random.Random | None = None) -> str:
    """`w` and four of `A-Z0-9`; the caller checks that it is not in use. Without `source`, the system's randomness."""
    alphabet = string.ascii_uppercase + string.digits
    return "w" + "".join((source or random.SystemRandom()).choices(alphabet, k=4))


def slugify(title: str) -> str:
    """At most 40 characters of `[a-z0-9-]`, no dash at either end; `issue` when nothing of the title survives (R11).

    Accents are dropped from their letters, letters that ASCII has no form of are left out: `Über 日本` is `uber`.
    """
    folded = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode("ascii").lower()
    return re.sub(r"[^a-z0-9]+", "-", folded)[:_SLUG_MAX].strip("-") or "issue"


def branch_name(worker: str, issue: int, title: str) -> str:
    """`afk/{id}/{N}-{slug}`, the live branch of every attempt of this worker at this issue."""
    return f"afk/{worker}/{issue}-{slugify(title)}"
