"""What the ending of a field's name says about its value: units, instants, money.

One table serves both readers: people, who see `1.28s` for `latency_ms: 1280`, and the tests of payloads, which ask that
a name keeps its promise.

Source: AFDATA v1, suffix registry; fixtures `output_formats.json` and `helpers.json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from afk.wire.json_value import JsonValue

__all__ = [
    "bytes_for_people",
    "currency_of",
    "display",
    "is_bcp47",
    "is_rfc3339",
    "is_rfc3339_date",
    "is_rfc3339_time",
    "naming_problems",
    "normal_utc_offset",
    "number_text",
    "with_commas",
]


def display(name: str, value: JsonValue) -> tuple[str, str] | None:
    """The field as people read it: name without its unit, value with it. None when the name says nothing, or when the
    value is not of the kind that the name promises (then both stay as they are)."""
    money = _MONEY.fullmatch(name)
    if money and not name.lower().endswith(("_usd_cents", "_eur_cents")):
        text = _coded_money(value, code=money[2], micro=money[3].lower() == "micro")
        return None if text is None else (money[1], text)
    for unit in _UNITS:
        if name.endswith((unit.suffix, unit.suffix.upper())):
            text = unit.text(value) if unit.text else None
            return None if text is None else (name[: -len(unit.suffix)], text)
    return None


def naming_problems(value: JsonValue, *, at: str = "$") -> list[str]:
    """Every field whose value is not what its name promises, by its place; null always fits (it means: unknown)."""
    return list(_problems(value, at))


def number_text(value: int | float) -> str:
    """The shortest text that reads back as the same number: `3` for 3.0, `1e-7` for 1e-07."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return re.sub(r"e([+-]?)0*(\d)", r"e\1\2", repr(value))


def bytes_for_people(size: int) -> str:
    """`512B`, `446.1KiB`, `5.0MiB`: powers of 1024, halves to even."""
    for unit, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.1f}{unit}"
    return f"{size}B"


def with_commas(number: int) -> str:
    return f"{number:,}"


def currency_of(name: str) -> str | None:
    """`thb` of `fare_thb_cents`; None when the word before `_cents` or `_micro` is no code of three or four letters."""
    found = _CODE.search(name)
    return found[1] if found else None


def normal_utc_offset(text: str) -> str | None:
    """`UTC` or `±HH:MM`; None for anything that is no fixed offset (names of zones are none)."""
    text = text.strip()
    if text.lower() in ("utc", "z"):
        return "UTC"
    found = _OFFSET.fullmatch(text)
    if not found:
        return None
    hours, minutes = int(found[2] or found[4]), int(found[3] or found[5] or 0)
    if hours > 23 or minutes > 59:
        return None
    return f"{found[1]}{hours:02d}:{minutes:02d}" if hours or minutes else "UTC"


def is_rfc3339(text: str) -> bool:
    """A date, `T`, a time and an offset; no space, no leap second, nothing left out."""
    return is_rfc3339_date(text[:10]) and text[10:11] in ("T", "t") and bool(_TIME_AND_OFFSET.fullmatch(text[11:]))


def is_rfc3339_date(text: str) -> bool:
    """A day that exists; the year 0000 does, and is a leap year."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    try:
        date(int(text[:4]) or 400, int(text[5:7]), int(text[8:]))  # `date` starts at the year 1; 400 has the same days
    except ValueError:
        return False
    return True


def is_rfc3339_time(text: str) -> bool:
    """`HH:MM:SS` with an optional fraction and without an offset."""
    return bool(re.fullmatch(_TIME, text))


def is_bcp47(text: str) -> bool:
    """A language tag by its form; whether it is registered is not looked up."""
    return bool(_LANGUAGE.fullmatch(text))


@dataclass(frozen=True, slots=True)
class _Unit:
    """`text` gives the value for people, None when it is of another kind; `fits` judges what a payload carries."""

    suffix: str
    fits: Callable[[JsonValue], bool]
    text: Callable[[JsonValue], str | None] | None = None


def _problems(value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _problems(item, at=f"{at}[{index}]")
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        unit = next((unit for unit in _UNITS if name.endswith((unit.suffix, unit.suffix.upper()))), None)
        if unit and item is not None and not unit.fits(item):
            yield f"{at}.{name}: not what {unit.suffix} promises"
        yield from _problems(item, at=f"{at}.{name}")


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _integer(value: JsonValue) -> int | None:
    """Also 3.0: JSON does not tell it from 3."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _is_integer(value: JsonValue) -> bool:
    return _integer(value) is not None


def _integer_or_digits(value: JsonValue) -> int | None:
    """Numbers beyond 2^53 travel as text."""
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"-?[0-9]{1,40}", value) else None
    return _integer(value)


def _money_amount(value: JsonValue) -> int | None:
    amount = _integer(value)
    return amount if amount is not None and -(2**63) <= amount < 2**63 else None


