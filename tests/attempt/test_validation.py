"""When a branch passes, when it is blocked, and when nothing can be said about it: real checks on a real worktree."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from gitkit import commit, git, sha

from afk.adapters.admission import Admission
from afk.adapters.process import identity_of
from afk.attempt.validation import SetupResult, Subject, Validation, run_setup, validate
from afk.config import Check
from afk.domain.outcome import Outcome
from afk.errors import KeeperFailed
from afk.wire import sidecar

BURN = f"exec {sys.executable} -c 'while True: pass'"


@dataclass
class Ground:
    """A worktree one commit ahead of its base."""

    worktree: Path
    base: str
    head: str
    folder: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        self._numbers = count(1)

    @property
    def admission(self) -> Admission:
        return Admission(self.folder, self.environ)

    @property
    def sidecar(self) -> Path:
        return self.folder / "validation.jsonl"

    def run_dir(self, kind: str) -> Path:
        return self.folder / "runs" / f"{next(self._numbers)}-{kind}"

    def validate(self, *checks: Check | str, allow_unvalidated: bool = False, **more: Any) -> Validation:
        subject = Subject(self.worktree, self.base, self.head, "wAAAA-1-a1", 1)
        named = [check if isinstance(check, Check) else Check(name="test", run=check) for check in checks]
        return validate(
            subject,
            checks=named,
            allow_unvalidated=allow_unvalidated,
            environ=self.environ,
            run_dir=self.run_dir,
            sidecar=self.sidecar,
            admission=self.admission,
            **{"stall_window_s": 0.3, "kill_s": 0.5, **more},
        )

    def setup(self, *commands: str, **more: Any) -> SetupResult:
        settings = {"kill_s": 0.5, "admission": self.admission, **more}
        return run_setup(self.worktree, commands, environ=self.environ, run_dir=self.run_dir, **settings)


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, to be copied."""
    repo = tmp_path_factory.mktemp("seed")
    git(repo, "init", "-q")
    commit(repo, "the beginning", {"app.py": "one\n", "docs/index.md": "one\n"})
    return repo


@pytest.fixture
def ground(tmp_path: Path, seed: Path) -> Ground:
    repo, worktree = tmp_path / "repo", tmp_path / "work tree"
    shutil.copytree(seed, repo)
    base = sha(repo)
    git(repo, "worktree", "add", "-q", "-b", "afk/wAAAA/1-x", str(worktree), base)
    return Ground(worktree, base, commit(worktree, "work", {"app.py": "two\n"}), tmp_path)


def statuses(validation: Validation) -> list[tuple[str, str]]:
    return [(result.name, str(result.status)) for result in validation.results]


# ── Verdicts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_branch_passes_when_every_check_exits_0(ground: Ground) -> None:
    checks = Check(name="lint", run="true"), Check(name="test", run="echo '== 3 passed =='")

    validation = ground.validate(*checks)

    assert (validation.status, validation.outcome, validation.reason, validation.infra) == ("pass", None, "", None)
    assert [(result.name, result.summary) for result in validation.results] == [
        ("lint", "command exited 0"),
        ("test", "3 passed"),
    ]
    assert validation.tree == sha(ground.worktree, f"{ground.head}^{{tree}}")


def test_a_check_that_fails_blocks_and_the_others_still_run(ground: Ground) -> None:
    checks = Check(name="test", run="echo '1 failed, 2 passed'; exit 3"), Check(name="lint", run="true")

    validation = ground.validate(*checks)

    assert (validation.status, validation.outcome) == ("blocker", Outcome.FEEDBACK_FAILED)
    assert validation.reason == "test: failed: 1 failed, 2 passed"
    assert statuses(validation) == [("test", "failed"), ("lint", "passed")]
    assert (validation.results[0].exit_code, validation.results[0].infra) == (3, None)


def test_a_failed_check_is_run_once(ground: Ground) -> None:
    ground.validate("echo run >> ../runs.txt; echo broken; exit 1")

    assert (ground.folder / "runs.txt").read_text() == "run\n"


