"""What a remote, a person or an agent takes away from us costs that attempt alone, and loses nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import gitkit
from drainkit import Place, ended, section


def shell(place: Place, script: str, **changes: Any) -> None:
    """An agent that is one shell script."""
    place.configure(agents={"command": {"argv": ["/bin/sh", "-c", script]}}, **changes)


def test_a_claim_that_was_deleted_is_lost_once_and_not_taken_again_and_again(place: Place) -> None:
    """R71: losing is quiet, and the run goes on with the next issue."""
    shell(
        place,
        "git commit -q --allow-empty -m x; git push -q origin :refs/afk/claims/7; echo '<promise>DONE</promise>'",
    )
    place.file(7)

    ran = place.run()

    assert [entry["outcome"] for entry in ran.payload["attempts"]] == ["claim-lost"], ran.stderr
    assert place.envelopes(7) == []


def test_an_issue_whose_claim_is_lost_each_time_is_left_alone_for_longer_and_longer(place: Place) -> None:
    """R84: nobody's thread counts such ends, so this checkout does; a later run looks only when the time has come."""
    shell(
        place,
        "git commit -q --allow-empty -m x; git push -q origin :refs/afk/claims/7; echo '<promise>DONE</promise>'",
        recovery={"backoff_s": 3600, "backoff_max_s": 7200},
    )
    place.file(7)
    place.run()

    again = place.run()

    assert (again.code, again.payload["attempts"]) == (0, [])
    [waiting] = again.payload["waiting"]
    assert waiting["issue_number"] == 7
    assert len(place.history()) == 1


def test_a_branch_that_must_not_be_deleted_keeps_no_claim(place: Place) -> None:
    """The release goes alone when the deletion beside it is refused, and the next issue is worked."""
    refuse = 'case "$1 $3" in refs/heads/afk/*\\ 0000*) echo "no deletions" >&2; exit 1;; esac'
    gitkit.hook(place.origin, "update", refuse)
    place.file(7)
    place.file(8)

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: "done", 8: "done"}), ran.stderr
    assert place.claims() == {}
    assert len(place.live_branches()) == 2
    assert place.run().code == 0


def test_a_remote_that_deletes_nothing_stops_no_issue(place: Place) -> None:
    """What cannot be released runs out by its lease; the attempt has its end."""
    gitkit.git(place.origin, "config", "receive.denyDeletes", "true")
    place.file(7)
    place.file(8)

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: "done", 8: "done"}), ran.stderr
    assert place.run().code == 0


def test_an_unreadable_issue_of_a_dead_run_stops_no_other(place: Place, tmp_path: Path) -> None:
    """L45, S36: what is owed stays owed, and told by the exit code; the queue goes on."""
    place.file(7, body=f"agent: slow {tmp_path / 'ready'} {tmp_path / 'go'}\n")
    process = place.start("run", "--json")
    gitkit.wait_until((tmp_path / "ready").exists, "the agent's first commit")
    process.send_signal(signal.SIGKILL)
    ended(process)
    (tmp_path / "go").write_text("")
    (place.clone / ".red/issues/7/issue.md").write_bytes(b"\xff\x00")
    place.file(8)

    ran = place.run()

    assert ran.code == 1, ran.stderr
    assert ran.outcomes == {8: "done"}
    assert [entry["issue_number"] for entry in ran.payload["stranded"]] == [7]


def test_every_stray_commit_of_an_attempt_is_kept(place: Place, tmp_path: Path) -> None:
    """R60: the second one does not push the first out of its place."""
    shell(
        place,
        "git symbolic-ref -q HEAD >/dev/null && git commit -q --allow-empty -m on; git checkout -q --detach HEAD~1;"
        f" date +%N >stray; git add stray; git commit -q -m stray; git rev-parse HEAD >>{tmp_path}/strays;"
        " echo dirty >dirty; echo '<promise>DONE</promise>'",
    )
    place.file(7)

    place.run()

    strays = (tmp_path / "strays").read_text().split()
    for stray in strays:
        assert gitkit.git(place.clone, "for-each-ref", f"--contains={stray}"), stray


def test_a_live_branch_that_somebody_deleted_is_named_and_its_work_kept(place: Place, tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, body=f"agent: slow {ready} {go}\n")
    place.configure(validation={"checks": [{"name": "test", "run": "echo red; exit 1"}]})
    process = place.start("run", "--json")
    gitkit.wait_until(lambda: ready.exists() and _is_pushed(place, "first-7.txt"), "the first push")
    [branch] = place.live_branches()
    gitkit.git(place.origin, "update-ref", "-d", f"refs/heads/{branch}")
    go.write_text("")
    ran = ended(process)

    assert ran.outcomes == {7: "feedback-failed"}, ran.stderr
    [envelope] = place.envelopes(7)
    assert section(envelope, "diff").splitlines()[0] == f"`{branch}` (not pushed)"
    assert "deleted" in section(envelope, "outcome")
    assert (place.attempt(7) / "unpushed.bundle").exists()


def test_work_that_the_agent_pushed_to_the_base_itself_is_told_to_people(place: Place) -> None:
    """No check has seen it, and there is nothing left to land: that is for a person, and no fault of the machine."""
    shell(
        place,
        "git commit -q --allow-empty -m x; echo x >x; git add x; git commit -q -m x;"
        " git push -q origin HEAD:main; echo '<promise>DONE</promise>'",
    )
    place.file(7)

    assert place.run().outcomes == {7: "blocked"}

    assert "holds these commits already" in section(place.envelopes(7)[0], "outcome")


def test_a_branch_that_no_longer_continues_the_base_is_the_agents_doing(place: Place) -> None:
    shell(
        place,
        "b=$(git symbolic-ref --short HEAD); git checkout -q --orphan o; echo x >x; git add x;"
        ' git commit -q -m x; git branch -q -f "$b" o; git checkout -q "$b"; echo \'<promise>DONE</promise>\'',
    )
    place.file(7)

    assert place.run().outcomes == {7: "blocked"}

    assert "no longer continues" in section(place.envelopes(7)[0], "outcome")


def _is_pushed(place: Place, path: str) -> bool:
    return any(
        path in gitkit.git(place.origin, "ls-tree", "--name-only", tip) for tip in place.live_branches().values()
    )
