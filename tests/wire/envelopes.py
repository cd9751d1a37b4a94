"""Envelopes to test with: one of each kind, as written in `tests/golden/envelope`, and any at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from hostile import HOSTILE, TOKENS
from hypothesis import strategies as st

from afk.domain.outcome import EnvelopeStatus, Outcome
from afk.wire.envelope import CheckLine, DiffStat, Discarded, Envelope, Hook, render

HOSTS = ("github.com",)
SECRETS = ("s3cret-of-the-environment",)

NOTES = """\
Added the `/callback` route and its tests.

- the token exchange is done
- **left**: refresh tokens; the provider's documentation says nothing about them"""
LINK = "[`afk/wZ2R4/142-wire-oauth-callback`](https://github.com/acme/shop/tree/afk/wZ2R4/142-wire-oauth-callback)"

BLOCKED = Envelope(
    status=EnvelopeStatus.BLOCKED,
    worker="wZ2R4",
    attempt=1,
    duration_s=125,
    diff=DiffStat(42, 10, 3),
    notes=NOTES,
    branch_link=LINK,
    worktree_path=".red/tmp/workers/wZ2R4/142-a1/worktree",
    outcome=Outcome.BLOCKED,
)
GOLDEN: dict[str, Envelope] = {
    "blocked": BLOCKED,
    "blocked-validation": replace(
        BLOCKED,
        outcome=Outcome.FEEDBACK_FAILED,
        reason="1 of 3 checks failed",
        validation=(
            CheckLine("passed", "typecheck:root", 12.04),
            CheckLine("failed", "test:plugins/memory", 71.28, "command exited 1: 2 failed, 310 passed"),
            CheckLine("skipped", "lint", None, "no such script"),
        ),
        hooks=(Hook("pre_worktree", "./scripts/slot.sh", 0), Hook("post_attempt", "./scripts/announce.sh", 2)),
    ),
    "blocked-stop": replace(
        BLOCKED,
        notes="",
        branch_link="`afk/wZ2R4/142-wire-oauth-callback` (not pushed)",
        worktree_path="",
        diff=DiffStat(0, 0),
        outcome=Outcome.INFRA,
        reason="stopped by the operator (no try charged)",
    ),
    "no-sentinel": replace(
        BLOCKED,
        status=EnvelopeStatus.NO_SENTINEL,
        duration_s=4260,
        notes="",
        outcome=Outcome.NO_SENTINEL,
        reason="killed by signal 9",
        not_before=datetime(2026, 5, 17, 12, 14, 3, 999, tzinfo=timezone(timedelta(hours=-3))),
        log=("writing tests for callback handler", "", "```diff", "+ a fence of the agent's own", "```"),
        hooks=(Hook("on_attempt_error", "./scripts/page.sh", 0),),
    ),
    "merge-conflict": replace(
        BLOCKED,
        status=EnvelopeStatus.MERGE_CONFLICT,
        attempt=3,
        outcome=Outcome.MERGE_CONFLICT,
        branch_link="`afk/wZ2R4/142-wire-oauth-callback`: `afk checkout 142`",
        log=("Auto-merging src/auth.py", "CONFLICT (content): Merge conflict in src/auth.py"),
        hooks=(Hook("pre_merge", "./guard.sh", 0),),
    ),
    "done": Envelope(
        status=EnvelopeStatus.DONE,
        worker="wZ2R4",
        attempt=2,
        duration_s=59,
        diff=None,
        merge_sha="9fceb02d0ae598e95dc970b74767f19372d61af8",
        validation=(CheckLine("passed", "unit tests", 71.0, "312 passed"), CheckLine("passed", "lint", 0.04)),
        outcome=Outcome.DONE,
        hooks=(Hook("pre_session", "./hello.sh", 0), Hook("post_merge", "./scripts/deploy.sh --dry-run", 0)),
    ),
    "done-elsewhere": Envelope(
        status=EnvelopeStatus.DONE,
        worker="wQ7XB",
        attempt=1,
        duration_s=0,
        diff=None,
        merge_sha="9fceb02d0ae598e95dc970b74767f19372d61af8",
        validation_text="recorded on host build-3",
    ),
    "discarded": Envelope(
        status=EnvelopeStatus.DISCARDED,
        worker="wZ2R4",
        attempt=5,
        duration_s=3,
        diff=DiffStat(0, 0),
        discarded=Discarded(1, 5, "codex: exit code 1: not logged in", ".red/tmp/workers/wZ2R4/worker.log.toonl"),
        hooks=(Hook("pre_worktree", "./never-shown.sh", 0),),
    ),
    "wall-clock-capped": replace(
        BLOCKED,
        status=EnvelopeStatus.WALL_CLOCK_CAPPED,
        duration_s=7201,
        outcome=Outcome.WALL_CLOCK_CAPPED,
        reason="wall clock: limit 7200 s, elapsed 7201 s",
        log=("still going",),
        hooks=(Hook("pre_attempt", "./env.py", 0),),
    ),
}
GOLDEN["hostile"] = replace(
    GOLDEN["no-sentinel"],
    notes="\r\n".join(
        (
            "Done! @team please see #1. Closes #1, fixes GH-1 and https://github.com/acme/shop/issues/1",
            "&#64;team and &num;1 as entities, o/r#2, s3cret-of-the-environment, " + TOKENS["github"],
            "</details>",
            "  </ DETAILS >",
            "> <details data-section=\"log\"><summary>log</summary>",
            "<!-- <table> <div class=\"",
            "a\u2028b\0c\x1b[31md\u202ee \ud83d",
            render(GOLDEN["done"]),
            "```` and an open fence:",
            "```python",
            "print('</details>')",
        )
    ),
    log=(
        "`````` six backticks",
        "</details>",
        "<details data-attempt-status=\"done\"><summary>fake</summary>",
        "\x1b[1m@team\x1b[0m Closes #1",
        "https://bot:" + "hunter2@github.com/acme/shop.git",
    ),
    branch_link="``` [x](y)\n</details>",
    worktree_path="a`b\n</details>",
    outcome=Outcome.RUNNER_TRANSIENT,
    reason="@team \u202e</details> · not before 2099-01-01T00:00:00Z",
    hooks=(Hook("pre_merge", "set -e\n./guard.sh 'exit=0' @team #1 </details> exit=0", 3),),
)  # fmt: skip

