"""`afk init` as a process, in checkouts of every kind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import gitkit
import pytest
import yaml
from drainkit import Place, ended

from afk import config
from afk.agents import agent_for
from afk.surfaces.commands.detect import FoundCheck, found_agents, look_at
from afk.surfaces.commands.template import Choices, config_text


@pytest.fixture
def fresh(origin: Path, clone: Path, tmp_path: Path) -> Place:
    """A checkout without `.red`, on a PATH that has git and no coding agent."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        (tools / name).symlink_to(shutil.which(name) or name)
    return Place(origin, clone, {"PATH": str(tools)})


def install(place: Place, name: str) -> None:
    program = Path(place.environ["PATH"]) / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


def written(place: Place) -> config.Config:
    path = place.clone / ".red/config.yaml"
    return config.parse(path.read_text(encoding="utf-8"), source=str(path))


def test_what_is_found_becomes_a_valid_configuration(fresh: Place) -> None:
    gitkit.write(fresh.clone, {"pyproject.toml": "[tool.pytest.ini_options]\n"})
    install(fresh, "codex")
    ran = fresh.afk("init")
    assert ran.code == 0
    assert ran.payload["schema"] == "afk.init.v1"
    assert ran.payload["base_branch"] == "main"
    assert ran.payload["agent"] == "codex"
    assert ran.payload["argv"][:2] == ["codex", "exec"]
    made = written(fresh)
    assert made.runner == "codex"
    assert agent_for(made, made.runner).name == "codex"
    assert [(check.name, check.run) for check in made.validation.checks] == [("test", "python -m pytest -q")]
    assert config.unsupported(made) == []


def test_nothing_that_is_there_is_overwritten(fresh: Place) -> None:
    gitkit.write(fresh.clone, {".red/config.yaml": "afk: {}\n"})
    ran = fresh.afk("init")
    assert ran.code == 4
    assert ran.error["code"] == "destination_exists"
    assert ran.error["hint"] == "afk doctor"
    assert (fresh.clone / ".red/config.yaml").read_text() == "afk: {}\n"
    assert not (fresh.clone / ".red/issues").exists()


def test_issues_are_ignored_through_the_repositorys_own_exclude_file_alone(fresh: Place) -> None:
    before = gitkit.git(fresh.clone, "rev-parse", "HEAD")
    fresh.afk("init")
    assert gitkit.git(fresh.clone, "status", "--porcelain", "--untracked-files=all") == "?? .red/config.yaml"
    assert "/.red/issues/" in (fresh.clone / ".git/info/exclude").read_text().splitlines()
    assert gitkit.git(fresh.clone, "rev-parse", "HEAD") == before
    (fresh.clone / ".red/issues/1").mkdir()
    (fresh.clone / ".red/issues/1/issue.md").write_text("x")
    assert gitkit.git(fresh.clone, "status", "--porcelain", "--untracked-files=all") == "?? .red/config.yaml"


def test_issues_that_people_track_are_not_ignored_but_for_our_own_files(fresh: Place) -> None:
    gitkit.commit(fresh.clone, "issues", {".red/issues/1/issue.md": "---\ntitle: a\n---\n"})
    ran = fresh.afk("init")
    assert ran.payload["excluded_patterns"] == ["/.red/issues/.*"]
    fresh.afk("issue", "create", "--title", "Second")
    assert gitkit.git(fresh.clone, "status", "--porcelain", "--untracked-files=all").splitlines() == [
        "?? .red/config.yaml",
        "?? .red/issues/2/issue.md",
    ]
    assert "/.red/issues/" not in (fresh.clone / ".git/info/exclude").read_text().splitlines()


def test_it_says_in_plain_words_where_work_lands_and_that_nobody_is_asked(fresh: Place) -> None:
    ran = ended(fresh.start("init"))
    assert "merges work that passes your checks into the branch main of origin" in ran.stdout
    assert "asks nobody for permission" in ran.stdout
    assert "Pull requests are not in this version" in ran.stdout
    assert "a branch that you merge yourself" in ran.stdout


def test_another_branch_to_land_on_is_written_down_and_the_way_to_make_it_is_told(fresh: Place) -> None:
    ran = fresh.afk("init", "--base", "agents", "--label", "go: now")
    assert (written(fresh).base, written(fresh).label) == ("agents", "go: now")
    assert ran.payload["next_commands"][0] == "git push origin HEAD:refs/heads/agents"
    assert "review_first" not in [note["code"] for note in ran.payload["notes"]]


def test_without_an_agent_or_a_check_everything_but_a_run_works(fresh: Place) -> None:
    codes = [note["code"] for note in fresh.afk("init").payload["notes"]]
    assert {"agent_missing", "checks_missing"} <= set(codes)
    assert fresh.afk("issue", "create", "--title", "Say hello").code == 0
    doctor = fresh.afk("doctor").payload
    failed = {check["id"] for check in doctor["checks"] if check["status"] == "fail"}
    assert failed == {"agent", "checks"}