def test_no_check_at_all_is_for_a_person_to_decide(ground: Ground) -> None:
    validation = ground.validate()

    assert (validation.status, validation.outcome) == ("escalate", Outcome.FEEDBACK_FAILED)
    assert validation.reason == "no check ran"
    assert statuses(validation) == [("validation", "skipped")]


def test_no_check_at_all_passes_only_where_it_is_allowed_and_the_report_says_so(ground: Ground) -> None:
    validation = ground.validate(allow_unvalidated=True)

    assert (validation.status, validation.outcome) == ("pass", None)
    assert validation.records[0].summary == "no check ran, which afk.validation.allow_unvalidated allows"


def test_allowing_unvalidated_work_excuses_no_check_that_failed(ground: Ground) -> None:
    assert ground.validate("echo no; exit 1", allow_unvalidated=True).status == "blocker"


def test_a_check_without_a_matching_file_is_skipped_and_says_why(ground: Ground) -> None:
    checks = (
        Check(name="docs", run="exit 1", when=("docs/**", "**/*.md")),
        Check(name="test", run="true", when=("**/*.py",)),
    )

    validation = ground.validate(*checks)

    assert statuses(validation) == [("docs", "skipped"), ("test", "passed")]
    assert validation.results[0].summary == "no changed file matches docs/**, **/*.md"
    assert (validation.results[0].command, validation.results[0].duration_ms) == (None, None)


def test_checks_that_were_all_skipped_are_no_pass(ground: Ground) -> None:
    assert ground.validate(Check(name="docs", run="true", when=("docs/**",))).status == "escalate"


def test_what_the_base_did_meanwhile_is_no_changed_file(ground: Ground) -> None:
    ground.base = commit(ground.folder / "repo", "meanwhile", {"docs/index.md": "two\n"})

    validation = ground.validate(Check(name="docs", run="true", when=("docs/**",)))

    assert statuses(validation)[0] == ("docs", "skipped")


# ── How a check is run ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_check_gets_neither_tokens_nor_our_own_variables(ground: Ground) -> None:
    """L35: the same environment in every lane, and no secret in it."""
    ground.environ |= {"GH_TOKEN": "secret", "RED_AFK_SLOT": "1", "AFK_LABEL": "x", "MY_API_KEY": "secret"}

    ground.validate("env > ../env.txt")

    names = {line.split("=")[0] for line in (ground.folder / "env.txt").read_text().splitlines()}
    assert {"PATH", "HOME"} <= names
    assert not names & {"GH_TOKEN", "RED_AFK_SLOT", "AFK_LABEL", "MY_API_KEY"}


def test_a_check_runs_in_the_worktree_by_the_shell_it_was_written_for(ground: Ground) -> None:
    validation = ground.validate(
        'test "$(pwd)" = \'' + str(ground.worktree) + "' && printf '%s\\n' \"$0 'quoted'\" | cat"
    )

    assert validation.results[0].summary == "sh 'quoted'"


def test_both_outputs_of_a_check_stand_in_one_file_in_their_order(ground: Ground) -> None:
    validation = ground.validate("echo one; echo two >&2; echo three")

    assert Path(validation.results[0].output_path or "").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("output", "summary"),
    [
        (r"1 failed\n", "1 failed"),
        (r"\033[31m1 failed\033[0m\n\033]0;title\007\n\n", "1 failed"),
        (r"===== 1 failed in 0.1s =====\n---------\n", "1 failed in 0.1s"),
        (r"10%%\r50%%\r100%% done\r\n", "100% done"),
        (r"broken \377 byte\n", "broken � byte"),
        (r"a\tb\001c", "a b c"),
        (r"\n \n", "command exited 1 at once and without a word, twice"),
    ],
)
def test_the_summary_is_the_last_thing_that_was_said(ground: Ground, output: str, summary: str) -> None:
    assert ground.validate(f"printf '{output}'; exit 1").results[0].summary == summary


