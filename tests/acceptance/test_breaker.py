"""The circuit breaker: what a run does when its agents die as fast as they are started, or never begin."""

from __future__ import annotations

from collections.abc import Iterator

import gitkit
import pytest
from drainkit import Place, ended, section, status_of

CIRCUIT = {"fast_death_s": 30, "count": 3, "window_s": 90, "cooldown_s": 900}


@pytest.fixture
def watching(place: Place) -> Iterator[Place]:
    yield place
    place.afk("stop", "--now", "--wait")


def test_a_slot_whose_agents_die_at_once_is_parked_and_the_last_one_told_as_discarded(place: Place) -> None:
    place.configure(circuit=CIRCUIT, recovery={"tries": {"crashed": 1}})
    for number in range(1, 6):
        place.file(number, f"Job {number}", "agent: dies_at_once\n")

    ran = place.run()

    assert (ran.code, ran.payload["stopped_by"]) == (75, "exhausted"), ran.stderr
    assert [status_of(body) for number in range(1, 6) for body in place.envelopes(number)] == [
        *("no-sentinel", "no-sentinel", "discarded")
    ]
    assert section(place.envelopes(3)[0], "notes").splitlines()[:2] == ["slot: 1", "fast deaths: 3"]
    assert place.labels(3) == {"ready-for-agent", "runner-error"}
    assert place.labels(1) == {"ready-for-human", "blocked:runner"}
    assert place.labels(4) == {"ready-for-agent"}
    assert place.claims() == {}
    assert [row["status"] for row in place.history()] == ["no-sentinel", "no-sentinel", "discarded"]


def test_a_parked_slot_is_seen_in_the_status_and_comes_back_when_a_person_says_so(watching: Place) -> None:
    place, mended = watching, watching.origin.parent / "mended"
    place.configure(circuit=CIRCUIT | {"count": 1})
    place.file(7, body=f"agent: dies_at_once {mended}\n")
    process = place.start("run", "--watch", "--json")

    def slots() -> list[str]:
        activity = place.afk("status").payload["activity"]
        return [slot["state"] for slot in activity["slots"]] if activity else []

    gitkit.wait_until(lambda: slots() == ["parked"], "a parked slot")
    assert place.afk("status").payload["activity"]["waits_for"][0]["code"] == "parked"
    assert place.labels(7) == {"ready-for-agent", "runner-error"}

    mended.touch()
    told = place.afk("resume").payload
    assert (told["changed"], told["before"]["parked_slots"], told["after"]["parked_slots"]) == (True, [1], [])
    gitkit.wait_until(lambda: place.issue(7)["state"] == "closed", "the issue's end")
    assert place.labels(7) == set()
    place.afk("stop", "--wait")
    assert ended(process).code == 0


def test_a_parked_slot_comes_back_after_the_cool_down(watching: Place) -> None:
    place, mended = watching, watching.origin.parent / "mended"
    place.configure(circuit=CIRCUIT | {"count": 1, "cooldown_s": 1})
    place.file(7, body=f"agent: dies_at_once {mended}\n")
    place.start("run", "--watch", "--json")
    gitkit.wait_until(lambda: place.envelopes(7), "the first death")
    mended.touch()
    gitkit.wait_until(lambda: place.issue(7)["state"] == "closed", "the issue's end")


def test_three_attempts_that_end_alike_before_their_agent_stop_all_picking(place: Place) -> None:
    """L13: a machine that cannot prepare a worktree does not go through the whole queue to find out."""
    place.configure(setup=["echo no compiler here; exit 4"])
    for number in range(1, 6):
        place.file(number, f"Job {number}")

    ran = place.run()

    assert (ran.code, ran.payload["stopped_by"]) == (75, "exhausted"), ran.stderr
    assert ran.outcomes == dict.fromkeys((1, 2, 3), "infra")
    assert [place.labels(number) for number in (4, 5)] == [{"ready-for-agent"}] * 2
