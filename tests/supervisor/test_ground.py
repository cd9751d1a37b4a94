"""Each check of the ground in the state in which it has something to say; `afk doctor` and `afk run` show the same."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import gitkit
import pytest
from drainkit import Place

from afk.attempt.session import Project
from afk.supervisor.ground import CHECKS, CheckStatus, DoctorCheck, ground_checks


@pytest.fixture
def ready(place: Place) -> Place:
    """Everything in order, one issue in the queue."""
    place.file(1)
    (place.clone / ".git/info/exclude").write_text("/.red/issues/\n")
    return place


def checks(place: Place) -> dict[str, DoctorCheck]:
    project = Project.open(place.clone, environ=os.environ | place.environ)
    found = ground_checks(project)
    assert [check.id for check in found] == [id for id, _, _ in CHECKS]
    return {check.id: check for check in found}


def failed(place: Place) -> dict[str, str]:
    """Summaries of the checks that failed; each has a cure."""
    found = {id: check for id, check in checks(place).items() if check.status is CheckStatus.FAIL}
    assert all(check.fix for check in found.values())
    return {id: check.summary for id, check in found.items()}


def test_everything_in_order_passes(ready: Place) -> None:
    found = {name: check.status for name, check in checks(ready).items()}
    assert found.pop("answers") is CheckStatus.SKIPPED  # afk doctor alone asks
    assert set(found.values()) == {CheckStatus.PASS}


def test_looking_changes_nothing(ready: Place) -> None:
    before = gitkit.contents(ready.clone), gitkit.contents(ready.origin)
    checks(ready)
    assert (gitkit.contents(ready.clone), gitkit.contents(ready.origin)) == before


def test_an_empty_queue_is_worth_a_warning_only(ready: Place) -> None:
    shutil.rmtree(ready.clone / ".red/issues/1")
    found = checks(ready)
    assert found["label"].status == "warn"
    assert "--label ready-for-agent" in found["label"].fix


def test_what_this_version_cannot_do_is_named(ready: Place) -> None:
    ready.configure(landing={"mode": "pr"})
    assert "afk.landing.mode" in failed(ready)["config"]


def test_a_remote_that_is_gone_fails_and_what_depends_on_it_is_skipped(ready: Place) -> None:
    shutil.move(ready.origin, ready.origin.with_name("away.git"))
    found = checks(ready)
    assert found["remote"].status == "fail"
    assert {found["base"].status, found["push"].status} == {"skipped"}


def test_an_empty_remote_is_told_to_push_first(ready: Place, tmp_path: Path) -> None:
    empty = gitkit.make_origin(tmp_path / "empty.git", {})
    gitkit.git(ready.clone, "remote", "set-url", "origin", gitkit.url(empty))
    assert checks(ready)["remote"].fix == "git push origin HEAD"


def test_a_base_that_is_not_on_the_remote_fails_with_the_way_to_make_it(ready: Place) -> None:
    ready.configure(base="agents")
    found = checks(ready)["base"]
    assert (found.status, found.fix) == ("fail", "git push origin HEAD:refs/heads/agents")
    gitkit.git(ready.clone, *found.fix.split()[1:])
    assert checks(ready)["base"].status == "pass"


def test_a_base_by_flag_stands_in_for_the_configured_one(ready: Place) -> None:
    ready.configure(base="agents")
    project = Project.open(ready.clone, environ=os.environ)
    [found] = [check for check in ground_checks(project, base="main") if check.id == "base"]
    assert (found.status, found.summary) == ("pass", "work starts from main and lands on it")


def test_a_remote_that_takes_nothing_is_found_before_anything_is_claimed(ready: Place, tmp_path: Path) -> None:
    """A dry run of a push asks for the right to write; reading alone would not show that it is missing."""
    with gitkit.daemon(tmp_path) as base:
        gitkit.git(ready.origin, "config", "daemon.receivepack", "false")
        gitkit.git(ready.clone, "remote", "set-url", "origin", f"{base}/{ready.origin.name}")
        assert set(failed(ready)) == {"push"}


def test_a_committer_without_a_name_fails(ready: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = tmp_path / "gitconfig"
    nameless.write_text("[user]\n\tuseConfigOnly = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(nameless))
    assert set(failed(ready)) == {"committer"}


def sign_with(place: Place, script: str, tmp_path: Path) -> None:
    program = tmp_path / "gpg"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    for key, value in {"commit.gpgSign": "true", "gpg.program": str(program), "user.signingKey": "K"}.items():
        gitkit.git(place.clone, "config", key, value)


def test_a_key_that_cannot_sign_unattended_fails(ready: Place, tmp_path: Path) -> None:
    """R18: found by signing for real, into a store of its own."""
    sign_with(ready, "echo 'gpg: signing failed: No pinentry' >&2; exit 2", tmp_path)
    assert "nobody at the keyboard" in failed(ready)["signing"]
    ready.configure(landing={"sign": "off"})
    assert checks(ready)["signing"].status == "pass"


def test_a_key_that_signs_passes_and_leaves_no_object(ready: Place, tmp_path: Path) -> None:
    """R18."""
    sign_with(ready, "cat >/dev/null; echo signature; printf '\\n[GNUPG:] SIG_CREATED \\n' >&2", tmp_path)
    before = gitkit.contents(ready.clone / ".git/objects")
    assert checks(ready)["signing"].summary == "commits are signed without a passphrase"
    assert gitkit.contents(ready.clone / ".git/objects") == before


def test_a_broken_issue_is_told_with_its_path(ready: Place) -> None:
    gitkit.write(ready.clone, {".red/issues/2/issue.md": "---\ntitle: [\n---\n"})
    found = checks(ready)["tracker"]
    assert found.status == "warn"
    assert ".red/issues/2/issue.md" in found.summary


def test_a_tracker_without_a_folder_fails(ready: Place) -> None:
    shutil.rmtree(ready.clone / ".red/issues")
    assert set(failed(ready)) == {"tracker"}


def test_issues_that_git_would_show_are_worth_a_warning_with_a_cure_that_works(ready: Place) -> None:
    (ready.clone / ".git/info/exclude").write_text("")
    found = checks(ready)["issues-ignored"]
    assert found.status == "warn"
    gitkit.git(ready.clone, "-c", f"alias.cure=!{found.fix}", "cure")
    assert checks(ready)["issues-ignored"].status == "pass"


def test_an_agent_that_is_not_installed_fails(ready: Place) -> None:
    ready.configure(agents={"command": {"argv": ["no-such-agent", "-p"]}})
    assert "no-such-agent" in failed(ready)["agent"]


def test_a_relative_program_is_looked_for_in_the_project(ready: Place) -> None:
    ready.configure(agents={"command": {"argv": ["scripts/agent"]}})
    assert set(failed(ready)) == {"agent"}
    gitkit.write(ready.clone, {"scripts/agent": "#!/bin/sh\n"})
    (ready.clone / "scripts/agent").chmod(0o755)
    assert checks(ready)["agent"].status == "pass"


def test_without_a_check_nothing_could_land(ready: Place) -> None:
    ready.configure(validation={"checks": []})
    assert set(failed(ready)) == {"checks"}
    ready.configure(validation={"checks": [], "allow_unvalidated": True})
    assert checks(ready)["checks"].status == "warn"


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("./guard.sh", "./guard.sh does not exist"),
        ("./README.md now", "./README.md is not executable (chmod +x ./README.md)"),
        ("no-such-tool --now", "no-such-tool is not a command here"),
        ("X=1 no-such-tool", "no-such-tool is not a command here"),
        ("true && no-such-tool", ""),
        ("[ -f README.md ]", ""),
        ("$HOME/x", ""),
        ("echo 'unbalanced", ""),
        ("test -f README.md # a comment", ""),
    ],
)
def test_hooks_that_cannot_run_are_found(ready: Place, command: str, fault: str) -> None:
    ready.configure(hooks={"pre_merge": command})
    found = checks(ready)["hooks"]
    assert (found.summary if fault else "") == fault


def test_no_agent_is_started_to_find_out_whether_it_is_there(ready: Place, tmp_path: Path) -> None:
    """R30: a program that hangs at every start holds up no check and no run that does not use it."""
    hangs, was_started = tmp_path / "hangs", tmp_path / "started"
    hangs.write_text(f"#!/bin/sh\ntouch {was_started}\nsleep 3600\n")
    hangs.chmod(0o755)
    ready.configure(agents={"command": {"argv": [str(hangs), "--version"]}})
    assert checks(ready)["agent"].status == "pass"
    assert not was_started.exists()
