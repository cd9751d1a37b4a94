"""Payloads as people read them. A command may bring its own text; this is what every other one gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from afk.wire.afdata_names import display
from afk.wire.json_value import JsonValue

__all__ = ["aligned", "columns", "readable"]

_NOTHING = "-"


def readable(payload: Mapping[str, JsonValue]) -> str:
    """Every field but the schema, in its order: `name: value`, lists of objects as columns, the rest indented."""
    return "\n".join(_lines({name: value for name, value in payload.items() if name != "schema"}, 0)) + "\n"


def columns(rows: Sequence[Sequence[str]], *, indent: int = 0) -> str:
    """Rows of equal length, aligned to the left, no wider than needed; the first row is the heading."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(" " * indent + line for line in lines)


def aligned(pairs: Sequence[tuple[str, str]], *, indent: int = 0) -> str:
    """Names and their explanations, the second column aligned."""
    return columns(pairs, indent=indent)


def _lines(value: Mapping[str, JsonValue], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, item in value.items():
        label, text = display(name, item) or (name, None)
        label = label.replace("_", " ")
        if text is None and item and isinstance(item, dict):
            yield f"{pad}{label}:"
            yield from _lines(item, depth + 1)
        elif text is None and item and isinstance(item, list):
            yield from _list_lines(label, item, depth)
        else:
            yield from _entry(f"{pad}{label}: ", text or _scalar(item))


def _list_lines(label: str, items: Sequence[JsonValue], depth: int) -> Iterator[str]:
    pad = "  " * depth
    if not any(isinstance(item, (dict, list)) for item in items):
        yield f"{pad}{label}: {', '.join(_scalar(item) for item in items)}"
        return
    yield f"{pad}{label}:"
    rows = [item for item in items if isinstance(item, dict)]
    if len(rows) == len(items) and _is_flat(rows):
        yield columns([[name.replace("_", " ") for name in rows[0]], *_cells(rows)], indent=len(pad) + 2)
        return
    for item in items:
        yield f"{pad}  -"
        yield from _lines(item if isinstance(item, dict) else {"value": item}, depth + 2)


def _is_flat(rows: Sequence[Mapping[str, JsonValue]]) -> bool:
    """Whether columns can hold them: the same names in each, and no objects or line breaks inside."""
    return all(row.keys() == rows[0].keys() and all(_fits_cell(item) for item in row.values()) for row in rows)


def _fits_cell(item: JsonValue) -> bool:
    if isinstance(item, list):
        return not any(isinstance(each, (dict, list)) for each in item)
    return not isinstance(item, dict) and not (isinstance(item, str) and "\n" in item)


def _cells(rows: Sequence[Mapping[str, JsonValue]]) -> list[list[str]]:
    return [[(display(name, item) or (name, None))[1] or _scalar(item) for name, item in row.items()] for row in rows]


def _entry(lead: str, text: str) -> Iterator[str]:
    """A text of several lines goes on under its own beginning."""
    first, *rest = text.rstrip("\n").split("\n")
    yield f"{lead}{first}".rstrip()
    yield from (" " * len(lead) + line for line in rest)


def _scalar(value: JsonValue) -> str:
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_scalar(item) for item in value) or _NOTHING
    return _NOTHING if value == {} else str(value)
