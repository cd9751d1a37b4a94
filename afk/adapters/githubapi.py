"""GitHub's REST API through PyGithub's requester: who asks, what is asked again, what is free, and what errors mean.

Nothing here sleeps for a limit: while one holds, every call is refused at once and says until when, so that the waiting
is announced, and can be interrupted, where the work is. Source: GitHub REST documentation, "Rate limits for the REST
API" and "Best practices for using the REST API".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from afk.errors import TrackerDenied, TrackerError
from afk.wire.json_value import parse_json

if TYPE_CHECKING:
    from github.Requester import Requester

__all__ = ["Api", "Budget", "NotFound"]

TIMEOUT_S = 30  # well below half of any lease
PAGE = 100
_READS = (0.2, 0.5, 1.0, None)  # pauses between tries of what may be asked again
_SECONDARY_S = 60.0  # "wait at least one minute", when a limit names no time
_LONGEST_WAIT_S = 1800.0  # a reset further away is not believed (L04)
_CACHED = 512  # answers kept for conditional requests


class NotFound(TrackerError):
    """The server's 404 or 410: an answer, not a failure (L07)."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Budget:
    """What is left of an hour's requests for this token, as of the last answer."""

    remaining: int
    limit: int
    resets_at: datetime


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class _Kept:
    etag: str
    text: str
    next_url: str | None


class Api:
    """One server and one login. Safe to use from several threads.

    `token` is asked when a request needs it, and once more after a 401: a token may have ended since (R61).
    Methods raise `TrackerError` (retryable: no answer, a limit, the server's fault), `NotFound` and `TrackerDenied`.
    """

    def __init__(self, base_url: str, token: Callable[[], str]) -> None:
        self.base_url = base_url.rstrip("/")
        self._ask_token = token
        self._lock = threading.RLock()
        self._requester: Requester | None = None
        self._token = ""
        self._blocked_until_s = 0.0
        self._blocked_why = ""
        self._budget: Budget | None = None
        self._kept: dict[str, _Kept] = {}

    @property
    def budget(self) -> Budget | None:
        """None until the server has told it."""
        return self._budget

    def get(self, path: str, **parameters: str | int) -> Any:
        """One JSON value. What has not changed since it was asked last costs the hour's budget nothing."""
        return parse_json(self._read(self._url(path, parameters)).text)

    def pages(self, path: str, **parameters: str | int) -> Iterator[Any]:
        """Every element of every page; a page that fails raises, so that a list is never short (R62, L06)."""
        url: str | None = self._url(path, {"per_page": PAGE, **parameters})
        while url is not None:
            kept = self._read(url)
            yield from parse_json(kept.text)
            url = kept.next_url

    def post_once(self, path: str, body: Mapping[str, object]) -> Any:
        """Create something. Never asked again: whoever gets an error looks whether it is there (R86)."""
        return _json(self._checked("POST", self._url(path, {}), self._exchange("POST", self._url(path, {}), body)))

    def put(self, verb: str, path: str, body: object = None) -> Any:
        """A change that may be made twice, so it is tried again when no answer came."""
        url = self._url(path, {})
        return _json(self._checked(verb, url, self._patiently(verb, url, body)))

    # ── One request ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _url(self, path: str, parameters: Mapping[str, str | int]) -> str:
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"{self.base_url}{path}{'?' if query else ''}{query}"

    def _read(self, url: str) -> _Kept:
        with self._lock:
            known = self._kept.get(url)
        headers = {"If-None-Match": known.etag} if known else {}
        answer = self._patiently("GET", url, None, headers)
        if answer.status == 304 and known is not None:
            return known
        self._checked("GET", url, answer)
        kept = _Kept(str(answer.headers.get("etag", "")), answer.text, _next_page(answer.headers, self.base_url))
        if kept.etag:
            with self._lock:
                self._kept.pop(url, None)
                self._kept[url] = kept
                while len(self._kept) > _CACHED:
                    del self._kept[next(iter(self._kept))]
        return kept

    def _patiently(self, verb: str, url: str, body: object, headers: Mapping[str, str] | None = None) -> _Answer:
        """Asks again after no answer and after the server's own faults; the last try's result counts."""
        for pause_s in _READS:
            try:
                answer = self._exchange(verb, url, body, headers)
            except TrackerError as error:
                if pause_s is None or error.details.get("limited"):
                    raise
            else:
                if pause_s is None or answer.status < 500:
                    return answer
            time.sleep(pause_s)
        raise AssertionError("the last pause is None")

    def _exchange(self, verb: str, url: str, body: object = None, headers: Mapping[str, str] | None = None) -> _Answer:
        """One request, and one more with a fresh token after a 401."""
        self._demand_unblocked()
        answer = self._once(verb, url, body, headers)
        if answer.status == 401 and self._renew_token():
            answer = self._once(verb, url, body, headers)
        return answer

    def _once(self, verb: str, url: str, body: object, headers: Mapping[str, str] | None) -> _Answer:
        import requests
        from github import GithubException

        try:
            status, told, text = self._connected().requestJson(verb, url, headers=dict(headers or {}), input=body)
        except (GithubException, requests.RequestException, OSError, RuntimeError, AssertionError) as error:
            raise TrackerError(f"{verb} {url}: no answer ({_few_words(error)})", hint="afk doctor") from error
        answer = _Answer(status, told, text)
        self._note_budget(told)
        self._note_limit(answer)
        return answer

    def _connected(self) -> Requester:
        with self._lock:
            if self._requester is None:
                self._token = self._ask_token()
                self._requester = _requester(self.base_url, self._token)
            return self._requester

    def _renew_token(self) -> bool:
        """Whether there is another token now."""
        with self._lock:
            fresh = self._ask_token()
            if fresh == self._token:
                return False
            self._token, self._requester = fresh, _requester(self.base_url, fresh)
            return True

    # ── What the answer means ───────────────────────────────────────────────────────────────────────────────────────

    def _checked(self, verb: str, url: str, answer: _Answer) -> _Answer:
        """Raises what the error map in docs/github.md says of this status."""
        status = answer.status
        if status < 400:
            return answer
        what, told = f"{verb} {url}: {status}", _told(answer.text)
        said = f"{what} {told}".rstrip()
        if status in (404, 410):
            raise NotFound(said)
        if status == 401:
            raise TrackerDenied(f"{said}; the token is not accepted", hint="gh auth login")
        if status in (403, 429) and self._is_blocked():
            raise self._limited()
        if status in (403, 422) or status < 500:
            raise TrackerDenied(said, hint="afk doctor")
        raise TrackerError(said, hint="afk doctor")

    def _note_budget(self, headers: Mapping[str, Any]) -> None:
        try:
            remaining, limit = int(headers["x-ratelimit-remaining"]), int(headers["x-ratelimit-limit"])
            resets_at = datetime.fromtimestamp(int(headers["x-ratelimit-reset"]), UTC)
        except (KeyError, ValueError, OverflowError, OSError):
            return
        self._budget = Budget(remaining, limit, resets_at)

    def _note_limit(self, answer: _Answer) -> None:
        """A limit is told by `retry-after`, by a budget of 0, or by GitHub's sentence alone."""
        if answer.status not in (403, 429):
            return
        wait_s = _wait_of(answer)
        if wait_s is None:
            return
        with self._lock:
            self._blocked_until_s = time.monotonic() + min(max(wait_s, 1.0), _LONGEST_WAIT_S)
            self._blocked_why = _told(answer.text) or str(answer.status)

    def _is_blocked(self) -> bool:
        return time.monotonic() < self._blocked_until_s

    def _demand_unblocked(self) -> None:
        if self._is_blocked():
            raise self._limited()

    def _limited(self) -> TrackerError:
        left_s = max(0.0, self._blocked_until_s - time.monotonic())
        return TrackerError(
            f"{urlsplit(self.base_url).netloc} limits our requests for another {left_s:.0f} s: {self._blocked_why}",
            hint="afk status",
            details={"limited": True, "retry_after_s": round(left_s, 1)},
        )


