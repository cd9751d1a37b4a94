"""Our line log: a header names the fields, then one row per event; a new header starts a new schema.

    []{at,kind,issue,attempt,msg}:
    "2026-05-17T12:14:00-03:00",agent.stage,142,1,impl

A cell is a JSON number, `null`, `true`, `false`, a bare word, or a JSON string. A last line without LF is absent: it is
being written, or its writer died. Source: AFK wire formats, `worker.log.toonl`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Rows", "header", "parse", "row"]

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_HEADER = re.compile(r"\[\]\{([A-Za-z_][A-Za-z0-9_.-]*(?:,[A-Za-z_][A-Za-z0-9_.-]*)*)\}:")
_NOT_BARE = ("null", "true", "false")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Rows:
    """`rows` by field name, in order; `broken` are the line numbers (from 1) that are neither header nor row."""

    rows: tuple[dict[str, object], ...]
    broken: tuple[int, ...]


def header(fields: Sequence[str]) -> str:
    """The header line without its LF."""
    return "[]{" + ",".join(fields) + "}:"


def row(values: Sequence[object]) -> str:
    """One row without its LF. An object or list travels as JSON text in a string cell; NaN and infinities are null."""
    return ",".join(_cell(value) for value in values)


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return json.dumps(value) if math.isfinite(value) else "null"
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value not in _NOT_BARE else json.dumps(value)
    return json.dumps(json.dumps(value, separators=(",", ":")))


def parse(text: str) -> Rows:
    """Whatever can be read of a log; a broken line costs itself alone."""
    rows: list[dict[str, object]] = []
    broken: list[int] = []
    fields: tuple[str, ...] | None = None
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if match := _HEADER.fullmatch(line):
            fields = tuple(match[1].split(","))
            continue
        cells = _cells(line) if fields else None
        if cells is None or fields is None or len(cells) != len(fields):
            broken.append(number)
        else:
            rows.append(dict(zip(fields, cells, strict=True)))
    return Rows(tuple(rows), tuple(broken))


def _cells(line: str) -> list[object] | None:
    cells: list[object] = []
    place = 0
    while True:
        read = _read_cell(line, place)
        if read is None:
            return None
        value, place = read
        cells.append(value)
        if place == len(line):
            return cells
        if line[place] != ",":
            return None
        place += 1


def _read_cell(line: str, place: int) -> tuple[object, int] | None:
    if line[place : place + 1] == '"':
        try:
            value, end = _DECODER.raw_decode(line, place)
        except ValueError:
            return None
        return value, end
    if match := _NUMBER.match(line, place):
        return json.loads(match[0]), match.end()
    if match := _BARE.match(line, place):
        return {"null": None, "true": True, "false": False}.get(match[0], match[0]), match.end()
    return None
