"""What people get wrong: a clear error with a code and a cure, and nothing lost."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import gitkit
import pytest
from drainkit import AGENTS, Place, Ran, ended, reach, section, status_of

SMALL_DISK = str(Path(__file__).with_name("small_disk.py"))

# ── Configuration, remote, command line: refused before anything is touched ─────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("afk:\n  label: [oops\n", ":3: while parsing"),
        ("afk:\n  landing: {round: 2}\n", ":2: afk.landing.round"),
        ("afk:\n  landing:\n    rounds: many\n", ":3: afk.landing.rounds"),
        ("- a list\n", ":1: "),
    ],
    ids=["broken YAML", "unknown key", "wrong type", "no mapping"],
)
def test_a_configuration_that_cannot_be_used_is_named_with_line_and_key(place: Place, text: str, where: str) -> None:
    """S5, S6, S8."""
    place.file(7)
    place.write_config(text)

    ran = place.run()

    _refused(place, ran, "config_invalid", exit_code=4)
    assert f".red/config.yaml{where}" in ran.error["message"]


def test_a_missing_remote_is_refused_with_the_command_that_adds_it(place: Place) -> None:
    place.file(7)
    gitkit.git(place.clone, "remote", "rename", "origin", "upstream")

    ran = place.run()

    _refused(place, ran, "ground_unfit")
    assert "no remote named 'origin' (there: upstream)" in ran.error["message"]
    assert "git -C" in ran.error["hint"]
    assert "remote add origin" in ran.error["hint"]


def test_a_remote_that_is_not_there_is_refused(place: Place) -> None:
    place.file(7)
    place.origin.rename(place.origin.with_name("moved.git"))

    ran = place.run()

    assert ran.error["code"] == "ground_unfit"
    assert "origin.git" in ran.error["message"]
    assert "git ls-remote" in ran.error["hint"]
    assert place.labels(7) == {"ready-for-agent"}


def test_an_empty_remote_is_refused_with_the_push_that_fills_it(place: Place, tmp_path: Path) -> None:
    place.file(7)
    empty = gitkit.make_origin(tmp_path / "empty.git", {})
    gitkit.git(place.clone, "remote", "set-url", "origin", gitkit.url(empty))

    ran = place.run()

    _refused(place, ran, "ground_unfit")
    assert "has no branch yet" in ran.error["message"]
    assert ran.error["hint"] == "git push origin HEAD"


def test_a_missing_agent_is_refused_before_anything_is_claimed(place: Place) -> None:
    place.file(7)
    place.configure(agents={"command": {"argv": ["no-such-agent"]}})

    ran = place.run()

    _refused(place, ran, "ground_unfit")
    assert "no-such-agent" in ran.error["message"]
    assert "afk.agents.command.argv" in ran.error["hint"]


@pytest.mark.parametrize("issues", ["99", "7,99", "8"])
def test_issues_that_cannot_be_worked_are_named_and_none_is_started(place: Place, issues: str) -> None:
    place.file(7)
    place.file(8, labels=["bug"])

    ran = place.run("--issues", issues)

    _refused(place, ran, "queue_selection")
    assert f"#{issues[-2:].strip(',')}" in ran.error["message"]
    assert ran.error["hint"] == "afk queue list"


def test_a_second_run_in_one_checkout_names_the_first(place: Place, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, body=f"agent: slow {ready} {go}\n")
    first = place.start("run", "--json")
    reach(first, ready.exists, "the agent's commit")

    second = place.run()
    go.touch()

    assert (second.code, second.error["code"], second.stdout) == (4, "supervisor_running", "")
    assert f"(pid {first.pid}, since 20" in second.error["message"]
    assert second.error["hint"] == "afk status"
    assert ended(first).outcomes == {7: "done"}


def test_what_a_dead_run_left_in_lock_files_stops_nobody(place: Place) -> None:
    """R04: the kernel knows who holds a lock; what stands in the file is a name, stale or torn."""
    dead = {"pid": os.getpid(), "pid_start_time": "1", "boot_id": "another", "host": "here"}
    for name, text in {"supervisor.lock": json.dumps(dead), "supervisor.json": '{"pid": 1, "torn'}.items():
        gitkit.write(place.clone, {f".red/tmp/{name}": text})
    gitkit.write(place.clone, {".red/state/claims.json": "torn"})
    place.file(7)

    ran = place.run()

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert not (place.clone / ".red/tmp/supervisor.json").exists()


# ── Unusual, and it works ───────────────────────────────────────────────────────────────────────────────────────────


def test_unusual_issues_are_worked_like_any_other(place: Place) -> None:
    """R10, R11: no ASCII letter, a very long title, 200 kB of body, CRLF, a byte order mark, control characters."""
    long = "".join(f"line {n}: {'text ' * 10}\n" for n in range(3400))
    assert len(long) > 200_000
    place.file(1, "日本語 — пример", "agent: done\n")
    place.file(2, "Wörter " * 100, f"agent: done\n{long}")
    place.file(3, "CRLF", "agent: done\n")
    issue = place.clone / ".red/issues/3/issue.md"
    issue.write_bytes(b"\xef\xbb\xbf" + issue.read_bytes().replace(b"\n", b"\r\n"))
    place.file(4, "\x1b[31mred\u202e --help; $(touch pwned) `x` {{ branch }}", "agent: blocked '{{ title }} $(x)'\n")

    ran = place.run()

    assert ran.outcomes == {1: "done", 2: "done", 3: "done", 4: "blocked"}, ran.stderr
    assert all(place.issue(number)["state"] == "closed" for number in (1, 2, 3))
    assert b"\r\n" in issue.read_bytes()
    branches = [str(row["branch"]) for row in place.history()]
    assert branches[0].endswith("/1-issue")
    assert branches[1].endswith("/2-" + "worter-" * 5 + "worte")
    assert "{{ title }} $(x)" in section(place.envelopes(4)[0], "notes")
    assert not list(place.clone.rglob("pwned"))
    assert "\x1b" not in "".join(place.landed()) + place.envelopes(4)[0]


def test_a_default_branch_by_another_name_is_where_work_lands(tmp_path: Path) -> None:
    """R09."""
    origin = gitkit.make_origin(tmp_path / "origin.git", {"README.md": "A project.\n"}, branch="trunk/v2")
    with Place(origin, gitkit.clone(gitkit.url(origin), tmp_path / "clone")) as place:
        place.configure()
        place.file(7)

        ran = place.run()

        assert ran.outcomes == {7: "done"}, ran.stderr
        assert gitkit.git(origin, "show", "trunk/v2:work-7.txt") == "the work"


def test_a_broken_issue_file_is_reported_and_the_others_are_worked(place: Place) -> None:
    """S36, L45."""
    place.file(7)
    gitkit.write(place.clone, {".red/issues/5/issue.md": "---\ntitle: [broken\n---\nbody\n"})
    gitkit.write(place.clone, {".red/issues/6/issue.md": b"\xff\xfe no text\n"})
    (place.clone / ".red/issues/not-a-number").mkdir()
    before = (place.clone / ".red/issues/5/issue.md").read_bytes()

    ran = ended(place.start("run"))  # for a person, not `--json`

    assert "drained: 1 landed" in ran.stdout, ran.stderr
    assert (place.clone / ".red/issues/5/issue.md").read_bytes() == before
    for number in (5, 6):
        assert f".red/issues/{number}/issue.md" in (place.clone / ".red/tmp/supervisor.log.toonl").read_text()
        assert ran.stderr.count(f"left out: {place.clone}/.red/issues/{number}/issue.md: ") == 1


def test_a_prompt_with_an_unknown_variable_fails_the_attempt_and_not_the_run(place: Place) -> None:
    """S16."""
    gitkit.write(place.clone, {".red/prompt.md": "Work on {{ issue }}.\nUse {{ isue }}.\n"})
    place.file(7)
    place.file(8)

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: "blocked", 8: "blocked"}), ran.stderr
    assert ".red/prompt.md, line 2: `{{ isue }}` is no variable" in section(place.envelopes(7)[0], "outcome")
    assert not list(place.attempt(7).glob("runs/*-agent"))


def test_an_agent_that_vanished_is_infrastructure_and_no_verdict(place: Place, tmp_path: Path) -> None:
    """L33: whoever parked it is named, and the agent is not blamed."""
    program = tmp_path / "agent"
    program.symlink_to(sys.executable)
    place.configure(
        agents={"command": {"argv": [str(program), str(AGENTS / "done.py")]}}, setup=[f"rm {shlex.quote(str(program))}"]
    )
    place.file(7)

    ran = place.run()

    assert ran.outcomes == {7: "infra"}, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:infra"}
    assert "could not be run" in section(place.envelopes(7)[0], "outcome")


# ── An issue that changes while it is worked ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["closed", "label taken away", "deleted"])
def test_an_issue_that_people_take_back_is_stopped_and_left_as_they_made_it(
    place: Place, tmp_path: Path, what: str
) -> None:
    """R69, S47: the agent is stopped, the work is on the remote, no state or label of theirs is touched."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, body=f"agent: slow {ready} {go}\n", labels=["ready-for-agent", "area:api"])
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    if what == "closed":
        place.edit(7, state="closed", closed_reason="not planned")
    elif what == "label taken away":
        place.edit(7, labels=["area:api"])
    else:
        (place.clone / ".red/issues/7").rename(tmp_path / "deleted")

    ran = ended(process)

    assert (ran.code, ran.outcomes) == (0, {7: "blocked"}), ran.stderr
    assert place.claims() == {}
    [branch] = place.live_branches()
    assert gitkit.git(place.origin, "show", f"{branch}:first-7.txt") == "the work"
    assert place.landed() == []
    totals = ran.payload["totals"]
    assert (totals["done"], totals["failed"], totals["blocked"]) == (0, 0, 0)
    [row] = place.history()
    assert row["outcome"] == "blocked"
    if what == "deleted":
        assert not (place.clone / ".red/issues/7").exists()
        return
    assert place.issue(7)["state"] == ("closed" if what == "closed" else "open")
    assert place.issue(7).get("closed_reason") == ("not planned" if what == "closed" else None)
    assert place.labels(7) == {"area:api"}
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "blocked"
    assert ("closed" if what == "closed" else "running") in section(envelope, "outcome")


