"""An event as text: JSON for programs, YAML and one-line `plain` for eyes. Redaction happens here, for every surface.

None of the three ever breaks a line where its format has none, or holds what a YAML reader refuses: controls, U+0085,
U+2028, U+2029, U+FEFF and noncharacters are escaped, although the protocol would let them stand in YAML and plain.

Source: AFDATA v1, transport mappings, "CLI"; fixtures `output_formats.json`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from afk.wire.afdata_names import display, number_text
from afk.wire.json_value import JsonValue
from afk.wire.redact import MARKER, PLAIN, Rules, redact

__all__ = ["Format", "render", "to_json", "to_plain", "to_yaml"]


class Format(StrEnum):
    JSON = "json"
    YAML = "yaml"
    PLAIN = "plain"


def render(event: Mapping[str, JsonValue], form: Format, *, rules: Rules = PLAIN) -> str:
    """The redacted event with its final newline: one line, or a YAML document with its `---`."""
    write = {Format.JSON: to_json, Format.YAML: to_yaml, Format.PLAIN: to_plain}[form]
    return write(redact(dict(event), rules)) + "\n"


def to_json(value: JsonValue) -> str:
    """Compact and pure ASCII, keys in the order given."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def to_yaml(value: JsonValue) -> str:
    """A document that begins with `---`: keys sorted, every text in double quotes; an empty object is `---` alone."""
    return "\n".join(["---", *_yaml_lines(value, 0)])


def to_plain(value: JsonValue) -> str:
    """One line of `path.to.field=value`, sorted, units read from the names; for eyes, not to be parsed."""
    if not isinstance(value, dict):
        return _escaped(_plain_scalar(value), _PLAIN_ESCAPES, only_lines=True)
    pairs = sorted(_plain_pairs(value, ""), key=lambda pair: _sort_key(pair[0]))
    return " ".join(f"{_plain_key(name)}={_plain_quoted(text)}" for name, text in pairs) or "{}"


def _yaml_lines(value: JsonValue, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, dict):
        for name in sorted(value, key=_sort_key):
            yield from _yaml_entry(f"{pad}{_yaml_key(name)}:", value[name], depth)
    elif isinstance(value, list):
        for item in value:
            yield from _yaml_entry(f"{pad}-", item, depth)
    else:
        yield pad + _yaml_scalar(value)


def _yaml_entry(lead: str, value: JsonValue, depth: int) -> Iterator[str]:
    if value and isinstance(value, (dict, list)):
        yield lead
        yield from _yaml_lines(value, depth + 1)
    else:
        yield f"{lead} {_yaml_scalar(value)}"


def _yaml_scalar(value: JsonValue) -> str:
    return _yaml_quoted(value) if isinstance(value, str) else _plain_scalar(value)


def _yaml_key(name: str) -> str:
    # Quoted whatever a YAML 1.1 or 1.2 reader could take for something else than a text.
    bare = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) and name.lower() not in _YAML_WORDS
    return name if bare else _yaml_quoted(name)


def _yaml_quoted(text: str) -> str:
    return f'"{_escaped(text, _YAML_ESCAPES)}"'


def _plain_pairs(fields: Mapping[str, JsonValue], prefix: str) -> Iterator[tuple[str, str]]:
    shown = {name: _plain_field(name, value) for name, value in fields.items()}
    taken = Counter(label for label, _ in shown.values())
    for name, value in fields.items():
        # `response_ms` beside `response_bytes`: both keep their full name and their bare value.
        label, text = shown[name] if taken[shown[name][0]] == 1 or shown[name][0] == name else (name, None)
        if text is not None:
            yield prefix + label, text
        elif value and isinstance(value, dict):
            yield from _plain_pairs(value, f"{prefix}{label}.")
        else:
            yield prefix + label, _plain_value(value)


def _plain_field(name: str, value: JsonValue) -> tuple[str, str | None]:
    """Label and finished text; None where the value speaks for itself."""
    if name.endswith(("_secret", "_SECRET")):
        # The ending may go once it has done its work; a value that was not masked keeps its warning.
        return (name[:-7] if value == MARKER else name), None
    return display(name, value) or (name, None)


def _plain_value(value: JsonValue) -> str:
    if value is None:
        return ""
    if value and isinstance(value, list):
        return ",".join(_plain_scalar(item) for item in value)
    return _plain_scalar(value)


def _plain_scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value)
    return json.dumps(_sorted(value), ensure_ascii=False, separators=(",", ":"))


def _plain_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else _plain_quoted(name)


def _plain_quoted(text: str) -> str:
    return f'"{_escaped(text, _PLAIN_ESCAPES)}"' if _NEEDS_QUOTES.search(text) else text


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value, key=_sort_key)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _sort_key(name: str) -> bytes:
    """The order of UTF-16 code units, as the canonical form of JSON has it."""
    return name.encode("utf-16-be", "surrogatepass")


def _escaped(text: str, short: Mapping[str, str], *, only_lines: bool = False) -> str:
    def escape(found: re.Match[str]) -> str:
        return short.get(found[0]) or f"\\u{ord(found[0]):04x}"

    return (_CONTROL if only_lines else _SPECIAL).sub(escape, text)


_LINE_SHAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_PLAIN_ESCAPES = {"\\": "\\\\", '"': '\\"', **_LINE_SHAPES}
_YAML_ESCAPES = {**_PLAIN_ESCAPES, "\b": "\\b", "\0": "\\0"}
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_SPECIAL = re.compile('[\\\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_NEEDS_QUOTES = re.compile('[ \u00a0="\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "inf", "infinity", "nan"})
