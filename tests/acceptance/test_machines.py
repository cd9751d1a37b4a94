"""Several supervisors on one remote: two checkouts with one tracker folder, two machines, and one that was asleep."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, ended, reach, status_of


@pytest.fixture
def other(place: Place, tmp_path: Path) -> Iterator[Place]:
    """Another checkout of the same remote, which shares the tracker folder of the first."""
    with Place(
        place.origin, gitkit.clone(gitkit.url(place.origin), tmp_path / "second"), dict(place.environ)
    ) as second:
        yield second


def configure(place: Place, other: Place, **changes: object) -> None:
    folder = {"path": str(place.clone / ".red/issues")}
    for one in (place, other):
        one.configure(local=folder, **changes)


def start_as(place: Place, host: str) -> subprocess.Popen[str]:
    """`afk run` on a machine of that name."""
    run = shlex.join([sys.executable, "-m", "afk", "run", "--json"])
    process = subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", f"hostname {host} && exec {run}"],
        cwd=place.clone,
        env=os.environ | place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    place.started.append(process)
    return process


def test_an_end_that_its_owner_cannot_tell_is_told_by_whoever_takes_over(
    place: Place, other: Place, tmp_path: Path
) -> None:
    """S60, R68: who cannot tell it does not renew the claim, and writes nothing more once it is another's."""
    configure(place, other, claim={"lease_s": 3, "renew_s": 1})
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    issue = place.clone / ".red/issues/7/issue.md"
    good = issue.read_text()
    issue.write_text(f"--\n{good}")
    go.touch()
    assert ended(process).code == 1
    issue.write_text(good)

    ran = other.run()

    assert ran.code == 0, ran.stderr
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]
    assert (place.issue(7)["state"], place.claims(), place.landed()) == ("closed", {}, ["merge: #7 Say hello"])
    assert place.run().code == 0
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]


@pytest.mark.parametrize(
    "hosts",
    [
        pytest.param(None, id="two checkouts"),
        pytest.param(
            ("one", "two"),
            id="two machines",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root may name a machine"),
        ),
    ],
)
def test_no_issue_is_worked_twice(place: Place, other: Place, hosts: tuple[str, str] | None) -> None:
    """R71: what one has, the other leaves alone, and neither waits for it in vain."""
    configure(place, other, workers=2)
    for number in range(1, 7):
        place.file(number, f"Job {number}")

    runs = (
        [start_as(place, hosts[0]), start_as(other, hosts[1])]
        if hosts
        else [one.start("run", "--json") for one in (place, other)]
    )
    first, second = [ended(run) for run in runs]

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert [status_of(body) for number in range(1, 7) for body in place.envelopes(number)] == ["done"] * 6
    assert sorted(place.landed()) == [f"merge: #{number} Job {number}" for number in range(1, 7)]
    assert (place.claims(), place.live_branches()) == ({}, {})
    done = [number for ran in (first, second) for number, outcome in ran.outcomes.items() if outcome == "done"]
    assert sorted(done) == list(range(1, 7))


def test_an_owner_that_slept_past_its_lease_cannot_land_when_it_wakes(
    place: Place, other: Place, tmp_path: Path
) -> None:
    """R68, L26: the remote fences it off, though its agent is done and its checks would pass."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    configure(place, other, claim={"lease_s": 3, "renew_s": 1})
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    asleep = place.start("run", "--json")
    reach(asleep, lambda: ready.exists() and place.live_branches(), "the agent's first commit on the remote")
    os.kill(asleep.pid, signal.SIGSTOP)
    go.touch()

    awake = other.run()
    os.kill(asleep.pid, signal.SIGCONT)
    woken = ended(asleep)

    assert awake.outcomes == {7: "done"}, awake.stderr
    assert woken.outcomes == {7: "claim-lost"}, woken.stderr
    assert place.landed() == ["merge: #7 Say hello"]
    assert [status_of(body) for body in place.envelopes(7)] == ["done"]
    assert (place.issue(7)["state"], place.claims()) == ("closed", {})
