"""A queue on GitHub, drained by the real `afk run` over HTTP: git and API, on a server that demands a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostedkit import Hosted, hosted


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Hosted]:
    with hosted(tmp_path) as made:
        yield made


def test_issues_are_landed_closed_and_parked(place: Hosted) -> None:
    place.github.log.clear()
    first, second = place.put("agent: done\n", "Say hello"), place.put("agent: blocked\n")
    place.github.log.clear()

    ran = place.run()

    assert ran.outcomes == {first: "done", second: "blocked"}, ran.stderr
    assert place.books(first, second) == {
        first: ("closed", frozenset(), 1),
        second: ("open", frozenset({"ready-for-human", "blocked:spec"}), 1),
    }
    assert (place.landed(), place.claims()) == ([f"merge: #{first} Say hello"], {})
    [branch] = place.live_branches()
    assert f"[`{branch}`](" in place.told(second)[0]
    config = (place.clone / ".git/config").read_text()
    assert "tok_afk" not in config


def test_an_issue_costs_eight_requests_from_claim_to_close(place: Hosted) -> None:
    """Without permissions, which are asked once a person, and the listings, which serve every issue."""
    place.configure(tracker="github", github={"api_url": place.github.api_url}, poll_s=600)
    place.tracker.make_labels()
    number = place.put("agent: done\n")
    place.github.log.clear()

    assert place.run().outcomes == {number: "done"}

    claimed = next(at for at, line in enumerate(place.github.log) if line.startswith("POST") and "receive-pack" in line)
    later = [line for line in place.github.log[claimed:] if line in place.github.counted()]
    about = [line for line in later if f"/issues/{number}" in line or not line.startswith("GET")]
    assert len(about) <= 8, about
    assert len([line for line in about if line.startswith("POST") and "/comments" in line]) == 1


def test_init_makes_the_labels_that_are_missing_and_says_which(place: Hosted) -> None:
    """R67: what a run sets and reads is there before the first run; a second `init` changes nothing."""
    (place.clone / ".red/config.yaml").unlink()
    place.environ["AFK_GITHUB_API_URL"] = place.github.api_url
    place.tracker.edit_labels(place.put("x", labels=()), add=["Running"])

    ran = place.afk("init", "--github")

    assert ran.code == 0, ran.stderr
    assert (ran.payload["tracker"], ran.payload["issues_path"]) == ("github", None)
    assert {"ready-for-agent", "blocked:budget"} <= set(ran.payload["created_labels"])
    assert "running" not in ran.payload["created_labels"]
    assert place.tracker.make_labels() == []
    assert "tracker: github" in (place.clone / ".red/config.yaml").read_text()


def test_a_token_of_another_host_is_not_sent(place: Hosted) -> None:
    """R74: the address of the server stands in a file of the repository, and could be anybody's."""
    place.environ = {"GH_TOKEN": "tok_afk", "GITHUB_TOKEN": "tok_afk"}
    ran = place.run()
    assert ran.error["code"] == "ground_unfit"
    assert "GH_ENTERPRISE_TOKEN" in ran.stderr
    assert not any("/api/" in line for line in place.github.log)


# ── Faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────

FAULTS: dict[str, dict[str, object]] = {
    "502": {"do": "status", "status": 502},
    "lost before": {"do": "drop"},
    "lost after": {"do": "drop", "after": True},
    "502 after": {"do": "status", "status": 502, "after": True},
    "limit": {
        "do": "status",
        "status": 403,
        "headers": {"Retry-After": "1"},
        "body": {"message": "secondary rate limit"},
    },
}
REQUESTS = ("GET .*/issues\\?", "GET .*/issues/1 ", "POST .*/comments", "DELETE .*/labels/running", "PATCH .*/issues/1")


def test_a_label_that_cannot_be_written_when_work_begins_is_noted_and_stops_nothing(place: Hosted) -> None:
    """S59: the claim decides who works; the label only shows it, and the last ones are right again."""
    number = place.put("agent: blocked\n", "Say hello")
    place.github.order(f"POST .*/issues/{number}/labels", "status", status=403, body={"message": "no"})
    ran = place.run()
    assert ran.outcomes == {number: "blocked"}, ran.stderr
    log = "".join(path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"))
    assert "label.failed" in log
    assert set(place.tracker.issue(number).labels) == {"ready-for-human", "blocked:spec"}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_drain_with_a_fault_in_it_ends_with_the_same_books(place: Hosted, fault: dict[str, object]) -> None:
    """R86, R59: each kind of request meets the fault once; what one run leaves undone, the next one does."""
    number = place.put("agent: done\n", "Say hello")
    for request in REQUESTS:
        place.github.order(request, **fault)

    for _ in range(len(REQUESTS)):
        place.run()
        if not (place.tracker.issue(number).is_open or place.claims()):
            break

    assert place.books(number) == {number: ("closed", frozenset(), 1)}
    assert place.landed() == [f"merge: #{number} Say hello"]