def test_what_people_edit_while_it_is_worked_stays(place: Place, tmp_path: Path) -> None:
    """R70, S46: the agent works on what was there when it began; title, body, labels and comments of people survive."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n", labels=["ready-for-agent"])
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    issue = place.clone / ".red/issues/7/issue.md"
    issue.write_text(issue.read_text().replace("Say hello", "Say good bye") + "Later text.\n")
    place.edit(7, labels=["running", "area:api"], assignee="somebody")
    place.say(7, "One more thing.")
    go.touch()

    ran = ended(process)

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert place.landed() == ["merge: #7 Say hello"]
    assert (place.issue(7)["title"], place.issue(7)["assignee"]) == ("Say good bye", "somebody")
    assert place.labels(7) == {"area:api"}
    assert "Later text." in issue.read_text()
    assert place.comments(7)[0] == "One more thing."
    assert "Later text." not in (place.attempt(7) / "handoff.md").read_text()


def test_an_end_that_cannot_be_told_is_stranded_and_told_by_the_next_run(place: Place, tmp_path: Path) -> None:
    """L17, L45, R86: the issue's file is broken when its attempt has landed; the others go on, the exit code tells."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    place.file(8)
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    issue = place.clone / ".red/issues/7/issue.md"
    good = issue.read_text()
    issue.write_text(f"--\n{good}")
    go.touch()

    ran = ended(process)

    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (1, "drained", {8: "done"}), ran.stderr
    [stranded] = ran.payload["stranded"]
    assert (stranded["issue_number"], stranded["branch"]) == (7, *place.live_branches())
    assert place.landed() == ["merge: #8 Do it", "merge: #7 Say hello"]
    issue.write_text(good)
    assert place.run().outcomes == {7: "done"}
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]
    assert place.landed() == ["merge: #8 Do it", "merge: #7 Say hello"]


