"""A model on loopback that plays scripts, for real coding agents: OpenAI Responses and Chat Completions, and Gemini.

Which script is played stands in the conversation, as a line `script: NAME`; how far it has come is told by the number
of tool results in it, so that a request that is sent again gets the same answer. Failures look like the providers'.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Failure", "Script", "Step", "serve"]

MODEL = "test-model"
_SHELLS = ("shell_command", "exec_command", "shell", "bash", "run_shell_command")


@dataclass(frozen=True)
class Step:
    """What the model says, then the command that it has run; without one its turn is over."""

    say: str = ""
    shell: str = ""


@dataclass(frozen=True)
class Failure:
    """How a request is answered instead: with a status and the provider's words, or cut in the middle, or never.

    `times` requests are answered so.
    """

    status: int = 0
    code: str = ""
    message: str = ""
    cut: bool = False
    hang: bool = False
    times: int = 10**9


@dataclass(frozen=True)
class Script:
    """`failure` meets every request from step `fails_at` (0: the first) on."""

    steps: tuple[Step, ...]
    failure: Failure | None = None
    fails_at: int = 0


@dataclass
class Model:
    """What is played, and how often it was asked."""

    scripts: Mapping[str, Script]
    address: str = ""
    asked: list[str] = field(default_factory=list)
    failed: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def step(self, words: str, results: int) -> tuple[Step, Failure | None]:
        found = re.search(r"script: (\w+)", words)
        script = self.scripts[found[1] if found else "none"]
        failure = script.failure if script.failure and results >= script.fails_at else None
        if failure is not None:
            self.failed += 1
            failure = failure if self.failed <= failure.times else None
        return script.steps[min(results, len(script.steps) - 1)], failure


@contextmanager
def serve(scripts: Mapping[str, Script]) -> Iterator[Model]:
    model = Model({"none": Script((Step("Nothing was asked."),)), **scripts})
    handler = type("Handler", (_Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    model.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        model.over.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    model: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        known = {"id": MODEL, "object": "model", "created": 1, "owned_by": "nobody"}
        self._json(200, {"object": "list", "data": [known], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        self.model.asked.append(path)
        for end, answer in _PROTOCOLS:
            if end in path:
                answer(self, body)
                return
        self._json(404, {"error": {"message": "no such address", "type": "not_found_error"}})

    def play(self, words: object, results: int) -> Step | None:
        """The step to answer with; None when the request was answered by a failure."""
        step, failure = self.model.step(json.dumps(words), results)
        self.cut = failure is not None and failure.cut
        if failure is None or failure.cut:
            return step
        if failure.hang:
            self.model.over.wait(3600)
            self.close_connection = True
            return None
        error = {"message": failure.message, "type": failure.code, "code": failure.code, "status": failure.code}
        self._json(
            failure.status, {"error": error | {"code": failure.status if "gemini" in self.path else failure.code}}
        )
        return None

    def _json(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        if status >= 400:
            self.send_header("retry-after-ms", "50")  # opencode would try for 80 seconds
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events: Sequence[tuple[str, object]]) -> None:
        """Server-sent events; half of their bytes when the connection is to be cut."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        sent = "".join(_event(name, data) for name, data in events).encode()
        self.wfile.write(sent[: len(sent) // 2] if self.cut else sent)
        self.wfile.flush()
        if self.cut:
            self.connection.shutdown(2)


def _event(name: str, data: object) -> str:
    line = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {line}\n\n"


def _call(step: Step, offered: Sequence[str]) -> tuple[str, dict[str, object]] | None:
    """The tool that runs the step's command, by the name that this agent gave it, with its arguments."""
    if not step.shell:
        return None
    name = next(each for each in _SHELLS if each in offered)
    if name == "exec_command":
        return name, {"cmd": step.shell}
    if name == "shell":
        return name, {"command": ["bash", "-lc", step.shell]}
    return name, {"command": step.shell, "description": "as planned"}


# ── OpenAI Responses ────────────────────────────────────────────────────────────────────────────────────────────────


def _responses(handler: _Handler, asked: dict[str, Any]) -> None:
    items = [item for item in asked.get("input", []) if isinstance(item, dict)]
    results = sum(str(item.get("type", "")).endswith("_call_output") for item in items)
    step = handler.play(items, results)
    if step is None:
        return
    output: list[dict[str, Any]] = []
    if step.say:
        said = {"type": "output_text", "text": step.say, "annotations": []}
        output.append({"type": "message", "id": f"msg_{results}", "role": "assistant", "content": [said]})
    if call := _call(step, [str(tool.get("name")) for tool in asked.get("tools", [])]):
        name, arguments = call
        ids = {"id": f"fc_{results}", "call_id": f"call_{results}"}
        output.append({"type": "function_call", **ids, "name": name, "arguments": json.dumps(arguments)})
    usage = {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 1050,
    }
    response = {"id": f"resp_{results}", "object": "response", "created_at": 1, "model": MODEL}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    for index, item in enumerate(output):
        done = {**item, "status": "completed"}
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": done})
    whole = {**response, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": whole})
    handler.stream([(event["type"], {**event, "sequence_number": k}) for k, event in enumerate(events)])


# ── OpenAI Chat Completions ─────────────────────────────────────────────────────────────────────────────────────────


def _chat(handler: _Handler, asked: dict[str, Any]) -> None:
    messages = asked.get("messages", [])
    offered = [tool["function"]["name"] for tool in asked.get("tools", [])]
    results = sum(message.get("role") == "tool" for message in messages)
    step = handler.play(messages, results) if offered else Step("a title")  # opencode asks for one, without tools
    if step is None:
        return
    handler.cut = handler.cut if offered else False
    base = {"id": f"chatcmpl-{results}", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: dict[str, object], finish: str | None = None) -> tuple[str, object]:
        return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    events = [chunk({"role": "assistant", "content": step.say})]
    call = _call(step, offered)
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        tool = {"index": 0, "id": f"call_{results}", "type": "function", "function": function}
        events.append(chunk({"tool_calls": [tool]}))
    events.append(chunk({}, "tool_calls" if call else "stop"))
    usage = {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}
    handler.stream([*events, ("", {**base, "choices": [], "usage": usage}), ("", "[DONE]")])


# ── Gemini ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gemini(handler: _Handler, asked: dict[str, Any]) -> None:
    contents = asked.get("contents", [])
    offered = [each["name"] for tool in asked.get("tools", []) for each in tool.get("functionDeclarations", [])]
    results = sum("functionResponse" in part for content in contents for part in content.get("parts", []))
    if not offered:  # it asks which model to use, or who speaks next
        handler.cut = False
        parts: list[dict[str, Any]] = [{"text": json.dumps({"reasoning": "r", "next_speaker": "user"})}]
    else:
        step = handler.play(contents, results)
        if step is None:
            return
        parts = [{"text": step.say}] if step.say else []
        if call := _call(step, offered):
            parts.append({"functionCall": {"name": call[0], "args": call[1]}})
    usage = {"promptTokenCount": 1000, "candidatesTokenCount": 50, "totalTokenCount": 1050}
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}
    if "stream" in handler.path:
        handler.stream([("", answer)])
    else:
        handler._json(200, answer)


def _count(handler: _Handler, asked: dict[str, Any]) -> None:
    handler._json(200, {"totalTokens": 10})


_PROTOCOLS: tuple[tuple[str, Callable[[_Handler, dict[str, Any]], None]], ...] = (
    ("countTokens", _count),
    ("enerateContent", _gemini),
    ("/responses", _responses),
    ("/chat/completions", _chat),
)

if __name__ == "__main__":
    with serve({}) as served:
        print(served.address, flush=True)
        time.sleep(1e6)
