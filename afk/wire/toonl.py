"""Our line log: a header names the fields, then one row per event; a new header starts a new schema.

    []{at,kind,issue,attempt,msg}:
    "2026-05-17T12:14:00-03:00",agent.stage,142,1,impl

A cell is a JSON number, `null`, `true`, `false`, a bare word (`[A-Za-z_][A-Za-z0-9_.-]*`), or a JSON string. Lines end
at LF and nowhere else, and we write ASCII alone. A last line without LF is absent: it is being written, or its writer
died.

Source: AFK wire formats, `worker.log.toonl`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from afk.wire.json_value import parse_json

__all__ = ["Rows", "header", "parse", "row"]

_WORD = r"[A-Za-z_][A-Za-z0-9_.-]*"
_BARE = re.compile(_WORD)
_HEADER = re.compile(rf"\[\]\{{({_WORD}(?:,{_WORD})*)\}}:")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CONSTANTS = {"null": None, "true": True, "false": False}
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Rows:
    """`rows` by field name, in order; `broken` are the line numbers (from 1) that are neither header nor row."""

    rows: tuple[dict[str, object], ...]
    broken: tuple[int, ...]


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def header(fields: Sequence[str]) -> str:
    """The header line without its LF. Raises: ValueError for no fields, a field named twice, or one that is no word."""
    line = "[]{" + ",".join(fields) + "}:"
    if not fields or _fields(line) != tuple(fields):
        raise ValueError(f"no header: {line}")
    return line


def row(values: Sequence[object]) -> str:
    """One row without its LF, a cell for each value.

    An object or list travels as JSON text in a string cell; NaN and infinities are `null`. Raises: TypeError or
    ValueError for what JSON cannot hold.
    """
    return ",".join(map(_cell, values))


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) and value not in _CONSTANTS else json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(json.dumps(value, separators=(",", ":"), allow_nan=False))


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def parse(text: str) -> Rows:
    """Whatever can be read of a log; a broken line costs itself alone, a broken header the rows that it would name."""
    rows: list[dict[str, object]] = []
    broken: list[int] = []
    fields: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        if line.startswith("["):  # no cell does
            fields = _fields(line)
            is_read = bool(fields)
        else:
            cells = _cells(line)
            is_read = bool(fields) and len(cells) == len(fields)
            rows += [dict(zip(fields, cells, strict=True))] if is_read else []
        if not is_read:
            broken.append(number)
    return Rows(tuple(rows), tuple(broken))


def _fields(line: str) -> tuple[str, ...]:
    """Empty when the line is no header: a name that stands twice would hide a cell."""
    match = _HEADER.fullmatch(line)
    names = tuple(match[1].split(",")) if match else ()
    return names if len(set(names)) == len(names) else ()


def _cells(line: str) -> tuple[object, ...]:
    """Empty when the line is no row: a row has at least one cell."""
    try:
        return tuple(_read_cells(line))
    except ValueError:
        return ()


def _read_cells(line: str) -> Iterator[object]:
    """Raises: ValueError where the line stops being a row."""
    place = -1
    while place < len(line):
        value, place = _read_cell(line, place + 1)
        if line[place : place + 1] not in ("", ","):
            raise ValueError(f"a cell goes on at {place}")
        yield value


def _read_cell(line: str, place: int) -> tuple[object, int]:
    """A value and where it ends. Raises: ValueError, also for a number that is too large to be one here."""
    if line.startswith('"', place):
        return _DECODER.raw_decode(line, place)
    if match := _NUMBER.match(line, place):
        value = parse_json(match[0])
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"a number beyond all bounds at {place}")
        return value, match.end()
    if match := _BARE.match(line, place):
        return _CONSTANTS.get(match[0], match[0]), match.end()
    raise ValueError(f"no cell at {place}")
