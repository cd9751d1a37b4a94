"""A known coding agent as data: how it is started with nobody at the keyboard, and how its stream is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from afk.errors import ConfigError
from afk.ports import AgentCommand, AgentEvent, AgentProfile, EventKind, RunContext

if TYPE_CHECKING:
    from afk.config import AgentConfig

__all__ = ["NOISE", "NOTHING", "WORKTREE", "Dialect", "DialectAgent"]

WORKTREE = "{worktree}"  # as a whole word of `arguments`
NOTHING: tuple[AgentEvent, ...] = ()
NOISE = (AgentEvent(EventKind.NOISE),)


def _quiet(_: str) -> Sequence[AgentEvent]:
    return NOTHING


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of agent. The prompt is always its standard input, read to its end (R28, R31).

    `arguments` come after the program's name, then model, effort and what the person adds, then `last`. In `model` and
    `effort` a `{}` stands for the value; an empty `effort` means that the program knows none. `env_names` is what it
    may inherit: its own key, its own address, its own settings (R75). `env` is set for every run: no self-update, no
    question. `state_names` are variables that are to name a folder of this attempt's own (L51); `login` is a file below
    the first of them that stays the person's, and where that is without the variable, below the home directory.
    `read` and `complaint` are those of `ports.Agent`.
    """

    kind: str
    arguments: tuple[str, ...]
    read: Callable[[str], Sequence[AgentEvent]]
    complaint: Callable[[str], Sequence[AgentEvent]] = _quiet
    profile: AgentProfile = field(default_factory=AgentProfile)
    model: tuple[str, ...] = ("--model", "{}")
    effort: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_as_root: Mapping[str, str] = field(default_factory=dict)
    state_names: tuple[str, ...] = ()
    login: tuple[str, str] | None = None

    def configured(self, name: str, settings: AgentConfig) -> DialectAgent:
        """Raises: ConfigError for a setting that this program has no word for."""
        if settings.effort is not None and not self.effort:
            raise ConfigError(
                f"runner `{name}`: `effort` means nothing to kind `{self.kind}`",
                hint=f"take `effort` out of `afk.agents.{name}`",
            )
        chosen = [
            *_filled(self.model, settings.model),
            *_filled(self.effort, settings.effort),
            *settings.extra_args,
            *self.last,
        ]
        return DialectAgent(name, self, (*(settings.argv or (self.kind,)), *self.arguments, *chosen))


def _filled(words: Sequence[str], value: str | None) -> list[str]:
    return [] if value is None else [word.replace("{}", value) for word in words]


@dataclass(frozen=True, slots=True)
class DialectAgent:
    """A `Dialect` as one runner of the configuration has it; `argv` is complete but for the worktree."""

    name: str
    dialect: Dialect
    argv: tuple[str, ...]

    @property
    def profile(self) -> AgentProfile:
        return self.dialect.profile

    def command(self, context: RunContext) -> AgentCommand:
        dialect = self.dialect
        as_root = dialect.env_as_root if os.geteuid() == 0 else {}
        return AgentCommand(
            tuple(str(context.worktree) if word == WORKTREE else word for word in self.argv),
            env_names=dialect.env_names,
            env={**dialect.env, **as_root, **{name: str(context.state / name) for name in dialect.state_names}},
            stdin=context.prompt_file,
            links=tuple(_login_link(dialect, context)),
        )

    def read(self, line: str) -> Sequence[AgentEvent]:
        return self.dialect.read(line)

    def complaint(self, line: str) -> Sequence[AgentEvent]:
        return self.dialect.complaint(line)


def _login_link(dialect: Dialect, context: RunContext) -> list[tuple[Path, Path]]:
    if dialect.login is None:
        return []
    file, usual_folder = dialect.login
    variable = dialect.state_names[0]
    theirs = context.environ.get(variable) or Path(context.environ.get("HOME", "/")) / usual_folder
    return [(context.state / variable / file, Path(theirs) / file)]
