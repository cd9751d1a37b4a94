"""The table of commands keeps its own promises."""

from __future__ import annotations

import re
import shlex

import pytest

from afk.surfaces.parser import parse
from afk.surfaces.table import COMMANDS, EXITS, GLOBAL_OPTIONS, Command, schema_numbers

EACH = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)


@EACH
def test_the_schema_has_the_name_of_the_command(command: Command) -> None:
    assert command.schema == f"afk.{'.'.join(command.path)}.v1"
    assert all(schema.startswith(f"afk.{'.'.join(command.path)}.") for schema in command.more_schemas)


@EACH
def test_the_example_is_a_right_command_line(command: Command) -> None:
    program, *words = shlex.split(command.example)
    assert program == "afk"
    assert parse(words, {}).command == command


@EACH
def test_keys_and_names_are_told_apart(command: Command) -> None:
    options = (*GLOBAL_OPTIONS, *command.options)
    names = [name for option in options for name in (option.name, option.alias) if name]
    keys = [option.key for option in command.options] + [arg.key for arg in command.args]
    assert len(set(names)) == len(names)
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z][a-z_]*", key) for key in keys)


@EACH
def test_what_is_exclusive_are_options_of_the_command(command: Command) -> None:
    assert {name for group in command.exclusive for name in group} <= {option.name for option in command.options}


@EACH
def test_exit_codes_are_documented_and_the_usual_ones_not_repeated(command: Command) -> None:
    assert set(command.exits) <= EXITS.keys() - {2, 4, 130, 141}
    assert 0 in command.exits


@EACH
def test_required_arguments_come_first(command: Command) -> None:
    required = [arg.required for arg in command.args]
    assert required == sorted(required, reverse=True)


def test_no_command_is_the_beginning_of_another() -> None:
    paths = {command.path for command in COMMANDS}
    assert len(paths) == len(COMMANDS)
    assert not [path for path in paths for length in range(1, len(path)) if path[:length] in paths]


def test_every_schema_has_its_number() -> None:
    assert len(schema_numbers()) == sum(len(command.schemas) for command in COMMANDS)
