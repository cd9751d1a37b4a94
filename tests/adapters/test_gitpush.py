from __future__ import annotations

from pathlib import Path

import gitkit
import pytest
from gitkit import commit, refs, sha

from afk.adapters import git
from afk.adapters.git import FAST_FORWARD, PushStatus, RefUpdate

CLAIM = "refs/afk/claims/7"


@pytest.fixture(params=["file", "daemon"])
def url(request: pytest.FixtureRequest, origin: Path) -> str:
    """The same repository over both transports that need no account."""
    return str(request.getfixturevalue("git_daemon")) if request.param == "daemon" else gitkit.url(origin)


def nonce(repo: Path, text: str) -> str:
    return git.commit_tree(repo, git.empty_tree(repo), [], text)


PUSHER = """
import sys
from pathlib import Path
from afk.adapters import git
repo, url, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sha = git.commit_tree(repo, git.empty_tree(repo), [], name)
print("ready", flush=True)
sys.stdin.readline()
print(git.push(repo, url, [git.RefUpdate("refs/afk/claims/7", sha, None)]).status, sha)
"""


def test_one_of_eight_pushers_wins_and_the_others_get_rejected(clone: Path, origin: Path, url: str) -> None:
    answers = gitkit.all_at_once(PUSHER, [[str(clone), url, f"pusher {n}"] for n in range(8)])
    winners = [line.split()[1] for line in answers if line.startswith("ok ")]
    assert len(winners) == 1
    assert sorted(line.split()[0] for line in answers) == ["ok"] + ["rejected"] * 7
    assert refs(origin, "refs/afk") == {CLAIM: winners[0]}


def test_a_claim_is_taken_over_released_and_taken_again_under_its_lease(clone: Path, origin: Path, url: str) -> None:
    a, b, c = (nonce(clone, name) for name in "abc")
    created = git.push(clone, url, [RefUpdate(CLAIM, a, None)])
    assert (created.status, created.refs) == (PushStatus.OK, {CLAIM: "*"})
    assert git.push(clone, url, [RefUpdate(CLAIM, c, b)]).status is PushStatus.REJECTED
    taken = git.push(clone, url, [RefUpdate(CLAIM, b, a)])
    assert (taken.status, taken.refs) == (PushStatus.OK, {CLAIM: "+"})
    assert git.push(clone, url, [RefUpdate(CLAIM, None, a)]).status is PushStatus.REJECTED
    assert refs(origin, "refs/afk") == {CLAIM: b}
    released = git.push(clone, url, [RefUpdate(CLAIM, None, b)])
    assert (released.status, released.refs) == (PushStatus.OK, {CLAIM: "-"})
    assert git.push(clone, url, [RefUpdate(CLAIM, c, None)]).status is PushStatus.OK


def test_up_to_date_is_not_a_win(clone: Path, url: str) -> None:
    """Two machines with one and the same commit would both be told that all is well."""
    a = nonce(clone, "a")
    git.push(clone, url, [RefUpdate(CLAIM, a, None)])
    for expect in (a, None):
        again = git.push(clone, url, [RefUpdate(CLAIM, a, expect)])
        assert again.status is PushStatus.REJECTED
        assert again.refs == {CLAIM: "="}


def test_an_unchanged_ref_beside_a_changed_one_is_no_win_either(clone: Path, url: str) -> None:
    """git leaves it out of the transaction, so it has fenced nothing."""
    a = nonce(clone, "a")
    git.push(clone, url, [RefUpdate(CLAIM, a, None)])
    report = git.push(clone, url, [RefUpdate(CLAIM, a, a), RefUpdate("refs/heads/x", sha(clone), None)])
    assert report.status is PushStatus.REJECTED


def test_a_push_with_one_stale_lease_changes_nothing(clone: Path, origin: Path, url: str) -> None:
    """R78, R87: base, live branch and claim move together or not at all."""
    a, stale, b = (nonce(clone, name) for name in ("a", "stale", "b"))
    git.push(clone, url, [RefUpdate(CLAIM, a, None), RefUpdate("refs/heads/old", sha(clone), None)])
    before = refs(origin)
    tip = commit(clone, "work")
    report = git.push(
        clone,
        url,
        [
            RefUpdate("refs/heads/main", tip, FAST_FORWARD),
            RefUpdate("refs/heads/new", tip, None),
            RefUpdate("refs/heads/old", None, sha(clone, "HEAD^")),
            RefUpdate(CLAIM, b, stale),
        ],
    )
    assert report.status is PushStatus.REJECTED
    assert report.refs[CLAIM] == "!"
    assert "stale info" in report.text
    assert refs(origin) == before


def test_a_lease_holds_even_after_a_sibling_fetched(clone: Path, origin: Path, tmp_path: Path) -> None:
    """R87: a bare lease would take what any worktree fetched last for what we know."""
    url, start = gitkit.url(origin), sha(clone)
    git.push(clone, url, [RefUpdate("refs/heads/live", start, None)])
    other = gitkit.clone(url, tmp_path / "other")
    theirs = commit(other, "somebody else's work")
    gitkit.git(other, "push", "-q", "origin", "HEAD:live")
    gitkit.git(clone, "fetch", "-q", "origin")
    ours = commit(clone, "ours")
    assert git.push(clone, url, [RefUpdate("refs/heads/live", ours, start)]).status is PushStatus.REJECTED
    assert refs(origin, "refs/heads/live") == {"refs/heads/live": theirs}


