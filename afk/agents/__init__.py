"""Coding agents: one module for each kind, and the registry that knows them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from afk.agents.command import CommandAgent
from afk.errors import ConfigError
from afk.ports import Agent

if TYPE_CHECKING:  # configuration brings pydantic, which light commands do not pay for
    from afk.config import AgentConfig, Config

__all__ = ["KINDS", "agent_for"]

KINDS: dict[str, Callable[[str, AgentConfig], Agent]] = {
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
