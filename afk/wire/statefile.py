"""`afk.state.json`: one snapshot of what a worker does now, for any reader. Nothing is resumed from it.

Unknown fields are kept, at every level, and written back after the known ones; missing ones default, and so does a
section that is null. Paths are relative to the checkout, times are RFC 3339 with offset.

Source: AFK wire formats, State File (version 1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from afk.wire.json_value import parse_json

__all__ = ["Current", "EnvelopeState", "FilterState", "State", "StateFileError", "dump", "load"]


class StateFileError(ValueError):
    """The text is no state file: broken JSON, or a field of a type that no version writes; the message says where."""


@dataclass(frozen=True, slots=True)
class FilterState:
    """What the run may work on: `kind` is `prd`, `issues` or `all`; `value` is None for `all`, else the number or
    several, comma-joined."""

    kind: str = "all"
    value: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnvelopeState:
    """`posted`: the issue's thread has the record, so that the local copy need not be kept for long."""

    posted: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Current:
    """The issue at hand. `retries` counts requeues so far; the two `heartbeat` fields are for readers of old files, and
    always None."""

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
    """`pid` is the supervisor's, `pid_start_time` field 22 of its `/proc/<pid>/stat`; empty: only the pid is known.

    `total` to `durations_seconds` (whole seconds) speak of the whole run, all its workers; `failed` counts attempts
    requeued or lost to infrastructure, `blocked` those parked. `current` None: nobody works on anything here.
    """

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
    completed: Sequence[int] = ()
    queue: Sequence[int] = ()
    current: Current | None = None
    durations_seconds: Sequence[int] = ()
    envelope: EnvelopeState = field(default_factory=EnvelopeState)
    extra: Mapping[str, Any] = field(default_factory=dict)


# ── Text and values ─────────────────────────────────────────────────────────────────────────────────────────────────

_SECTIONS: Mapping[str, type[Any]] = {"filter": FilterState, "current": Current, "envelope": EnvelopeState}
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "int": lambda value: type(value) is int,
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str,
    "int | None": lambda value: value is None or type(value) is int,
    "str | None": lambda value: value is None or type(value) is str,
    "Sequence[int]": lambda value: type(value) is list and all(type(item) is int for item in value),
}


def dump(state: State) -> str:
    """The document in ASCII, its keys in the documented order, unknown ones last; ends in LF."""
    return json.dumps(_plain(state), indent=2) + "\n"


def _plain(value: Any) -> Any:
    if not isinstance(value, State | Current | FilterState | EnvelopeState):
        return value
    known = {name: _plain(getattr(value, name)) for name in _declared(type(value))}
    return known | {key: item for key, item in value.extra.items() if key not in known}


def load(text: str) -> State:
    """The snapshot in a file's text. Raises: StateFileError, which the caller reports before it goes on."""
    try:
        document = parse_json(text, finite=True)
    except ValueError as error:
        raise StateFileError(f"not JSON: {error}") from error
    state: State = _read(State, document, "the document")
    return state


def _read(kind: type[Any], document: Any, at: str) -> Any:
    if not isinstance(document, dict):
        raise StateFileError(f"{at} is no object")
    declared, known, extra = _declared(kind), {}, {}
    for name, value in document.items():
        if name not in declared:
            extra[name] = value
        elif value is not None or name not in _SECTIONS:
            known[name] = _value(name, declared[name], value)
    return kind(**known, extra=extra)


def _value(name: str, declared: str, value: Any) -> Any:
    if name in _SECTIONS:
        return _read(_SECTIONS[name], value, name)
    if not _FITS[declared](value):
        raise StateFileError(f"`{name}` is no {declared}")
    return tuple(value) if isinstance(value, list) else value


def _declared(kind: type[Any]) -> dict[str, str]:
    """The known fields in the order of the file, with their types as they are written above."""
    return {each.name: str(each.type) for each in fields(kind) if each.name != "extra"}
