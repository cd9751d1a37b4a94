"""Coding agents: one module for each kind, and the registry that knows them by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from afk.agents import claude, codex, gemini, opencode
from afk.agents.command import CommandAgent
from afk.errors import ConfigError
from afk.ports import Agent, RunContext

if TYPE_CHECKING:  # configuration brings pydantic, which light commands do not pay for
    from afk.config import AgentConfig, Config

__all__ = ["KINDS", "agent_argv", "agent_for"]

KINDS: dict[str, Callable[[str, AgentConfig], Agent]] = {
    "claude": claude.DIALECT.configured,
    "codex": codex.DIALECT.configured,
    "opencode": opencode.DIALECT.configured,
    "gemini": gemini.DIALECT.configured,
    "command": CommandAgent.configured,
}


def agent_for(config: Config, name: str) -> Agent:
    """The agent that the configuration means by a runner's name.

    Raises: ConfigError for a name that means nothing, a kind that this version cannot run, or settings that the kind
    does not take (S9, S10).
    """
    try:
        settings = config.runner_config(name)
    except KeyError:
        raise ConfigError(f"`{name}` is no runner: it stands neither under `afk.agents` nor for a kind") from None
    make = KINDS.get(str(settings.kind))
    if make is None:
        known = ", ".join(KINDS)
        raise ConfigError(f"runner `{name}`: this afk cannot run agents of kind `{settings.kind}`, only: {known}")
    return make(name, settings)


def agent_argv(config: Config, name: str) -> tuple[str, ...]:
    """How a runner would be started, for people to read: `WORKTREE` stands where the worktree's path will be.

    Raises: ConfigError as `agent_for`.
    """
    return agent_for(config, name).command(RunContext(Path("WORKTREE"), Path("PROMPT"), Path("STATE"), {})).argv
