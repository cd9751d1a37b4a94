"""The tracker on GitHub, or a server that speaks its API. What each call costs and means: docs/github.md."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

from afk.adapters.githubapi import Api, Budget, NotFound
from afk.domain.issue import Comment, Issue
from afk.errors import InvalidInput, IssueNotFound, IssueUnreadable, TrackerDenied

__all__ = ["LABELS", "GithubTracker", "repo_of_url"]

_MAY_WRITE = ("admin", "maintain", "write")
_GHOST = "ghost"  # what GitHub shows for a deleted account

# Colour and description of every label that we set or read. Source: AFK lifecycle rules, Outcomes.
LABELS: Mapping[str, tuple[str, str]] = {
    "ready-for-agent": ("0e8a16", "afk may work on this unattended"),
    "running": ("fbca04", "afk is working on this"),
    "ready-for-human": ("d93f0b", "afk stopped; a person decides"),
    "runner-error": ("e99695", "the agent died several times in a row"),
    **{
        f"blocked:{why}": ("b60205", f"afk stopped: {told}")
        for why, told in {
            "spec": "the agent needs an answer",
            "runner": "the agent ended without a result",
            "merge-conflict": "somebody changed the same lines",
            "validation": "a check failed on the result",
            "policy": "a hook or a landing guard refused",
            "quota": "the agent's quota is used up",
            "runner-transient": "the agent's provider did not answer",
            "stalled": "the agent hung",
            "wall-clock-capped": "the time limit was reached",
            "infra": "the machine, the remote or a login",
            "budget": "a budget was used up",
            "dependency": "another issue comes first",
        }.items()
    },
    "priority:urgent": ("b60205", "worked first"),
    "priority:high": ("d93f0b", "worked early"),
    "priority:low": ("c5def5", "worked last"),
    "type:prd": ("5319e7", "a plan; its slices are the work"),
    "type:spec": ("5319e7", "a specification; its slices are the work"),
}
_OTHER_COLOUR = "ededed"


class GithubTracker:
    """The issues of one repository. Safe to use from several threads; permissions are asked once in a run.

    `repo` is `owner/name`. Raises what the port says, with GitHub's own words.
    """

    def __init__(self, api: Api, repo: str) -> None:
        self._api = api
        self._repo = repo
        self._base = "/repos/" + "/".join(quote(part, safe="") for part in repo.split("/"))
        self._lock = threading.Lock()
        self._permissions: dict[str, bool] = {}
        self._login: str | None = None
        self._html_url: str | None = None

    @property
    def login(self) -> str:
        if self._login is None:
            self._login = str(self._api.get("/user")["login"])
        return self._login

    @property
    def budget(self) -> Budget | None:
        return self._api.budget

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def open_issues(self) -> list[Issue]:
        """Oldest first, so that what happens to one issue leaves the other pages as they are, and free."""
        listed = self._api.pages(f"{self._base}/issues", state="open", sort="created", direction="asc")
        found = {record["number"]: record for record in listed}  # one that moved between two pages is there twice
        return [_issue(found[number]) for number in sorted(found) if "pull_request" not in found[number]]

    def problems(self) -> list[str]:
        """Always empty: a record that cannot be read would be the server's, and raises."""
        return []

    def issue(self, number: int) -> Issue:
        record = self._ask(number)
        if "pull_request" in record:
            raise IssueNotFound(f"#{number} of {self._repo} is a pull request", hint="afk queue list")
        return _issue(record)

    def thread(self, number: int) -> list[Comment]:
        try:
            return [self._comment(record) for record in self._api.pages(f"{self._base}/issues/{number}/comments")]
        except NotFound as error:
            raise self._no_issue(number) from error

    def can_write(self, login: str) -> bool:
        """From the API, never from a badge in the thread; who is unknown may not."""
        with self._lock:
            known = self._permissions.get(login)
        if known is None:
            known = self._asked_permission(login)
            with self._lock:
                self._permissions[login] = known
        return known

    def branch_link(self, branch: str, number: int) -> str:
        return f"[`{branch}`]({self._web()}/tree/{quote(branch)})"

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def create_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """A title is one line. Raises `InvalidInput` for a blank one."""
        line = " ".join(title.split())
        if not line:
            raise InvalidInput("a title cannot be blank")
        for label in labels:
            self._ensure_label(label)
        made = self._api.post_once(f"{self._base}/issues", {"title": line, "body": body, "labels": list(labels)})
        return _issue(made)

    def comment(self, number: int, body: str) -> Comment:
        try:
            return self._comment(self._api.post_once(f"{self._base}/issues/{number}/comments", {"body": body}))
        except NotFound as error:
            raise self._no_issue(number) from error

    def edit_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """One change for each label, so that a label which a person sets meanwhile stays (R71)."""
        there = {label.casefold(): label for label in self.issue(number).labels}
        wanted = {name.casefold(): name for name in add}
        missing = [name for folded, name in wanted.items() if folded not in there]
        for name in missing:
            self._ensure_label(name)
        if missing:
            self._api.put("POST", f"{self._base}/issues/{number}/labels", {"labels": missing})
        for name in remove:
            held = there.get(name.casefold())
            if held is not None and name.casefold() not in wanted:
                with suppress(NotFound):  # somebody was faster
                    self._api.put("DELETE", f"{self._base}/issues/{number}/labels/{quote(held, safe='')}")

    def close_issue(self, number: int, *, reason: str = "completed") -> Issue:
        """One that is closed keeps its reason."""
        now = self.issue(number)
        if not now.is_open:
            return now
        return _issue(
            self._api.put("PATCH", f"{self._base}/issues/{number}", {"state": "closed", "state_reason": reason})
        )

    def make_labels(self, names: Sequence[str] = ()) -> list[str]:
        """Make `names` and every label of `LABELS` that is missing; the ones that were made, in order."""
        there = {str(label["name"]).casefold() for label in self._api.pages(f"{self._base}/labels")}
        missing = [name for name in dict.fromkeys([*names, *LABELS]) if name.casefold() not in there]
        for name in missing:
            self._ensure_label(name)
        return missing

    # ── Parts ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, number: int) -> Mapping[str, Any]:
        try:
            record = self._api.get(f"{self._base}/issues/{number}")
        except NotFound as error:
            raise self._no_issue(number) from error
        if not isinstance(record, dict):
            raise IssueUnreadable(f"issue {number} of {self._repo} is no record")
        return record

    def _no_issue(self, number: int) -> IssueNotFound:
        return IssueNotFound(f"there is no issue {number} in {self._repo}", hint="afk queue list")

    def _comment(self, record: Mapping[str, Any]) -> Comment:
        author = _author(record)
        return Comment(
            id=str(record["id"]),
            author=author,
            created_at=_instant(record["created_at"]),
            body=str(record.get("body") or ""),
            by_us=author == self.login,
            can_write=self.can_write(author),
            url=record.get("html_url"),
        )

    def _asked_permission(self, login: str) -> bool:
        if login == _GHOST:
            return False
        try:
            told = self._api.get(f"{self._base}/collaborators/{quote(login, safe='')}/permission")
        except NotFound:
            return False
        return str(told.get("permission")) in _MAY_WRITE

    def _ensure_label(self, name: str) -> None:
        """A label that is not there is made with colour and description, before anything is labelled with it (R67)."""
        path = f"{self._base}/labels/{quote(name, safe='')}"
        try:
            self._api.get(path)
        except NotFound:
            colour, description = LABELS.get(name.casefold(), (_OTHER_COLOUR, ""))
            made = {"name": name, "color": colour, "description": description}
            try:
                self._api.put("POST", f"{self._base}/labels", made)
            except TrackerDenied:  # made by somebody at the same moment, or by us although no answer came
                self._api.get(path)

    def _web(self) -> str:
        if self._html_url is None:
            self._html_url = str(self._api.get(self._base)["html_url"])
        return self._html_url