def test_a_long_last_line_is_cut(ground: Ground) -> None:
    summary = ground.validate("printf '%5000s' x | tr ' ' y").results[0].summary

    assert (len(summary), summary[-1]) == (200, "…")


def test_what_a_check_leaves_running_is_ended_with_it(ground: Ground) -> None:
    assert ground.validate("setsid sleep 60 & echo $! > ../left; echo ok").status == "pass"

    assert identity_of(int((ground.folder / "left").read_text())) is None


# ── Infrastructure is no verdict ────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_tool_is_no_verdict_on_the_branch(ground: Ground) -> None:
    """R49"""
    validation = ground.validate("no-such-tool --check")

    assert (validation.status, validation.outcome, validation.infra) == (
        "validator_error",
        Outcome.INFRA,
        "missing-tool",
    )
    assert "not found" in validation.reason
    assert (validation.results[0].status, validation.results[0].exit_code) == ("failed", 127)


def test_a_tool_that_cannot_be_executed_is_missing_too(ground: Ground) -> None:
    (ground.folder / "tool").write_text("no program")

    assert ground.validate("../tool").infra == "missing-tool"


@pytest.mark.parametrize("death", ["kill -9 $$", "sh -c 'kill -9 $$'; exit $?"])
def test_a_check_that_something_killed_is_no_verdict(ground: Ground, death: str) -> None:
    """L33: 137 is what the kernel leaves when memory is short."""
    validation = ground.validate(death)

    assert (validation.outcome, validation.infra) == (Outcome.INFRA, "oom")


def test_a_crash_of_its_own_is_a_verdict(ground: Ground) -> None:
    validation = ground.validate("echo crashing; kill -SEGV $$")

    assert (validation.status, validation.results[0].exit_code) == ("blocker", 139)


def test_a_check_that_hangs_without_using_cpu_has_stalled(ground: Ground) -> None:
    """R49: the sidecar's `stall` is over its limit and no CPU for a whole window."""
    validation = ground.validate(Check(name="test", run="sleep 60 & echo $! > ../child; wait", timeout_s=0.6))

    assert (validation.outcome, validation.infra) == (Outcome.INFRA, "stall")
    assert validation.results[0].summary == "had not ended after 0.6 s and used no CPU any more, twice"
    assert identity_of(int((ground.folder / "child").read_text())) is None


def test_a_check_that_still_works_at_its_limit_was_too_slow(ground: Ground) -> None:
    validation = ground.validate(Check(name="test", run=BURN, timeout_s=0.6))

    assert (validation.outcome, validation.infra) == (Outcome.INFRA, "timeout")


def test_infrastructure_is_tried_once_more_and_what_it_says_then_counts(ground: Ground) -> None:
    """R49: the check alone is tried again."""
    mends_itself = "test -e ../mended && { echo 2 passed; exit 0; }; touch ../mended; no-such-tool"
    checks = Check(name="test", run=mends_itself), Check(name="lint", run="echo run >> ../lint.txt")

    validation = ground.validate(*checks)

    assert validation.status == "pass"
    assert validation.results[0].summary == "2 passed (second try; the first: missing-tool)"
    assert (ground.folder / "lint.txt").read_text() == "run\n"


def test_a_failure_at_once_and_without_a_word_is_tried_again_before_it_counts(ground: Ground) -> None:
    """L33: it may be a broken tool; but a check such as `grep -q` says no just like that, and says it twice."""
    validation = ground.validate("echo run >> ../runs.txt; exit 1")

    assert (ground.folder / "runs.txt").read_text() == "run\nrun\n"
    assert (validation.status, validation.infra) == ("blocker", None)
    assert validation.results[0].summary == "command exited 1 at once and without a word, twice"


