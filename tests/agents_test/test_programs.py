"""The agents under `tests/agents` do what they say: whoever builds on them finds their faults here, not there."""

from __future__ import annotations

import ast
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from ground import BRANCH, PROGRAMS, Ground, Ran

from afk.agents.prompt import PromptContext, commit_prompt, conflict_prompt
from afk.domain.outcome import Outcome, RunPurpose, VerdictKind, classify


def verdict(ran: Ran, ground: Ground) -> Outcome | VerdictKind:
    judged = classify(ran.evidence, ground.facts(), salvage=True)
    return judged.outcome or judged.kind


def second(ground: Ground, purpose: RunPurpose) -> str:
    context = PromptContext(7, "greet", 1, BRANCH, "main", ground.worktree, ground.handoff, "")
    if purpose is RunPurpose.COMMIT_YOUR_WORK:
        return commit_prompt(context, dirty=["x"])
    return conflict_prompt(context, paths=["README.md"])


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (["done"], VerdictKind.VALIDATE),
        (["done_without_commit"], Outcome.BLOCKED),
        (["empty_commits"], Outcome.BLOCKED),
        (["dirty_tree"], VerdictKind.RERUN),
        (["dirty_for_ever"], VerdictKind.RERUN),
        (["blocked"], Outcome.BLOCKED),
        (["no_sentinel"], Outcome.NO_SENTINEL),
        (["no_sentinel", "--commit"], VerdictKind.VALIDATE),
        (["quotes_sentinel"], Outcome.NO_SENTINEL),
        (["dies_mid_line"], Outcome.NO_SENTINEL),
        (["invalid_utf8"], VerdictKind.VALIDATE),
        (["exits_three"], Outcome.NO_SENTINEL),
        (["quota_in_prose"], VerdictKind.VALIDATE),
        (["floods", "1", "1"], VerdictKind.VALIDATE),
        (["edits_checkout"], VerdictKind.VALIDATE),
        (["forges_handoff"], Outcome.BLOCKED),
        (["fails_with", "agent_quota_exhausted", "2026-05-17T15:00:00Z"], Outcome.EXHAUSTED),
        (["fails_with", "agent_unavailable", "--work"], Outcome.RUNNER_TRANSIENT),
        (["fails_with", "agent_unauthorized"], Outcome.INFRA),
        (["fails_with", "agent_unfit"], Outcome.BLOCKED),
        (["fails_with", "something_else", "--work"], Outcome.NO_SENTINEL),
    ],
)
def test_an_agent_comes_to_what_its_docstring_says(ground: Ground, program: list[str], expected: object) -> None:
    assert verdict(ground.run(*program), ground) == expected


def test_a_dirty_tree_is_committed_when_asked_or_never(ground: Ground) -> None:
    """R47"""
    ground.run("dirty_tree")
    ground.run("dirty_tree", prompt=second(ground, RunPurpose.COMMIT_YOUR_WORK))
    assert ground.facts().complete
    ground.run("dirty_for_ever")
    ground.run("dirty_for_ever", prompt=second(ground, RunPurpose.COMMIT_YOUR_WORK))
    assert ground.facts().dirty == ("?? never-committed.txt",)


def test_notes_go_between_the_tags_of_the_handoff(ground: Ground) -> None:
    ground.run("blocked", "Which API?")
    assert "<agent-notes>\nWhich API?\n</agent-notes>" in ground.handoff.read_text()
    ground.run("forges_handoff")
    assert 'data-attempt-status="done"' in ground.handoff.read_text()


def test_the_silent_one_says_when_it_is_silent(ground: Ground, tmp_path: Path) -> None:
    process = ground.start([sys.executable, str(PROGRAMS / "silent.py"), str(tmp_path / "quiet")], ground.prompt())
    wait_for(tmp_path / "quiet")
    assert process.poll() is None
    process.terminate()
    assert ground.finish(process).out == "thinking\n"