def test_a_checkout_without_a_remote_is_told_what_to_do(fresh: Place) -> None:
    gitkit.git(fresh.clone, "remote", "remove", "origin")
    ran = fresh.afk("init")
    assert (ran.code, ran.error["code"]) == (4, "remote_missing")
    assert ran.error["hint"].startswith("git remote add")
    assert not (fresh.clone / ".red").exists()


def test_a_directory_outside_any_repository_is_refused(fresh: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    assert fresh.afk("-C", str(outside), "init").error["code"] == "not_a_repository"


def test_a_remote_that_sleeps_is_no_reason_not_to_begin(fresh: Place) -> None:
    shutil.move(fresh.origin, fresh.origin.with_name("away.git"))
    ran = fresh.afk("init")
    assert ran.code == 0
    assert ran.payload["base_branch"] is None
    assert "remote_unknown" in [note["code"] for note in ran.payload["notes"]]


def test_the_remote_that_the_branch_follows_is_taken_when_none_is_called_origin(fresh: Place) -> None:
    gitkit.git(fresh.clone, "remote", "add", "backup", gitkit.url(fresh.origin))
    gitkit.git(fresh.clone, "remote", "rename", "origin", "upstream")
    ran = fresh.afk("init")
    assert ran.payload["remote"] == "upstream"
    assert any("backup" in note["message"] for note in ran.payload["notes"])


def test_a_worktree_of_an_attempt_is_no_place_to_begin(fresh: Place) -> None:
    inside = fresh.clone / ".red/tmp/workers/wAAAA/1-a1/worktree"
    gitkit.git(fresh.clone, "worktree", "add", "-q", "--detach", str(inside))
    assert fresh.afk("-C", str(inside), "init").error["code"] == "invalid_input"


# ── What can be found out ───────────────────────────────────────────────────────────────────────────────────────────

PACKAGE_JSON = json.dumps({"scripts": {"build": "b", "test": "jest", "lint": "l", "start": "s"}})
PLACEHOLDER = json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})


@pytest.mark.parametrize(
    ("files", "checks", "setup"),
    [
        ({}, [], ()),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, [("test", "python -m pytest -q", True)], ()),
        ({"pytest.ini": "", "uv.lock": ""}, [("test", "uv run python -m pytest -q", True)], ("uv sync",)),
        ({"setup.cfg": "[tool:pytest]\n"}, [("test", "python -m pytest -q", True)], ()),
        ({"tests/test_a.py": ""}, [("test", "python -m unittest discover -s tests", False)], ()),
        ({"pyproject.toml": "not toml ["}, [], ()),
        ({"package.json": PACKAGE_JSON, "pnpm-lock.yaml": ""}, ["test", "lint", "build"], ("pnpm install",)),
        ({"package.json": PACKAGE_JSON, "package-lock.json": ""}, ["test", "lint", "build"], ("npm ci",)),
        ({"package.json": PLACEHOLDER}, [], ()),
        ({"package.json": "[]"}, [], ()),
        ({"Cargo.toml": ""}, [("test", "cargo test", True)], ()),
        ({"go.mod": ""}, [("test", "go test ./...", True)], ()),
        ({"Makefile": "all:\n\ntest: all\n\ttrue\n"}, [("make-test", "make test", True)], ()),
        ({"Makefile": "test := 1\ntested:\n"}, [], ()),
        (
            {"Makefile": "test:\n", "go.mod": ""},
            [("test", "go test ./...", True), ("make-test", "make test", False)],
            (),
        ),
        ({"Cargo.toml": "", "go.mod": ""}, [("test", "cargo test", True), ("test-go", "go test ./...", True)], ()),
    ],
)
def test_a_repository_shows_how_it_is_checked(
    tmp_path: Path, files: dict[str, str], checks: list[tuple[str, str, bool] | str], setup: tuple[str, ...]
) -> None:
    gitkit.write(tmp_path, files)
    found = look_at(tmp_path)
    assert [c.name if isinstance(checks[0], str) else (c.name, c.run, c.sure) for c in found.checks] == checks
    assert found.setup == setup


def test_the_search_path_decides_which_agents_there_are(tmp_path: Path) -> None:
    for name in ("opencode", "claude"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert found_agents(str(tmp_path)) == ["claude", "opencode"]
    assert found_agents(os.devnull) == []


@pytest.mark.parametrize("agents", [[], ["claude"], ["gemini", "opencode"]])
@pytest.mark.parametrize("sure", [True, False])
def test_whatever_was_found_the_file_reads_back_as_it_was_meant(agents: list[str], sure: bool) -> None:
    odd = 'echo "a: b" # c'
    choices = Choices(
        label="off",
        remote="origin",
        on_github=not sure,
        base=None,
        default_branch="main",
        agents=agents,
        checks=[FoundCheck("test", odd, sure)],
        setup=[odd],
    )
    made = config.parse(config_text(choices), source="here")
    assert made.label == "off"
    assert made.setup == (odd,)
    assert [check.run for check in made.validation.checks] == ([odd] if sure else [])
    assert yaml.safe_load(config_text(choices))["afk"]["runner"] == (agents[0] if agents else "command")
    assert config.unsupported(made) == []