def test_one_verdict_against_the_branch_outweighs_broken_tools(ground: Ground) -> None:
    checks = Check(name="lint", run="no-such-tool"), Check(name="test", run="echo 1 failed; exit 1")

    validation = ground.validate(*checks)

    assert (validation.status, validation.outcome) == ("blocker", Outcome.FEEDBACK_FAILED)
    assert validation.reason == "test: failed: 1 failed"


def test_a_machine_that_can_start_nothing_says_so_itself(ground: Ground) -> None:
    used = ground.folder / "used"
    used.mkdir()
    (used / "tree").touch()

    with pytest.raises(KeeperFailed):
        validate(
            Subject(ground.worktree, ground.base, ground.head),
            checks=[Check(name="test", run="true")],
            allow_unvalidated=False,
            environ=ground.environ,
            run_dir=lambda kind: used,
            sidecar=None,
            admission=ground.admission,
        )


# ── What is checked is what lands ───────────────────────────────────────────────────────────────────────────────────


def refusal(validation: Validation) -> str:
    assert (validation.status, validation.outcome) == ("validator_error", Outcome.INFRA)
    return validation.reason


def test_a_commit_that_is_not_there_is_no_empty_diff(ground: Ground) -> None:
    """L31: a missing branch has no diff, hence no checks, hence nothing against it."""
    head, base = ground.head, ground.base

    ground.head = "1" * 40
    assert "the head 1111" in refusal(ground.validate("touch ../ran", allow_unvalidated=True))
    ground.head, ground.base = head, ""
    assert "the base" in refusal(ground.validate("touch ../ran", allow_unvalidated=True))
    ground.base = sha(ground.worktree, f"{base}^{{tree}}")
    assert "the base" in refusal(ground.validate("touch ../ran", allow_unvalidated=True))
    assert not (ground.folder / "ran").exists()


def test_a_branch_that_is_not_ahead_has_nothing_to_validate(ground: Ground) -> None:
    """L31"""
    ground.base = ground.head

    assert "not ahead" in refusal(ground.validate("true", allow_unvalidated=True))


def test_another_commit_in_the_worktree_is_not_what_would_land(ground: Ground) -> None:
    """R51"""
    later = commit(ground.worktree, "later", {"app.py": "three\n"})

    assert later in refusal(ground.validate("touch ../ran"))
    assert not (ground.folder / "ran").exists()


def test_uncommitted_changes_would_be_checked_but_not_land(ground: Ground) -> None:
    """R51"""
    (ground.worktree / "app.py").write_text("mended, not committed\n")

    assert "app.py" in refusal(ground.validate("touch ../ran"))
    assert not (ground.folder / "ran").exists()


def test_a_check_that_commits_leaves_no_verdict(ground: Ground) -> None:
    """R51"""
    amend = "git -c user.name=a -c user.email=b commit -q --allow-empty -m more"
    checks = Check(name="lint", run="true"), Check(name="commits", run=amend), Check(name="test", run="touch ../ran")

    validation = ground.validate(*checks)

    assert refusal(validation).startswith("after commits,")
    assert statuses(validation) == [("lint", "passed")]
    assert not (ground.folder / "ran").exists()


def test_a_check_that_rewrites_tracked_files_fails_and_nothing_is_checked_on_top_of_it(ground: Ground) -> None:
    """R51: what follows would see a tree that nobody committed."""
    checks = Check(name="format", run="echo better > app.py"), Check(name="test", run="touch ../ran")

    validation = ground.validate(*checks)

    assert (validation.status, validation.reason) == ("blocker", "format: failed: changed tracked files: app.py")
    assert statuses(validation) == [("format", "failed"), ("test", "skipped")]
    assert validation.results[1].summary == "not run: format changed tracked files"
    assert not (ground.folder / "ran").exists()
    assert (ground.worktree / "app.py").read_text() == "better\n"


