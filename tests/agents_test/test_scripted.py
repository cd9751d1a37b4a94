"""The demonstration's agent acts as its docstring says, on a small project and under the real prompts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ground import Ground, Ran

from afk.agents.prompt import PromptContext, commit_prompt, conflict_prompt
from afk.agents.scripted import RECIPES
from afk.domain.outcome import Outcome, VerdictKind, classify
from afk.domain.stage import Stage

AGENT = [sys.executable, "-I", "-m", "afk.agents.scripted"]
TESTS = [sys.executable, "-B", "-m", "unittest", "discover", "-s", "tests"]


@pytest.fixture
def project(ground: Ground) -> Ground:
    """The ground with a package, a test, and a bare remote named origin."""
    for path, text in {"textkit/__init__.py": "", "tests/__init__.py": "", "prices.txt": "1\n"}.items():
        (ground.worktree / path).parent.mkdir(exist_ok=True)
        (ground.worktree / path).write_text(text)
    ground.git("add", "--all")
    ground.git("commit", "--quiet", "-m", "project")
    origin = ground.checkout.parent / "origin.git"
    ground.git("init", "--quiet", "--bare", "--initial-branch=main", str(origin))
    ground.git("remote", "add", "origin", str(origin))
    ground.git("push", "--quiet", "origin", "HEAD:refs/heads/main")
    return Ground(ground.checkout, ground.worktree, ground.handoff, ground.git("rev-parse", "HEAD"))


def act(project: Ground, directive: str) -> Ran:
    return project.finish(project.start(AGENT, project.prompt(f"A wish.\n\ndemo: {directive}\n")))


def verdict(ran: Ran, project: Ground) -> Outcome | VerdictKind:
    judged = classify(ran.evidence, project.facts(), salvage=True)
    return judged.outcome or judged.kind


def suite_is_green(project: Ground) -> bool:
    return subprocess.run(TESTS, cwd=project.worktree, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", RECIPES)
def test_land_writes_a_function_whose_suite_is_green(project: Ground, name: str) -> None:
    ran = act(project, f"land {name}")
    assert verdict(ran, project) == VerdictKind.VALIDATE
    assert suite_is_green(project)
    assert ran.stages == [Stage.SETUP, Stage.EXPLORE, Stage.IMPL, Stage.TESTS, Stage.COMMIT]


@pytest.mark.parametrize("name", RECIPES)
def test_break_check_says_done_over_a_failing_test(project: Ground, name: str) -> None:
    assert verdict(act(project, f"break-check {name}"), project) == VerdictKind.VALIDATE
    assert not suite_is_green(project)


def test_silent_end_leaves_a_commit_and_no_word(project: Ground) -> None:
    ran = act(project, "silent-end initials")
    assert verdict(ran, project) == Outcome.NO_SENTINEL
    assert project.facts().commits_ahead == 1


def test_block_leaves_its_question_in_the_notes(project: Ground) -> None:
    ran = act(project, "block Which of the two?")
    assert verdict(ran, project) == Outcome.BLOCKED
    assert "<agent-notes>\nWhich of the two?\n</agent-notes>" in project.handoff.read_text()


def test_conflict_meets_a_colleague_on_the_base_and_gives_up_when_asked(project: Ground) -> None:
    assert verdict(act(project, "conflict README.md"), project) == VerdictKind.VALIDATE
    project.git("fetch", "--quiet", "origin", "main")
    assert project.git("show", "FETCH_HEAD:README.md") == "the project (a colleague's words)"
    merged = subprocess.run(["git", "merge", "FETCH_HEAD"], cwd=project.worktree, capture_output=True, check=False)
    assert merged.returncode == 1
    context = PromptContext(7, "greet", 1, "b", "main", project.worktree, project.handoff, "")
    ran = project.finish(project.start(AGENT, conflict_prompt(context, paths=["README.md"])))
    assert ran.evidence.sentinel == "BLOCKED"


def test_a_second_attempt_at_a_conflict_finds_the_colleague_was_there(project: Ground) -> None:
    act(project, "conflict README.md")
    tip = project.git("ls-remote", "origin", "refs/heads/main")
    project.git("fetch", "--quiet", "origin", "main")
    subprocess.run(["git", "merge", "FETCH_HEAD"], cwd=project.worktree, capture_output=True, check=False)
    assert verdict(act(project, "conflict README.md"), project) == VerdictKind.VALIDATE
    assert project.git("ls-remote", "origin", "refs/heads/main") == tip


def test_guarded_changes_the_guarded_file(project: Ground) -> None:
    assert verdict(act(project, "guarded prices.txt"), project) == VerdictKind.VALIDATE
    assert project.git("diff", "--name-only", project.base) == "prices.txt"


def test_work_left_lying_is_committed_when_asked(project: Ground) -> None:
    (project.worktree / "left.txt").write_text("x\n")
    context = PromptContext(7, "greet", 1, "b", "main", project.worktree, project.handoff, "")
    project.finish(project.start(AGENT, commit_prompt(context, dirty=["left.txt"])))
    assert project.facts().complete


@pytest.mark.parametrize("directive", ["land ../../x", "land nothing", "guarded .git", "guarded nowhere.txt", "fly"])
def test_what_it_cannot_do_it_says(project: Ground, directive: str) -> None:
    assert act(project, directive).evidence.sentinel == "BLOCKED"
    assert project.facts().commits_ahead == 0
    assert project.facts().dirty == ()


@pytest.mark.parametrize("absolute", [False, True])
def test_a_path_from_an_issue_leads_nowhere_outside_the_worktree(project: Ground, absolute: bool) -> None:
    """S28"""
    outside = project.handoff.with_name("outside.txt")
    outside.write_text("untouched\n")
    ran = act(project, f"guarded {outside if absolute else '../outside.txt'}")
    assert ran.evidence.sentinel == "BLOCKED"
    assert outside.read_text() == "untouched\n"


def test_it_needs_nothing_but_the_standard_library() -> None:
    seen = subprocess.run(
        [sys.executable, "-I", "-c", "import afk.agents.scripted, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"pydantic", "yaml", "git", "psutil"}.isdisjoint(seen)
