"""Events of AFDATA v1: four builders, and the checks that a client would make.

An event is a plain `dict` of JSON values with the closed top level `kind`, the payload under the name that `kind` says,
and `trace`. `afk` speaks the strict profile: `trace` is always an object, `error.retryable` always a boolean.

Source: AFDATA v1, decision record; `protocol-v1.schema.json`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

from afk.wire.json_value import JsonValue, jsonable

__all__ = [
    "Event",
    "Kind",
    "ProtocolViolation",
    "check_event",
    "check_stream",
    "error",
    "log",
    "progress",
    "result",
]

Event: TypeAlias = dict[str, JsonValue]


class Kind(StrEnum):
    RESULT = "result"
    ERROR = "error"
    PROGRESS = "progress"
    LOG = "log"

    @property
    def is_terminal(self) -> bool:
        """A finite stream has exactly one such event, at its end."""
        return self in (Kind.RESULT, Kind.ERROR)


class ProtocolViolation(ValueError):
    """An event or a stream that AFDATA v1 does not allow; the message names the rule."""


def result(payload: object, *, schema: str | None = None, trace: Mapping[str, object] | None = None) -> Event:
    """What a command came to. With `schema`, the payload must be a mapping, and `schema` becomes its first key.

    Raises: `NotJson` for a payload that cannot be written as JSON (so do the other builders).
    """
    return _event(Kind.RESULT, _named(payload, schema), trace)


def error(
    code: str,
    message: str,
    *,
    hint: str = "",
    retryable: bool = False,
    fields: Mapping[str, object] | None = None,
    trace: Mapping[str, object] | None = None,
) -> Event:
    """Why there is no result. `fields` stand beside `code`, there is no wrapper; an empty hint is left out.

    Raises: `ProtocolViolation` for an empty code or message, or a field that would hide one of the four.
    """
    payload: dict[str, object] = {"code": code, "message": message}
    if hint:
        payload["hint"] = hint
    payload["retryable"] = retryable
    hidden = {"code", "message", "hint", "retryable"} & (fields or {}).keys()
    if hidden:
        raise ProtocolViolation(f"an error's extension may not be named {', '.join(sorted(hidden))}")
    event = _event(Kind.ERROR, payload | dict(fields or {}), trace)
    check_event(event)
    return event


def progress(payload: object, *, schema: str | None = None, trace: Mapping[str, object] | None = None) -> Event:
    """A step on the way; never needed to understand the result."""
    return _event(Kind.PROGRESS, _named(payload, schema), trace)


def log(payload: object, *, schema: str | None = None, trace: Mapping[str, object] | None = None) -> Event:
    """Something for whoever looks for a fault; nobody branches on it."""
    return _event(Kind.LOG, _named(payload, schema), trace)


def check_event(event: object, *, strict: bool = True) -> None:
    """Raises `ProtocolViolation` unless `event` is one whole event; `strict=False` is the base profile.

    The base profile asks for the closed top level and for an error's code and message; the strict one also for `trace`
    and a boolean `error.retryable`.
    """
    if not isinstance(event, dict):
        raise ProtocolViolation("an event is an object")
    kind = event.get("kind")
    if not isinstance(kind, str) or kind not in tuple(Kind):
        raise ProtocolViolation("kind is one of result, error, progress, log")
    if kind not in event:
        raise ProtocolViolation(f"the payload field {kind} is missing")
    if event.keys() - {"kind", kind, "trace"}:
        raise ProtocolViolation("the top level holds kind, its payload and trace alone")
    if not isinstance(event.get("trace", None if strict else {}), dict):
        raise ProtocolViolation("trace is an object")
    if kind == Kind.ERROR:
        _check_error(event[kind], strict=strict)


def check_stream(events: Iterable[object], *, strict: bool = True) -> None:
    """Raises `ProtocolViolation` unless the events are `(log | progress)*` and then exactly one result or error."""
    ended = False
    for position, event in enumerate(events):
        try:
            check_event(event, strict=strict)
        except ProtocolViolation as violation:
            raise ProtocolViolation(f"event {position}: {violation}") from violation
        if ended:
            raise ProtocolViolation(f"event {position}: the stream had already ended")
        ended = isinstance(event, dict) and Kind(event["kind"]).is_terminal
    if not ended:
        raise ProtocolViolation("the stream has no result and no error")


def _event(kind: Kind, payload: object, trace: Mapping[str, object] | None) -> Event:
    return {"kind": str(kind), str(kind): jsonable(payload), "trace": jsonable(dict(trace or {}))}


def _named(payload: object, schema: str | None) -> object:
    if schema is None:
        return payload
    if not isinstance(payload, Mapping) or "schema" in payload:
        raise ProtocolViolation("a payload with a schema is an object that does not bring its own")
    return {"schema": schema, **payload}


def _check_error(payload: object, *, strict: bool) -> None:
    if not isinstance(payload, dict):
        raise ProtocolViolation("error is an object")
    for name in ("code", "message"):
        if not isinstance(payload.get(name), str) or not payload[name]:
            raise ProtocolViolation(f"error.{name} is a text that is not empty")
    if not isinstance(payload.get("hint", ""), str):
        raise ProtocolViolation("error.hint is a text")
    if strict and not isinstance(payload.get("retryable"), bool):
        raise ProtocolViolation("error.retryable is true or false")
