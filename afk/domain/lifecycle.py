"""The twelve points of a session's life where a person's hooks may speak, and what each point lets them do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

__all__ = ["HOOK_LINE_MAX", "POLICY", "HookPoint", "HookRun", "PointPolicy", "hook_line", "hook_text"]

HOOK_LINE_MAX = 300


class HookPoint(StrEnum):
    """In the order in which a session comes past them."""

    PRE_SESSION = "pre_session"
    PRE_PICK = "pre_pick"
    POST_PICK = "post_pick"
    PRE_WORKTREE = "pre_worktree"
    PRE_ATTEMPT = "pre_attempt"
    POST_ATTEMPT = "post_attempt"
    ON_ATTEMPT_ERROR = "on_attempt_error"
    PRE_MERGE = "pre_merge"
    POST_MERGE = "post_merge"
    ON_IDLE = "on_idle"
    POST_SESSION = "post_session"
    ON_SESSION_ERROR = "on_session_error"


@dataclass(frozen=True, slots=True)
class PointPolicy:
    """What a hook can do at one point.

    `on_failure` says what a non-zero exit means: `abort` ends the chain and the step it guards, `continue` goes on to
    the next command. `mutable` are the keys of the context that its answer may replace. `extra_env` are the variables
    that mean something here beside those of every point, without their prefix `RED_AFK_`.
    """

    on_failure: Literal["abort", "continue"]
    mutable: tuple[str, ...] = ()
    extra_env: tuple[str, ...] = ()


POLICY: dict[HookPoint, PointPolicy] = {
    HookPoint.PRE_SESSION: PointPolicy("abort", mutable=("runner", "filter", "cap")),
    HookPoint.PRE_PICK: PointPolicy("abort", mutable=("label", "state", "limit")),
    HookPoint.POST_PICK: PointPolicy("continue", mutable=("issues",)),
    HookPoint.PRE_WORKTREE: PointPolicy("abort", mutable=("target", "env"), extra_env=("ISSUE",)),
    HookPoint.PRE_ATTEMPT: PointPolicy("abort", mutable=("env",), extra_env=("ISSUE", "ATTEMPT")),
    HookPoint.POST_ATTEMPT: PointPolicy("continue", extra_env=("RESULT_STATUS", "RESULT_OUTCOME")),
    HookPoint.ON_ATTEMPT_ERROR: PointPolicy("continue", extra_env=("ERROR_CLASS",)),
    HookPoint.PRE_MERGE: PointPolicy("abort", extra_env=("MERGE_BASE",)),
    HookPoint.POST_MERGE: PointPolicy("continue", extra_env=("MERGE_SHA",)),
    HookPoint.ON_IDLE: PointPolicy("continue"),
    HookPoint.POST_SESSION: PointPolicy("continue"),
    HookPoint.ON_SESSION_ERROR: PointPolicy("continue", extra_env=("ERROR_CLASS", "ERROR_MESSAGE")),
}


@dataclass(frozen=True, slots=True)
class HookRun:
    """One command that ran. `source` is `builtin` or `user`; only the user's are shown on the issue."""

    lifecycle: HookPoint
    command: str
    exit_code: int
    duration_ms: int
    source: str


def hook_line(run: HookRun) -> str:
    """What the issue shows of a run: see `hook_text`."""
    return hook_text(run.lifecycle, run.command, run.exit_code)


def hook_text(lifecycle: str, command: str, exit_code: int) -> str:
    """`<lifecycle_name> <command> exit=<rc>` on one physical line of at most 300 characters.

    White space is folded; a long command is cut with `…`, the name and the exit code never.

    Source: AFK wire formats, user-hook executions section.
    """
    folded = " ".join(command.split())
    room = HOOK_LINE_MAX - len(f"{lifecycle}  exit={exit_code}")
    if len(folded) > room:
        folded = folded[: room - 1].rstrip() + "…"
    return " ".join(part for part in (lifecycle, folded, f"exit={exit_code}") if part)
