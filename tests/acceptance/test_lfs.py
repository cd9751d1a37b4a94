"""A project with files in Git LFS, with the real git-lfs and a remote that keeps their content (R13)."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import gitkit
import pytest
from drainkit import Place

pytestmark = pytest.mark.skipif(shutil.which("git-lfs") is None, reason="git-lfs is not installed")

CONTENT = "the content\n" * 100


@pytest.fixture
def project(place: Place, tmp_path: Path) -> Place:
    """`big.bin` is in LFS; the checkout was made as people make one."""
    place.environ["GIT_CONFIG_GLOBAL"] = str(tmp_path / "gitconfig")
    shutil.copy(os.environ["GIT_CONFIG_GLOBAL"], tmp_path / "gitconfig")
    gitkit.git(place.clone, "lfs", "install", "--skip-repo", env=place.environ)
    gitkit.write(place.clone, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "big.bin": CONTENT})
    gitkit.git(place.clone, "add", "--all", "--", ".gitattributes", "big.bin", env=place.environ)
    gitkit.git(place.clone, "commit", "-qm", "big", env=place.environ)
    gitkit.git(place.clone, "lfs", "push", "origin", "main", env=place.environ)
    gitkit.git(place.clone, "push", "-q", "origin", "main", env=place.environ)
    return place


def check(run: str) -> dict[str, object]:
    return {"checks": [{"name": "test", "run": run}]}


def kept_by_server(project: Place) -> set[str]:
    return {path.name for path in (project.origin / "lfs").glob("objects/*/*/*")}


def test_pointers_are_told_where_a_check_fails_on_them(project: Place) -> None:
    """R13: nothing is fetched by default, and the first thing to know about the red check is said."""
    project.configure(validation=check("grep -q content big.bin"))
    project.file(7, body="agent: done\n")
    assert project.run().outcomes == {7: "feedback-failed"}
    assert "1 LFS files were pointers (afk.landing.lfs: pull fetches them)" in project.envelopes(7)[0]
    [found] = [entry for entry in project.afk("doctor").payload["checks"] if entry["id"] == "lfs"]
    assert (found["status"], found["fix"]) == ("warn", "set afk.landing.lfs: pull in .red/config.yaml")


def test_content_is_fetched_for_a_worktree_and_sent_before_it_lands(project: Place) -> None:
    """R13: whoever pulls the trunk finds what its pointers name."""
    project.configure(landing={"lfs": "pull"}, validation=check("grep -q content big.bin"))
    project.file(7, body="agent: done more.bin 'more content'\n")
    assert project.run().outcomes == {7: "done"}, project.comments(7)
    assert hashlib.sha256(b"more content").hexdigest() in kept_by_server(project)


def test_content_that_nobody_would_send_does_not_land(project: Place) -> None:
    project.file(7, body="agent: done more.bin 'more content'\n")
    assert project.run().outcomes == {7: "hook-aborted"}
    assert "adds LFS files whose content is on no server: more.bin" in project.envelopes(7)[0]
