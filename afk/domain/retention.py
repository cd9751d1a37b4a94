"""How long what attempts left is kept: told attempts, and the branches and pointers of closed issues.

Doubt always keeps: what is not told to its end, may still be in use, or belongs to an issue of which nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["AttemptFacts", "IssueStand", "Terms", "Verdict", "expires_at", "judge_attempt", "judge_closed", "keep"]


@dataclass(frozen=True, slots=True)
class Terms:
    """`parked_posted` and `parked_unposted` are for directories that were kept for people, by whether their envelope is
    in the thread; `attempts` an issue and `attempt_age` bound all of them; `branch_age` counts from an issue's last
    change once it is closed."""

    parked_posted: timedelta
    parked_unposted: timedelta
    attempts: int
    attempt_age: timedelta
    branch_age: timedelta

    @classmethod
    def of_days(
        cls,
        *,
        parked_posted_days: float,
        parked_unposted_days: float,
        attempts: int,
        attempt_days: float,
        branch_days: float,
    ) -> Terms:
        """A number of days that no calendar holds is for ever."""
        return cls(
            _days(parked_posted_days), _days(parked_unposted_days), attempts, _days(attempt_days), _days(branch_days)
        )


_FOR_EVER = timedelta(days=365_000)


def _days(days: float) -> timedelta:
    return timedelta(days=days) if days < _FOR_EVER.days else _FOR_EVER


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What is known of one attempt's directory.

    `told_at` None: something of it is still owed. `is_kept`: its issue was parked, or its worktree is still there.
    `newer` counts the attempts at the same issue with a higher number. `in_use` says by whom; empty is by nobody.
    """

    told_at: datetime | None
    is_kept: bool
    is_posted: bool
    is_waiting: bool = False
    newer: int = 0
    in_use: str = ""


@dataclass(frozen=True, slots=True)
class IssueStand:
    """What is known of an issue when its leftovers are judged.

    `is_open` None: the tracker has no such issue, or cannot read it. `changed_at` is its last change of any kind, which
    is never before its closing. `is_claimed`: somebody holds it, on whatever machine.
    """

    is_open: bool | None
    changed_at: datetime | None = None
    is_claimed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it goes, a word for machines, and a sentence for people."""

    goes: bool
    code: str
    reason: str


def keep(code: str, reason: str) -> Verdict:
    return Verdict(False, code, reason)


def expires_at(facts: AttemptFacts, terms: Terms) -> datetime | None:
    """When its directory may go by age; None while something of it is owed."""
    if facts.told_at is None:
        return None
    kept = terms.parked_posted if facts.is_posted else terms.parked_unposted
    return facts.told_at + (min(kept, terms.attempt_age) if facts.is_kept else terms.attempt_age)


def judge_attempt(facts: AttemptFacts, terms: Terms, now: datetime) -> Verdict:
    """What becomes of one attempt's directory."""
    until = expires_at(facts, terms)
    if facts.is_waiting:
        return keep("waiting", "it waits for its turn to land")
    if until is None:
        return keep("unfinished", "it is not told to its end; the next `afk run` goes on with it")
    if facts.in_use:
        return keep("in_use", facts.in_use)
    if facts.newer >= terms.attempts:
        return Verdict(True, "superseded", f"{facts.newer} newer attempts at its issue are here")
    if now < until:
        return keep("young", f"it is kept until {until.isoformat(timespec='seconds')}")
    posted = "its envelope is posted" if facts.is_posted else "nothing was posted about it"
    return Verdict(True, "expired", f"it ended {_age(now, facts.told_at)} ago and {posted}")


def judge_closed(facts: IssueStand, terms: Terms, now: datetime) -> Verdict:
    """What becomes of a branch, or of a pointer to the last copy of a commit, of this issue."""
    if facts.is_claimed:
        return keep("claimed", "somebody holds its issue")
    if facts.is_open is None:
        return keep("no_issue", "the tracker does not know its issue, so nothing says that it is over")
    if facts.is_open or facts.changed_at is None:
        return keep("open", "its issue is open")
    if now < facts.changed_at + terms.branch_age:
        until = facts.changed_at + terms.branch_age
        return keep(
            "young", f"its issue was closed or changed not long ago; kept until {until.isoformat(timespec='seconds')}"
        )
    return Verdict(True, "closed", f"its issue is closed, and nothing happened there for {_age(now, facts.changed_at)}")


def _age(now: datetime, then: datetime | None) -> str:
    age = now - (then or now)
    return f"{age.days} days" if age >= timedelta(days=2) else f"{age.total_seconds() / 3600:.0f} hours"
