"""What agents and checks inherit: a list of names, and some that nothing can add."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from afk.agents.environment import agent_environment, check_environment, is_denied, secret_values

HERE = Path("/work/of/ann")
PERSON = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/ann",
    "LC_ALL": "C.UTF-8",
    "https_proxy": "http://proxy:3128",
    "GIT_AUTHOR_NAME": "Ann",
    "GH_TOKEN": "ghp_tracker",
    "GITHUB_TOKEN": "ghs_actions",
    "RED_AFK_RUNNER": "claude",
    "AFK_WORKERS": "3",
    "GIT_ASKPASS": "/usr/lib/ask",
    "GIT_DIR": "/elsewhere/.git",
    "GIT_CONFIG_PARAMETERS": "'http.extraheader=Authorization: x'",
    "SSH_AUTH_SOCK": "/run/agent",
    "OPENAI_API_KEY": "sk-other-agent",
    "CLAUDECODE": "1",
    "SOMETHING_NEW": "x",
}


def test_only_listed_names_reach_the_agent() -> None:
    """R75, S72, L52"""
    names = set(agent_environment(PERSON, HERE))
    assert {"PATH", "HOME", "LC_ALL", "https_proxy", "GIT_AUTHOR_NAME"} <= names
    assert names.isdisjoint(
        {"GH_TOKEN", "GITHUB_TOKEN", "RED_AFK_RUNNER", "AFK_WORKERS", "GIT_ASKPASS", "GIT_DIR", "SSH_AUTH_SOCK"}
    )
    assert names.isdisjoint({"OPENAI_API_KEY", "CLAUDECODE", "SOMETHING_NEW", "GIT_CONFIG_PARAMETERS"})


def test_a_name_may_be_allowed_and_a_value_given() -> None:
    made = agent_environment(
        PERSON, HERE, allow=["OPENAI_API_KEY"], extra={"CARGO_TARGET_DIR": "/tmp/w1", "HOME": "/h"}
    )
    assert made["OPENAI_API_KEY"] == "sk-other-agent"
    assert made["CARGO_TARGET_DIR"] == "/tmp/w1"
    assert made["HOME"] == "/h"


@pytest.mark.parametrize(
    "name",
    [
        "GH_TOKEN",
        "gh_token",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_APP_PRIVATE_KEY",
        "RED_AFK_ISSUE",
        "AFK_LABEL",
        "GIT_ASKPASS",
        "GIT_SSH_COMMAND",
        "GIT_INDEX_FILE",
        "SSH_AUTH_SOCK",
        "SSH_ASKPASS",
    ],
)
def test_a_denied_name_is_denied_even_when_allowed_or_given(name: str) -> None:
    """R75, L52: neither configuration nor a hook can hand the tracker's token to an agent."""
    assert is_denied(name)
    assert name not in agent_environment({name: "x"}, HERE, allow=[name], extra={name: "x"})
    assert name not in check_environment({name: "x"}, HERE)


def test_who_commits_and_where_settings_lie_is_no_credential() -> None:
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_DATE", "GIT_CONFIG_GLOBAL"):
        assert not is_denied(name)


def test_the_agents_git_asks_nobody_and_finds_no_stored_credential(tmp_path: Path) -> None:
    """L52: a helper that the person configured is not asked on the agent's behalf."""
    helper = '"!f() { echo username=ann; echo password=stolen; }; f"'
    (tmp_path / ".gitconfig").write_text(f'[credential "https://example.test"]\n\thelper = {helper}\n')
    person = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path)}
    request = b"protocol=https\nhost=example.test\n\n"

    def asked(environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "credential", "fill"],
            input=request,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )

    assert b"stolen" in asked(person).stdout
    refused = asked(agent_environment(person, HERE))
    assert refused.returncode != 0
    assert b"stolen" not in refused.stdout


def test_git_works_in_the_worktree_whoever_owns_it(clone: Path) -> None:
    """R19: in a container the checkout is often another user's."""
    another_owner = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}

    def status(worktree: Path) -> int:
        environment = agent_environment(os.environ, worktree) | another_owner
        return subprocess.run(
            ["git", "status"], cwd=clone, env=environment, capture_output=True, check=False
        ).returncode

    assert status(clone) == 0
    assert status(clone / "elsewhere") != 0


def test_who_commits_is_told_though_an_agent_hides_the_persons_configuration(clone: Path) -> None:
    """gemini gives its tools an empty global configuration, and leaves what the environment says of git."""
    environment = agent_environment(os.environ, clone, committer=("An Agent", "agent@example.invalid"))
    hidden = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    asked = ["git", "var", "GIT_COMMITTER_IDENT"]
    who = subprocess.run(asked, cwd=clone, env=environment | hidden, capture_output=True, text=True, check=True).stdout
    assert who.startswith("An Agent <agent@example.invalid>")


def test_checks_do_not_get_the_agents_key() -> None:
    """L35"""
    assert "OPENAI_API_KEY" not in check_environment(PERSON, HERE)
    assert check_environment(PERSON, HERE) == agent_environment(PERSON, HERE)


def test_secret_values_come_longest_first_and_leave_ordinary_words_alone() -> None:
    """R74: a longer secret that holds a shorter one must be masked before it."""
    environ = {
        "GH_TOKEN": "abcdef",
        "NPM_TOKEN": "abcdefghi",
        "AWS_SECRET_ACCESS_KEY": "aws-secret",
        "MY_API_KEY": "my-key-value",
        "DB_PASSWORD": "true",
        "PATH": "/usr/bin:/bin",
        "RED_AFK_RUNNER": "claude-code",
        "XDG_DATA_HOME": "/home/ann/.local",
        "KEYBOARD": "keyboard",
    }
    assert secret_values(environ) == ["my-key-value", "aws-secret", "abcdefghi", "abcdef"]
