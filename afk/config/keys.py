"""The known keys, derived from the models: what each holds, its default, and its name in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from afk.config.models import Config
from afk.config.problems import nearest
from afk.domain.lifecycle import HookPoint

__all__ = ["Key", "describe", "env_name", "flatten", "holds_text", "nearest_key", "words"]

_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true | false", "null": "null"}


class Key(NamedTuple):
    """One line of the reference: the dotted key, its default as plain JSON, and what it holds, in words."""

    key: str
    default: Any
    type: str


def describe() -> list[Key]:
    """Every key that holds a value of its own, the twelve hook points included, in the order of the models."""
    points: dict[str, Any] = {f"afk.hooks.{point}": [] for point in HookPoint}
    defaults = flatten(Config().dump()) | points
    return [Key(key, default, words(key)) for key, default in defaults.items()]


def flatten(data: Mapping[str, Any], above: str = "afk") -> dict[str, Any]:
    """Dotted keys of everything that is no mapping; an empty mapping counts as a value."""
    flat: dict[str, Any] = {}
    for name, value in data.items():
        key = f"{above}.{name}"
        flat |= flatten(value, key) if isinstance(value, dict) and value else {key: value}
    return flat


def env_name(key: str) -> str:
    """`afk.claim.lease_s` -> `AFK_CLAIM_LEASE_S`; a dash in a key becomes an underscore."""
    return "AFK_" + key.removeprefix("afk.").replace(".", "_").replace("-", "_").upper()


def words(key: str) -> str:
    """What the key, or an item of its list, holds: `seconds above 0`, `a | b`, `list of text`; "" when unknown."""
    schema = _schema_at(key)
    return "" if schema is None else _words(schema)


def holds_text(key: str) -> bool:
    """Whether the value is one text (a choice of words included), so that none of its characters is YAML."""
    schema = _schema_at(key) or {}
    return "string" in {option.get("type") for option in (schema, *schema.get("anyOf", ()))}


def nearest_key(key: str) -> str | None:
    """For an unknown key: a similar name beside it, else its name in another section, else the most similar key."""
    above, _, name = key.rpartition(".")
    sibling = nearest(name, _resolved(_schema_at(above) or {}).get("properties", {}))
    if sibling:
        return f"{above}.{sibling}"
    known = [row.key for row in describe()]
    elsewhere = [other for other in known if other.rpartition(".")[2] == name]
    return elsewhere[0] if elsewhere else nearest(key, known)


@cache
def _schema() -> dict[str, Any]:
    return Config.model_json_schema()


def _schema_at(key: str) -> dict[str, Any] | None:
    """The JSON Schema of what stands at this key."""
    schema: dict[str, Any] | None = _schema()
    for part in key.replace("afk.hooks.defaults", "afk.hooks/defaults", 1).split(".")[1:]:
        schema = None if schema is None else _below(_resolved(schema), part.replace("/", "."))
    return schema


def _below(schema: dict[str, Any], part: str) -> dict[str, Any] | None:
    if part in schema.get("properties", {}):
        return dict(schema["properties"][part])
    below = schema.get("items") if part.isdigit() else schema.get("additionalProperties")
    return below if isinstance(below, dict) else None


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return dict(_schema()["$defs"][name]) if name else schema


def _words(schema: dict[str, Any]) -> str:
    schema = _resolved(schema)
    if "properties" in schema:
        return "{" + ", ".join(schema["properties"]) + "}"
    if "description" in schema:
        return str(schema["description"])
    if "enum" in schema:
        return " | ".join(schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_words(option) for option in schema["anyOf"])
    if schema["type"] == "array":
        return f"list of {_words(schema['items'])}"
    return _NAMES.get(schema["type"], "mapping")
