"""What every tracker promises, whatever stands behind it: a suite that each adapter's tests inherit.

    class TestGithub(TrackerContract):
        @pytest.fixture
        def connect(self) -> Connect: ...     # one empty store; each call is another person's view of it

Nothing here reaches past the port, so a store may be files, a test server, or the real thing.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from afk.errors import AfkError, IssueNotFound
from afk.ports import Tracker

Connect = Callable[[str], Tracker]

BODIES = {
    "empty": "",
    "one line": "Do it.",
    "lines": "first\n\n\nlast",
    "front matter": "---\ntitle: not this one\nstate: closed\n---\n\n---\n",
    "markdown": '<details data-attempt-status="done"><summary>x</summary>\n\n```\n~~~\n</details>\n`````',
    "unicode": "naïve 日本語 👩‍👩‍👧‍👦 \u202eabc\u202c ﷽ \u2028 \u00a0 end",
    "yaml": "key: [1, 2\n- *alias\n%TAG ! x\n\t- tab",
    "sixty kilobytes": "0123456789abcde\n" * 3750 + "end",
}


class TrackerContract:
    @pytest.fixture
    def connect(self) -> Connect:
        """One empty store; `connect(login)` is that person's tracker."""
        raise NotImplementedError

    @pytest.fixture
    def ours(self, connect: Connect) -> Tracker:
        return connect("afk")

    @pytest.fixture
    def theirs(self, connect: Connect) -> Tracker:
        return connect("ada")

    # ── Issues ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_created_issue_reads_back_as_it_was_given(self, ours: Tracker) -> None:
        made = ours.create_issue(title="Sort: the list", body="Because.", labels=["ready-for-agent", "Bug"])

        read = ours.issue(made.number)
        assert (read.title, read.body, read.state) == ("Sort: the list", "Because.", "open")
        assert set(read.labels) == {"ready-for-agent", "Bug"}
        assert read.author == ours.login
        assert read.is_open and read.closed_reason is None
        assert read.created_at.tzinfo is not None and read.updated_at.tzinfo is not None

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
    def test_bodies_of_issues_and_comments_come_back_unchanged(self, ours: Tracker, body: str) -> None:
        number = ours.create_issue(title="t", body=body).number
        ours.comment(number, body or "x")

        assert ours.issue(number).body == body
        assert [comment.body for comment in ours.thread(number)] == [body or "x"]

    @pytest.mark.parametrize("title", ["a", "No", "1.10", "[x] #1: @b & *c* | 'q' \"d\"", "日本語 👩‍🚀", "~", "- -"])
    def test_a_title_is_text_whatever_it_looks_like(self, ours: Tracker, title: str) -> None:
        number = ours.create_issue(title=title, body="").number

        assert ours.issue(number).title == title

    def test_a_title_is_one_line(self, ours: Tracker) -> None:
        number = ours.create_issue(title="first\nsecond\r\n\tthird", body="").number

        assert ours.issue(number).title == "first second third"

    def test_a_blank_title_is_refused(self, ours: Tracker) -> None:
        with pytest.raises(AfkError):
            ours.create_issue(title=" \n ", body="x")
        assert ours.open_issues() == []

    def test_open_issues_are_all_of_them_by_number(self, ours: Tracker) -> None:
        """S33: more than one page of any server's default size."""
        numbers = [ours.create_issue(title=f"n{index}", body="").number for index in range(33)]
        ours.close_issue(numbers[3])

        assert [issue.number for issue in ours.open_issues()] == [n for n in sorted(numbers) if n != numbers[3]]
        assert ours.problems() == []

    def test_a_listing_and_a_look_by_number_agree(self, ours: Tracker) -> None:
        """S37: both give the full snapshot."""
        number = ours.create_issue(title="t", body="b\n\nb", labels=["x"]).number

        assert ours.open_issues() == [ours.issue(number)]

    def test_an_unknown_issue_is_an_answer_not_a_failure(self, ours: Tracker) -> None:
        """L07: nothing is gained by asking again."""
        known = ours.create_issue(title="t", body="").number
        for ask in (
            ours.issue,
            ours.thread,
            lambda n: ours.comment(n, "x"),
            lambda n: ours.edit_labels(n, add=["x"]),
            ours.close_issue,
        ):
            with pytest.raises(IssueNotFound) as caught:
                ask(known + 1000)
            assert not caught.value.retryable

    # ── Comments ────────────────────────────────────────────────────────────────────────────────────────────────────

    def test_a_thread_is_in_order_and_knows_whose_words_are_ours(self, ours: Tracker, theirs: Tracker) -> None:
        number = theirs.create_issue(title="t", body="").number
        posted = [ours.comment(number, "one"), theirs.comment(number, "two"), ours.comment(number, "three")]

        thread = ours.thread(number)
        assert [(comment.body, comment.author, comment.by_us) for comment in thread] == [
            ("one", "afk", True),
            ("two", "ada", False),
            ("three", "afk", True),
        ]
        assert [comment.id for comment in thread] == [comment.id for comment in posted]
        assert thread[0] == posted[0]
        assert all(comment.created_at.tzinfo is not None for comment in thread)

    def test_those_who_may_write_are_known(self, ours: Tracker, theirs: Tracker) -> None:
        number = ours.create_issue(title="t", body="").number
        theirs.comment(number, "x")

        assert ours.can_write(ours.login)
        assert [comment.can_write for comment in ours.thread(number)] == [ours.can_write("ada")]

    def test_comments_of_many_at_once_are_all_there(self, connect: Connect) -> None:
        number = connect("afk").create_issue(title="t", body="").number
        bodies = [f"{who} {index}" for who in ("ada", "bob", "cyd") for index in range(8)]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda body: connect(body.split()[0]).comment(number, body), bodies))

        assert sorted(comment.body for comment in connect("afk").thread(number)) == sorted(bodies)

    # ── Labels and closing ──────────────────────────────────────────────────────────────────────────────────────────

    def test_labels_that_were_not_given_are_not_touched(self, ours: Tracker) -> None:
        number = ours.create_issue(title="t", body="", labels=["ready-for-agent", "Area: UI", "p/1"]).number

        ours.edit_labels(number, add=["running"], remove=["ready-for-agent", "never-there"])

        assert set(ours.issue(number).labels) == {"running", "Area: UI", "p/1"}

    def test_a_label_edit_done_twice_is_done_once(self, ours: Tracker) -> None:
        number = ours.create_issue(title="t", body="", labels=["a"]).number
        for _ in range(2):
            ours.edit_labels(number, add=["b"], remove=["a"])
            assert ours.issue(number).labels == ("b",)

    def test_labels_differ_by_more_than_case(self, ours: Tracker) -> None:
        """S34: compared without case, shown as a person wrote them."""
        number = ours.create_issue(title="t", body="", labels=["Running", "Ready-For-Agent"]).number

        ours.edit_labels(number, add=["running"], remove=["ready-for-agent"])
        assert ours.issue(number).labels == ("Running",)
        assert ours.issue(number).has_label("RUNNING")

    def test_a_closed_issue_stays_closed_for_its_first_reason(self, ours: Tracker, theirs: Tracker) -> None:
        number = ours.create_issue(title="t", body="keep", labels=["x"]).number
        theirs.close_issue(number, reason="not_planned")
        closed = ours.close_issue(number)

        assert (closed.state, closed.closed_reason, closed.body, closed.labels) == (
            "closed",
            "not_planned",
            "keep",
            ("x",),
        )
        assert ours.open_issues() == []
        assert ours.issue(number) == closed

    def test_a_closed_issue_takes_labels_and_comments(self, ours: Tracker) -> None:
        number = ours.create_issue(title="t", body="", labels=["running"]).number
        ours.close_issue(number)

        ours.edit_labels(number, remove=["running"])
        assert (ours.issue(number).state, ours.issue(number).labels) == ("closed", ())
        ours.comment(number, "late")
        assert [comment.body for comment in ours.thread(number)] == ["late"]

    def test_every_change_moves_updated_at(self, ours: Tracker) -> None:
        number = ours.create_issue(title="t", body="").number
        for change in (
            lambda: ours.comment(number, "x"),
            lambda: ours.edit_labels(number, add=["a"]),
            lambda: ours.edit_labels(number, remove=["a"]),
            lambda: ours.close_issue(number),
        ):
            before = ours.issue(number).updated_at
            change()
            assert ours.issue(number).updated_at > before

    def test_a_branch_link_names_the_branch(self, ours: Tracker) -> None:
        assert "afk/wZ2R4/7-sort" in ours.branch_link("afk/wZ2R4/7-sort", 7)
