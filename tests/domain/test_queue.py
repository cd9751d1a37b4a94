"""The queue: its order, and a reason for every issue that waits."""

from __future__ import annotations

import random
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from afk.domain.issue import Filter, FilterKind, Issue
from afk.domain.queue import (
    IssueFacts,
    QueueItem,
    QueueState,
    base_directive,
    blockers,
    is_branch_name,
    judge,
    require_selection,
)
from afk.errors import InvalidInput, QueueSelection

NOW = datetime(2026, 5, 17, 12, 0, tzinfo=UTC)
READY = "ready-for-agent"


def issue(number: int, *labels: str, body: str = "", state: str = "open", ready: bool = True) -> Issue:
    shown = (READY, *labels) if ready else labels
    return Issue(number, f"Issue {number}", body, state, shown, "ann", NOW, NOW)


def judged(*issues: Issue, **changes: object) -> list[QueueItem]:
    arguments: dict[str, object] = {
        "label": READY,
        "filter": Filter(),
        "claims_held": {},
        "facts": {each.number: IssueFacts() for each in issues},
        "now": NOW,
        "per_issue": 6,
    }
    return judge(issues, **(arguments | changes))  # type: ignore[arg-type]


def only(*issues: Issue, **changes: object) -> tuple[QueueState, list[str]]:
    """State and reason codes of the first item."""
    item = judged(*issues, **changes)[0]
    return item.state, [reason.code for reason in item.reasons]


def numbers(items: list[QueueItem]) -> list[int]:
    return [item.issue.number for item in items]


# ── Order ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_urgent_then_high_then_the_rest_then_low_and_by_number() -> None:
    """S42"""
    issues = [
        issue(9, "priority:urgent"),
        issue(8, "Priority:URGENT"),
        issue(7, "priority:low"),
        issue(6),
        issue(5, "priority:high"),
        issue(4),
        issue(3, "priority:low"),
    ]
    random.Random(1).shuffle(issues)
    items = judged(*issues)
    assert numbers(items) == [8, 9, 5, 4, 6, 3, 7]
    assert [item.position for item in items] == [1, 2, 3, 4, 5, 6, 7]


def test_named_issues_come_exactly_in_the_order_given() -> None:
    items = judged(
        issue(3, "priority:urgent"), issue(5), issue(9), issue(1), filter=Filter(FilterKind.ISSUES, (5, 9, 3, 5))
    )
    assert numbers(items) == [5, 9, 3]


def test_a_parents_children_are_named_in_the_body_or_by_label() -> None:
    items = judged(
        issue(1),
        issue(2, body="intro\r\nprd: #7\r\n"),
        issue(3, "PRD:7"),
        issue(4, body="prd: #77"),
        issue(5, body="see prd: #7 for more"),
        issue(6, body="```\nprd: #7\n```"),
        issue(7),
        filter=Filter(FilterKind.PRD, (7,)),
    )
    assert numbers(items) == [2, 3, 7]
    assert [item.state for item in items] == [QueueState.READY, QueueState.READY, QueueState.INELIGIBLE]
    assert items[2].reasons[0].code == "planning_parent"


# ── Reasons ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_issue_without_obstacle_is_ready() -> None:
    assert only(issue(1)) == (QueueState.READY, [])
    assert only(issue(1, "Ready-For-Agent", ready=False)) == (QueueState.READY, [])


@pytest.mark.parametrize("parent", ["type:prd", "type:spec"])
def test_planning_parents_are_no_work(parent: str) -> None:
    assert only(issue(1, parent)) == (QueueState.INELIGIBLE, ["planning_parent"])


def test_what_is_not_labelled_or_handed_to_people_says_so() -> None:
    """S43, S44, L47"""
    assert only(issue(1, ready=False)) == (QueueState.INELIGIBLE, ["label_missing"])
    parked = judged(issue(1, "ready-for-human", "blocked:validation", ready=False))[0]
    assert parked.reasons[0].code == "parked"
    assert "blocked:validation" in parked.reasons[0].message


def test_a_claimed_issue_names_its_holder() -> None:
    held = judged(issue(1), claims_held={1: "wZ2R4 on host b"}, facts={})[0]
    assert held.state is QueueState.CLAIMED
    assert held.reasons[0].message == "wZ2R4 on host b works on it"
    assert only(issue(1, "running", ready=False), facts={}) == (QueueState.CLAIMED, ["claimed"])


def test_a_backoff_waits_until_its_time() -> None:
    soon = NOW + timedelta(minutes=5)
    item = judged(issue(1), facts={1: IssueFacts(not_before=soon)})[0]
    assert (item.state, item.eligible_at, item.reasons[0].code) == (QueueState.WAITING, soon, "backoff")
    assert only(issue(1), facts={1: IssueFacts(not_before=NOW)}) == (QueueState.READY, [])


def test_the_cap_of_an_issue_is_an_end() -> None:
    """R84, L48"""
    assert only(issue(1), facts={1: IssueFacts(attempts_used=6)}) == (QueueState.INELIGIBLE, ["attempts_used"])
    assert only(issue(1), facts={1: IssueFacts(attempts_used=5)}) == (QueueState.READY, [])


