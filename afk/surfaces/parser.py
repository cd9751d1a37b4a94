"""The command line, read strictly against the table; nothing is touched and nothing heavy imported to do so.

It is an own layer and not `argparse`: that one reports by a text that quotes what was typed, takes a doubled option
for the last one, and cannot tell the eight kinds of fault apart that AFDATA has names for.

Source: AFDATA v1, decision record, "CLI resolution failure".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from afk.errors import UsageError
from afk.surfaces.emit import EVERYTHING, Mode, Route
from afk.surfaces.table import COMMANDS, GLOBAL_OPTIONS, Command, Option, Value

__all__ = ["CliCode", "Invocation", "Wish", "output_wish", "parse"]


class CliCode(StrEnum):
    """The closed list of ways in which a command line can be wrong."""

    UNKNOWN_ARGUMENT = "cli_unknown_argument"
    UNKNOWN_COMMAND = "cli_unknown_command"
    MISSING_VALUE = "cli_missing_argument_value"
    INVALID_VALUE = "cli_invalid_argument_value"
    DUPLICATE = "cli_duplicate_argument"
    UNEXPECTED_POSITIONAL = "cli_unexpected_positional"
    UNREGISTERED_COMBINATION = "cli_unregistered_combination"
    INVALID_UTF8 = "cli_invalid_utf8"


@dataclass(frozen=True, slots=True)
class Wish:
    """How the caller wants to be answered."""

    mode: Mode = Mode.TEXT
    route: Route = Route.SPLIT


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command line that is right. `command` is None only for the help of `path`, which may be a group or nothing.

    `values` holds every argument and option of the command by key; `config` and `directory` are as they were typed.
    """

    path: tuple[str, ...]
    command: Command | None
    wish: Wish
    help: bool = False
    values: Mapping[str, object] = field(default_factory=dict)
    categories: frozenset[str] = frozenset()
    config: str | None = None
    directory: str | None = None


def output_wish(words: Sequence[str], env: Mapping[str, str]) -> Wish:
    """How to answer a command line that may be wrong: a program gets an event if it asked for one anywhere before `--`.

    A format that does not exist is answered as JSON: whoever names a format is a program.
    """
    asked = dict(_asked_outputs(words))
    mode = Mode(env["AFK_OUTPUT"]) if env.get("AFK_OUTPUT") in tuple(Mode) else Mode.TEXT
    if "--output" in asked:
        mode = Mode(asked["--output"]) if asked["--output"] in tuple(Mode) else Mode.JSON
    if "--json" in asked:
        mode = Mode.JSON
    route = asked.get("--output-to")
    return Wish(mode, Route(route) if route in (Route.STDOUT, Route.STDERR) else Route.SPLIT)


def parse(words: Sequence[str], env: Mapping[str, str]) -> Invocation:
    """Raises: `UsageError` with one of the `CliCode`s; neither message nor hint ever holds a value that was typed."""
    reading = _Reading()
    reading.read(_utf8(words))
    return reading.finish(env)


