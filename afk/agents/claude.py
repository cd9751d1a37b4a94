"""Kind `claude`: Anthropic's Claude Code, `claude -p --output-format stream-json`. Captured with 2.1.332.

Each message of the model may come in several lines that repeat its usage; the final `result` tells the whole. What the
program itself says in the model's place is marked, and is its error channel. `subtype` says `success` of failures too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from afk.agents.dialect import NOISE, NOTHING, Dialect
from afk.agents.failures import cause
from afk.agents.jsonline import count, instant, json_object, mapping, micro_usd, text
from afk.domain.usage import Usage, total_usage
from afk.ports import AgentEvent, AgentProfile, EventKind

__all__ = ["DIALECT", "read"]

_TOOLS = {
    "Bash": EventKind.SHELL,
    **dict.fromkeys(("Read", "NotebookRead", "Grep", "Glob", "LS"), EventKind.READ),
    **dict.fromkeys(("Edit", "Write", "MultiEdit", "NotebookEdit"), EventKind.EDIT),
}
_ABOUT = ("command", "file_path", "notebook_path", "path", "pattern")


# How lines begin whose insides change nothing; they are the longest, and are not taken apart.
_TOOL_RESULT = '{"type":"user",'
_OUTPUT = (AgentEvent(EventKind.TOOL_OUTPUT),)


def read(line: str) -> Sequence[AgentEvent]:
    if line.startswith(_TOOL_RESULT):
        return _OUTPUT
    event = json_object(line)
    if event is None:
        return NOISE if line.strip() else NOTHING
    match event.get("type"):
        case "assistant":
            return tuple(_assistant(event))
        case "user":
            return _OUTPUT  # of tools, or words that the program put there: never the agent's own
        case "result":
            return tuple(_result(event))
        case "system":
            return _system(event)
        case "rate_limit_event":
            return _rate_limit(mapping(event.get("rate_limit_info")))
        case "stream_event" | "control_response" | "tool_progress" | "keep_alive":
            return NOTHING
    return NOISE


def _assistant(event: Mapping[str, Any]) -> Sequence[AgentEvent]:
    message = mapping(event.get("message"))
    parts = [mapping(part) for part in _each(message.get("content"))]
    if event.get("is_api_error_message"):
        return tuple(_failure(event, "".join(text(part.get("text")) for part in parts)))
    if message.get("model") == "<synthetic>":
        return NOTHING
    events = [_PARTS[kind](part) for part in parts if (kind := text(part.get("type"))) in _PARTS]
    usage, name = message.get("usage"), text(message.get("id"))
    if isinstance(usage, dict) and name:
        events.append(AgentEvent(EventKind.USAGE, usage=_used(usage), usage_of=name))
    return events


def _text(part: Mapping[str, Any]) -> AgentEvent:
    return AgentEvent(EventKind.TEXT, text(part.get("text")))


def _tool(part: Mapping[str, Any]) -> AgentEvent:
    arguments = mapping(part.get("input"))
    about = next((text(arguments[key]) for key in _ABOUT if key in arguments), "")
    return AgentEvent(_TOOLS.get(text(part.get("name")), EventKind.TOOL), about)


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], AgentEvent]] = {"text": _text, "tool_use": _tool}


def _each(content: object) -> Sequence[object]:
    return content if isinstance(content, list) else ()


def _system(event: Mapping[str, Any]) -> Sequence[AgentEvent]:
    match event.get("subtype"):
        case "init":
            return (AgentEvent(EventKind.SESSION, text(event.get("session_id"))),)
        case "api_retry":
            status = event.get("error_status")
            why = f"{text(event.get('error')) or 'unknown'}{f' ({status})' if isinstance(status, int) else ''}"
            return (AgentEvent(EventKind.RETRYING, why, delay_s=count(event.get("retry_delay_ms")) / 1000),)
    return NOTHING


# ── End, usage, failures ────────────────────────────────────────────────────────────────────────────────────────────


def _result(event: Mapping[str, Any]) -> Iterator[AgentEvent]:
    yield AgentEvent(EventKind.USAGE, usage=_used_in_all(event))
    if event.get("is_error") is False and text(event.get("subtype")) == "success":
        yield AgentEvent(EventKind.END_GOOD)
        return
    said = text(event.get("result")) or text(event.get("subtype"))
    if event.get("is_error") is True:
        yield from _failure(event, said)
    yield AgentEvent(EventKind.END_BAD, said)


def _used(usage: Mapping[str, Any]) -> Usage:
    cached = count(usage.get("cache_creation_input_tokens")) + count(usage.get("cache_read_input_tokens"))
    return Usage(count(usage.get("input_tokens")) + cached, count(usage.get("output_tokens")))


def _used_in_all(event: Mapping[str, Any]) -> Usage:
    """By the table of models, which counts helpers of the agent too; by the sum of the turn where there is none."""
    cost = micro_usd(event.get("total_cost_usd"))
    models = [mapping(model) for model in mapping(event.get("modelUsage")).values()]
    if not models:
        used = _used(mapping(event.get("usage")))
        return Usage(used.tokens_in, used.tokens_out, cost)
    names = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    used = total_usage(
        Usage(sum(count(model.get(name)) for name in names), count(model.get("outputTokens"))) for model in models
    )
    return Usage(used.tokens_in, used.tokens_out, cost)


# What the program puts before the words of the service.
_PREFIX = re.compile(r"(?:API Error: )?(?:Request rejected \(\d{3}\) · )?")


def _failure(event: Mapping[str, Any], said: str) -> Iterator[AgentEvent]:
    too_long = ("prompt_too_long",) if event.get("terminal_reason") == "prompt_too_long" else ()
    kind = cause(
        status=event.get("api_error_status"),
        codes=(*too_long, event.get("api_error"), event.get("api_error_type"), event.get("error")),
        message=_PREFIX.sub("", said, count=1),
    )
    if kind is not None:
        yield AgentEvent(kind, f"{said}; next: claude /login" if kind is EventKind.REFUSED else said)


def _rate_limit(info: Mapping[str, Any]) -> Sequence[AgentEvent]:
    """Told before the request is refused; a warning is none, nor is a limit that paid extra usage steps over."""
    if info.get("status") != "rejected" or info.get("isUsingOverage") is True:
        return NOTHING
    name = text(info.get("rateLimitType")).replace("_", " ")
    return (AgentEvent(EventKind.LIMIT, f"{name or 'usage'} limit reached", resets_at=instant(info.get("resetsAt"))),)


DIALECT = Dialect(
    kind="claude",
    arguments=("-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions"),
    effort=("--effort", "{}"),
    env_names=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_MAX_RETRIES"),
    ),
    env={
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_BUG_COMMAND": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    },
    env_as_root={"IS_SANDBOX": "1"},  # without it the program refuses to go unasked as root
    profile=AgentProfile(tells_cost=True),
    read=read,
)
