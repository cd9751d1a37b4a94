"""Help out of the table, as a payload like any other and as text made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afk.surfaces.table import COMMANDS, EXITS, GLOBAL_OPTIONS, Arg, Command, Option
from afk.surfaces.text import aligned
from afk.wire.json_value import JsonValue

__all__ = ["help_payload", "help_text"]

_ALWAYS = (2, 4, 130, 141)


def help_payload(path: Sequence[str]) -> dict[str, object]:
    """`afk.help.v1` for one command, a group of commands, or (empty path) for everything."""
    below = [command for command in COMMANDS if command.path[: len(path)] == tuple(path)]
    exact = next((command for command in below if command.path == tuple(path)), None)
    return {
        "command": " ".join(("afk", *path)),
        "summary": exact.summary if exact else None,
        "usage": _usage(path, exact),
        "commands": [] if exact else [{"command": each.words, "summary": each.summary} for each in below],
        "arguments": [_argument(arg) for arg in exact.args] if exact else [],
        "options": [_option(option) for option in exact.options] if exact else [],
        "global_options": [_option(option) for option in GLOBAL_OPTIONS],
        "exits": [{"code": code, "meaning": EXITS[code]} for code in sorted({*exact.exits, *_ALWAYS})] if exact else [],
        "result_schema": exact.schema if exact else None,
        "example": exact.example if exact else "afk demo",
    }


def help_text(payload: Mapping[str, JsonValue]) -> str:
    """The same for people: what it does, how it is typed, and every word that may be typed."""
    parts = [f"usage: {payload['usage']}"]
    if payload["summary"]:
        parts.append(str(payload["summary"]))
    parts += [
        _section("commands", payload["commands"], "command", "summary"),
        _section("arguments", payload["arguments"], "name", "help"),
        _section("options", payload["options"], "usage", "help"),
        _section("options of every command", payload["global_options"], "usage", "help"),
        _section("exit codes", payload["exits"], "code", "meaning"),
        f"example: {payload['example']}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _usage(path: Sequence[str], command: Command | None) -> str:
    words = ["afk", *path]
    if command is None:
        return " ".join([*words, "COMMAND [options]"])
    words += [arg.name if arg.required else f"[{arg.name}]" for arg in command.args]
    for option in command.options:
        shown = _typed(option) + ("…" if option.repeated else "")
        words.append(shown if option.required else f"[{shown}]")
    return " ".join(words)


def _typed(option: Option) -> str:
    return f"{option.name} {option.value.placeholder}" if option.value else option.name


def _argument(arg: Arg) -> dict[str, object]:
    return {"name": arg.name, "required": arg.required, "help": arg.help}


def _option(option: Option) -> dict[str, object]:
    return {
        "name": option.name,
        "usage": f"{option.alias}, {_typed(option)}" if option.alias else _typed(option),
        "value": option.value.placeholder if option.value else None,
        "required": option.required,
        "repeated": option.repeated,
        "help": option.help,
    }


def _section(title: str, rows: JsonValue, left: str, right: str) -> str:
    if not isinstance(rows, list) or not rows:
        return ""
    pairs = [(str(row[left]), str(row[right])) for row in rows if isinstance(row, dict)]
    return f"{title}:\n" + aligned(pairs, indent=2)