@dataclass(slots=True)
class _Reading:
    """A command line as far as it has been read."""

    path: tuple[str, ...] = ()
    command: Command | None = None
    positionals: list[str] = field(default_factory=list)
    given: dict[str, list[str]] = field(default_factory=dict)  # by option name; a flag gives an empty text

    def read(self, words: Sequence[str]) -> None:
        rest = iter(words)
        for word in rest:
            if word == "--":
                self.positionals.extend(rest)
            elif word.startswith("-") and word != "-":
                self._take_option(word, rest)
            elif self.command is None:
                self._descend(word)
            else:
                self.positionals.append(word)

    def finish(self, env: Mapping[str, str]) -> Invocation:
        wish = self._wish(env)
        if "--help" in self.given:
            return Invocation(self.path, self.command, wish, help=True)
        command = self._command()
        self._forbid_combinations(command)
        values = self._positional_values(command) | self._option_values(command)
        shared = {option.key: self._option_value(option) for option in GLOBAL_OPTIONS}
        return Invocation(
            command.path,
            command,
            wish,
            values=values,
            categories=EVERYTHING if shared["verbose"] else _flattened(shared["log"]),
            config=_text_or_none(shared["config"]),
            directory=_text_or_none(shared["C"]),
        )

    def _take_option(self, word: str, rest: Iterator[str]) -> None:
        name, attached = _split_option(word)
        option = self._option(name)
        if option.name in self.given and not option.repeated:
            raise self._wrong(CliCode.DUPLICATE, f"{option.name} is given twice")
        if option.value is None:
            if attached is not None:
                raise self._wrong(CliCode.INVALID_VALUE, f"{option.name} takes no value")
            self.given[option.name] = [""]
            return
        value = attached if attached is not None else next(rest, None)
        if value is None or (attached is None and value.startswith("-") and value != "-"):
            raise self._wrong(CliCode.MISSING_VALUE, f"{option.name} needs a value: {option.value.placeholder}")
        self.given.setdefault(option.name, []).append(value)

    def _option(self, name: str) -> Option:
        options = (*GLOBAL_OPTIONS, *(self.command.options if self.command else ()))
        for option in options:
            if name in (option.name, option.alias):
                return option
        # What looks like a name may be shown; a slip such as `--token:abc` may hold a value.
        shown = f" {name}" if re.fullmatch(r"--[a-z][a-z-]{0,30}|-[A-Za-z]", name) else ""
        meant = _nearest(name, [option.name for option in options])
        raise self._wrong(CliCode.UNKNOWN_ARGUMENT, f"unknown argument{shown}{meant}")

    def _descend(self, word: str) -> None:
        path = (*self.path, word)
        below = [command for command in COMMANDS if command.path[: len(path)] == path]
        if not below:
            siblings = sorted(
                {" ".join(("afk", *c.path[: len(path)])) for c in COMMANDS if c.path[: len(self.path)] == self.path}
            )
            meant = _nearest(" ".join(("afk", *path)), siblings)
            raise self._wrong(CliCode.UNKNOWN_COMMAND, f"unknown command{meant}")
        self.path = path
        self.command = next((command for command in below if command.path == path), None)

    def _command(self) -> Command:
        if "--version" in self.given:
            if self.path or self.positionals:
                raise self._wrong(CliCode.UNREGISTERED_COMBINATION, "--version stands alone")
            return next(command for command in COMMANDS if command.path == ("version",))
        if self.command is None:
            subject = f"{' '.join(('afk', *self.path))} needs a command"
            raise self._wrong(CliCode.UNKNOWN_COMMAND, subject)
        return self.command

    def _forbid_combinations(self, command: Command) -> None:
        for group in command.exclusive:
            together = [name for name in group if name in self.given]
            if len(together) > 1:
                raise self._wrong(CliCode.UNREGISTERED_COMBINATION, f"{' and '.join(together)} exclude each other")

    def _positional_values(self, command: Command) -> dict[str, object]:
        if len(self.positionals) > len(command.args):
            raise self._wrong(CliCode.UNEXPECTED_POSITIONAL, f"{command.words} takes {_count(len(command.args))}")
        values: dict[str, object] = {}
        for position, arg in enumerate(command.args):
            if position < len(self.positionals):
                values[arg.key] = self._read_value(arg.name, arg.value, self.positionals[position])
            elif arg.required:
                raise self._wrong(CliCode.MISSING_VALUE, f"{arg.name} is missing: {arg.help}")
            else:
                values[arg.key] = None
        return values

    def _option_values(self, command: Command) -> dict[str, object]:
        for option in command.options:
            if option.required and option.name not in self.given:
                raise self._wrong(CliCode.MISSING_VALUE, f"{option.name} is missing: {option.help}")
        return {option.key: self._option_value(option) for option in command.options}

    def _option_value(self, option: Option) -> object:
        given = self.given.get(option.name)
        if given is None:
            return option.absent
        if option.value is None:
            return True
        values = tuple(self._read_value(option.name, option.value, text) for text in given)
        return values if option.repeated else values[0]

    def _read_value(self, name: str, value: Value, text: str) -> object:
        try:
            return value.read(text)
        except ValueError:
            raise self._wrong(CliCode.INVALID_VALUE, f"{name} must be {value.expects}") from None

    def _wish(self, env: Mapping[str, str]) -> Wish:
        if "--json" in self.given and "--output" in self.given:
            raise self._wrong(CliCode.UNREGISTERED_COMBINATION, "--json and --output exclude each other")
        by_name = {option.name: option for option in GLOBAL_OPTIONS}
        stream = self._option_value(by_name["--output-to"])
        route = Route(str(stream)) if stream else Route.SPLIT
        if "--json" in self.given:
            return Wish(Mode.JSON, route)
        asked = self._option_value(by_name["--output"]) or env.get("AFK_OUTPUT") or Mode.TEXT
        if asked not in tuple(Mode):
            raise self._wrong(CliCode.INVALID_VALUE, f"AFK_OUTPUT must be one of {', '.join(Mode)}")
        return Wish(Mode(str(asked)), route)

    def _wrong(self, code: CliCode, message: str) -> UsageError:
        return UsageError(code, message, hint=" ".join(("afk", *self.path, "--help")))


def _utf8(words: Sequence[str]) -> list[str]:
    """The words as UTF-8, whatever the locale made of their bytes."""
    decoded = []
    for position, word in enumerate(words, start=1):
        try:
            decoded.append(os.fsencode(word).decode("utf-8"))
        except UnicodeError:
            message = f"argument {position} is not UTF-8"
            raise UsageError(CliCode.INVALID_UTF8, message, hint="afk --help") from None
    return decoded


def _asked_outputs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    for position, word in enumerate(words):
        if word == "--":
            return
        name, equals, attached = word.partition("=")
        if name in ("--json", "--output", "--output-to"):
            following = words[position + 1] if position + 1 < len(words) else ""
            yield name, attached if equals else following


def _split_option(word: str) -> tuple[str, str | None]:
    """`--base=main` and `-n5` bring their value along; None when there is none."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name, value if equals else None
    return word[:2], word[2:] or None


def _nearest(typed: str, names: Sequence[str]) -> str:
    import difflib  # only a mistake pays for it

    found = difflib.get_close_matches(typed, names, n=1, cutoff=0.7)
    return f"; did you mean {found[0]}?" if found else ""


def _count(arguments: int) -> str:
    return "no arguments" if arguments == 0 else f"{arguments} argument{'s' if arguments > 1 else ''}"


def _flattened(lists: object) -> frozenset[str]:
    return frozenset(name for names in (lists if isinstance(lists, tuple) else ()) for name in names)


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)