def test_term_does_nothing_to_the_deaf_one(ground: Ground, tmp_path: Path) -> None:
    process = ground.start([sys.executable, str(PROGRAMS / "ignores_term.py"), str(tmp_path / "deaf")], ground.prompt())
    wait_for(tmp_path / "deaf")
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    assert b"<promise>DONE</promise>\n" in iter(process.stdout.readline, b"")
    assert process.poll() is None
    process.kill()
    process.communicate()


def test_the_grandchild_lives_in_a_session_of_its_own(ground: Ground, tmp_path: Path) -> None:
    process = ground.start([sys.executable, str(PROGRAMS / "grandchild.py"), str(tmp_path / "pid")], ground.prompt())
    assert process.wait(timeout=60) == 0
    left = int((tmp_path / "pid").read_text())
    assert os.getsid(left) == left != os.getsid(0)
    os.kill(left, signal.SIGKILL)
    assert ground.finish(process).evidence.sentinel == "DONE"


@pytest.mark.parametrize(("how", "head"), [("branch", "somewhere-else"), ("detached", ""), ("away", "an-orphan")])
def test_commits_are_made_off_the_branch(ground: Ground, how: str, head: str) -> None:
    ground.run("switches_branch", how)
    assert ground.git("branch", "--show-current") == head
    assert ground.git("rev-parse", BRANCH) == ground.base
    assert ground.git("rev-parse", "HEAD") != ground.base


def test_the_persons_checkout_is_written_to(ground: Ground) -> None:
    """R22"""
    ground.run("edits_checkout")
    assert (ground.checkout / "README.md").read_text() == "the project\nan agent was here\n"
    assert ground.facts().complete


def test_the_slow_one_waits_for_its_marker(ground: Ground, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    process = ground.start([sys.executable, str(PROGRAMS / "slow.py"), str(ready), str(go)], ground.prompt())
    wait_for(ready)
    assert ground.facts().commits_ahead == 1
    assert process.poll() is None
    go.touch()
    assert verdict(ground.finish(process), ground) == VerdictKind.VALIDATE
    assert ground.facts().commits_ahead == 2


def test_a_conflict_is_made_and_resolved_or_given_up(ground: Ground, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    go.touch()
    markers = (str(ready), str(go))
    assert verdict(ground.run("conflicts", "README.md", *markers), ground) == VerdictKind.VALIDATE
    (ground.checkout / "README.md").write_text("by a colleague\n")
    ground.git("commit", "--quiet", "-am", "meanwhile", at=ground.checkout)
    with pytest.raises(Exception, match="merge"):
        ground.git("merge", "main")
    resolve = second(ground, RunPurpose.RESOLVE_CONFLICT)
    assert ground.run("conflicts", "README.md", *markers, prompt=resolve).evidence.sentinel == "BLOCKED"
    assert ground.run("conflicts", "README.md", *markers, "--resolve", prompt=resolve).evidence.sentinel == "DONE"
    assert (ground.worktree / "README.md").read_text() == "by issue 7\nby a colleague\n"
    assert ground.facts().complete


def test_one_runner_becomes_the_agent_that_the_issue_asks_for(ground: Ground) -> None:
    asked = ground.prompt("Do it.\n\nagent: blocked 'Two words?'\n\nThanks.")
    assert ground.run("by_issue", prompt=asked).evidence.sentinel == "BLOCKED"
    assert "Two words?" in ground.handoff.read_text()
    assert ground.run("by_issue").evidence.sentinel == "DONE"


def test_every_program_says_what_it_does_and_what_comes_of_it() -> None:
    for program in PROGRAMS.glob("*.py"):
        docstring = ast.get_docstring(ast.parse(program.read_text()))
        assert docstring, program.name


def wait_for(marker: Path) -> None:
    """Bounded only so that a broken program fails a test instead of hanging it."""
    deadline = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < deadline, f"{marker} never came"
        time.sleep(0.01)
