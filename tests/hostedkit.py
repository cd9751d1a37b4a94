"""A place to drain whose issues and repository are on a GitHub on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import githubkit
import gitkit
from drainkit import ENVELOPE, Place
from githubkit import Github

from afk.adapters.github import GithubTracker
from afk.adapters.githubapi import Api

__all__ = ["Books", "Hosted", "hosted"]

Books = dict[int, tuple[str, frozenset[str], int]]
"""State, labels and number of envelopes, by issue."""


class Hosted(Place):
    """`tracker` is another look at the issues."""

    github: Github
    tracker: GithubTracker

    def put(self, body: str, title: str = "Do it", labels: tuple[str, ...] = ("ready-for-agent",)) -> int:
        return self.tracker.create_issue(title=title, body=body, labels=labels).number

    def told(self, number: int) -> list[str]:
        return [comment.body for comment in self.tracker.thread(number) if comment.body.startswith(ENVELOPE)]

    def books(self, *numbers: int) -> Books:
        looks = {number: self.tracker.issue(number) for number in numbers}
        return {n: (issue.state, frozenset(issue.labels), len(self.told(n))) for n, issue in looks.items()}


@contextmanager
def hosted(folder: Path) -> Iterator[Hosted]:
    with githubkit.running(folder / "server") as github:
        url = githubkit.make_repo(github, "afk/widget", {"README.md": "A project.\n"})
        origin = github.repos / "afk/widget.git"
        gitkit.git(origin, "config", "http.receivepack", "true")
        clone = gitkit.clone(url, folder / "clone")
        with Hosted(origin, clone, {"GH_ENTERPRISE_TOKEN": "tok_afk"}) as made:
            made.github = github
            made.tracker = GithubTracker(Api(github.api_url, lambda: "tok_afk"), "afk/widget")
            made.configure(tracker="github", github={"api_url": github.api_url})
            yield made
