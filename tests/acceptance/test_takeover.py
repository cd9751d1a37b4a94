"""Claims between hosts: a live one is respected, a dead one is taken over, and what its owner owed is paid once."""

from __future__ import annotations

import shlex
import signal

import gitkit
import pytest
from drainkit import Place, ended, reach, section, status_of

BRANCH = "afk/wDEAD/7-say-hello"
TOLD = (
    '<details data-attempt-status="done"><summary>worker `wDEAD` · status: done · duration: 0m9s'
    " · diff: merged · attempt: 1</summary>\n\n"
    '<details data-section="validation"><summary>validation</summary>\n\n- passed test 0.1s\n\n</details>\n\n'
    "</details>\n"
)


def test_a_claim_is_renewed_as_long_as_setup_checks_and_hooks_take(place: Place) -> None:
    """R68: whoever works keeps the issue, whether or not an agent runs: each command waits for two new claims."""
    look = f"git ls-remote {shlex.quote(gitkit.url(place.origin))} refs/afk/claims/7"
    change = f'old=$({look}); until [ "$old" != "$({look})" ]; do n=$((n + 1)); test $n -lt 99; sleep 0.1; done'
    wait = f"set -e; n=0; {change}; {change}"
    place.configure(
        claim={"lease_s": 3, "renew_s": 0.5},
        setup=[wait],
        validation={"checks": [{"name": "slow", "run": wait, "timeout_s": 20}]},
        hooks={"pre_merge": {"run": wait, "timeout_s": 20}},
    )
    place.file(7)

    ran = place.run()

    assert ran.outcomes == {7: "done"}, place.envelopes(7)


def test_a_fresh_claim_of_another_host_is_respected(place: Place) -> None:
    """R71, L11: the other issues are worked, this one is waited for, and worked when its claim is gone."""
    for number in (7, 8, 9):
        place.file(number)
    claim = place.forge_claim(7)

    process = place.start("run", "--json")
    reach(process, lambda: place.issue(9)["state"] == "closed", "the free issues")
    assert (place.claims().get("refs/afk/claims/7"), place.labels(7)) == (claim, {"ready-for-agent"})
    gitkit.git(place.origin, "update-ref", "-d", "refs/afk/claims/7")
    ran = ended(process)

    assert [item["issue_number"] for item in ran.payload["attempts"]] == [8, 9, 7], ran.stderr
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


def test_a_run_that_only_waits_for_another_says_for_whom(place: Place) -> None:
    place.file(7)
    place.forge_claim(7)
    process = place.start("run")
    assert process.stderr is not None
    told = next(line for line in process.stderr if "waiting for" in line)
    gitkit.git(place.origin, "update-ref", "-d", "refs/afk/claims/7")
    ended(process)
    assert told == "afk: waiting for #7: wDEAD on elsewhere works on it, or its lease runs out\n"


@pytest.mark.parametrize("label", ["running", "ready-for-agent"])
def test_a_claim_that_outlived_its_lease_is_taken_over(place: Place, label: str) -> None:
    """R68, L12: whatever the labels say, and whoever made it; the dead attempt's number is not given again."""
    place.file(7, labels=[label])
    place.forge_claim(7, lease_s=1, attempt="wDEAD-7-a3")

    ran = place.run()

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert ran.payload["attempts"][0]["attempt_id"].endswith("-7-a4")
    assert place.issue(7)["state"] == "closed"
    assert (place.claims(), place.labels(7)) == ({}, set())
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


@pytest.mark.parametrize("told", [False, True], ids=["owed", "posted"])
def test_what_a_dead_host_landed_is_closed_and_told_once(place: Place, told: bool) -> None:
    """R68, R73: the trailer on the base is the proof; the attempt ends under its own id, its branch goes."""
    place.file(7, "Say hello", labels=["running"])
    merge = _landed_elsewhere(place)
    place.forge_claim(7, lease_s=1)
    if told:
        place.say(7, TOLD)

    ran = place.run()

    assert (ran.code, ran.payload["attempts"]) == (0, []), ran.stderr
    assert (place.issue(7)["state"], place.issue(7)["closed_reason"]) == ("closed", "completed")
    assert (place.labels(7), place.claims(), place.live_branches()) == (set(), {}, {})
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "done"
    assert "worker `wDEAD`" in envelope
    if not told:
        assert envelope.splitlines()[0].endswith(f"attempt: 1 · merge: {merge}</summary>")
        assert section(envelope, "validation") == "recorded on host elsewhere"


def test_a_takeover_that_breaks_off_still_knows_what_had_landed(place: Place) -> None:
    """R68: whoever takes the issue over next finishes that attempt; nothing lands twice."""
    place.configure(claim={"lease_s": 3, "renew_s": 1})
    place.file(7, "Say hello", labels=["running"])
    _landed_elsewhere(place)
    place.forge_claim(7, lease_s=1)
    file = place.clone / ".red/issues/7/issue.md"
    text = file.read_bytes()
    file.write_bytes(b"\xff\x00")
    gitkit.wait_until(lambda: place.run().code in (0, 1) and _custody(place), "the takeover that breaks off")

    file.write_bytes(text)
    ran = place.run()

    assert ran.code == 0, ran.stderr
    assert place.landed().count("merge: #7 Say hello") == 1
    assert place.issue(7)["state"] == "closed"
    [envelope] = place.envelopes(7)
    assert "worker `wDEAD`" in envelope
    assert place.claims() == {}


