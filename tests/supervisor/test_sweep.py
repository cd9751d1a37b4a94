"""What attempts left, swept in a real repository with a clock that is days ahead: what goes, and what never does."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gitkit
import pytest
from drainkit import Place
from sweepkit import DEAD, WORKER, Leavings, removed

from afk.adapters import worktrees
from afk.adapters.process import identity_of
from afk.attempt.journal import Step
from afk.domain.queue import DEPENDENCY
from afk.supervisor import leftrefs
from afk.supervisor.survey import Action, Left, Survey

SLEEPER = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def left(place: Place) -> Leavings:
    place.file(7, "Do 1", labels=("ready-for-human", "blocked:spec"))
    return Leavings(place)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    """A process that lives until the test is over."""
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        yield it
        it.kill()


# ── Directories ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_directory_that_was_kept_for_people_goes_in_time(left: Leavings) -> None:
    """A day after its envelope was posted, a week where nothing was; a dry run says the same and touches nothing."""
    posted, silent = left.attempt(7), left.attempt(8, posted=False)
    assert removed(left.sweep(0.9)) == set()
    before = gitkit.contents(left.place.clone)

    assert left.would(1.1)[str(posted)].action is Action.WOULD_REMOVE
    assert gitkit.contents(left.place.clone) == before
    assert removed(left.sweep(1.1)) == {str(posted)}

    assert not posted.exists()
    assert silent.exists()
    assert removed(left.sweep(6.9)) == {f"refs/heads/afk/{WORKER}/7-do-1"}  # the remote has the same
    assert str(silent) in removed(left.sweep(7.1))
    assert left.place.worktrees() == []
    assert len(left.place.live_branches()) == 2


def test_an_issue_keeps_five_attempts_for_two_weeks(left: Leavings) -> None:
    paths = [left.attempt(7, n, decision="requeue") for n in range(1, 8)]
    assert removed(left.sweep()) == {str(path) for path in paths[:2]}
    assert removed(left.sweep(13)) == set()
    assert removed(left.sweep(14.1)) == {str(path) for path in paths[2:]}


def test_what_is_not_told_to_its_end_or_waits_is_never_touched(left: Leavings) -> None:
    running = left.attempt(7, 1, steps=(Step.ENDED,))
    waiting = left.attempt(8, 1, claim_state="waiting")
    decisions = left.sweep(99)
    assert decisions[str(running)].code == "unfinished"
    assert decisions[str(waiting)].code == "waiting"
    assert (running / "worktree").is_dir()
    assert (waiting / "worktree").is_dir()


def test_what_somebody_alive_may_use_stays(left: Leavings, sleeper: subprocess.Popen[str]) -> None:
    """R04: the owner by its identity, a program by its keeper, anybody by where they work, a machine by its name."""
    owner = identity_of(sleeper.pid)
    assert owner is not None
    alive = {"pid": owner.pid, "pid_start_time": owner.pid_start_time, "boot_id": owner.boot_id}
    owned, elsewhere, reborn = left.attempt(1, owner=alive), left.attempt(2, host="away"), left.attempt(3)
    gitkit.write(reborn, {"runs/1-agent/notes": ""})
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        cwd=reborn / "worktree",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as visitor:
        assert visitor.stdout is not None
        assert visitor.stdout.readline() == "ready\n"
        decisions = left.sweep(99)
        visitor.kill()
    assert {decisions[str(path)].code for path in (owned, elsewhere, reborn)} == {"in_use"}
    assert f"pid {visitor.pid}" in decisions[str(reborn)].reason
    assert str(reborn) in removed(left.sweep(99))


def test_a_lock_that_is_not_ours_is_never_broken(left: Leavings) -> None:
    """R04: a person locked the worktree; the directory stays with it."""
    path = left.attempt()
    gitkit.git(left.place.clone, "worktree", "unlock", str(path / "worktree"))
    gitkit.git(left.place.clone, "worktree", "lock", "--reason", "mine", str(path / "worktree"))
    decision = left.sweep(99)[str(path)]
    assert (decision.action, "locked: mine" in decision.reason) == (Action.KEPT, True)
    assert (path / "worktree/work-1.txt").exists()


def test_work_that_is_nowhere_else_is_saved_before_its_directory_goes(left: Leavings, tmp_path: Path) -> None:
    """R60: commits as a bundle, changes as a patch, what was saved before along with them."""
    path = left.attempt(pushed=False)
    worktree = path / "worktree"
    gitkit.git(worktree, "checkout", "-q", "--detach")
    sha = gitkit.commit(worktree, "by a person", {"person.txt": "1\n"})
    gitkit.write(worktree, {"README.md": "changed\n", "new.txt": "new\n"})
    gitkit.write(path, {"stray-1.patch": "an earlier one"})

    decision = left.sweep(99)[str(path)]

    assert decision.action is Action.REMOVED
    assert str(left.kept()) in decision.reason
    other = gitkit.clone(gitkit.url(left.place.origin), tmp_path / "other")
    gitkit.git(other, "fetch", "-q", str(left.kept() / f"{sha[:12]}.bundle"), f"refs/afk/bundle/{sha}:refs/heads/back")
    gitkit.git(other, "checkout", "-q", "back")
    gitkit.git(other, "apply", "--binary", str(left.kept() / "uncommitted.patch"))
    assert {name: (other / name).read_text() for name in ("person.txt", "new.txt", "README.md", "work-1.txt")} == {
        "person.txt": "1\n",
        "new.txt": "new\n",
        "README.md": "changed\n",
        "work-1.txt": "the work\n",
    }
    assert (left.kept() / "stray-1.patch").read_text() == "an earlier one"
    assert left.refs("refs/afk/") == {}


def test_what_cannot_be_saved_stays_and_the_others_go(left: Leavings) -> None:
    """L45: a broken index, a repository inside the worktree, a journal of nonsense; the last one is whole."""
    broken, nested, nonsense, whole = left.attempt(1), left.attempt(2), left.attempt(3), left.attempt(4)
    pointer = (broken / "worktree/.git").read_text().removeprefix("gitdir: ").strip()
    Path(pointer, "index").write_bytes(b"junk")
    gitkit.git(nested / "worktree", "init", "-q", "inside")
    gitkit.commit(nested / "worktree/inside", "inside", {"a": "1"})
    document = json.loads((nonsense / "attempt.json").read_text())
    document["facts"]["owner"] = "somebody"
    (nonsense / "attempt.json").write_text(json.dumps(document))

    decisions = left.sweep(99)

    assert [decisions[str(path)].code for path in (broken, nested, nonsense)] == [
        "unsavable",
        "unsavable",
        "unreadable",
    ]
    assert (nested / "worktree/inside/a").exists()
    assert str(whole) in removed(decisions)


def test_only_what_is_provably_ours_goes(left: Leavings, tmp_path: Path) -> None:
    """R05, R21, S28: no journal, another's journal, a name that is none of ours, links in place of directories."""
    bare, foreign, linked, inside = left.attempt(1), left.attempt(2), left.attempt(3), left.attempt(4)
    (bare / "attempt.json").unlink()
    shutil.copy(left.attempt(5, steps=()) / "attempt.json", foreign / "attempt.json")
    real = tmp_path / "real"
    shutil.move(linked, real)
    linked.symlink_to(real)
    shutil.move(inside / "worktree", tmp_path / "tree")
    (inside / "worktree").symlink_to(tmp_path / "tree")
    (bare.parent / "notes").mkdir()
    (bare.parent.parent / "wLINK").symlink_to(tmp_path)
    theirs = [bare, foreign, linked, inside, bare.parent / "notes", bare.parent.parent / "wLINK"]
    before = gitkit.contents(tmp_path / "real") | gitkit.contents(tmp_path / "tree")

    decisions = left.sweep(99)

    assert {decisions[str(path)].action for path in theirs} == {Action.KEPT}
    assert all(path.is_symlink() or path.is_dir() for path in theirs)
    assert gitkit.contents(tmp_path / "real") | gitkit.contents(tmp_path / "tree") == before


