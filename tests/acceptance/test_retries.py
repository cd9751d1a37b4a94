"""What failed comes again: from where it stopped, not before its time, as often as allowed, and anew after guidance."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import gitkit
from drainkit import Place, section, status_of

DIRECTIVE = '<details data-kind="directive"><summary>directive</summary>\nUse the second API.\n</details>\n'


def test_a_second_try_goes_on_from_the_branch_that_was_left_and_is_the_last(place: Place) -> None:
    """R06, R52, S51, S52: from the remote's tip of it, whoever moved it, with the base merged in."""
    place.file(7, "Say hello", "agent: no_sentinel --commit\n")
    first = place.run("--once")
    [left] = place.live_branches()
    base = place.push("meanwhile", {"theirs.txt": "theirs\n"})
    other = place.origin.parent / "other"
    gitkit.git(other, "fetch", "-q", "origin", left)
    gitkit.git(other, "switch", "-q", "-c", "help", "FETCH_HEAD")
    helped = gitkit.commit(other, "a person helps", {"help.txt": "help\n"})
    gitkit.git(other, "push", "-q", "origin", f"HEAD:{left}")

    second = place.run()

    assert (first.outcomes, second.outcomes) == ({7: "no-sentinel"}, {7: "no-sentinel"}), second.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:runner"}
    assert "2 of 2 tries ended so" in section(place.envelopes(7)[1], "outcome")
    branches = place.live_branches()
    assert branches.pop(left) == helped
    [tip] = branches.values()
    for sha in (base, helped):
        gitkit.git(place.origin, "merge-base", "--is-ancestor", sha, tip)
    handoff = (place.attempt(7, 2) / "handoff.md").read_text()
    assert '<previous-attempt n="1" status="no-sentinel"' in handoff
    assert f"Your branch starts from the work it left ({left}), with the base merged in." in handoff


def test_an_agent_that_ended_without_its_last_word_is_not_asked_whether_it_goes_on(place: Place) -> None:
    """S50: one run, one end; whether there is another attempt is for recovery to say."""
    place.file(7, body="agent: no_sentinel\n")
    assert place.run("--once").outcomes == {7: "no-sentinel"}
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1


def test_a_backoff_is_waited_for_and_a_directive_ends_it(place: Place) -> None:
    """S53, S54, R84: the time stands in the thread, so that it survives the run; guidance starts afresh at the base.

    The clock of the person who gives it runs years ahead: what fails after it counts all the same.
    """
    place.configure(recovery={"backoff_s": 3600, "backoff_max_s": 7200})
    place.file(7, "Say hello", "agent: no_sentinel --commit\n")

    first, second = place.run(), place.run()

    now = datetime.now(UTC)
    assert (first.code, first.outcomes, second.code, second.outcomes) == (0, {7: "no-sentinel"}, 0, {}), second.stderr
    for ran in (first, second):
        [waiting] = ran.payload["waiting"]
        assert (waiting["issue_number"], waiting["code"]) == (7, "backoff")
        until = datetime.fromisoformat(waiting["until_rfc3339"])
        assert timedelta(seconds=1700) < until - now < timedelta(seconds=3600)
    assert place.labels(7) == {"ready-for-agent"}
    assert " · not before " in section(place.envelopes(7)[0], "outcome")

    place.say(7, DIRECTIVE)
    third = place.run()

    assert third.outcomes == {7: "no-sentinel"}, third.stderr
    assert place.labels(7) == {"ready-for-agent"}  # the first of two tries again, after guidance
    handoff = (place.attempt(7, 2) / "handoff.md").read_text()
    assert "Use the second API." in handoff
    assert "Your branch starts afresh from the base." in handoff


def test_tries_that_ended_otherwise_do_not_add_up(place: Place, tmp_path: Path) -> None:
    """R84: only consecutive failures of one kind park; a failure of another kind begins a new count."""
    place.configure(recovery={"tries": {"crashed": 2, "runner-transient": 2}})
    place.file(7, body="agent: no_sentinel\n")
    place.run("--once")
    issue = place.clone / ".red/issues/7/issue.md"
    issue.write_text(issue.read_text().replace("no_sentinel", "fails_with agent_unavailable"))
    place.run("--once")
    issue.write_text(issue.read_text().replace("fails_with agent_unavailable", "no_sentinel"))
    place.run("--once")

    assert place.labels(7) == {"ready-for-agent"}
    assert place.run("--once").outcomes == {7: "no-sentinel"}
    assert place.labels(7) == {"ready-for-human", "blocked:runner"}
    assert [status_of(told) for told in place.envelopes(7)] == ["no-sentinel", "blocked", "no-sentinel", "no-sentinel"]


def test_the_cap_of_an_issue_parks_it_whatever_it_failed_of(place: Place) -> None:
    """R84."""
    place.configure(recovery={"per_issue": 2, "tries": {"crashed": 9}})
    place.file(7, body="agent: no_sentinel\n")

    ran = place.run()

    assert [item["outcome"] for item in ran.payload["attempts"]] == ["no-sentinel", "no-sentinel"]
    assert place.labels(7) == {"ready-for-human", "blocked:runner"}
    assert "2 of 2 attempts at this issue are used" in section(place.envelopes(7)[1], "outcome")


def test_a_quota_with_a_told_reset_ends_the_drain_uncharged(place: Place) -> None:
    """R54: exit 75, the issue waits in the queue for that time, and other issues are left for later."""
    resets = (datetime.now(UTC) + timedelta(hours=3)).replace(microsecond=0)
    place.configure(recovery={"tries": {"quota": 1}, "per_issue": 1})
    place.file(7, body=f"agent: fails_with agent_quota_exhausted {resets.isoformat()} --work\n")
    place.file(8)

    ran = place.run()

    assert (ran.code, ran.payload["stopped_by"], ran.outcomes) == (75, "exhausted", {7: "exhausted"}), ran.stderr
    assert (place.labels(7), place.labels(8)) == ({"ready-for-agent"}, {"ready-for-agent"})
    [told] = place.envelopes(7)
    assert "(no try charged) · not before " in section(told, "outcome")
    [waiting] = place.run("--issues", "7").payload["waiting"]
    assert datetime.fromisoformat(waiting["until_rfc3339"]) >= resets
    assert len(place.live_branches()) == 1


def test_a_quota_without_a_told_reset_is_a_try(place: Place) -> None:
    """R54: parked when its tries are used, and the drain still ends with 75."""
    place.configure(recovery={"tries": {"quota": 1}})
    place.file(7, body="agent: fails_with agent_quota_exhausted\n")

    ran = place.run()

    assert (ran.code, ran.outcomes) == (75, {7: "exhausted"}), ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:quota"}


def test_a_run_starts_nothing_that_might_exceed_what_it_may_cost(place: Place) -> None:
    """L56: what an attempt costs is known from those before it; the last dollars are not begun on."""
    place.configure(bounds={"run_cost_usd": 2.5})
    for number in range(1, 5):
        place.file(number, f"Job {number}", "agent: costs 1\n")

    ran = place.run()

    assert (ran.code, ran.payload["stopped_by"]) == (0, "budget"), ran.stderr
    assert ran.outcomes == {1: "done", 2: "done"}
    assert [place.labels(number) for number in (3, 4)] == [{"ready-for-agent"}] * 2


def test_a_run_that_cannot_afford_one_attempt_begins_none(place: Place) -> None:
    place.configure(bounds={"run_cost_usd": 2, "cost_usd": 3})
    place.file(1, body="agent: costs 1\n")
    ran = place.run()
    assert (ran.code, ran.payload["stopped_by"], ran.payload["attempts"]) == (0, "budget", [])
