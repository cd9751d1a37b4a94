"""`validation.jsonl`: one line per executed or skipped check, for machines.

Source: AFK wire formats, Validation Sidecar, schema `red.afk.validation.v1`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

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
    """`command` and `duration_ms` (milliseconds) only when a command ran; `infra` only with status `failed`."""

    name: str
    status: CheckStatus
    command: str | None = None
    duration_ms: int | None = None
    summary: str | None = None
    infra: Infra | None = None


def render(record: SidecarRecord) -> str:
    """One line with its LF; what is None is absent. Key order is part of the format."""
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
    """Raises `SidecarError` for the first line that is not as written; a half written last line is one too."""
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
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SidecarError(f"line {number} is no JSON") from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise SidecarError(f"line {number} is no {SCHEMA}")
    if not _is_text(value.get("name")) or value.get("status") not in tuple(CheckStatus):
        raise SidecarError(f"line {number} has no name or no known status")
    if not all(_is_text(value.get(key, "")) for key in ("command", "summary")):
        raise SidecarError(f"line {number} has a command or summary that is no text")
    if not _is_count(value.get("durationMs", 0)):
        raise SidecarError(f"line {number} has a durationMs that is no whole number")
    if "infra" in value and (value["infra"] not in tuple(Infra) or value["status"] != "failed"):
        raise SidecarError(f"line {number} has an infra that is unknown, or on a check that did not fail")
    infra = value.get("infra")
    return SidecarRecord(
        value["name"],
        CheckStatus(value["status"]),
        value.get("command"),
        value.get("durationMs"),
        value.get("summary"),
        None if infra is None else Infra(infra),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0