class Died(BaseException):
    """In place of a kill -9: nothing catches it."""


@pytest.mark.parametrize("step", ["saved", "put away", "renamed"])
def test_a_removal_that_was_interrupted_is_finished_by_the_next_sweep(left: Leavings, step: str) -> None:
    path = left.attempt(pushed=False)
    gitkit.write(path / "worktree", {"new.txt": "new\n"})

    def die(word: str) -> None:
        if word == step:
            raise Died

    with pytest.raises(Died):
        left.sweep(1.1, die)
    [name] = removed(left.sweep(1.1))

    assert Path(name).parent == path.parent
    assert not any(entry.is_dir() for entry in path.parent.iterdir())
    assert left.place.worktrees() == []
    assert sorted(entry.suffix for entry in left.kept().iterdir()) == [".bundle", ".patch"]
    assert removed(left.sweep(1.1)) == set()


def test_a_worktree_of_ours_whose_directory_is_gone_is_forgotten(left: Leavings, tmp_path: Path) -> None:
    """R03: that entry alone; a person's, one of another machine and one that is still owed stay."""
    clone = left.place.clone
    ours, owed, away = left.attempt(1), left.attempt(2, steps=()), left.attempt(3)
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(tmp_path / "mine"))
    locked = Path((away / "worktree/.git").read_text().removeprefix("gitdir: ").strip(), "locked")
    locked.write_text(locked.read_text().rpartition("host ")[0] + "host away)")
    for path in (ours / "worktree", owed / "worktree", away / "worktree", tmp_path / "mine"):
        shutil.rmtree(path)

    decisions = left.sweep()

    assert removed(decisions) == {str(ours / "worktree")}
    codes = [decisions[str(path)].code for path in (owed / "worktree", away / "worktree", tmp_path / "mine")]
    assert codes == ["unfinished", "in_use", "not_ours"]
    assert set(left.place.worktrees()) == {owed / "worktree", away / "worktree", tmp_path / "mine"}