def _issue(record: Mapping[str, Any]) -> Issue:
    state = str(record["state"])
    return Issue(
        number=int(record["number"]),
        title=" ".join(str(record["title"]).split()),
        body=str(record.get("body") or ""),
        state=state,
        labels=tuple(_label(label) for label in record.get("labels") or ()),
        author=_author(record),
        created_at=_instant(record["created_at"]),
        updated_at=_instant(record["updated_at"]),
        closed_reason=record.get("state_reason") if state == "closed" else None,
        url=record.get("html_url"),
        assignees=tuple(str(person["login"]) for person in record.get("assignees") or ()),
    )


def _label(record: object) -> str:
    return str(record["name"]) if isinstance(record, dict) else str(record)


def _author(record: Mapping[str, Any]) -> str:
    user = record.get("user")
    return str(user["login"]) if isinstance(user, dict) else _GHOST


def _instant(told: str) -> datetime:
    return datetime.fromisoformat(told)


_REPO = re.compile(r"/?(?P<repo>[\w.-]+/[\w.-]+?)(?:\.git)?/?$")


def repo_of_url(url: str) -> str | None:
    """`owner/name` of a remote's address, HTTPS or ssh; None when it names none."""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    found = _REPO.fullmatch(path)
    return found["repo"] if found else None
