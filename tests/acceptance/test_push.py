"""What the agent commits is on the remote at once; what lands is what was validated; an outage loses nothing."""

from __future__ import annotations

import shlex
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, ended, reach, section, status_of


@pytest.fixture
def markers(tmp_path: Path) -> tuple[Path, Path]:
    """Where an agent says that it waits, and what it waits for."""
    return tmp_path / "ready", tmp_path / "go"


def test_a_commit_is_on_the_remote_while_its_agent_still_works(place: Place, markers: tuple[Path, Path]) -> None:
    """L26, R60, R15: no hook pushes it, the worktree is watched."""
    ready, go = markers
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")

    reach(process, lambda: "first-7.txt" in _files_of_the_live_branch(place), "the commit on the remote")
    [branch] = place.live_branches()
    go.touch()

    assert ended(process).outcomes == {7: "done"}
    assert branch.startswith("afk/w")
    assert branch.endswith("/7-say-hello")
    assert place.live_branches() == {}


def test_a_commit_that_was_rewritten_replaces_the_one_that_was_pushed(place: Place, markers: tuple[Path, Path]) -> None:
    """R87: under a lease on the sha that we pushed; only the new commit lands."""
    ready, go = markers
    place.file(7, body=f"agent: amends {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    reach(process, lambda: "work-7.txt" in _files_of_the_live_branch(place), "the first commit on the remote")
    go.touch()

    ran = ended(process)

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert place.on_trunk("work-7.txt") == "the work"
    assert "feat: better work on 7" in gitkit.log(place.origin, "main")
    assert "feat: work on 7" not in gitkit.log(place.origin, "main")
    assert place.live_branches() == {}


def test_a_live_branch_that_somebody_else_moved_is_left_alone_and_named(
    place: Place, markers: tuple[Path, Path]
) -> None:
    """R87, R05: the agent's work lands, their commit stays where they put it, and the report says so."""
    ready, go = markers
    place.file(7, body=f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    reach(process, lambda: "first-7.txt" in _files_of_the_live_branch(place), "the commit on the remote")
    [branch] = place.live_branches()
    other = gitkit.clone(gitkit.url(place.origin), place.origin.parent / "other")
    gitkit.git(other, "switch", "-q", branch)
    theirs = gitkit.commit(other, "a person helps", {"theirs.txt": "theirs\n"})
    gitkit.git(other, "push", "-q", "origin", branch)
    go.touch()

    ran = ended(process)

    assert ran.outcomes == {7: "done"}, ran.stderr
    assert place.live_branches() == {branch: theirs}
    assert f"somebody else moved {branch}" in section(place.envelopes(7)[0], "validation")
    assert place.on_trunk("second-7.txt") == "the rest"
    assert "theirs.txt" not in gitkit.git(place.origin, "ls-tree", "--name-only", "main")


def test_commits_made_elsewhere_are_brought_to_the_branch_or_kept(place: Place) -> None:
    """R60, R45: another branch and a detached HEAD land, and an unrelated history is kept by a pointer."""
    place.file(1, body="agent: switches_branch branch\n")
    place.file(2, body="agent: switches_branch detached\n")
    place.file(3, body="agent: switches_branch away\n")

    ran = place.run()

    assert ran.outcomes == {1: "done", 2: "done", 3: "blocked"}, ran.stderr
    assert "the agent worked on somewhere-else" in section(place.envelopes(1)[0], "validation")
    assert "the agent worked on a detached HEAD" in section(place.envelopes(2)[0], "validation")
    [(pointer, kept)] = gitkit.refs(place.clone, "refs/afk/kept/").items()
    assert pointer in section(place.envelopes(3)[0], "outcome")
    assert "work-3.txt" in gitkit.git(place.clone, "ls-tree", "--name-only", kept)


# ── Landing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_branch_that_is_merely_behind_lands_with_exactly_its_own_changes(
    place: Place, markers: tuple[Path, Path]
) -> None:
    """L01, R24, R51: the agent is run once, the others' work stays, and the tree that was checked is what lands."""
    ready, go = markers
    place.configure(
        validation={"checks": [{"name": "tree", "run": "git rev-parse HEAD^{tree} >> ../trees; cat theirs"}]}
    )
    place.file(7, body=f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    theirs = place.push("meanwhile", {"theirs": "theirs\n", "README.md": "Changed meanwhile.\n"})
    go.touch()

    ran = ended(process)

    assert ran.outcomes == {7: "done"}, place.envelopes(7)
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1
    assert gitkit.sha(place.origin, "main^1") == theirs
    changed = gitkit.git(place.origin, "diff", "--name-only", "main^1", "main").splitlines()
    assert changed == ["first-7.txt", "second-7.txt"]
    assert place.on_trunk("README.md") == "Changed meanwhile."
    trees = (place.attempt(7) / "trees").read_text().split()
    assert trees == [gitkit.git(place.origin, "rev-parse", "main^{tree}")]


def test_a_base_that_moves_under_the_merge_is_integrated_again(place: Place) -> None:
    """R78: refused, merged and checked anew on the new tip, without another run of the agent."""
    moves = gitkit.clone(gitkit.url(place.origin), place.origin.parent / "moves")
    push = "test -e theirs || { echo x > theirs && git add . && git commit -qm x && git push -q; }"
    place.configure(hooks={"pre_merge": f"cd {shlex.quote(str(moves))} && {push}"})
    place.file(7)

    ran = place.run()

    assert ran.outcomes == {7: "done"}, place.envelopes(7)
    assert gitkit.log(place.origin, "main^1")[0] == "x"
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1
    assert len(list(place.attempt(7).glob("runs/*-check"))) == 2
    assert gitkit.refs(place.clone, "refs/heads/") == {"refs/heads/main": gitkit.sha(place.clone, "main")}


def test_commits_that_somebody_took_back_from_the_base_are_not_landed_again(
    place: Place, markers: tuple[Path, Path]
) -> None:
    """R24: the work was built on them, so it ends `blocked` and is begun afresh on what the base is now."""
    ready, go = markers
    place.push("with a secret", {"secret.txt": "hunter2\n"})
    place.file(7, body=f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    gitkit.git(place.origin, "update-ref", "refs/heads/main", "main~1")
    go.touch()

    ran = ended(process)

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    assert "the history of main was rewritten" in section(place.envelopes(7)[0], "outcome")
    assert place.landed() == []
    place.edit(7, labels=["ready-for-agent"])
    assert place.run().outcomes == {7: "done"}
    assert "secret.txt" not in gitkit.git(place.origin, "ls-tree", "--name-only", "main").splitlines()


def test_a_remote_that_refuses_the_base_is_infrastructure_in_its_own_words(place: Place) -> None:
    """R80, L02: the work is kept on its live branch, and the agent is not run again for it."""
    refuse = "grep -q refs/heads/main && echo 'main is frozen until Monday' >&2 && exit 1; exit 0"
    gitkit.hook(place.origin, "pre-receive", refuse)
    place.file(7, "Say hello")

    ran = place.run()

    assert ran.outcomes == {7: "infra"}, ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:infra"}
    [envelope] = place.envelopes(7)
    assert "main is frozen until Monday" in section(envelope, "outcome")
    assert "work-7.txt" in _files_of_the_live_branch(place)
    assert (place.landed(), place.claims()) == ([], {})


def test_a_whole_drain_over_the_network(place: Place, git_daemon: str) -> None:
    """R58: over git's own protocol as over files."""
    gitkit.git(place.clone, "remote", "set-url", "origin", git_daemon)
    place.file(1, "Lands")
    place.file(2, "Parks", "agent: blocked\n")

    ran = place.run()

    assert ran.outcomes == {1: "done", 2: "blocked"}, ran.stderr
    assert place.landed() == ["merge: #1 Lands"]
    assert [name.rpartition("/")[2] for name in place.live_branches()] == ["2-parks"]
    assert place.claims() == {}


# ── Outages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("when", ["while the agent works", "before the landing", "after the landing"])
def test_a_remote_that_goes_away_for_a_while_fails_nothing(place: Place, markers: tuple[Path, Path], when: str) -> None:
    """R59, R60: no attempt is charged, no agent run again; what was done meanwhile is pushed when it is back."""
    ready, go = markers
    away = place.origin.with_name("away.git")
    leave = f"mv {shlex.quote(str(place.origin))} {shlex.quote(str(away))}"
    hooks = {"before the landing": {"pre_merge": leave}, "after the landing": {"post_merge": leave}}
    place.configure(recovery={"backoff_max_s": 60}, hooks=hooks.get(when, {}))
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    if when == "while the agent works":
        place.origin.rename(away)
    go.touch()
    reach(process, lambda: away.exists() and ".wait," in _worker_log(place), "the wait")
    away.rename(place.origin)

    ran = ended(process)

    assert (ran.code, ran.outcomes) == (0, {7: "done"}), ran.stderr
    assert place.landed() == ["merge: #7 Say hello"]
    assert place.on_trunk("second-7.txt") == "the rest"
    assert [status_of(envelope) for envelope in place.envelopes(7)] == ["done"]
    assert len(list(place.attempt(7).glob("runs/*-agent"))) == 1
    assert (place.claims(), place.live_branches(), place.issue(7)["state"]) == ({}, {}, "closed")


def test_a_remote_that_stays_away_ends_the_attempt_and_gets_its_commits_later(
    place: Place, markers: tuple[Path, Path]
) -> None:
    """R59, R60: `infra` when patience is over; the commits are in a bundle at once, on the remote when it is back."""
    ready, go = markers
    away = place.origin.with_name("away.git")
    place.configure(recovery={"backoff_max_s": 1})
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    place.origin.rename(away)
    go.touch()
    reach(process, lambda: "report.wait" in _worker_log(place), "the end of patience")
    process.kill()
    ended(process)
    away.rename(place.origin)
    bundle = place.attempt(7) / "unpushed.bundle"
    assert "second-7.txt" in gitkit.git(place.clone, "log", "--name-only", "--format=", _tip_of(bundle))

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: "infra"}), ran.stderr
    assert place.labels(7) == {"ready-for-human", "blocked:infra"}
    assert "gave up waiting" in section(place.envelopes(7)[0], "outcome")
    assert "second-7.txt" in _files_of_the_live_branch(place)
    assert (len(place.envelopes(7)), place.claims()) == (1, {})


def _tip_of(bundle: Path) -> str:
    return gitkit.git(bundle.parent, "bundle", "list-heads", str(bundle)).split()[0]


def _files_of_the_live_branch(place: Place) -> list[str]:
    [branch] = place.live_branches() or ["main"]
    return gitkit.git(place.origin, "ls-tree", "--name-only", branch).splitlines()


def _worker_log(place: Place) -> str:
    return "".join(path.read_text() for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"))
