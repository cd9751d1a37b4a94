"""Kind `gemini`: Google's Gemini CLI, `gemini --output-format stream-json`. Captured with 0.61.0.

It repeats the prompt, gives the model's words in pieces, tells usage once at the end, and writes of its retries to
standard error alone. Its exit code is an HTTP status modulo 256.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from afk.agents.dialect import NOISE, NOTHING, Dialect
from afk.agents.failures import cause
from afk.agents.jsonline import count, json_object, mapping, text
from afk.domain.usage import Usage
from afk.ports import AgentEvent, AgentProfile, EventKind

__all__ = ["DIALECT", "complaint", "read"]

_TOOLS = {
    "run_shell_command": EventKind.SHELL,
    **dict.fromkeys(
        ("read_file", "read_many_files", "list_directory", "glob", "search_file_content", "grep_search"), EventKind.READ
    ),
    **dict.fromkeys(("write_file", "replace", "edit"), EventKind.EDIT),
}
_OUTPUT = (AgentEvent(EventKind.TOOL_OUTPUT),)
_ABOUT = ("command", "file_path", "absolute_path", "dir_path", "path", "pattern")


def read(line: str) -> Sequence[AgentEvent]:
    event = json_object(line)
    if event is None:
        return NOISE if line.strip() else NOTHING
    match event.get("type"):
        case "message":
            return _message(event)
        case "tool_use":
            arguments = mapping(event.get("parameters"))
            about = next((text(arguments[key]) for key in _ABOUT if key in arguments), "")
            return (AgentEvent(_TOOLS.get(text(event.get("tool_name")), EventKind.TOOL), about),)
        case "tool_result":
            return _OUTPUT
        case "result":
            return tuple(_result(event))
        case "init":
            return (AgentEvent(EventKind.SESSION, text(event.get("session_id"))),)
        case "error":  # a warning: what ends the run comes in `result`
            return NOTHING
    return NOISE


def _message(event: Mapping[str, Any]) -> Sequence[AgentEvent]:
    if event.get("role") != "assistant":  # the prompt, repeated
        return NOTHING
    kind = EventKind.TEXT_PART if event.get("delta") is True else EventKind.TEXT
    return (AgentEvent(kind, text(event.get("content"))),)


def _result(event: Mapping[str, Any]) -> Iterator[AgentEvent]:
    stats = mapping(event.get("stats"))
    if stats:
        tokens_in = count(stats.get("input_tokens"))
        thought = count(stats.get("total_tokens")) - tokens_in  # `output_tokens` leaves out what was only thought
        yield AgentEvent(EventKind.USAGE, usage=Usage(tokens_in, max(count(stats.get("output_tokens")), thought)))
    if event.get("status") == "success":
        yield AgentEvent(EventKind.END_GOOD)
        return
    error = mapping(event.get("error"))
    yield from _failure(text(error.get("message")), text(error.get("type")))
    yield AgentEvent(EventKind.END_BAD, text(error.get("message")))


# ── Failures ────────────────────────────────────────────────────────────────────────────────────────────────────────

_TYPES = {"FatalAuthenticationError": EventKind.REFUSED}
_WRAPPED = re.compile(r"\[API Error: (?P<said>.*?)\](?P<advice>\n.*)?", re.DOTALL)
_ADVICE = "\nPlease wait and try again later."  # what it adds to every 429
# Nobody answered, or the answer was cut off in the middle.
_UNREACHED = re.compile(
    r"exception TypeError: fetch failed|fetch failed|.{0,40}(ECONNRE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN)"
    r"|Incomplete JSON segment at the end"
)


def _failure(message: str, type_: str = "") -> Iterator[AgentEvent]:
    wrapped = _WRAPPED.fullmatch(message)
    said = wrapped["said"] if wrapped else message
    kind = _TYPES.get(type_) or _cause(said)
    if kind is None and wrapped and (wrapped["advice"] or "").startswith(_ADVICE):
        kind = EventKind.TRANSIENT
    if kind is not None:
        hint = "; next: gemini (and choose how to log in), or set GEMINI_API_KEY" if kind is EventKind.REFUSED else ""
        yield AgentEvent(kind, message + hint)


def _cause(said: str) -> EventKind | None:
    if body := json_object(said):
        error = mapping(body.get("error"))
        return cause(status=error.get("code"), codes=(error.get("status"),), message=text(error.get("message")))
    return EventKind.TRANSIENT if _UNREACHED.match(said) else cause(message=said)


_RETRYING = re.compile(r"Attempt \d+ failed(?: with status \d{3})?\. Retrying with backoff\.\.\.")
_GAVE_UP = re.compile(r"Error when talking to Gemini API Full report available at: \S+ (?:\w+: )(?P<said>.*)")
_NO_LOGIN = re.compile(r"Please set an Auth method in |When using Gemini API, you must specify the GEMINI_API_KEY")


def complaint(line: str) -> Sequence[AgentEvent]:
    """Only lines that begin as the program's own do; the stack traces below them hold anything."""
    if _RETRYING.match(line):
        return (AgentEvent(EventKind.RETRYING, line),)
    if gave_up := _GAVE_UP.match(line):
        return tuple(_failure(gave_up["said"]))
    if _NO_LOGIN.match(line):
        return (AgentEvent(EventKind.REFUSED, f"{line}; next: gemini"),)
    return NOTHING


DIALECT = Dialect(
    kind="gemini",
    arguments=("--yolo", "--skip-trust", "--output-format", "stream-json"),
    env_names=(
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_GENAI_USE_VERTEXAI"),
        *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_HOME"),
    ),
    env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    profile=AgentProfile(),
    read=read,
    complaint=complaint,
)
