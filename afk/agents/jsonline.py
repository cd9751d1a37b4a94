"""Reading one line of JSON from a program that may write anything there: every look is safe, nothing raises."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from afk.wire.json_value import parse_json

__all__ = ["count", "instant", "json_object", "mapping", "micro_usd", "text"]

_NOTHING: Mapping[str, Any] = {}
_MAX = 2**53  # larger counts are no counts


def json_object(line: str) -> dict[str, Any] | None:
    """The object on this line; None for everything else, JSON of other shapes included."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        found = parse_json(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def mapping(value: object) -> Mapping[str, Any]:
    """Empty for what is none."""
    return value if isinstance(value, dict) else _NOTHING


def text(value: object) -> str:
    """Empty for what is none."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """A whole number from 0; 0 for what is none."""
    return value if type(value) is int and 0 <= value < _MAX else 0  # a bool is none


def micro_usd(value: object) -> int | None:
    """Dollars as millionths of them; None for what is no price."""
    is_price = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MAX / 1e6
    return round(value * 1e6) if is_price else None  # type: ignore[operator]  # narrowed by `is_price`


def instant(epoch_s: object) -> datetime | None:
    """Seconds since 1970; None for what is no time of this century."""
    is_time = isinstance(epoch_s, int | float) and not isinstance(epoch_s, bool) and 1e9 <= epoch_s < 4.1e9
    return datetime.fromtimestamp(epoch_s, UTC) if is_time else None  # type: ignore[arg-type]  # narrowed by `is_time`