def _measured(unit: str) -> Callable[[JsonValue], str | None]:
    def text(value: JsonValue) -> str | None:
        return f"{number_text(value)}{unit}" if isinstance(value, (int, float)) and _is_number(value) else None

    return text


def _milliseconds(value: JsonValue) -> str | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if abs(value) < 1000:
        return f"{number_text(value)}ms"
    seconds = f"{value / 1000:.3f}".rstrip("0")
    return f"{seconds}0s" if seconds.endswith(".") else f"{seconds}s"


def _size(value: JsonValue) -> str | None:
    size = _integer(value)
    return bytes_for_people(size) if size is not None and size >= 0 else None


def _instant(to_ms: Callable[[int], int], read: Callable[[JsonValue], int | None]) -> Callable[[JsonValue], str | None]:
    """None outside the years 1 to 9999, which is all that RFC 3339 can write."""

    def text(value: JsonValue) -> str | None:
        count = read(value)
        ms = None if count is None else to_ms(count)
        if ms is None or not _FIRST_MS <= ms <= _LAST_MS:
            return None
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
        return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"

    return text


def _symbol_money(symbol: str, *, cents: bool) -> Callable[[JsonValue], str | None]:
    def text(value: JsonValue) -> str | None:
        amount = _money_amount(value)
        if amount is None:
            return None
        whole = f"{abs(amount) // 100}.{abs(amount) % 100:02d}" if cents else with_commas(abs(amount))
        return f"{'-' if amount < 0 else ''}{symbol}{whole}"

    return text


def _coded_money(value: JsonValue, *, code: str, micro: bool) -> str | None:
    amount = _money_amount(value)
    if amount is None:
        return None
    whole, part = divmod(abs(amount), 1_000_000 if micro else 100)
    return f"{'-' if amount < 0 else ''}{whole}.{part:0{6 if micro else 2}d} {code.upper()}"


def _bitcoin(unit: str) -> Callable[[JsonValue], str | None]:
    def text(value: JsonValue) -> str | None:
        amount = _integer_or_digits(value)
        # The digits of a text are kept as they were written.
        return None if amount is None else f"{value if isinstance(value, str) else amount}{unit}"

    return text


def _text_that(check: Callable[[str], bool]) -> Callable[[JsonValue], bool]:
    return lambda value: isinstance(value, str) and check(value)


def _same(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_MONEY = re.compile(r"(.+)_([A-Za-z]{3,4})_(cents|CENTS|micro|MICRO)")
_CODE = re.compile(r"_([A-Za-z]{3,4})_(?:cents|CENTS|micro|MICRO)\Z")
_OFFSET = re.compile(r"([+-])(?:([0-9]{1,2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2}))")
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
_TIME_AND_OFFSET = re.compile(_TIME + r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])")
_LANGUAGE = re.compile(r"(?:[A-Za-z]{2,3}|[xi])(?:-[A-Za-z0-9]{1,8})*")

# The first ending that fits decides, so the longer ones stand first.
_UNITS: tuple[_Unit, ...] = (
    _Unit("_epoch_ms", _is_integer, _instant(lambda ms: ms, _integer)),
    _Unit("_epoch_s", _is_integer, _instant(lambda s: s * 1000, _integer)),
    _Unit(
        "_epoch_ns",
        lambda value: isinstance(value, str) and _integer_or_digits(value) is not None,
        _instant(lambda ns: ns // 1_000_000, _integer_or_digits),
    ),
    _Unit("_usd_cents", _is_integer, _symbol_money("$", cents=True)),
    _Unit("_eur_cents", _is_integer, _symbol_money("€", cents=True)),
    _Unit("_rfc3339", _text_that(is_rfc3339), _same),
    _Unit("_rfc3339_date", _text_that(is_rfc3339_date)),
    _Unit("_rfc3339_time", _text_that(is_rfc3339_time)),
    _Unit("_bcp47", _text_that(is_bcp47)),
    _Unit("_utc_offset", _text_that(lambda text: normal_utc_offset(text) is not None)),
    _Unit("_minutes", _is_number, _measured(" minutes")),
    _Unit("_hours", _is_number, _measured(" hours")),
    _Unit("_days", _is_number, _measured(" days")),
    _Unit("_msats", lambda value: _integer_or_digits(value) is not None, _bitcoin("msats")),
    _Unit("_sats", lambda value: _integer_or_digits(value) is not None, _bitcoin("sats")),
    _Unit("_bytes", lambda value: (_integer(value) or 0) >= 0 and _is_integer(value), _size),
    _Unit("_percent", _is_number, _measured("%")),
    _Unit("_jpy", _is_integer, _symbol_money("¥", cents=False)),
    _Unit("_ns", _is_number, _measured("ns")),
    _Unit("_us", _is_number, _measured("μs")),
    _Unit("_ms", _is_number, _milliseconds),
    _Unit("_s", _is_number, _measured("s")),
    _Unit("_url", lambda value: isinstance(value, str)),
    _Unit("_path", lambda value: isinstance(value, str) and value.startswith("/")),
)
