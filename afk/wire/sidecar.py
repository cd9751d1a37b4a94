"""`validation.jsonl`: one line per executed or skipped check, for machines.

Source: AFK wire formats, Validation Sidecar, schema `red.afk.validation.v1`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from afk.wire.json_value import parse_json

__all__ = ["SCHEMA", "CheckStatus", "Infra", "SidecarError", "SidecarRecord", "parse", "parse_or_none", "render"]

SCHEMA: Final = "red.afk.validation.v1"


class CheckStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Infra(StrEnum):
    """Why a failed command says nothing about the branch."""

    STALL = "stall"
    MISSING_TOOL = "missing-tool"
    OOM = "oom"
    SETUP = "setup"
    TIMEOUT = "timeout"


class SidecarError(ValueError):
    """A line that is no record of this schema; the message names its number."""


@dataclass(frozen=True, slots=True)
class SidecarRecord:
    """`command` and `duration_ms` are there only when a command ran, `infra` only with status `failed`.

    `name` stays the same from run to run (`lint:plugins/memory`); `summary` is one line, or why the check was skipped.
    """

    name: str
    status: CheckStatus
    command: str | None = None
    duration_ms: int | None = None
    summary: str | None = None
    infra: Infra | None = None


def render(record: SidecarRecord) -> str:
    """One ASCII line with its LF; what is None is absent. Key order is part of the format."""
    values = {
        "schema": SCHEMA,
        "name": record.name,
        "command": record.command,
        "status": record.status,
        "durationMs": record.duration_ms,
        "summary": record.summary,
        "infra": record.infra,
    }
    return json.dumps({key: value for key, value in values.items() if value is not None}, separators=(",", ":")) + "\n"


def parse(text: str) -> list[SidecarRecord]:
    """Every line in order, keys of a later version passed over; no line at all is a sidecar without checks.

    Raises: SidecarError for the first line that is not as written; a half written last line is one too.
    """
    lines = text.split("\n")
    if lines[-1]:
        raise SidecarError(f"line {len(lines)} does not end")
    return [_record(number, line) for number, line in enumerate(lines[:-1], start=1)]


def parse_or_none(text: str) -> list[SidecarRecord] | None:
    """None for a malformed sidecar: a reader takes the whole of it or nothing, never a guess."""
    try:
        return parse(text)
    except SidecarError:
        return None


def _record(number: int, line: str) -> SidecarRecord:
    try:
        value = parse_json(line, finite=True)
    except ValueError as error:
        raise SidecarError(f"line {number} is no JSON") from error
    if fault := _fault(value):
        raise SidecarError(f"line {number} {fault}")
    return SidecarRecord(
        name=value["name"],
        status=CheckStatus(value["status"]),
        command=value.get("command"),
        duration_ms=value.get("durationMs"),
        summary=value.get("summary"),
        infra=Infra(value["infra"]) if "infra" in value else None,
    )


# What may be absent, and is never null.
_OPTIONAL: Final[Mapping[str, Callable[[object], bool]]] = {
    "command": lambda value: isinstance(value, str),
    "durationMs": lambda value: type(value) is int and value >= 0,
    "summary": lambda value: isinstance(value, str),
    "infra": lambda value: value in tuple(Infra),
}


def _fault(value: Any) -> str:
    """What is wrong with a line; empty when nothing is."""
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        return f"is no {SCHEMA}"
    if not isinstance(value.get("name"), str) or value.get("status") not in tuple(CheckStatus):
        return "has no name or no known status"
    for key, fits in _OPTIONAL.items():
        if key in value and not fits(value[key]):
            return f"has a {key} of another kind"
    if "infra" in value and value["status"] != CheckStatus.FAILED:
        return "has infra evidence for a check that did not fail"
    return ""
