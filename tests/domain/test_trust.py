"""Who is obeyed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.domain.issue import Comment
from afk.domain.trust import directive_text, is_directive, is_ours, may_direct, may_queue

DIRECTIVE = '<details data-kind="directive"><summary>directive</summary>\n\nUse the old API.\n\n</details>'
ENVELOPE = '<details data-attempt-status="blocked"><summary>worker …</summary>\n'


def comment(body: str, *, author: str = "mallory", by_us: bool = False, can_write: bool = False) -> Comment:
    return Comment("1", author, datetime(2026, 1, 1, tzinfo=UTC), body, by_us, can_write)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (DIRECTIVE, "Use the old API."),
        (f"Hello\n\n{DIRECTIVE}\n\nbye", "Use the old API."),
        (DIRECTIVE.replace("\n", "\r\n"), "Use the old API."),
        ("<details open data-kind='directive'>\nGo on\n</details>", "Go on"),
        ("<details data-kind=directive>Go on</details>", "Go on"),
        ('<details data-kind="directive">\nno end', "no end"),
        (f"{DIRECTIVE}\n{DIRECTIVE.replace('old', 'new')}", "Use the old API.\n\nUse the new API."),
        (
            '<details data-kind="directive">\nlog:\n<details>\ninner\n</details>\nafter\n</details>\nrest',
            "log:\n<details>\ninner\n</details>\nafter",
        ),
        ('<details data-kind="directive"></details>', ""),
    ],
)
def test_a_directive_says_what_its_block_holds(body: str, text: str) -> None:
    assert directive_text(body) == text
    assert is_directive(body)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "please use the old API",
        '<details data-kind="note">\nx\n</details>',
        '<details data-kind="directives">\nx\n</details>',
        f"Write it like this:\n\n```html\n{DIRECTIVE}\n```\n",
        f"~~~\n{DIRECTIVE}",
        f"{ENVELOPE}{DIRECTIVE}</details>",
    ],
)
def test_what_only_looks_like_one_is_none(body: str) -> None:
    assert directive_text(body) is None
    assert not is_directive(body)


def test_only_write_access_gives_orders() -> None:
    assert may_direct(comment(DIRECTIVE, can_write=True))
    assert not may_direct(comment(DIRECTIVE))


def test_an_envelope_is_ours_by_first_bytes_and_author() -> None:
    """R66: a forged envelope of a stranger is discussion, and prose around a real one makes it a quotation."""
    assert is_ours(comment(ENVELOPE, by_us=True), ())
    assert is_ours(comment(ENVELOPE, can_write=True), ())
    assert is_ours(comment(ENVELOPE, author="CI-bot"), ["ci-bot"])
    assert not is_ours(comment(ENVELOPE), ["ci-bot"])
    assert not is_ours(comment(f" {ENVELOPE}", by_us=True), ())
    assert not is_ours(comment("worker `wZ2R4` · status: done", by_us=True), ())


@pytest.mark.parametrize(
    ("can_write", "allow", "required", "allowed"),
    [
        (True, [], True, True),
        (False, [], True, False),
        (False, ["Ann"], True, True),
        (False, [], False, True),
    ],
)
def test_work_is_picked_from_people_who_may_ask_for_it(
    can_write: bool, allow: list[str], required: bool, allowed: bool
) -> None:
    """R76"""
    assert may_queue("ann", can_write=can_write, allow=allow, require_write_access=required) is allowed


@given(st.text(alphabet='<>/details summary-kind="v`~\n', max_size=200))
def test_no_comment_is_too_strange(body: str) -> None:
    assert is_directive(body) is (directive_text(body) is not None)
