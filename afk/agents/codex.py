"""Kind `codex`: OpenAI's Codex CLI, `codex exec --json`. Captured with 0.171.0.

Usage comes once, with the end of the turn, for all of it. What looks like an error among the items is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from afk.agents.dialect import NOISE, NOTHING, WORKTREE, Dialect
from afk.agents.failures import cause
from afk.agents.jsonline import count, json_object, mapping, text
from afk.domain.usage import Usage
from afk.ports import AgentEvent, AgentProfile, EventKind

__all__ = ["DIALECT", "read"]


# How lines begin whose insides change nothing; they are the longest, and are not taken apart.
_COMMAND_ENDED = re.compile(r'\{"type":"item\.completed","item":\{"id":"[^"]{0,40}","type":"command_execution",')
_OUTPUT = (AgentEvent(EventKind.TOOL_OUTPUT),)


def read(line: str) -> Sequence[AgentEvent]:
    if _COMMAND_ENDED.match(line):
        return _OUTPUT
    event = json_object(line)
    if event is None:
        return NOISE if line.strip() else NOTHING
    match event.get("type"):
        case "item.started":
            return _started(mapping(event.get("item")))
        case "item.completed":
            return _completed(mapping(event.get("item")))
        case "thread.started":
            return (AgentEvent(EventKind.SESSION, text(event.get("thread_id"))),)
        case "turn.completed":
            return _turn_completed(mapping(event.get("usage")))
        case "error":
            return _error(text(event.get("message")))
        case "turn.failed":
            return tuple(_turn_failed(text(mapping(event.get("error")).get("message"))))
        case "turn.started" | "item.updated":
            return NOTHING
    return NOISE


def _started(item: Mapping[str, Any]) -> Sequence[AgentEvent]:
    match item.get("type"):
        case "command_execution":
            return (AgentEvent(EventKind.SHELL, _as_typed(text(item.get("command")))),)
        case "file_change":
            return (AgentEvent(EventKind.EDIT, _paths(item.get("changes"))),)
        case "mcp_tool_call" | "web_search" | "collab_tool_call":
            return (AgentEvent(EventKind.TOOL, text(item.get("tool") or item.get("query"))),)
        case "agent_message" | "reasoning" | "todo_list" | "error":
            return NOTHING
    return NOISE


def _completed(item: Mapping[str, Any]) -> Sequence[AgentEvent]:
    match item.get("type"):
        case "agent_message":
            return (AgentEvent(EventKind.TEXT, text(item.get("text"))),)
        case "file_change" if item.get("status") == "completed":
            return (AgentEvent(EventKind.EDIT, _paths(item.get("changes"))),)
        case "command_execution" | "file_change" | "mcp_tool_call" | "web_search" | "collab_tool_call":
            return _OUTPUT
        case "reasoning" | "todo_list" | "error":
            return NOTHING
    return NOISE


_LOGIN_SHELL = re.compile(r"/\S+/(?:ba|z|da)?sh -lc '([^']*)'")


def _as_typed(command: str) -> str:
    """Without the shell that it is always wrapped in, where that takes no unquoting."""
    wrapped = _LOGIN_SHELL.fullmatch(command)
    return wrapped[1] if wrapped else command


def _paths(changes: object) -> str:
    each = changes if isinstance(changes, list) else []
    return " ".join(filter(None, (text(mapping(change).get("path")) for change in each)))


def _turn_completed(usage: Mapping[str, Any]) -> Sequence[AgentEvent]:
    end = AgentEvent(EventKind.END_GOOD)
    if not usage:
        return (end,)
    used = Usage(count(usage.get("input_tokens")), count(usage.get("output_tokens")))
    return (AgentEvent(EventKind.USAGE, usage=used), end)


# ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────────────

_RETRYING = "Reconnecting..."
_STATUS = re.compile(r"(?:unexpected status|exceeded retry limit, last status:) (\d{3})\b(?: [^:,]*: (?P<said>.*))?")
_TRANSIENT = re.compile(
    r"stream disconnected before completion|we.re currently experiencing high demand|error sending request"
    r"|connection failed|request timed out|selected model is at capacity|timeout waiting for|idle timeout waiting for"
    r"|the server (?:had an error|is overloaded)|internal server error",
    re.IGNORECASE,
)


def _error(message: str) -> Sequence[AgentEvent]:
    if message.startswith(_RETRYING):
        return (AgentEvent(EventKind.RETRYING, message),)
    kind = _cause(message)
    return NOISE if kind is None else (AgentEvent(kind, _told(kind, message)),)


def _turn_failed(message: str) -> Iterator[AgentEvent]:
    kind = _cause(message)
    if kind is not None:
        yield AgentEvent(kind, _told(kind, message))
    yield AgentEvent(EventKind.END_BAD, message)


def _cause(message: str) -> EventKind | None:
    if body := json_object(message):
        error = mapping(body.get("error")) or body
        codes = (error.get("code"), error.get("type"))
        return cause(status=body.get("status"), codes=codes, message=text(error.get("message")))
    if status := _STATUS.match(message):
        return cause(status=int(status[1]), message=status["said"] or "")
    return EventKind.TRANSIENT if _TRANSIENT.match(message) else cause(message=message)


def _told(kind: EventKind, message: str) -> str:
    return f"{message}; next: codex login" if kind is EventKind.REFUSED else message


DIALECT = Dialect(
    kind="codex",
    arguments=("exec", "--json", "--dangerously-bypass-approvals-and-sandbox", "-C", WORKTREE),
    effort=("-c", 'model_reasoning_effort="{}"'),
    last=("-",),
    env_names=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"),
    profile=AgentProfile(),
    read=read,
)
