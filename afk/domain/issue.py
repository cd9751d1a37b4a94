"""Issues as the tracker tells them, the filter of a run, and which issue is next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = ["Comment", "Filter", "FilterKind", "Issue"]


@dataclass(frozen=True, slots=True)
class Issue:
    """A snapshot of one issue; `updated_at` changes when anything in it does. `url`: None in the local tracker.

    `assignees` are logins of people who were asked to do it themselves; empty where the tracker has none.
    """

    number: int
    title: str
    body: str
    state: str  # "open" | "closed"
    labels: tuple[str, ...]
    author: str
    created_at: datetime
    updated_at: datetime
    closed_reason: str | None = None
    url: str | None = None
    assignees: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.state == "open"

    def to_json(self) -> dict[str, Any]:
        """Every field, times in RFC 3339; what a journal keeps as the snapshot that is worked."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        times = {"created_at": self.created_at.isoformat(), "updated_at": self.updated_at.isoformat()}
        return values | {"labels": list(self.labels), "assignees": list(self.assignees)} | times

    @classmethod
    def of_json(cls, record: Mapping[str, Any]) -> Issue:
        """Raises KeyError, TypeError or ValueError for what `to_json` did not write."""
        known = {field.name: record[field.name] for field in fields(cls) if field.name in record}
        made = cls(**known)
        return replace(
            made,
            labels=tuple(made.labels),
            assignees=tuple(made.assignees),
            created_at=datetime.fromisoformat(str(made.created_at)),
            updated_at=datetime.fromisoformat(str(made.updated_at)),
        )

    def has_label(self, name: str) -> bool:
        """Labels are compared without regard to case; the spelling a person chose is kept for display."""
        return name.casefold() in (label.casefold() for label in self.labels)

    def assigned_since(self, before: Issue, *, but: str) -> tuple[str, ...]:
        """Whom it was given to after the snapshot `before`, other than the login `but`; logins ignore case."""
        known = {login.casefold() for login in (*before.assignees, but)}
        return tuple(login for login in self.assignees if login.casefold() not in known)


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment of a thread; `by_us`: the tracker's own login; `can_write`: the author may push."""

    id: str
    author: str
    created_at: datetime
    body: str
    by_us: bool
    can_write: bool
    url: str | None = None


class FilterKind(StrEnum):
    ALL = "all"
    PRD = "prd"
    ISSUES = "issues"


@dataclass(frozen=True, slots=True)
class Filter:
    """What a run may work on; `numbers` is empty for ALL, one parent for PRD, the wanted order for ISSUES."""

    kind: FilterKind = FilterKind.ALL
    numbers: tuple[int, ...] = ()

    @property
    def value(self) -> str | None:
        """The `filter.value` of the state file: None for all, comma-joined numbers else."""
        return ",".join(str(number) for number in self.numbers) or None
