"""One command from its words to its exit code: parse, load, run, answer. Nothing else in `afk` ends the process.

Exit codes are in `table.EXITS`; what each error means and its cure is in `docs/errors.md`.
"""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from afk.errors import AfkError, Cancelled, DiskFull, InvalidInput, UsageError
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.emit import Emitter
from afk.surfaces.parser import Invocation, output_wish, parse
from afk.surfaces.table import Command
from afk.wire.json_value import JsonValue
from afk.wire.redact import surface_rules

__all__ = ["answered", "load", "main"]

CommandFunction = Callable[[CommandContext, Arguments], Result]
TextFunction = Callable[[Mapping[str, JsonValue]], str]


def main(words: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Answers one command line (without the program's name) on stdout and stderr; returns the exit code."""
    env = os.environ if env is None else env
    try:
        invocation = parse(words, env)
    except UsageError as error:
        wish = output_wish(words, env)
        emitter = Emitter(wish.mode, wish.route, rules=surface_rules(env))
        emitter.error(error.cli_code, error.message, hint=error.hint, exit_code=error.exit_code)
        return _exit_code(emitter, error)
    return _answer(invocation, env)


def load(target: str) -> object:
    """The object behind `module:name`; imports the module."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _answer(invocation: Invocation, env: Mapping[str, str]) -> int:
    emitter = Emitter(
        invocation.wish.mode, invocation.wish.route, categories=invocation.categories, rules=surface_rules(env)
    )
    return answered(emitter, partial(_run, invocation, env, emitter))


def answered(emitter: Emitter, work: Callable[[], None]) -> int:
    """Do it, and tell whatever keeps it from its end; returns the exit code. Nothing is raised."""
    try:
        work()
    except AfkError as error:
        return _fail(emitter, error)
    except KeyboardInterrupt:
        return _fail(emitter, Cancelled("interrupted before the command was done"))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _fail(emitter, DiskFull("there is no space left on the disk", hint="df -h"))
        return _bug(emitter, error)
    except Exception as error:  # noqa: BLE001  (the outermost boundary: people get no traceback)
        return _bug(emitter, error)
    return emitter.exit_code or 0


def _run(invocation: Invocation, env: Mapping[str, str], emitter: Emitter) -> None:
    command = invocation.command
    if invocation.help or command is None:
        from afk.surfaces.help import help_payload, help_text

        emitter.result(help_payload(invocation.path), schema="afk.help.v1", text=help_text)
        return
    run = cast(CommandFunction, load(command.load))
    result = run(_context(invocation, env, emitter), Arguments(invocation.values))
    _check_promises(command, result)
    emitter.result(
        result.payload,
        schema=result.schema or command.schema,
        exit_code=result.exit_code,
        text=_text_of(command, result),
    )


def _check_promises(command: Command, result: Result) -> None:
    """A command that breaks its entry in the table is a bug, not an answer."""
    if result.exit_code not in command.exits:
        raise RuntimeError(f"{command.words} may not exit with {result.exit_code}")
    if result.schema is not None and result.schema not in command.schemas:
        raise RuntimeError(f"{command.words} has no payload {result.schema}")


def _text_of(command: Command, result: Result) -> TextFunction:
    text = result.text
    if text is None:
        return cast(TextFunction, load(command.text))
    return lambda _: text


def _context(invocation: Invocation, env: Mapping[str, str], emitter: Emitter) -> CommandContext:
    directory = _enter(invocation.directory)
    config = invocation.config
    return CommandContext(
        directory=directory,
        env=env,
        emitter=emitter,
        read_stdin=_read_stdin,
        config_path=directory / config if directory and config else None,
        stdout_is_terminal=os.isatty(1),
    )


def _enter(directory: str | None) -> Path | None:
    """The directory to work in; None when the one we were started in was deleted."""
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            raise InvalidInput(f"-C names no directory that can be entered: {error.strerror}") from error
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def _read_stdin() -> bytes:
    with os.fdopen(0, "rb", closefd=False) as stdin:  # `sys.stdin` is None when it was closed at the start
        return stdin.read()


def _fail(emitter: Emitter, error: AfkError) -> int:
    fields = dict(error.details)
    problems = getattr(error, "problems", ())
    if problems:
        fields["problems"] = list(problems)
    tell = partial(emitter.error, error.code, hint=error.hint, retryable=error.retryable, exit_code=error.exit_code)
    try:
        tell(error.message, fields=fields)
    except ValueError:  # details that cannot be told must not hide what happened
        tell(error.message or error.code)
    return _exit_code(emitter, error)


def _bug(emitter: Emitter, error: Exception) -> int:
    import traceback

    # The error's own words may hold anything, so only its type is named; the log is asked for, and masked.
    emitter.log("traceback", "".join(traceback.format_exception(error)))
    what = f"this is a bug in afk: {type(error).__name__}"
    emitter.error("internal_error", what, hint="afk doctor", exit_code=AfkError.exit_code)
    return _exit_code(emitter, AfkError(what))


def _exit_code(emitter: Emitter, error: AfkError) -> int:
    """What was said decides; an end that broke off half-way is told by the error that interrupted it."""
    return error.exit_code if emitter.exit_code is None else emitter.exit_code