def _requester(base_url: str, token: str) -> Requester:
    """PyGithub without its own retries and pauses: it would repeat a POST that was carried out (R86)."""
    from github import Auth, Github

    made = Github(
        auth=Auth.Token(token),
        base_url=base_url,
        timeout=TIMEOUT_S,
        retry=None,
        user_agent="afk",
        seconds_between_requests=None,
        seconds_between_writes=None,
    )
    return made.requester


def _wait_of(answer: _Answer) -> float | None:
    """Seconds that a limit asks for; None when the refusal is none."""
    headers, told = answer.headers, _told(answer.text).casefold()
    if (after := _number(headers.get("retry-after"))) is not None:
        return after
    if _number(headers.get("x-ratelimit-remaining")) == 0 and (at := _number(headers.get("x-ratelimit-reset"))):
        return at - time.time() + 1  # it is not told when in that second
    if answer.status == 429 or "rate limit" in told or "abuse detection" in told:
        return _SECONDARY_S
    return None


def _number(told: object) -> float | None:
    try:
        return float(str(told))
    except ValueError:
        return None


def _next_page(headers: Mapping[str, Any], base_url: str) -> str | None:
    """The address behind `rel="next"`; one on another host would carry our token there, and is not followed."""
    for part in str(headers.get("link", "")).split(","):
        address, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            url = address.strip().strip("<>")
            if urlsplit(url)[:2] != urlsplit(base_url)[:2]:
                raise TrackerError(f"the next page is on another server: {url}", hint="afk config show")
            return url
    return None


def _json(answer: _Answer) -> Any:
    return parse_json(answer.text) if answer.text else None


def _told(text: str) -> str:
    """GitHub's own sentence, with what it says about single fields."""
    try:
        body = parse_json(text)
    except ValueError:
        return ""
    if not isinstance(body, dict):
        return ""
    errors = [_one_error(error) for error in body.get("errors") or ()]
    return "; ".join([str(body.get("message") or ""), *errors])[:500]


def _one_error(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    return str(error.get("message") or " ".join(str(error[key]) for key in ("field", "code") if key in error))


def _few_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]