def test_a_remote_that_refuses_live_branches_is_told_in_its_own_words_and_not_waited_for(place: Place) -> None:
    told = "echo only release branches here; exit 1"
    gitkit.hook(
        place.origin, "pre-receive", f"while read old new ref; do case $ref in *heads/afk/*) {told}; esac; done"
    )
    place.configure(recovery={"backoff_s": 0, "backoff_max_s": 3600})
    place.file(7)

    ran = place.run()

    assert ran.outcomes == {7: "infra"}, ran.stderr
    assert "the remote refuses afk/" in place.envelopes(7)[0]
    assert "only release branches here" in place.envelopes(7)[0]
    assert place.claims() == {}


def test_an_index_that_git_cannot_read_costs_no_attempt(place: Place) -> None:
    place.file(7)
    (place.clone / ".git/index").write_bytes(b"garbage")

    ran = place.run()

    _refused(place, ran, "git_failed")
    [index] = [check for check in place.afk("doctor").payload["checks"] if check["id"] == "index"]
    assert (index["status"], index["fix"]) == (
        "fail",
        'mv "$(git rev-parse --git-path index)" index.broken && git reset',
    )


@pytest.mark.parametrize("name", ["supervisor.json", "supervisor.state.json"])
def test_a_record_nested_deeper_than_anybody_can_follow_is_a_broken_one(place: Place, name: str) -> None:
    place.file(7)
    gitkit.write(place.clone, {f".red/tmp/{name}": "[" * 100_000})
    assert place.afk("status").code == 0
    assert place.run().outcomes == {7: "done"}


def test_a_signing_key_that_asks_is_found_before_anything_is_claimed(place: Place) -> None:
    """R18."""
    place.file(7)
    gitkit.git(place.clone, "config", "commit.gpgSign", "true")
    gitkit.git(place.clone, "config", "gpg.program", "false")

    ran = place.run()

    _refused(place, ran, "ground_unfit")
    assert "commits cannot be signed" in ran.error["message"]
    assert "afk.landing.sign: off" in ran.error["hint"]


# ── A full disk ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """R20: see small_disk.py, which runs with everything on a file system that is gone with its namespace."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = 'mount -t tmpfs -o size=700m afk "$0" && exec "$@"'
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={disk}/t", SMALL_DISK]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", mount, str(disk), *tests],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _refused(place: Place, ran: Ran, code: str, *, exit_code: int = 4) -> None:
    """One error event, no result, and neither an issue nor the remote was touched."""
    assert (ran.code, ran.error["code"], ran.stdout) == (exit_code, code, ""), ran.stderr
    assert place.labels(7) == {"ready-for-agent"}
    assert (place.attempts(), place.claims(), place.live_branches()) == ([], {}, {})
