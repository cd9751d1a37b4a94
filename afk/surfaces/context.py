"""What every command is given and what it gives back.

A command is a function `(CommandContext, Arguments) -> Result`. It raises an `AfkError` when it has no result; it never
prints, and it never ends the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from afk.errors import InvalidInput
from afk.surfaces.emit import Emitter, Mode

__all__ = ["Arguments", "CommandContext", "Result"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Result:
    """What a command came to. `schema` only where the command's table entry names more than one.

    `text` is for people, in place of what the table's renderer would make of the payload.
    """

    payload: Mapping[str, object]
    exit_code: int = 0
    text: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The world of one command. `directory` is None when the directory it was started in is gone.

    `read_stdin` reads everything there is; `config_path` is `--config`, absolute. `stdout_is_terminal` decides only
    about colour, the live header and the transition lines of `run`.
    """

    directory: Path | None
    env: Mapping[str, str]
    emitter: Emitter
    read_stdin: Callable[[], bytes] = bytes
    config_path: Path | None = None
    stdout_is_terminal: bool = False

    @property
    def cwd(self) -> Path:
        """Absolute. Raises: `InvalidInput` when the directory is gone."""
        if self.directory is None:
            raise InvalidInput("the current directory does not exist any more", hint="cd /")
        return self.directory

    @property
    def machine(self) -> bool:
        """Whether a program reads the result."""
        return self.emitter.mode is not Mode.TEXT

    def read_input(self, name: str, file: str | None) -> str:
        """The UTF-8 text of a FILE argument called `name`; stdin for `-` and for None.

        Raises: `InvalidInput`, naming the argument and not its value.
        """
        try:
            data = self.read_stdin() if file in (None, "-") else (self.cwd / str(file)).read_bytes()
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{name} is not UTF-8 text: byte {error.start} starts no character") from error
        except OSError as error:
            raise InvalidInput(f"{name} cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Arguments(Mapping[str, object]):
    """The values of one command line under their keys in the table. A flag that was not given is False, an option or
    argument that was not given is None, a repeated option is a tuple."""

    by_key: Mapping[str, object] = field(default_factory=dict)

    def __getitem__(self, key: str) -> object:
        return self.by_key[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_key)

    def __len__(self) -> int:
        return len(self.by_key)

    def flag(self, key: str) -> bool:
        return bool(self.by_key[key])

    def text(self, key: str) -> str:
        """A value that the table makes sure of."""
        return _expect(self.by_key[key], str, key)

    def text_or_none(self, key: str) -> str | None:
        return None if self.by_key[key] is None else self.text(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """Every value of an option that may be repeated; empty when it was not given."""
        return tuple(_expect(value, str, key) for value in _expect(self.by_key[key], tuple, key))

    def names(self, key: str) -> tuple[str, ...] | None:
        """The names of a list such as `codex,claude`, in their order; None when it was not given."""
        return None if self.by_key[key] is None else self.texts(key)

    def number(self, key: str) -> int:
        """A value that the table makes sure of."""
        return _expect(self.by_key[key], int, key)

    def number_or_none(self, key: str) -> int | None:
        return None if self.by_key[key] is None else self.number(key)

    def numbers(self, key: str) -> tuple[int, ...]:
        """The numbers of a list such as `5,3,9`, in their order; empty when it was not given."""
        given = self.by_key[key]
        return () if given is None else tuple(_expect(value, int, key) for value in _expect(given, tuple, key))


def _expect(value: object, kind: type[_T], key: str) -> _T:
    if not isinstance(value, kind):
        raise TypeError(f"the argument {key} is no {kind.__name__}")
    return value
