"""Claims are a compare-and-swap on a real remote; whoever lost one can push nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import gitkit
import pytest

from afk.adapters import claims
from afk.adapters.claims import Claim, ClaimLost
from afk.adapters.clock import SystemClock
from afk.adapters.git import FAST_FORWARD, RefUpdate
from afk.errors import RemoteUnreachable
from afk.wire.claim import ClaimRecord

NONE_YET: Callable[[ClaimRecord, str], None] = lambda record, sha: None  # noqa: E731 - a value, not a function


def make(
    clone: Path, url: str, *, worker: str = "wAAAA", nonce: str = "", lease_s: int = 900, **given: object
) -> Claim:
    record = ClaimRecord(nonce or secrets.token_hex(16), 0, worker, "host", f"{worker}-7-a1", lease_s)
    options: dict[str, object] = {"sha": None, "clock": SystemClock(), "intend": NONE_YET, **given}
    return Claim(clone, url, 7, record, **options)  # type: ignore[arg-type]


@pytest.fixture(params=["file", "daemon"])
def url(request: pytest.FixtureRequest, origin: Path) -> str:
    return gitkit.url(origin) if request.param == "file" else request.getfixturevalue("git_daemon")


def test_a_free_issue_is_claimed_and_a_held_one_is_not(clone: Path, origin: Path, url: str) -> None:
    """R71: one atomic primitive decides."""
    first, second = make(clone, url), make(clone, url, worker="wBBBB")
    assert first.acquire()
    assert not second.acquire()
    assert claims.held_claims(clone, url) == {7: first.sha}
    assert claims.read_claim(clone, url, 7, str(first.sha)) == first.record


def test_the_claim_is_written_down_before_it_is_pushed(clone: Path, origin: Path) -> None:
    """R68: after a crash between the two, the journal knows the sha that may be on the remote."""
    seen: list[tuple[str, dict[str, str]]] = []
    claim = make(
        clone,
        gitkit.url(origin),
        intend=lambda record, sha: seen.append((sha, gitkit.refs(origin, "refs/afk/claims/"))),
    )
    assert claim.acquire()
    assert seen == [(claim.sha, {})]


def test_every_push_renews_and_moves_the_claim(clone: Path, origin: Path, url: str) -> None:
    claim = make(clone, url)
    assert claim.acquire()
    before = claim.sha
    tip = gitkit.commit(clone, "work", {"a": "a"})
    assert claim.push(RefUpdate("refs/heads/afk/wAAAA/7-x", tip, None)).ok
    assert claim.sha != before
    assert claim.record.seq == 1
    assert gitkit.refs(origin, "refs/heads/afk/") == {"refs/heads/afk/wAAAA/7-x": tip}


def test_an_owner_whose_claim_was_taken_cannot_push_land_or_release(clone: Path, origin: Path, url: str) -> None:
    """R68, R71: a paused old owner that wakes up changes nothing, not even with a valid fast-forward."""
    old, new = make(clone, url), make(clone, url, worker="wBBBB")
    assert old.acquire()
    assert new.acquire(over=old.sha)
    trunk = gitkit.sha(origin, "main")
    tip = gitkit.commit(clone, "late work", {"a": "a"})
    with pytest.raises(ClaimLost):
        old.push(RefUpdate("refs/heads/main", tip, FAST_FORWARD))
    with pytest.raises(ClaimLost):
        old.release()
    assert gitkit.sha(origin, "main") == trunk
    assert claims.held_claims(clone, url) == {7: new.sha}


def test_a_rejected_push_keeps_the_claim_and_tells_what_stands_there(clone: Path, origin: Path) -> None:
    url = gitkit.url(origin)
    claim = make(clone, url)
    assert claim.acquire()
    other = gitkit.clone(url, origin.parent / "other")
    moved = gitkit.commit(other, "somebody else", {"b": "b"})
    gitkit.git(other, "push", "-q", "origin", "main")
    tip = gitkit.commit(clone, "ours", {"a": "a"})
    pushed = claim.push(RefUpdate("refs/heads/main", tip, FAST_FORWARD))
    assert not pushed.ok
    assert (pushed.refs or {})["refs/heads/main"] == moved
    assert claim.renew().ok


def test_a_claim_is_recovered_by_its_nonce_whatever_its_sha(clone: Path, origin: Path, url: str) -> None:
    """R68: the owner died after a push that its journal had not recorded as done."""
    claim = make(clone, url)
    assert claim.acquire()
    assert claim.renew().ok
    again = make(clone, url, nonce=claim.record.nonce, sha=None)
    assert again.recover()
    assert (again.sha, again.record.seq) == (claim.sha, 1)
    assert not make(clone, url).recover()


def test_releasing_frees_the_issue_and_may_be_repeated(clone: Path, origin: Path, url: str) -> None:
    claim = make(clone, url)
    assert claim.acquire()
    tip = gitkit.commit(clone, "work", {"a": "a"})
    assert claim.push(RefUpdate("refs/heads/afk/wAAAA/7-x", tip, None)).ok
    assert claim.release(RefUpdate("refs/heads/afk/wAAAA/7-x", None, tip)).ok
    assert gitkit.refs(origin, "refs/heads/afk/", "refs/afk/") == {}
    assert claim.release().ok


def test_a_remote_that_is_away_leaves_everything_unknown(clone: Path) -> None:
    """R59: no answer is no defeat."""
    with pytest.raises(RemoteUnreachable):
        make(clone, f"git://127.0.0.1:{gitkit.free_port()}/nowhere.git").acquire()


def test_a_fresh_claim_is_not_renewed_and_an_old_one_is(clone: Path, origin: Path) -> None:
    class Hands(SystemClock):
        now_s = 0.0

        def monotonic_s(self) -> float:
            return self.now_s

    clock = Hands()
    claim = make(clone, gitkit.url(origin), lease_s=90, clock=clock)
    assert claim.acquire()
    clock.now_s = 29.0
    claim.ensure_fresh()
    assert claim.record.seq == 0
    clock.now_s = 31.0
    claim.ensure_fresh()
    assert claim.record.seq == 1


RACER = """
import secrets, sys
from pathlib import Path
from afk.adapters.claims import Claim
from afk.adapters.clock import SystemClock
from afk.wire.claim import ClaimRecord
url, clone = sys.argv[1:]
record = ClaimRecord(secrets.token_hex(16), 0, "wAAAA", "same-host", "wAAAA-7-a1", 900)
claim = Claim(Path(clone), url, 7, record, sha=None, clock=SystemClock(), intend=lambda record, sha: None)
print("ready", flush=True)
sys.stdin.readline()
print("won" if claim.acquire() else "lost", flush=True)
"""


def test_of_eight_contenders_with_one_name_exactly_one_wins(clone: Path, origin: Path, url: str) -> None:
    """R71: the same host name, worker id and attempt; only the nonce tells them apart."""
    answers = gitkit.all_at_once(RACER, [[url, str(clone)]] * 8)
    assert sorted(answers) == ["lost"] * 7 + ["won"]