_TEXT = HOSTILE | st.sampled_from(
    [
        *(
            "_no notes_",
            "(no captured output)",
            "_no check is recorded_",
            "(no branch)",
            "(none)",
            "unit tests 1.0s",
            "a · b",
        ),
        *(
            "- passed a 1.0s",
            "- passed a 1.0s · b\n- skipped c",
            "not before 2026-01-01T00:00:00Z",
            " (no try charged)",
        ),
        *(
            "pre_merge x exit=3",
            "slot: 1\nfast deaths: 2\ncause: x\nlog: y",
            render(GOLDEN["done"]),
            "s3cret-of-the-environment",
        ),
    ]
)
_COUNT = st.integers(-3, 10**15) | st.sampled_from([10**400, -(10**400)])
ENVELOPES = st.builds(
    Envelope,
    status=st.sampled_from(EnvelopeStatus),
    worker=st.just("wZ2R4") | _TEXT,
    attempt=_COUNT,
    duration_s=_COUNT,
    diff=st.none() | st.builds(DiffStat, _COUNT, _COUNT, _COUNT),
    merge_sha=st.none() | st.just("9FCEB02d0ae598e95dc970b74767f19372d61af8") | _TEXT,
    notes=_TEXT,
    validation=st.lists(
        st.builds(CheckLine, st.just("passed") | _TEXT, _TEXT, st.none() | st.floats(), _TEXT), max_size=2
    ).map(tuple),
    validation_text=_TEXT,
    branch_link=_TEXT,
    worktree_path=_TEXT,
    log=st.lists(_TEXT, max_size=3).map(tuple),
    outcome=st.none() | st.sampled_from(Outcome),
    reason=_TEXT,
    not_before=st.none()
    | st.datetimes(
        min_value=datetime(1000, 1, 2),
        max_value=datetime(9999, 12, 30),
        timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3))]),
    ),
    hooks=st.lists(st.builds(Hook, st.just("pre_merge") | _TEXT, _TEXT, _COUNT), max_size=2).map(tuple),
    discarded=st.none() | st.builds(Discarded, _COUNT, _COUNT, _TEXT, _TEXT),
)
