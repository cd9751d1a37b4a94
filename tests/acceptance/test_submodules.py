"""A project with submodules: filled, shared or left empty as configured, and never moved unasked (R12)."""

from __future__ import annotations

import os
from pathlib import Path

import gitkit
import pytest
from drainkit import Place

NESTED = "test -f vendor/lib/deep/deep.txt"


@pytest.fixture
def project(place: Place, tmp_path: Path) -> Place:
    """`vendor/lib`, which has a submodule `deep` of its own; both are addressed relative to the project."""
    settings = Path(os.environ["GIT_CONFIG_GLOBAL"]).read_text() + '[protocol "file"]\n\tallow = always\n'
    (tmp_path / "gitconfig").write_text(settings)
    place.environ["GIT_CONFIG_GLOBAL"] = str(tmp_path / "gitconfig")
    for name in ("deep", "lib"):
        bare = gitkit.make_origin(place.origin.parent / f"{name}.git", {f"{name}.txt": "x\n"})
        work = gitkit.clone(gitkit.url(bare), tmp_path / name)
        if name == "lib":
            _add(work, "../deep.git", "deep")
    _add(place.clone, "../lib.git", "vendor/lib")
    return place


def _add(repo: Path, url: str, path: str) -> None:
    allowed = ("-c", "protocol.file.allow=always")
    gitkit.git(repo, *allowed, "submodule", "--quiet", "add", url, path)
    gitkit.git(repo, "commit", "-qm", f"add {path}")
    gitkit.git(repo, "push", "-q", "origin", "HEAD")


@pytest.mark.parametrize("how", ["init", "shared"])
def test_a_worktree_has_its_submodules_and_takes_them_along(project: Place, how: str) -> None:
    """R12: nested ones too; nothing is written into the person's configuration, and nothing is left over."""
    project.configure(landing={"submodules": how}, validation={"checks": [{"name": "test", "run": NESTED}]})
    project.file(7, body="agent: done\n")
    before = (project.clone / ".git/config").read_bytes()

    ran = project.run()

    assert ran.outcomes == {7: "done"}, ran.stderr + str(project.comments(7))
    assert (project.clone / ".git/config").read_bytes() == before
    assert list((project.clone / ".git").glob("worktrees/*")) == []
    assert list(project.clone.glob(".red/tmp/workers/*/*/worktree*")) == []


def test_submodules_that_stay_empty_are_said(project: Place) -> None:
    project.file(7, body="agent: blocked\n")
    project.run()
    [log] = (project.clone / ".red/tmp/workers").glob("*/worker.log.toonl")
    assert "afk.landing.submodules is none: vendor/lib" in log.read_text()
    doctor = project.afk("doctor")
    [found] = [check for check in doctor.payload["checks"] if check["id"] == "submodules"]
    assert (found["status"], found["fix"]) == ("warn", "set afk.landing.submodules: init in .red/config.yaml")


def test_a_submodule_that_cannot_be_fetched_is_the_machines_fault(project: Place) -> None:
    project.configure(landing={"submodules": "init"}, recovery={"backoff_s": 0, "backoff_max_s": 1})
    (project.origin.parent / "lib.git").rename(project.origin.parent / "gone.git")
    project.file(7, body="agent: done\n")
    assert project.run().outcomes == {7: "infra"}
    assert "lib.git" in project.envelopes(7)[0]


def test_a_moved_submodule_waits_for_a_person_and_its_commit_is_kept(project: Place) -> None:
    """R12: the commit that the project would need is on no remote."""
    project.configure(landing={"submodules": "shared"})
    project.file(7, body="agent: moves_submodule\n")

    ran = project.run()

    assert ran.outcomes == {7: "hook-aborted"}, ran.stderr
    [envelope] = project.envelopes(7)
    assert "moves a submodule: vendor/lib" in envelope
    [(ref, sha)] = gitkit.refs(project.clone, "refs/afk/kept/").items()
    assert ref in envelope
    assert gitkit.git(project.clone, "show", f"{sha}:from-agent.txt") == "x"
    assert project.landed() == []
