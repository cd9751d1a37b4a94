"""The scripts that make their own environment: what they say on a machine that cannot run afk, and what they call."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = ("check", "demo", "docs", "e2e-agents", "e2e-github", "faults", "format", "soak", "test", "wheel")


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def env_sh(function: str, **env: str) -> subprocess.CompletedProcess[str]:
    """One function of scripts/_env.sh in a shell of its own, started as if by scripts/test."""
    return subprocess.run(
        ["bash", "-euc", f". scripts/_env.sh; {function}", "scripts/test"],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("version", "fine"),
    [
        ("git version 2.37.9", False),
        ("git version 1.99", False),
        ("git version 2.38.0", True),
        ("git version 2.39.5 (Apple Git-154)", True),
        ("git version 3.0.0.rc1", True),
    ],
)
def test_an_old_git_is_named_with_what_is_needed(tmp_path: Path, version: str, fine: bool) -> None:
    program(tmp_path, "git", f'echo "{version}"')
    ran = env_sh("afk_need_git", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ran.returncode == (0 if fine else 1)
    assert ("needs 2.38 or newer" in ran.stderr) is not fine


def test_an_old_python_is_named_with_what_is_needed(tmp_path: Path) -> None:
    old = program(tmp_path, "python3", "exit 1")
    ran = env_sh("afk_make_venv", PYTHON=str(old))
    assert ran.returncode == 1
    assert f"no Python 3.11 or newer was found as PYTHON={old}" in ran.stderr


def test_a_python_without_venv_is_told_the_package_that_has_it(tmp_path: Path) -> None:
    bare = program(tmp_path, "python3", 'case "$2" in *venv*) exit 1 ;; esac')
    ran = env_sh("afk_make_venv", PYTHON=str(bare))
    assert ran.returncode == 1
    assert "apt-get install python3-venv" in ran.stderr


def test_an_environment_that_is_up_to_date_is_left_alone(tmp_path: Path) -> None:
    """Whatever else is wrong: without a reason nothing is installed, and no index is asked."""
    stamp = tmp_path / "stamp"
    stamp.write_text("as it is\n")
    assert env_sh(f"afk_is_fresh {stamp} 'as it is'").returncode == 0
    assert env_sh(f"afk_is_fresh {stamp} changed").returncode == 1
    assert env_sh(f"afk_is_fresh {tmp_path}/none 'as it is'").returncode == 1


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_can_be_run_and_read(name: str) -> None:
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0


def test_ci_runs_the_check_the_whole_suite_and_the_real_agents() -> None:
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.startswith("scripts/")]
    agents = "scripts/e2e-agents --optional opencode --optional gemini"
    assert lines == ["scripts/check", "scripts/test", agents]
    assert os.access(ROOT / ".ci/run", os.X_OK)
