"""What JSON can hold, and the one way in: everything else is converted by name or refused.

A value that is replaced silently (`"<object at …>"`, `NaN`) is found by the client that trips over it; one that is
refused here is found by a test.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, NoReturn, TypeAlias

__all__ = ["JsonValue", "NotJson", "jsonable", "parse_json", "rfc3339", "without_lone_surrogates"]

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MAX_DEPTH = 100


class NotJson(ValueError):
    """A value that has no honest JSON form; the message says where it stands, never what it is."""


def jsonable(value: object, *, at: str = "$") -> JsonValue:
    """A plain copy of nested data: paths, aware datetimes, dates, enums, dataclasses and tuples in their JSON form.

    Raises: `NotJson` for NaN and infinities, naive datetimes, bytes, sets, keys that are no text, any other object, and
    for data nested deeper than 100 levels (which is what a value inside itself comes to).
    """
    return _convert(value, at, 0)


def parse_json(text: str | bytes, *, finite: bool = False) -> Any:
    """The value of a JSON text, `finite` without NaN and infinities, which are none.

    Raises: ValueError for everything that is no JSON, text nested deeper than the interpreter can follow included, so
    that nobody who reads a broken record has to think of it.
    """
    try:
        return json.loads(text, parse_constant=_refuse if finite else None)
    except RecursionError:
        raise NotJson("nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is no JSON")


def rfc3339(moment: datetime) -> str:
    """`2026-05-17T15:14:00Z`; microseconds only where there are any.

    Raises: `NotJson` for a naive datetime: nobody can tell its zone any more.
    """
    if moment.tzinfo is None:
        raise NotJson("a datetime without a zone")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def without_lone_surrogates(text: str) -> str:
    """Half a character, or a byte of a file name that is not UTF-8, in visible form (`\\xff`, `\\ud800`)."""
    return _SURROGATE.sub(_visible, text)


def _convert(value: object, at: str, depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise NotJson(f"{at[:80]}: nested too deeply")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _convert(value.value, at, depth)
    if isinstance(value, Mapping):
        return {_key(name, at): _convert(item, f"{at}.{name}", depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert(item, f"{at}[{index}]", depth + 1) for index, item in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _convert(getattr(value, field.name), f"{at}.{field.name}", depth + 1)
            for field in dataclasses.fields(value)
        }
    return _scalar(value, at)


def _scalar(value: object, at: str) -> JsonValue:
    if isinstance(value, str):
        return without_lone_surrogates(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, PurePath):
        return without_lone_surrogates(str(value))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return rfc3339(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    raise NotJson(f"{at}: {type(value).__name__} has no JSON form here")


def _key(name: object, at: str) -> str:
    plain = name.value if isinstance(name, Enum) else name
    if not isinstance(plain, str):
        raise NotJson(f"{at}: a key of type {type(name).__name__}")
    return without_lone_surrogates(plain)


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    # Python stores an undecodable byte B of a file name as U+DC00 + B (surrogateescape).
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


_SURROGATE = re.compile("[\ud800-\udfff]")
