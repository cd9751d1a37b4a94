"""The GitHub tracker against a server on loopback: what every tracker promises, and what only a network does to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import githubkit
import pytest
from contracts.tracker_contract import Connect, TrackerContract
from githubkit import Github

from afk.adapters.github import GithubTracker, repo_of_url
from afk.adapters.githubapi import Api
from afk.errors import AfkError, TrackerError

NAMES = (f"p{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Github]:
    with githubkit.running(tmp_path_factory.mktemp("github")) as github:
        yield github


@pytest.fixture
def github(server: Github) -> Github:
    """The same server for all tests of a process, without orders and with an empty log."""
    server.orders.clear()
    server.log.clear()
    return server


@pytest.fixture
def repo(github: Github) -> str:
    """A repository of its own for each test: numbers start at 1."""
    name = next(NAMES)
    api(github).post_once("/user/repos", {"name": name})
    github.log.clear()
    return f"afk/{name}"


def api(github: Github, login: str = "afk") -> Api:
    return Api(github.api_url, lambda: f"tok_{login}")


@pytest.fixture
def tracker(github: Github, repo: str) -> GithubTracker:
    return GithubTracker(api(github), repo)


class TestGithubTracker(TrackerContract):
    @pytest.fixture
    def connect(self, github: Github, repo: str) -> Connect:
        return lambda login: GithubTracker(api(github, login), repo)


# ── Fewer calls ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_poll_without_news_costs_nothing(github: Github, tracker: GithubTracker) -> None:
    for n in range(120):
        tracker.create_issue(title=f"n{n}", body="")
    tracker.open_issues()
    github.log.clear()

    assert len(tracker.open_issues()) == 120
    assert (len(github.log), github.counted()) == (2, [])


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101])
def test_every_issue_is_seen_at_the_edges_of_a_page(tracker: GithubTracker, count: int) -> None:
    """R62"""
    for n in range(count):
        tracker.create_issue(title=f"n{n}", body="")
    assert [issue.number for issue in tracker.open_issues()] == list(range(1, count + 1))


def test_a_page_that_fails_is_no_shorter_list(github: Github, tracker: GithubTracker) -> None:
    """L06"""
    for n in range(101):
        tracker.create_issue(title=f"n{n}", body="")
    github.order("GET .*/issues.*page=2", "status", n=100)
    with pytest.raises(TrackerError, match="502") as caught:
        tracker.open_issues()
    assert caught.value.retryable


def test_a_permission_is_asked_once_for_each_person(github: Github, tracker: GithubTracker) -> None:
    number = tracker.create_issue(title="t", body="").number
    for _ in range(3):
        tracker.comment(number, "x")
    tracker.thread(number)
    assert len([line for line in github.log if "/permission" in line]) == 1


# ── Writing once ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", [{"do": "drop"}, {"do": "status", "status": 502}, {"do": "status", "status": 504}])
def test_a_comment_whose_answer_is_lost_is_not_posted_again(
    github: Github, tracker: GithubTracker, how: dict[str, object]
) -> None:
    """R86: it is there, and only looking in the thread tells so."""
    number = tracker.create_issue(title="t", body="").number
    github.order("POST .*/comments", after=True, **how)
    with pytest.raises(TrackerError) as caught:
        tracker.comment(number, "once")
    assert caught.value.retryable
    assert [comment.body for comment in tracker.thread(number)] == ["once"]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("request_", ["POST .*/labels", "DELETE .*/labels/", "GET .*/labels/", "PATCH .*/issues/"])
def test_changes_that_may_be_made_twice_survive_a_lost_answer(
    github: Github, tracker: GithubTracker, request_: str, after: bool
) -> None:
    number = tracker.create_issue(title="t", body="", labels=["ready-for-agent"]).number
    for how in ({"do": "drop"}, {"do": "status", "status": 502}):
        github.order(request_, after=after, **how)
    tracker.edit_labels(number, add=["running"], remove=["ready-for-agent"])
    closed = tracker.close_issue(number)
    assert (closed.labels, closed.state) == (("running",), "closed")


def test_a_missing_label_is_made_with_its_colour_and_meaning(github: Github, tracker: GithubTracker, repo: str) -> None:
    """R67"""
    number = tracker.create_issue(title="t", body="").number
    tracker.edit_labels(number, add=["blocked:quota", "Theirs"])
    made = {label["name"]: label for label in api(github).get(f"/repos/{repo}/labels")}
    assert made["blocked:quota"]["color"] == "b60205"
    assert made["blocked:quota"]["description"] == "afk stopped: the agent's quota is used up"
    assert "Theirs" in made


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LIMITS: dict[str, dict[str, object]] = {
    "with a time": {"status": 403, "headers": {"Retry-After": "90"}, "body": {"message": "secondary rate limit"}},
    "without a time": {"status": 403, "body": {"message": "You have exceeded a secondary rate limit."}},
    "too many": {"status": 429, "body": {"message": "slow down"}},
}


@pytest.mark.parametrize("how", LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_refuses_every_call_until_it_ends_without_asking(
    github: Github, tracker: GithubTracker, how: dict[str, object]
) -> None:
    """L04: nothing sleeps in here; whoever waits can be interrupted and says so."""
    tracker.create_issue(title="t", body="")
    github.order("GET .*/issues", "status", **how)
    github.log.clear()
    for _ in range(3):
        with pytest.raises(TrackerError, match="limits our requests") as caught:
            tracker.open_issues()
        assert caught.value.retryable
        assert 50 < float(str(caught.value.details["retry_after_s"])) <= 90
    assert len(github.log) == 1


def test_a_used_up_hour_is_waited_for_as_told(github: Github, tracker: GithubTracker) -> None:
    import time

    reset = str(int(time.time()) + 300)
    headers = {"x-ratelimit-remaining": "0", "x-ratelimit-limit": "5000", "x-ratelimit-reset": reset}
    body = {"message": "API rate limit exceeded for user ID 1."}
    github.order("GET", "status", status=403, headers=headers, body=body)
    with pytest.raises(TrackerError, match="limits our requests") as caught:
        tracker.open_issues()
    assert 290 < float(str(caught.value.details["retry_after_s"])) <= 302
    assert tracker.budget is not None and tracker.budget.remaining == 0


# ── Who we are ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_that_ended_is_asked_for_once_more(github: Github, repo: str) -> None:
    """R61"""
    tokens = iter(["tok_ended", "tok_afk"])
    tracker = GithubTracker(Api(github.api_url, lambda: next(tokens)), repo)
    assert tracker.login == "afk"


def test_a_token_that_is_not_accepted_is_no_reason_to_ask_again(github: Github, repo: str) -> None:
    with pytest.raises(AfkError, match="not accepted") as caught:
        GithubTracker(Api(github.api_url, lambda: "tok_wrong"), repo).open_issues()
    assert (caught.value.retryable, caught.value.hint) == (False, "gh auth login")
    assert "tok_wrong" not in str(caught.value)


def test_a_strangers_permission_is_none(tracker: GithubTracker) -> None:
    assert tracker.can_write("afk")
    assert not tracker.can_write("nobody-of-that-name")
    assert not tracker.can_write("ghost")


def test_whom_an_issue_is_assigned_to_is_known(github: Github, tracker: GithubTracker, repo: str) -> None:
    """R69: a person who takes it over while it is worked is seen."""
    number = tracker.create_issue(title="t", body="").number
    api(github).put("POST", f"/repos/{repo}/issues/{number}/assignees", {"assignees": ["afk"]})
    assert tracker.issue(number).assignees == ("afk",)
    assert [issue.assignees for issue in tracker.open_issues()] == [("afk",)]


def test_a_pull_request_is_no_issue(github: Github, tracker: GithubTracker, repo: str) -> None:
    """R63: the server lists both, and both have numbers."""
    number = tracker.create_issue(title="t", body="").number
    record = api(github).get(f"/repos/{repo}/issues/{number}") | {"pull_request": {"url": "x"}}
    github.order("GET .*/issues", "status", n=2, status=200, body=record)
    with pytest.raises(AfkError, match="pull request"):
        tracker.issue(number)


@pytest.mark.parametrize(
    ("url", "repo"),
    [
        ("git@github.com:o/r.git", "o/r"),
        ("https://github.com/o/r", "o/r"),
        ("https://user@host.test/o/r.x.git/", "o/r.x"),
        ("ssh://git@github.com:22/o/r.git", "o/r"),
        ("file:///a/b/c.git", None),
        ("/srv/git/x.git", None),
        ("../x.git", None),
    ],
)
def test_the_repository_is_read_from_the_remotes_address(url: str, repo: str | None) -> None:
    assert repo_of_url(url) == repo


def test_a_restarted_server_is_reached_again(tmp_path: Path) -> None:
    """R59: no answer is retryable, and the next call may be answered."""
    with githubkit.running(tmp_path) as github:
        tracker = GithubTracker(api(github), "afk/widget")
        tracker.open_issues()
        github.order("GET", "drop", n=4)
        with pytest.raises(TrackerError, match="no answer") as caught:
            tracker.issue(1)
        assert caught.value.retryable
        assert tracker.open_issues() == []