def test_a_base_that_moved_rejects_and_one_that_did_not_goes_forward(
    clone: Path, origin: Path, tmp_path: Path, url: str
) -> None:
    other = gitkit.clone(gitkit.url(origin), tmp_path / "other")
    theirs = commit(other, "theirs")
    gitkit.git(other, "push", "-q", "origin", "main")
    ours = commit(clone, "ours")
    refused = git.push(clone, url, [RefUpdate("refs/heads/main", ours, FAST_FORWARD)])
    assert refused.status is PushStatus.REJECTED
    assert refs(origin, "refs/heads/main") == {"refs/heads/main": theirs}
    git.fetch(clone, url, "refs/heads/main")
    merged = git.commit_tree(clone, git.tree_of(clone, ours), [theirs, ours], "merge")
    accepted = git.push(clone, url, [RefUpdate("refs/heads/main", merged, FAST_FORWARD)])
    assert (accepted.status, accepted.refs) == (PushStatus.OK, {"refs/heads/main": " "})


def test_no_answer_is_unknown(clone: Path, tmp_path: Path) -> None:
    update = [RefUpdate(CLAIM, sha(clone), None)]
    for url in (f"git://127.0.0.1:{gitkit.free_port()}/x", gitkit.url(tmp_path / "nowhere.git")):
        report = git.push(clone, url, update)
        assert (report.status, report.refs) == (PushStatus.UNKNOWN, {})
        assert report.text


def test_an_answer_that_takes_too_long_is_unknown(clone: Path, origin: Path) -> None:
    gitkit.hook(origin, "pre-receive", "exec sleep 600")
    report = git.push(clone, gitkit.url(origin), [RefUpdate(CLAIM, sha(clone), None)], timeout_s=0.5)
    assert report.status is PushStatus.UNKNOWN
    assert "did not end within 0.5 s" in report.text


@pytest.mark.parametrize("name", ["pre-receive", "update", "post-receive"])
def test_a_remote_that_dies_before_it_answers_is_unknown_whatever_became_of_it(
    clone: Path, origin: Path, name: str
) -> None:
    """Only reading the refs back tells: before the update nothing moved, after it everything did."""
    gitkit.hook(origin, name, "kill -9 $PPID")
    tip = commit(clone, "x")
    report = git.push(clone, gitkit.url(origin), [RefUpdate("refs/heads/x", tip, None)])
    assert report.status is PushStatus.UNKNOWN
    assert refs(origin, "refs/heads/x") == ({"refs/heads/x": tip} if name == "post-receive" else {})


@pytest.mark.parametrize("name", ["pre-receive", "update"])
def test_a_hook_of_the_remote_that_refuses_is_rejected_with_its_words(
    clone: Path, origin: Path, name: str, url: str
) -> None:
    gitkit.hook(origin, name, 'echo "Not on a Friday, José." >&2\nexit 1')
    tip = commit(clone, "x")
    report = git.push(
        clone, url, [RefUpdate("refs/heads/main", tip, FAST_FORWARD), RefUpdate(CLAIM, nonce(clone, "a"), None)]
    )
    assert report.status is PushStatus.REJECTED
    assert report.refs["refs/heads/main"] == "!"
    assert "remote: Not on a Friday, José.\n" in report.text
    assert "hook declined" in report.text
    assert refs(origin, CLAIM) == {}


def test_a_push_carries_no_tag_and_asks_no_hook_of_ours(clone: Path, origin: Path) -> None:
    gitkit.git(clone, "config", "push.followTags", "true")
    gitkit.hook(clone, "pre-push", "exit 1")
    tip = commit(clone, "x")
    gitkit.git(clone, "tag", "-a", "-m", "x", "v1")
    assert git.push(clone, gitkit.url(origin), [RefUpdate("refs/heads/x", tip, None)]).status is PushStatus.OK
    assert refs(origin, "refs/tags") == {}


@pytest.mark.parametrize(
    ("ref", "new", "expect"),
    [
        ("main", "a" * 40, None),
        ("refs/heads/x:refs/heads/main", "a" * 40, None),
        ("refs/heads/x y", "a" * 40, None),
        ("refs/heads/x\n", "a" * 40, None),
        ("refs/heads/*", "a" * 40, None),
        ("refs/heads/x", "HEAD", None),
        ("refs/heads/x", "a" * 39, None),
        ("refs/heads/x", "", None),
        ("refs/heads/x", None, "main"),
        ("refs/heads/x", None, ""),
    ],
)
def test_what_is_no_full_ref_and_no_full_sha_never_reaches_git(ref: str, new: str | None, expect: str | None) -> None:
    """R77, R87: a name that could mean another ref, or a lease without a value, is refused before any push."""
    with pytest.raises(ValueError, match="not a full"):
        RefUpdate(ref, new, expect)
