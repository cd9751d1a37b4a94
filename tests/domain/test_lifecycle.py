"""The hook points: their order, what each allows, and the one line that a run becomes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.domain.lifecycle import POLICY, HookPoint, HookRun, hook_line


def run(command: str, exit_code: int = 0, point: HookPoint = HookPoint.PRE_MERGE) -> HookRun:
    return HookRun(point, command, exit_code, 12, "user")


def test_the_points_stand_in_the_order_of_a_session() -> None:
    assert list(HookPoint) == [
        "pre_session",
        "pre_pick",
        "post_pick",
        "pre_worktree",
        "pre_attempt",
        "post_attempt",
        "on_attempt_error",
        "pre_merge",
        "post_merge",
        "on_idle",
        "post_session",
        "on_session_error",
    ]
    assert list(POLICY) == list(HookPoint)


def test_a_point_aborts_only_where_something_can_still_be_refused() -> None:
    aborting = {point for point in HookPoint if POLICY[point].on_failure == "abort"}
    assert aborting == {"pre_session", "pre_pick", "pre_worktree", "pre_attempt", "pre_merge"}


@pytest.mark.parametrize(
    ("point", "mutable"),
    [
        (HookPoint.PRE_SESSION, ("runner", "filter", "cap")),
        (HookPoint.PRE_PICK, ("label", "state", "limit")),
        (HookPoint.POST_PICK, ("issues",)),
        (HookPoint.PRE_WORKTREE, ("target", "env")),
        (HookPoint.PRE_ATTEMPT, ("env",)),
    ],
)
def test_a_hook_changes_only_what_comes_after_it(point: HookPoint, mutable: tuple[str, ...]) -> None:
    assert POLICY[point].mutable == mutable


def test_what_has_happened_cannot_be_changed() -> None:
    assert all(not POLICY[point].mutable for point in list(HookPoint)[5:])


def test_each_point_names_the_variables_that_mean_something_there() -> None:
    assert {point.value: POLICY[point].extra_env for point in HookPoint if POLICY[point].extra_env} == {
        "pre_worktree": ("ISSUE",),
        "pre_attempt": ("ISSUE", "ATTEMPT"),
        "post_attempt": ("RESULT_STATUS", "RESULT_OUTCOME"),
        "on_attempt_error": ("ERROR_CLASS",),
        "pre_merge": ("MERGE_BASE",),
        "post_merge": ("MERGE_SHA",),
        "on_session_error": ("ERROR_CLASS", "ERROR_MESSAGE"),
    }


def test_a_run_is_one_line_of_name_command_and_exit_code() -> None:
    assert hook_line(run("./guard.sh --strict", 3)) == "pre_merge ./guard.sh --strict exit=3"


def test_a_script_over_several_lines_is_folded() -> None:
    assert hook_line(run("set -e\n\n\t./a.sh\u2028./b.sh\r\n")) == "pre_merge set -e ./a.sh ./b.sh exit=0"


def test_a_long_command_is_cut_and_keeps_name_and_exit_code() -> None:
    line = hook_line(run("x" * 5000, -15))
    assert len(line) == 300
    assert line.startswith("pre_merge xxx")
    assert line.endswith("x… exit=-15")


def test_a_command_that_just_fits_is_whole() -> None:
    room = 300 - len("pre_merge  exit=0")
    assert hook_line(run("y" * room)) == f"pre_merge {'y' * room} exit=0"
    assert "…" in hook_line(run("y" * (room + 1)))


@given(st.text(), st.integers(-255, 255), st.sampled_from(HookPoint))
def test_no_command_breaks_the_line(command: str, exit_code: int, point: HookPoint) -> None:
    line = hook_line(run(command, exit_code, point))
    assert len(line.splitlines()) == 1
    assert len(line) <= 300
    assert line.startswith(f"{point} ")
    assert line.endswith(f" exit={exit_code}")