def _custody(place: Place) -> bool:
    """Whether the claim on issue 7 is no longer the dead host's own, whatever name it bears."""
    [sha] = place.claims().values()
    return f'"nonce":"{7:032x}"' not in gitkit.git(place.origin, "log", "-1", "--format=%B", sha)


def test_a_live_branch_that_holds_more_than_what_landed_is_kept(place: Place) -> None:
    """R60: somebody pushed to it after the landing."""
    place.file(7, "Say hello", labels=["running"])
    _landed_elsewhere(place)
    other = place.origin.parent / "other"
    gitkit.git(other, "switch", "-q", BRANCH)
    more = gitkit.commit(other, "more", {"more.txt": "more\n"})
    gitkit.git(other, "push", "-q", "origin", BRANCH)
    place.forge_claim(7, lease_s=1)

    ran = place.run()

    assert ran.code == 0, ran.stderr
    assert place.issue(7)["state"] == "closed"
    assert place.live_branches() == {BRANCH: more}


def test_what_landed_and_was_never_told_is_told_and_not_landed_again(place: Place) -> None:
    """R73: its claim is gone too; whoever wins the issue looks at the base before anything else."""
    place.file(7, "Say hello")
    merge = _landed_elsewhere(place)

    ran = place.run()

    assert (ran.code, ran.payload["attempts"]) == (0, []), ran.stderr
    assert place.landed() == ["merge: #7 Say hello"]
    assert (place.issue(7)["state"], place.labels(7)) == ("closed", set())
    assert (place.claims(), place.live_branches(), place.attempts()) == ({}, {}, [])
    [envelope] = place.envelopes(7)
    assert envelope.splitlines()[0].endswith(f"attempt: 1 · merge: {merge}</summary>")


def test_a_trailer_of_an_earlier_life_does_not_close_a_reopened_issue(place: Place) -> None:
    """R73: it landed, was told and closed, and people opened it again: it is worked anew."""
    place.file(7, "Say hello")
    _landed_elsewhere(place)
    place.say(7, TOLD)

    ran = place.run()

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert ran.payload["attempts"][0]["attempt_id"].endswith("-7-a2")
    assert len(place.landed()) == 2


def test_claims_that_cannot_be_read_stop_nobody(place: Place) -> None:
    """L45: a ref that is no claim blocks its own issue and no other; after our own lease it is taken over."""
    place.configure(claim={"lease_s": 3, "renew_s": 1})
    place.file(7)
    place.file(8)
    gitkit.git(place.origin, "update-ref", "refs/afk/claims/7", gitkit.sha(place.origin, "main"))
    gitkit.git(place.origin, "update-ref", "refs/afk/claims/not-a-number", gitkit.sha(place.origin, "main"))

    ran = place.run()

    assert [item["issue_number"] for item in ran.payload["attempts"]] == [8, 7], ran.stderr
    assert [item["outcome"] for item in ran.payload["attempts"]] == ["done", "done"]


def test_an_owner_whose_claim_was_taken_over_writes_nothing_more(place: Place) -> None:
    """R71: the loser stops its agent, keeps branch and worktree, and leaves thread and labels to the winner."""
    ready, go = place.origin.parent / "ready", place.origin.parent / "go"
    place.configure(claim={"lease_s": 3, "renew_s": 0.5})
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    reach(process, place.live_branches, "the live branch")
    place.forge_claim(7)
    labels = place.labels(7)

    reach(process, lambda: "claim.lost" in _worker_log(place), "the loss")
    process.send_signal(signal.SIGINT)  # it would wait for the other host's claim
    ran = ended(process)

    assert (ran.code, ran.outcomes) == (0, {7: "claim-lost"}), ran.stderr
    assert (place.envelopes(7), place.labels(7), place.landed()) == ([], labels, [])
    assert len(place.worktrees()) == 1
    assert [row["outcome"] for row in place.history()] == ["claim-lost"]
    assert place.state(7)["current"] is None


def _landed_elsewhere(place: Place) -> str:
    """The merge of attempt `wDEAD-7-a1` on the trunk, its live branch still there; returns the merge's sha."""
    other = gitkit.clone(gitkit.url(place.origin), place.origin.parent / "other")
    gitkit.git(other, "switch", "-q", "-c", BRANCH)
    gitkit.commit(other, "the work", {"work-of-the-dead.txt": "x\n"})
    gitkit.git(other, "switch", "-q", "main")
    message = "merge: #7 Say hello\n\nAfk-Worker: wDEAD\nAfk-Attempt: wDEAD-7-a1\nRefs: #7\n"
    gitkit.git(other, "merge", "-q", "--no-ff", "-m", message, BRANCH)
    gitkit.git(other, "push", "-q", "origin", "main", BRANCH)
    return gitkit.sha(other)


def _worker_log(place: Place) -> str:
    return "".join(path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"))
