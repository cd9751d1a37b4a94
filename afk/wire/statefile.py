"""`afk.state.json`: one snapshot of what a worker does now, for any reader.

Source: AFK wire formats, State File (version 1). Unknown fields are kept and written back; missing ones default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

__all__ = ["Current", "EnvelopeState", "FilterState", "State", "StateFileError", "dump", "load"]

T = TypeVar("T", "State", "Current", "FilterState", "EnvelopeState")


class StateFileError(ValueError):
    """The text is no state file: broken JSON, or a field of a type that no version writes."""


@dataclass(frozen=True, slots=True)
class FilterState:
    kind: str = "all"
    value: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnvelopeState:
    posted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Current:
    """The issue at hand; paths are relative to the checkout, `retries` counts requeues so far."""

    number: int = 0
    title: str = ""
    slug: str = ""
    worktree: str = ""
    handoff: str = ""
    started_at: str = ""
    stage: str = "setup"
    heartbeat_glyph: str | None = None
    heartbeat_pid: int | None = None
    runner: str = ""
    retries: int = 0
    last_stream_line: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class State:
    """`pid_start_time` is field 22 of /proc/<pid>/stat; empty: only the pid can be compared. `current` None: idle."""

    version: int = 1
    worker_id: str = ""
    pid: int = 0
    pid_start_time: str = ""
    log: str = ""
    started_at: str = ""
    runner: str = ""
    filter: FilterState = field(default_factory=FilterState)
    total: int = 0
    done: int = 0
    failed: int = 0
    blocked: int = 0
    completed: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    current: Current | None = None
    durations_seconds: list[int] = field(default_factory=list)
    envelope: EnvelopeState = field(default_factory=EnvelopeState)
    extra: Mapping[str, Any] = field(default_factory=dict)


def dump(state: State) -> str:
    """The document, its keys in the documented order, unknown ones last; ends in LF."""
    return json.dumps(_plain(state), indent=2) + "\n"


def _plain(value: Any) -> Any:
    if not isinstance(value, (State, Current, FilterState, EnvelopeState)):
        return value
    known = {name.name: _plain(getattr(value, name.name)) for name in fields(value) if name.name != "extra"}
    return known | {key: item for key, item in value.extra.items() if key not in known}


def load(text: str) -> State:
    """Raises `StateFileError`; the caller reports it and goes on."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateFileError("not JSON") from error
    if not isinstance(document, dict):
        raise StateFileError("not an object")
    current = document.get("current")
    return _read(
        State,
        document
        | {
            "filter": _read(FilterState, _mapping(document, "filter")),
            "current": None if current is None else _read(Current, _mapping(document, "current")),
            "envelope": _read(EnvelopeState, _mapping(document, "envelope")),
        },
    )


def _mapping(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key) or {}
    if not isinstance(value, dict):
        raise StateFileError(f"{key} is no object")
    return value


def _read(kind: type[T], document: Mapping[str, Any]) -> T:
    """Known fields by name, checked against the type of their default; the rest is `extra`."""
    blank = kind()
    names = [name.name for name in fields(kind) if name.name != "extra"]
    for name in names:
        if name in document and not _fits(document[name], getattr(blank, name)):
            raise StateFileError(f"{name} has a value of another type")
    known = {name: document[name] for name in names if name in document}
    return kind(**known, extra={key: value for key, value in document.items() if key not in names})


def _fits(value: Any, default: Any) -> bool:
    if default is None:
        return True
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    return isinstance(value, type(default))