def test_a_broken_check_that_rewrites_tracked_files_is_not_tried_again(ground: Ground) -> None:
    validation = ground.validate("echo run >> ../runs.txt; git rm -q app.py; exit 127")

    assert (ground.folder / "runs.txt").read_text() == "run\n"
    assert validation.infra == "missing-tool"
    assert validation.results[0].summary.endswith("changed tracked files: app.py")


def test_files_that_a_check_leaves_beside_the_tracked_ones_do_not_matter(ground: Ground) -> None:
    assert ground.validate("mkdir build && echo x > build/out").status == "pass"


# ── What is written down ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_sidecar_has_one_line_for_each_check(ground: Ground) -> None:
    checks = (
        Check(name="test", run="echo 2 passed"),
        Check(name="docs", run="true", when=("docs/**",)),
        Check(name="lint", run="no-such-tool"),
    )

    validation = ground.validate(*checks)

    lines = [json.loads(line) for line in ground.sidecar.read_text().splitlines()]
    assert [list(line) for line in lines] == [
        ["schema", "name", "command", "status", "durationMs", "summary"],
        ["schema", "name", "status", "summary"],
        ["schema", "name", "command", "status", "durationMs", "summary", "infra"],
    ]
    assert tuple(sidecar.parse(ground.sidecar.read_text())) == validation.records


def test_the_sidecar_speaks_of_the_last_validation_alone(ground: Ground) -> None:
    ground.validate("echo of an earlier tree")
    ground.head = "1" * 40

    refusal(ground.validate("true"))

    assert ground.sidecar.read_text() == ""


@pytest.mark.parametrize("command", ["echo ok", "no-such-tool", "echo no; exit 1"])
def test_a_validation_survives_the_journal(ground: Ground, command: str) -> None:
    validation = ground.validate(command, Check(name="docs", run="true", when=("docs/**",)))

    assert Validation.from_dict(json.loads(json.dumps(validation.to_dict()))) == validation


# ── Stopping ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stopping_ends_the_check_that_runs_and_starts_no_other(ground: Ground) -> None:
    started = ground.folder / "started"
    checks = (
        Check(name="lint", run="true"),
        Check(name="test", run="echo $$ > ../child; touch ../started; exec sleep 60"),
        Check(name="more", run="touch ../ran"),
    )

    validation = ground.validate(*checks, stopping=started.exists)

    assert validation.stopped
    assert "stopped" in refusal(validation)
    assert statuses(validation) == [("lint", "passed")]
    assert identity_of(int((ground.folder / "child").read_text())) is None
    assert not (ground.folder / "ran").exists()


# ── Setup ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_setup_runs_its_commands_in_order_in_the_worktree(ground: Ground) -> None:
    result = ground.setup("echo one > order.txt", "echo two >> order.txt")

    assert (result.failure, len(result.results)) == (None, 2)
    assert (ground.worktree / "order.txt").read_text() == "one\ntwo\n"
    assert sorted(path.name for path in (ground.folder / "runs").iterdir()) == ["1-setup", "2-setup"]


@pytest.mark.parametrize("command", ["echo cannot install >&2; exit 1", "no-such-tool", "kill -9 $$"])
def test_the_first_setup_command_that_fails_is_an_infrastructure_failure(ground: Ground, command: str) -> None:
    result = ground.setup("true", command, "touch ../ran")

    assert [str(entry.infra or entry.status) for entry in result.results] == ["passed", "setup"]
    assert (result.failure or "").startswith(f"setup failed: `{command}`: ")
    assert not (ground.folder / "ran").exists()


def test_a_setup_command_has_a_limit(ground: Ground) -> None:
    result = ground.setup("sleep 60", timeout_s=0.4)

    assert result.failure == "setup failed: `sleep 60`: had not ended after 0.4 s and used no CPU any more"


def test_setup_that_was_stopped_is_not_done(ground: Ground) -> None:
    result = ground.setup("touch ../ran", stopping=lambda: True)

    assert (result.stopped, result.failure) == (True, "stopped before setup was done")
    assert not (ground.folder / "ran").exists()
