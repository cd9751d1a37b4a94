"""Kind `opencode`: `opencode run --format json`. Captured with 1.18.33.

A tool is told when it has ended, a failure only when its retries are over: up to 80 s of silence are ordinary. Each
step tells its own usage. Its database cannot be shared by agents that run at once, so each has its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from afk.agents.dialect import NOISE, NOTHING, Dialect
from afk.agents.failures import cause
from afk.agents.jsonline import count, instant, json_object, mapping, micro_usd, text
from afk.domain.usage import Usage
from afk.ports import AgentEvent, AgentProfile, EventKind

__all__ = ["DIALECT", "read"]

_TOOLS = {
    "bash": EventKind.SHELL,
    **dict.fromkeys(("read", "grep", "glob", "list"), EventKind.READ),
    **dict.fromkeys(("write", "edit", "multiedit", "patch", "apply_patch"), EventKind.EDIT),
}
_OUTPUT = AgentEvent(EventKind.TOOL_OUTPUT)
_ABOUT = ("command", "filePath", "path", "pattern")


def read(line: str) -> Sequence[AgentEvent]:
    event = json_object(line)
    if event is None:
        return NOISE if line.strip() else NOTHING
    part = mapping(event.get("part"))
    match event.get("type"):
        case "text":
            return (AgentEvent(EventKind.TEXT, text(part.get("text"))),)
        case "tool_use":
            return _tool(part)
        case "step_start":
            return (AgentEvent(EventKind.SESSION, text(event.get("sessionID"))),)
        case "step_finish":
            return tuple(_step_finished(part))
        case "error":
            return tuple(_failed(event))
        case "reasoning":
            return NOTHING
    return NOISE


def _tool(part: Mapping[str, Any]) -> Sequence[AgentEvent]:
    state = mapping(part.get("state"))
    arguments = mapping(state.get("input"))
    about = next((text(arguments[key]) for key in _ABOUT if key in arguments), "")
    started = AgentEvent(_TOOLS.get(text(part.get("tool")), EventKind.TOOL), about)
    return started, _OUTPUT


def _step_finished(part: Mapping[str, Any]) -> Iterator[AgentEvent]:
    tokens, name = mapping(part.get("tokens")), text(part.get("id"))
    if tokens and name:
        yield AgentEvent(EventKind.USAGE, usage=_used(tokens, part.get("cost")), usage_of=name)
    match part.get("reason"):
        case "stop":
            yield AgentEvent(EventKind.END_GOOD)
        case "content-filter":
            yield AgentEvent(EventKind.UNFIT, "the model's answer was filtered")
            yield AgentEvent(EventKind.END_BAD)
        case "length" | "error":
            yield AgentEvent(EventKind.END_BAD, f"the last step ended by {part['reason']}")


def _used(tokens: Mapping[str, Any], cost: object) -> Usage:
    cache = mapping(tokens.get("cache"))
    # A cost of 0 is what it writes for models whose price it does not know.
    return Usage(
        count(tokens.get("input")) + count(cache.get("read")) + count(cache.get("write")),
        count(tokens.get("output")) + count(tokens.get("reasoning")),
        micro_usd(cost) or None,
    )


_NAMES = {
    "ProviderAuthError": EventKind.REFUSED,
    "ProviderModelNotFoundError": EventKind.REFUSED,
    "ContextOverflowError": EventKind.UNFIT,
}


def _failed(event: Mapping[str, Any]) -> Iterator[AgentEvent]:
    error = mapping(event.get("error"))
    data = mapping(error.get("data"))
    body = json_object(text(data.get("responseBody"))) or {}
    told = mapping(body.get("error")) or body
    said = text(data.get("message")) or text(error.get("name"))
    kind = _NAMES.get(text(error.get("name"))) or cause(
        status=data.get("statusCode"), codes=(told.get("code"), told.get("type"), told.get("status")), message=said
    )
    if kind is None and data.get("isRetryable") is True:
        kind = EventKind.TRANSIENT
    if kind is not None:
        hint = "; next: opencode auth login" if kind is EventKind.REFUSED else ""
        yield AgentEvent(kind, said + hint, resets_at=_resets_at(event, told))
    yield AgentEvent(EventKind.END_BAD, said)


def _resets_at(event: Mapping[str, Any], told: Mapping[str, Any]) -> Any:
    if (at := instant(told.get("resets_at"))) is not None:
        return at
    now, wait_s = instant(count(event.get("timestamp")) / 1000), count(told.get("resets_in_seconds"))
    return now + timedelta(seconds=wait_s) if now is not None and 0 < wait_s < 1e8 else None


DIALECT = Dialect(
    kind="opencode",
    arguments=("run", "--format", "json"),
    effort=("--variant", "{}"),
    env_names=("OPENCODE_API_KEY", "OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR"),
    env={
        "OPENCODE_PERMISSION": json.dumps({"*": "allow"}),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
    state_names=("XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    login=("opencode/auth.json", ".local/share"),
    profile=AgentProfile(tells_cost=True),
    read=read,
)