def test_untrusted_work_is_not_picked_and_an_unread_thread_is_no_trust() -> None:
    """R76, L06"""
    distrusted = {1: IssueFacts(untrusted="eve, who wrote it, has no write access")}
    assert only(issue(1), facts=distrusted) == (QueueState.INELIGIBLE, ["untrusted"])
    assert only(issue(1), facts={}) == (QueueState.INELIGIBLE, ["thread_unread"])


def test_several_reasons_are_all_told_and_the_strongest_gives_the_state() -> None:
    state, codes = only(
        issue(1, "req:2"), issue(2), facts={1: IssueFacts(attempts_used=9, not_before=NOW + timedelta(1))}
    )
    assert state is QueueState.INELIGIBLE
    assert codes == ["dependency_open", "attempts_used", "backoff"]


@given(st.lists(st.sampled_from(["type:prd", "running", "ready-for-human", "req:1", "req:2", "req:9", READY])))
def test_whatever_is_not_ready_has_a_reason(labels: list[str]) -> None:
    """L47"""
    for item in judged(issue(1, *labels, ready=False), issue(2)):
        assert (item.state is QueueState.READY) == (not item.reasons)


# ── Dependencies ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_blocker_blocks_and_a_closed_one_does_not() -> None:
    """S45, R72"""
    item = judged(issue(5, "req:2", "REQ:3"), issue(2), closed=[3])[1]
    assert (item.state, item.blocked_by) == (QueueState.BLOCKED, (2,))
    assert only(issue(5, "req:2"), closed=[2]) == (QueueState.READY, [])


def test_an_unknown_blocker_is_not_eligible_and_named() -> None:
    """R72"""
    item = judged(issue(5, "req:404"))[0]
    assert (item.state, item.reasons[0].code, item.blocked_by) == (
        QueueState.INELIGIBLE,
        "dependency_unknown",
        (404,),
    )
    assert "#404" in item.reasons[0].message


def test_a_cycle_is_reported_on_each_of_its_issues() -> None:
    """R72"""
    items = judged(issue(1, "req:2"), issue(2, "req:3"), issue(3, "req:1"), issue(4, "req:1"), issue(5, "req:5"))
    cycles = [reason.message for item in items for reason in item.reasons if reason.code == "dependency_cycle"]
    assert cycles == [
        "it waits for itself: #1 → #2 → #3 → #1",
        "it waits for itself: #2 → #3 → #1 → #2",
        "it waits for itself: #3 → #1 → #2 → #3",
        "it waits for itself: #5 → #5",
    ]
    assert all(item.state is QueueState.BLOCKED for item in items)


def test_the_blocked_by_list_is_read_from_the_body() -> None:
    body = """Text with #1.

## Blocked by

- #12
* [x] #13 the parser
1. waits for #14, #15 (see #16)
- None
word#17

## Notes
- #18
"""
    assert blockers(issue(5, "req:11", "req:12", "req:x", body=body)) == (11, 12, 13, 14, 15)
    assert blockers(issue(5, body="### blocked by:\r\n\r\n- #7\r\n")) == (7,)
    assert blockers(issue(5, body="```\n## Blocked by\n- #7\n```\n- #8")) == ()


# ── --issues ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_selection_names_everything_that_cannot_be_worked() -> None:
    items = judged(
        issue(1),
        issue(2, ready=False),
        issue(3, "req:1"),
        issue(4, "running", ready=False),
        filter=Filter(FilterKind.ISSUES, (1, 2, 3, 4, 99)),
    )
    with pytest.raises(QueueSelection) as caught:
        require_selection(items, (1, 2, 3, 4, 99))
    assert "#2: it has no label" in caught.value.message
    assert "#99: no open issue" in caught.value.message
    assert all(f"#{number}" not in caught.value.message for number in (1, 3, 4))
    require_selection(items, (3, 1))


def test_a_closed_issue_is_no_work() -> None:
    assert judged(issue(1, state="closed")) == []


# ── The branch line ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_branch_line_names_the_base() -> None:
    assert base_directive("Do it.\r\n\r\nbranch: release/1.x\r\n") == "release/1.x"
    assert base_directive("Branch: maint \nbranch: other") == "maint"
    assert base_directive("the branch: maint") is None
    assert base_directive("branch: two words") is None
    assert base_directive("```\nbranch: maint\n```") is None


@pytest.mark.parametrize(
    "name", ["../x", "a..b", "-f", "HEAD", "refs/heads/x", "afk/w0001/1-x", "a:b", "a.lock", "x~1"]
)
def test_a_branch_that_cannot_be_one_is_said_and_not_ignored(name: str) -> None:
    """S26: no name from a body becomes a ref unchecked, and another base than the wanted one is no answer."""
    with pytest.raises(InvalidInput, match="branch"):
        base_directive(f"branch: {name}")
    assert only(issue(1, body=f"branch: {name}")) == (QueueState.INELIGIBLE, ["branch_invalid"])


@given(st.text(alphabet="abH/.-@{}~^:?*[\\ \x07lock", min_size=1, max_size=12))
@example("a/.b")
@example("a//b")
@example("@{-1}")
def test_a_name_that_is_taken_is_one_that_git_takes(name: str) -> None:
    if is_branch_name(name):
        asked = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
        assert asked.returncode == 0