def test_a_workers_folder_goes_when_nothing_of_its_attempts_is_left(left: Leavings) -> None:
    """L14: every run draws a new worker."""
    folder = left.attempt(decision="requeue").parent
    gitkit.write(folder, {"worker.json": json.dumps(DEAD), "worker.log.toonl": "#\n"})
    left.sweep(15)
    assert removed(left.sweep(15)) == {str(folder)}
    assert not folder.exists()


# ── Branches and pointers ───────────────────────────────────────────────────────────────────────────────────────────


def test_branches_go_a_week_after_their_issue_was_closed(left: Leavings) -> None:
    """On the remote, and with what is here; while it is open they stay, however old."""
    path, ref = left.attempt(posted=False), f"refs/heads/afk/{WORKER}/7-do-1"
    assert removed(left.sweep(6.9)) == set()
    assert removed(left.sweep(9)) == {str(path)}
    assert removed(left.sweep(9)) == {ref}  # the remote has the same
    left.close()
    assert removed(left.sweep(6.9)) == set()
    assert removed(left.sweep(7.1)) == {f"remote {ref}"}
    assert left.place.live_branches() == {}


def test_a_branch_that_moved_or_is_held_or_is_nobodys_stays(left: Leavings) -> None:
    """R87: the sha that was judged, and no other."""
    place = left.place
    for number in (1, 2, 3):
        place.file(number)
        gitkit.git(place.origin, "update-ref", f"refs/heads/afk/wAAAA/{number}-it", "main")
        left.close(number)
    gitkit.git(place.origin, "update-ref", "refs/heads/afk/my-own", "main")
    gitkit.git(place.origin, "update-ref", "refs/heads/afk/wAAAA/9-unknown", "main")
    place.forge_claim(2)
    survey = Survey(left.project(8))
    judged = {candidate.name: candidate for candidate in leftrefs.live_branches(survey)}
    codes = {name.removeprefix("refs/heads/afk/"): each.verdict.code for name, each in judged.items()}
    assert codes == {
        "my-own": "not_ours",
        "wAAAA/1-it": "closed",
        "wAAAA/2-it": "claimed",
        "wAAAA/3-it": "closed",
        "wAAAA/9-unknown": "no_issue",
    }

    moved = place.push("by a person", {"a": "1"})
    gitkit.git(place.origin, "update-ref", "refs/heads/afk/wAAAA/1-it", moved)
    gitkit.git(place.origin, "update-ref", "-d", "refs/heads/afk/wAAAA/3-it")
    with pytest.raises(Left, match="somebody moved it"):
        judged["refs/heads/afk/wAAAA/1-it"].act()
    judged["refs/heads/afk/wAAAA/3-it"].act()  # gone already is as good as deleted

    assert place.live_branches()["afk/wAAAA/1-it"] == moved


def test_a_local_branch_goes_only_by_our_own_record_and_is_bundled_first(left: Leavings) -> None:
    """R05: a person may have made one of such a name."""
    clone, ref = left.place.clone, f"refs/heads/afk/{WORKER}/7-do-1"
    left.attempt(pushed=False)
    left.close()
    gitkit.git(clone, "branch", f"afk/{WORKER}/7-unrecorded")
    left.sweep(1.1)
    shutil.rmtree(left.kept())
    sha = gitkit.sha(clone, ref)

    assert removed(left.sweep(8)) == {ref}

    assert list(left.refs("refs/heads/afk/")) == [f"refs/heads/afk/{WORKER}/7-unrecorded"]
    assert (left.kept() / f"{sha[:12]}.bundle").exists()
    assert removed(left.sweep(13.9)) == set()
    assert str(left.kept()) in removed(left.sweep(14.1))  # in the end that goes, too


