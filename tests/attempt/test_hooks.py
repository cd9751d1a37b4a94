"""What a lifecycle hook is given, what its answer does, and what happens when it misbehaves; all are real commands."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from afk.adapters.process import Identity, identity_of, is_alive
from afk.attempt.hooks import Fired, HookRunner, builtins_at
from afk.config import HookCommand
from afk.domain.lifecycle import HookPoint, HookRun
from afk.errors import KeeperFailed

ISSUES = [{"number": 3, "title": "three"}, {"number": 5, "title": "five"}, {"number": 9, "title": "nine"}]


@dataclass
class Ground:
    """A checkout with hooks, and all that a runner told while they ran."""

    root: Path
    runs_dir: Path
    environ: dict[str, str]
    runs: list[HookRun] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    defaults: dict[str, bool] = field(default_factory=dict)
    stopping: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self._numbers = count(1)

    def fire(
        self, point: HookPoint, *commands: str | HookCommand, context: dict[str, object] | None = None, **values: Any
    ) -> Fired:
        declared = tuple(HookCommand(run=item) if isinstance(item, str) else item for item in commands)
        runner = HookRunner(
            root=self.root,
            commands={str(point): declared},
            defaults=self.defaults,
            environ=self.environ,
            run_dir=lambda: self.runs_dir / f"{next(self._numbers)}-hook",
            on_run=self.runs.append,
            log=self.logged.append,
            stopping=self.stopping,
            kill_s=0.5,
        )
        return runner.fire(point, context or {}, values)

    @property
    def codes(self) -> list[int]:
        return [run.exit_code for run in self.runs]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    root = tmp_path / "check out"
    root.mkdir()
    return Ground(root, tmp_path / "runs", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})


def printing(value: object) -> str:
    """A command whose whole output is this value as JSON."""
    return f"printf %s {shlex.quote(json.dumps(value))}"


def process_in(path: Path) -> Identity:
    """The process whose id the file holds, once it does."""
    for _ in range(500):
        if path.exists() and (text := path.read_text().strip()):
            return identity_of(int(text)) or Identity(int(text), "gone", "gone")
        time.sleep(0.02)
    raise AssertionError(f"nothing ever wrote {path}")


# ── What a hook is given ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_runs_in_the_root_of_the_checkout_and_reads_its_context_on_stdin(ground: Ground) -> None:
    script = ground.root / "guard.sh"
    script.write_text("#!/bin/sh\npwd > where\ncat > context\n")
    script.chmod(0o755)

    fired = ground.fire(HookPoint.PRE_MERGE, "./guard.sh", context={"branch": "afk/wAAAA/1-ü", "diff": {"files": 2}})

    assert fired.aborted is None
    assert (ground.root / "where").read_text().strip() == str(ground.root)
    assert json.loads((ground.root / "context").read_text()) == {"branch": "afk/wAAAA/1-ü", "diff": {"files": 2}}


def test_a_hook_sees_the_variables_of_its_point_and_no_empty_ones(ground: Ground) -> None:
    """S29: what means nothing is unset; what an outer run gave its own hook is gone."""
    ground.environ |= {"RED_AFK_MERGE_SHA": "of an outer run", "GH_TOKEN": "the person's", "AFK_LABEL": "mine"}

    ground.fire(HookPoint.PRE_WORKTREE, "env > env", ISSUE=7, SLOT=2, ATTEMPT=None, WORKER_ID="wAAAA")

    seen = dict(line.split("=", 1) for line in (ground.root / "env").read_text().splitlines())
    assert {name: value for name, value in seen.items() if name.startswith("RED_AFK_")} == {
        "RED_AFK_HOOK": "pre_worktree",
        "RED_AFK_ISSUE": "7",
        "RED_AFK_SLOT": "2",
        "RED_AFK_WORKER_ID": "wAAAA",
    }
    assert (seen["GH_TOKEN"], seen["AFK_LABEL"]) == ("the person's", "mine")


def test_shell_syntax_in_a_title_reaches_a_hook_as_text(ground: Ground) -> None:
    """R77: values travel by environment and standard input, never through a command line."""
    title = "$(touch pwned) `touch pwned`; touch pwned | 'x\" && \n touch pwned \0 ü"

    ground.fire(
        HookPoint.ON_SESSION_ERROR,
        'cat > context; printf %s "$RED_AFK_ERROR_MESSAGE" > value',
        context={"issue": {"number": 1, "title": title}},
        ERROR_MESSAGE=title,
    )

    assert not (ground.root / "pwned").exists()
    assert json.loads((ground.root / "context").read_text())["issue"]["title"] == title
    assert (ground.root / "value").read_text() == title.replace("\0", "")


def test_a_value_longer_than_the_kernel_takes_is_cut_and_the_hook_runs(ground: Ground) -> None:
    ground.fire(HookPoint.ON_SESSION_ERROR, "true", ERROR_MESSAGE="x" * 3_000_000)

    assert ground.codes == [0]


def test_a_hook_that_never_reads_its_context_is_not_held_up_by_its_size(ground: Ground) -> None:
    fired = ground.fire(HookPoint.POST_PICK, "true", context={"issues": [{"number": 1, "body": "x" * 2_000_000}]})

    assert ground.codes == [0]
    assert len(json.dumps(fired.context)) > 2_000_000


def test_each_hook_leads_a_process_group_of_its_own(ground: Ground) -> None:
    command = f"{sys.executable} -c 'import os; print(os.getpgrp(), os.getsid(0))' > group"

    ground.fire(HookPoint.ON_IDLE, command)

    group, session = map(int, (ground.root / "group").read_text().split())
    assert group != os.getpgrp()
    assert session != os.getsid(0)


# ── What its answer does ────────────────────────────────────────────────────────────────────────────────────────────


def test_output_replaces_what_may_change_and_nothing_else(ground: Ground) -> None:
    given = {"issue": {"number": 1}, "target": "main", "branch": "afk/wAAAA/1-x", "env": {"A": "1"}}
    answer = {"target": "release/2", "env": {"B": "2"}, "branch": "mine", "issue": None, "more": True}

    fired = ground.fire(HookPoint.PRE_WORKTREE, printing(answer), context=given)

    assert fired.context == {**given, "target": "release/2", "env": {"B": "2"}}
    assert given["target"] == "main"


def test_what_another_point_may_change_stays_as_it_is(ground: Ground) -> None:
    answer = {"target": "release/2", "label": "x", "env": {"A": "1"}}

    fired = ground.fire(HookPoint.PRE_ATTEMPT, printing(answer), context={"target": "main", "env": {}})

    assert fired.context == {"target": "main", "env": {"A": "1"}}


def test_each_hook_sees_what_its_predecessor_left(ground: Ground) -> None:
    fired = ground.fire(
        HookPoint.PRE_ATTEMPT,
        printing({"env": {"A": "1"}}),
        "cat > second; true",
        context={"attempt_n": 2, "env": {}},
    )

    assert json.loads((ground.root / "second").read_text()) == {"attempt_n": 2, "env": {"A": "1"}}
    assert fired.context["env"] == {"A": "1"}


@pytest.mark.parametrize("blank", ["true", "echo", "printf ' \\n\\t'"])
def test_empty_output_changes_nothing(ground: Ground, blank: str) -> None:
    fired = ground.fire(HookPoint.PRE_PICK, blank, context={"label": "ready", "limit": 3})

    assert (ground.codes, fired.context) == ([0], {"label": "ready", "limit": 3})


@pytest.mark.parametrize(
    "command",
    [
        "echo checked, all fine",
        "echo '[]'",
        "echo '{} {}'",
        "echo null",
        "echo '{\"unknown\": NaN}'",
        'echo \'{"label": "\\ud800"}\'',
        'printf \'{"label": "\\377"}\'',
        f"{sys.executable} -c 'print(\"[\" * 100000)'",
        f"{sys.executable} -c 'print(\"1\" * 5000)'",
    ],
)
def test_output_that_is_not_one_json_object_breaks_the_contract(ground: Ground, command: str) -> None:
    fired = ground.fire(HookPoint.PRE_PICK, command, context={"label": "ready"})

    assert ground.codes == [65]
    assert fired.aborted == ground.runs[0]
    assert fired.context == {"label": "ready"}


def test_output_over_a_mebibyte_is_cut_and_not_taken(ground: Ground) -> None:
    flood = f'{sys.executable} -c \'print("{{\\"label\\": \\"x\\"}}" + " " * 20_000_000)\''

    fired = ground.fire(HookPoint.PRE_PICK, flood, context={"label": "ready"})

    assert (ground.codes, fired.context["label"]) == ([65], "ready")
    assert "cut at 1048576 bytes" in fired.reason
    assert (ground.runs_dir / "1-hook" / "out").stat().st_size < 1_200_000


@pytest.mark.parametrize(
    ("point", "key", "value"),
    [
        (HookPoint.PRE_SESSION, "runner", ""),
        (HookPoint.PRE_SESSION, "runner", None),
        (HookPoint.PRE_SESSION, "cap", 0),
        (HookPoint.PRE_SESSION, "cap", True),
        (HookPoint.PRE_SESSION, "filter", "all"),
        (HookPoint.PRE_SESSION, "filter", {"kind": "all", "value": "5"}),
        (HookPoint.PRE_SESSION, "filter", {"kind": "prd", "value": "5,6"}),
        (HookPoint.PRE_SESSION, "filter", {"kind": "issues", "value": None}),
        (HookPoint.PRE_SESSION, "filter", {"kind": ["all"], "value": None}),
        (HookPoint.PRE_PICK, "label", 5),
        (HookPoint.PRE_PICK, "state", "opened"),
        (HookPoint.PRE_PICK, "state", []),
        (HookPoint.PRE_PICK, "limit", "5"),
        (HookPoint.PRE_PICK, "limit", -1),
        (HookPoint.PRE_WORKTREE, "target", "-f"),
        (HookPoint.PRE_WORKTREE, "target", "a b"),
        (HookPoint.PRE_WORKTREE, "env", []),
        (HookPoint.PRE_WORKTREE, "env", {"A": 1}),
        (HookPoint.PRE_WORKTREE, "env", {"A=B": "1"}),
        (HookPoint.PRE_ATTEMPT, "env", {"A": "x\0y"}),
    ],
)
def test_a_value_of_the_wrong_kind_breaks_the_contract(
    ground: Ground, point: HookPoint, key: str, value: object
) -> None:
    fired = ground.fire(point, printing({key: value}), context={key: "before"})

    assert (ground.codes, fired.context) == ([65], {key: "before"})
    assert f"`{key}`" in fired.reason


def test_values_of_the_right_kind_are_taken(ground: Ground) -> None:
    session = {"runner": "codex", "cap": 3, "filter": {"kind": "issues", "value": "5,3"}}
    pick = {"label": "next", "state": "all", "limit": None}

    assert ground.fire(HookPoint.PRE_SESSION, printing(session)).context == session
    assert ground.fire(HookPoint.PRE_PICK, printing(pick)).context == pick


def test_post_pick_reorders_and_drops(ground: Ground) -> None:
    fired = ground.fire(HookPoint.POST_PICK, printing({"issues": [{"number": 9}, 3]}), context={"issues": ISSUES})

    assert fired.context["issues"] == [ISSUES[2], ISSUES[0]]


def test_post_pick_cannot_rewrite_an_issue(ground: Ground) -> None:
    rewritten = [{"number": 5, "title": "do something else"}]

    fired = ground.fire(HookPoint.POST_PICK, printing({"issues": rewritten}), context={"issues": ISSUES})

    assert fired.context["issues"] == [ISSUES[1]]


@pytest.mark.parametrize("issues", [[{"number": 4}], [*ISSUES, {"number": 3}], ["3"], [True], "3", [{}]])
def test_post_pick_can_add_nothing(ground: Ground, issues: object) -> None:
    fired = ground.fire(HookPoint.POST_PICK, printing({"issues": issues}), context={"issues": [*ISSUES, {"number": 1}]})

    assert (ground.codes, fired.aborted) == ([65], None)
    assert fired.context["issues"] == [*ISSUES, {"number": 1}]


# ── How it may fail ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hook_that_guards_its_step_stops_the_chain_and_the_step(ground: Ground) -> None:
    """S24"""
    answer = printing({"env": {"A": "1"}})

    fired = ground.fire(HookPoint.PRE_ATTEMPT, answer, "echo no, not today >&2; exit 3", "touch third")

    assert fired.aborted is not None
    assert (fired.aborted.command, fired.aborted.exit_code) == ("echo no, not today >&2; exit 3", 3)
    assert fired.reason == "pre_attempt hook `echo no, not today >&2; exit 3` exited 3: no, not today"
    assert (ground.codes, fired.context["env"]) == ([0, 3], {"A": "1"})
    assert not (ground.root / "third").exists()


def test_a_hook_that_guards_nothing_fails_alone(ground: Ground) -> None:
    """S25"""
    dropping = printing({"issues": [3]})

    fired = ground.fire(HookPoint.POST_PICK, f"{dropping}; exit 1", dropping, context={"issues": ISSUES})

    assert (ground.codes, fired.aborted) == ([1, 0], None)
    assert fired.context["issues"] == [ISSUES[0]]
    assert any("exited 1" in line for line in ground.logged)


def test_a_hook_that_is_late_is_ended_with_everything_it_started(ground: Ground) -> None:
    slow = "trap '' TERM; sleep 60 & echo $! > grandchild; wait; wait"

    fired = ground.fire(HookPoint.PRE_MERGE, HookCommand(run=slow, timeout_s=0.5))

    assert (ground.codes, fired.aborted) == ([124], ground.runs[0])
    assert "no end within 0.5 s" in fired.reason
    assert not is_alive(process_in(ground.root / "grandchild"))
    assert ground.runs[0].duration_ms >= 500


def test_what_a_hook_leaves_running_is_ended_with_it(ground: Ground) -> None:
    ground.fire(HookPoint.ON_IDLE, "setsid sleep 60 > /dev/null 2>&1 & echo $! > left")

    assert ground.codes == [0]
    assert not is_alive(process_in(ground.root / "left"))


def test_a_missing_script_is_exit_127(ground: Ground) -> None:
    fired = ground.fire(HookPoint.PRE_MERGE, "./no-such-script.sh")

    assert ground.codes == [127]
    assert "not found" in fired.reason


def test_a_hook_that_is_killed_has_the_exit_code_a_shell_would_tell(ground: Ground) -> None:
    ground.fire(HookPoint.POST_MERGE, "kill -9 $$")

    assert ground.codes == [137]


def test_a_machine_that_cannot_start_a_guard_is_no_refusal(ground: Ground) -> None:
    ground.root.rmdir()

    with pytest.raises(KeeperFailed):
        ground.fire(HookPoint.PRE_MERGE, "true")

    assert ground.fire(HookPoint.POST_MERGE, "true").aborted is None
    assert ground.codes == [126]


def test_stderr_is_logged_and_never_read(ground: Ground) -> None:
    (ground.root / "talk.sh").write_text('echo first; echo \'{"label": "from stderr"}\'; printf last')

    fired = ground.fire(HookPoint.PRE_PICK, "sh talk.sh >&2", context={"label": "ready"})

    assert fired.context == {"label": "ready"}
    assert ground.logged == [
        "pre_pick sh talk.sh >&2: first",
        'pre_pick sh talk.sh >&2: {"label": "from stderr"}',
        "pre_pick sh talk.sh >&2: last",
    ]


def test_the_log_takes_the_end_of_a_flood_and_says_where_the_rest_is(ground: Ground) -> None:
    """L14"""
    ground.fire(HookPoint.ON_IDLE, "seq 1 5000 >&2")

    assert len(ground.logged) == 201
    assert ground.logged[0].endswith(f"more in {ground.runs_dir / '1-hook' / 'err'}")
    assert ground.logged[-1].endswith(": 5000")


def test_every_run_is_told_as_it_ends(ground: Ground) -> None:
    fired = ground.fire(HookPoint.ON_IDLE, "exit 2", "true")

    assert tuple(ground.runs) == fired.runs
    assert [(run.lifecycle, run.source) for run in fired.runs] == [("on_idle", "user")] * 2


def test_stopping_ends_the_hook_that_runs_and_starts_no_other(ground: Ground) -> None:
    started = ground.root / "started"
    ground.stopping = started.exists

    fired = ground.fire(HookPoint.PRE_MERGE, "sleep 60 & echo $! > child; touch started; wait", "touch second")

    assert fired.stopped
    assert fired.aborted == ground.runs[0]  # a guard that was not asked to the end has not let anything pass
    assert ground.codes == [143]
    assert not is_alive(process_in(ground.root / "child"))
    assert not (ground.root / "second").exists()


def test_nothing_is_started_once_the_run_is_being_stopped(ground: Ground) -> None:
    ground.stopping = lambda: True

    guarded, unguarded = ground.fire(HookPoint.PRE_MERGE, "touch x"), ground.fire(HookPoint.POST_MERGE, "touch x")

    assert (guarded.stopped, guarded.aborted is not None) == (True, True)
    assert (unguarded.stopped, unguarded.aborted) == (True, None)
    assert ground.runs == []
    assert not (ground.root / "x").exists()


# ── Built-ins ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_cargo_project_has_one_build_folder_for_each_slot(ground: Ground) -> None:
    (ground.root / "Cargo.toml").touch()

    one, two = (ground.fire(HookPoint.PRE_WORKTREE, "true", context={"env": {}}, SLOT=slot) for slot in (1, 2))

    folder = str(ground.root / ".red" / "tmp" / "build" / "slot-1" / "cargo")
    assert one.context["env"] == {"CARGO_TARGET_DIR": folder}
    assert two.context["env"] != one.context["env"]
    assert [(run.command, run.source, run.exit_code) for run in one.runs] == [
        ("cargo", "builtin", 0),
        ("true", "user", 0),
    ]


def test_a_gradle_project_cache_is_put_before_options_that_are_there(ground: Ground) -> None:
    (ground.root / "settings.gradle.kts").touch()

    fired = ground.fire(HookPoint.PRE_WORKTREE, context={"env": {"GRADLE_OPTS": "-Xmx1g"}}, SLOT=1)

    option, other = shlex.split(fired.context["env"]["GRADLE_OPTS"])  # the checkout's path holds a blank
    assert option == f"-Dorg.gradle.projectcachedir={ground.root}/.red/tmp/build/slot-1/gradle"
    assert other == "-Xmx1g"


def test_the_persons_hook_sees_what_a_built_in_left_and_has_the_last_word(ground: Ground) -> None:
    (ground.root / "Cargo.toml").touch()

    fired = ground.fire(
        HookPoint.PRE_WORKTREE, f"cat > seen; {printing({'env': {}})}", context={"env": {"A": "1"}}, SLOT=1
    )

    assert set(json.loads((ground.root / "seen").read_text())["env"]) == {"A", "CARGO_TARGET_DIR"}
    assert fired.context["env"] == {}


def test_a_target_folder_that_is_set_already_stays(ground: Ground) -> None:
    (ground.root / "Cargo.toml").touch()

    fired = ground.fire(HookPoint.PRE_WORKTREE, context={"env": {"CARGO_TARGET_DIR": "/cache"}}, SLOT=1)

    assert fired.context["env"] == {"CARGO_TARGET_DIR": "/cache"}


def test_built_ins_run_only_where_they_mean_something(ground: Ground) -> None:
    assert builtins_at(HookPoint.PRE_WORKTREE, ground.root, {}) == ()
    (ground.root / "Cargo.toml").touch()
    (ground.root / "build.gradle").touch()

    assert builtins_at(HookPoint.PRE_WORKTREE, ground.root, {}) == ("cargo", "gradle")
    assert builtins_at(HookPoint.PRE_WORKTREE, ground.root, {"cargo": False, "validation": False}) == ("gradle",)
    assert builtins_at(HookPoint.PRE_ATTEMPT, ground.root, {}) == ()
