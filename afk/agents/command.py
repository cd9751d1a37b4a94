"""Kind `command`: any program that reads the prompt on standard input and prints lines.

A line is the agent's own text, unless it is an AFDATA v1 event:

    log.message, progress.message, result.message      the agent's text
    progress.tool "shell" with .command                a shell command was started
    progress.tool "read" | "edit" | "write" with .path a file was looked at or changed
    progress.tool, any other name                      another tool
    progress.tool_output                               what a tool printed: never read for sentinels
    progress.usage                                     tokens_in, tokens_out, cost_usd_micro: of the whole run so far
    result                                             a good end
    error, by its code                                 a bad end; the codes below also name the cause

Codes with a meaning of their own begin with `agent_`, so that an event which the agent's tools happened to print is not
taken for the agent's end: `agent_quota_exhausted` (with `resets_at_rfc3339` when known), `agent_unavailable`,
`agent_unauthorized`, `agent_unfit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from afk.agents.jsonline import count
from afk.domain.usage import Usage
from afk.errors import ConfigError
from afk.ports import AgentCommand, AgentEvent, AgentProfile, EventKind, RunContext
from afk.wire.afdata import ProtocolViolation, check_event
from afk.wire.json_value import parse_json

if TYPE_CHECKING:
    from afk.config import AgentConfig

__all__ = ["CommandAgent"]

_TOOLS = {"shell": EventKind.SHELL, "read": EventKind.READ, "edit": EventKind.EDIT, "write": EventKind.EDIT}
_CODES = {
    "agent_quota_exhausted": EventKind.LIMIT,
    "agent_unavailable": EventKind.TRANSIENT,
    "agent_unauthorized": EventKind.REFUSED,
    "agent_unfit": EventKind.UNFIT,
}
_PROFILE = AgentProfile(reads_text=True, tells_end=False, tells_cost=None)


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """A program of the person's own; `argv` is used word by word, and found by PATH or from the worktree."""

    name: str
    argv: tuple[str, ...]

    @classmethod
    def configured(cls, name: str, settings: AgentConfig) -> CommandAgent:
        """Raises: ConfigError without a program, or with settings that only a known agent's command line has."""
        if not settings.argv:
            raise ConfigError(f"runner `{name}` has no program", hint=f"write one at `afk.agents.{name}.argv`")
        for key in ("model", "effort"):
            if getattr(settings, key) is not None:
                raise ConfigError(
                    f"runner `{name}`: `{key}` means nothing to kind `command`", hint="put it into `argv`"
                )
        return cls(name, (*settings.argv, *settings.extra_args))

    @property
    def profile(self) -> AgentProfile:
        return _PROFILE

    def command(self, context: RunContext) -> AgentCommand:
        """The program as configured, with the prompt as its standard input (R28, R31, S13)."""
        return AgentCommand(self.argv, stdin=context.prompt_file)

    def read(self, line: str) -> Sequence[AgentEvent]:
        if not line.strip():
            return ()
        event = _afdata(line)
        return (AgentEvent(EventKind.TEXT, line),) if event is None else tuple(_events(event)) or _NOISE

    def complaint(self, line: str) -> Sequence[AgentEvent]:
        """Nothing: nobody knows which words on standard error are such a program's own."""
        return ()


_NOISE = (AgentEvent(EventKind.NOISE),)


def _afdata(line: str) -> Mapping[str, Any] | None:
    """The event on this line; None for plain text, JSON of other makers included."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = parse_json(line)
        check_event(event, strict=False)
    except (ValueError, ProtocolViolation):
        return None
    checked: Mapping[str, Any] = event
    return checked


def _events(event: Mapping[str, Any]) -> Iterator[AgentEvent]:
    kind = event["kind"]
    payload: Mapping[str, Any] = event[kind] if isinstance(event[kind], dict) else {}
    if kind == "error":
        yield _failure(payload)
        return
    if isinstance(message := payload.get("message"), str):
        yield AgentEvent(EventKind.TEXT, message)
    if kind == "progress":
        yield from _progress(payload)
    if kind == "result":
        yield AgentEvent(EventKind.END_GOOD)


def _progress(payload: Mapping[str, Any]) -> Iterator[AgentEvent]:
    if isinstance(tool := payload.get("tool"), str):
        about = payload.get("command" if tool == "shell" else "path", "")
        yield AgentEvent(_TOOLS.get(tool, EventKind.TOOL), about if isinstance(about, str) else "")
    if isinstance(output := payload.get("tool_output"), str):
        yield AgentEvent(EventKind.TOOL_OUTPUT, output)
    if isinstance(usage := payload.get("usage"), dict):
        cost = usage.get("cost_usd_micro")
        used = Usage(
            count(usage.get("tokens_in")), count(usage.get("tokens_out")), None if cost is None else count(cost)
        )
        yield AgentEvent(EventKind.USAGE, usage=used)


def _failure(payload: Mapping[str, Any]) -> AgentEvent:
    hint = f"; next: {payload['hint']}" if payload.get("hint") else ""
    kind = _CODES.get(payload["code"], EventKind.END_BAD)
    return AgentEvent(kind, f"{payload['message']}{hint}", resets_at=_instant(payload.get("resets_at_rfc3339")))


def _instant(told: object) -> datetime | None:
    """None for what is no time, or a time without its zone: a guess would be waited for."""
    try:
        instant = datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return instant if instant is not None and instant.tzinfo is not None else None