def test_pointers_go_when_their_attempt_is_gone_and_the_commit_is_elsewhere(left: Leavings) -> None:
    """The last copy of an agent's commit stays while its issue may want it."""
    clone = left.place.clone
    here = left.attempt()
    head = gitkit.sha(clone)
    lone = gitkit.git(clone, "commit-tree", "-m", "stray", f"{head}^{{tree}}")
    made = {
        "attempts/wGONE-7-a1/base": head,
        f"attempts/{WORKER}-7-a1/base": head,
        "attempts/wGONE-7-a1/other": head,
        "landings/7": head,
        "bundle/1": lone,
        "checkouts/7": head,
        "kept/wGONE-7-a1/1": lone,
        "kept/wGONE-7-a1/2": head,
        "stranger": head,
    }
    for name, sha in made.items():
        gitkit.git(clone, "update-ref", f"refs/afk/{name}", sha)

    gone = {name.removeprefix("refs/afk/") for name in removed(left.sweep())}

    assert gone == {"attempts/wGONE-7-a1/base", "landings/7", "checkouts/7", "kept/wGONE-7-a1/2"}
    assert here.exists()
    left.close()
    assert "refs/afk/kept/wGONE-7-a1/1" in removed(left.sweep(8))


def test_another_checkout_of_the_repository_keeps_what_its_attempts_need(left: Leavings, tmp_path: Path) -> None:
    """R05: pointers and registrations are common to all worktrees of a repository, supervisors are not."""
    clone, other = left.place.clone, tmp_path / "other"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(other))
    gitkit.write(other, {".red/tmp/workers/wNEAR/9-a1/attempt.json": "{}"})
    lost = other / ".red/tmp/workers/wNEAR/9-a1/worktree"
    worktrees.add(clone, lost, "afk/wNEAR/9-it", "HEAD", owner="wNEAR-9-a1")
    shutil.rmtree(lost)
    for name in ("attempts/wNEAR-9-a1/base", "landings/9"):
        gitkit.git(clone, "update-ref", f"refs/afk/{name}", "HEAD")
    decisions = left.sweep(99)
    assert removed(decisions) == set()
    assert decisions[str(lost)].code == "not_ours"


def test_a_persons_checkout_is_named_and_nothing_more(left: Leavings) -> None:
    left.attempt()
    place = left.place
    path = Path(place.afk("checkout", "7").payload["worktree_path"])
    gitkit.write(path, {"mine.txt": "1"})
    left.close()
    decisions = left.sweep(99)
    assert (decisions[str(path)].action, decisions[str(path)].code) == (Action.KEPT, "persons")
    assert decisions["refs/afk/checkouts/7"].action is Action.KEPT
    assert (path / "mine.txt").exists()
    assert gitkit.sha(place.clone, "checkout/7-do-1")


# ── The whole ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("away", ["remote", "tracker", "tracker for closed issues"])
def test_nothing_is_removed_while_somebody_does_not_answer(
    left: Leavings, away: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = left.attempt()
    left.close()
    gitkit.git(left.place.clone, "update-ref", "refs/afk/landings/7", "HEAD")
    if away == "remote":
        left.place.origin.rename(left.place.origin.with_name("away.git"))
    elif away == "tracker":
        shutil.rmtree(left.place.clone / ".red/issues")
        (left.place.clone / ".red/issues").write_text("")
    else:
        from afk.adapters.localtracker import LocalTracker
        from afk.errors import TrackerError

        def fail(_self: LocalTracker, number: int) -> None:
            raise TrackerError(f"issue {number} was not given in time")

        monkeypatch.setattr(LocalTracker, "issue", fail)

    decisions = left.sweep(99)

    assert removed(decisions) == set()
    assert decisions[str(path)].code == "unreachable"
    assert (path / "worktree").is_dir()


def test_an_issue_that_waited_for_others_goes_back_when_they_are_closed(left: Leavings) -> None:
    """L46: `blocked:dependency` alone, and whoever closed them."""
    place = left.place
    place.file(8, body="## Blocked by\n\n- #7\n", labels=("ready-for-human", DEPENDENCY))
    place.file(9, body="## Blocked by\n\n- #7\n", labels=("ready-for-human", "blocked:spec"))
    assert left.sweep()["#8"].code == "blocked"
    left.close()
    assert left.would()["#8"].action is Action.WOULD_PROMOTE
    assert left.sweep()["#8"].action is Action.PROMOTED
    assert place.labels(8) == {"ready-for-agent"}
    assert place.labels(9) == {"ready-for-human", "blocked:spec"}
