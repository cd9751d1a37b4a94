"""Saving what only a directory or a branch holds, before a sweep removes it: `.red/state/kept/{attempt}/`.

Commits become bundles and not pushes: a push needs a claim, and whoever took a live branch away from the remote meant
it. Every step may be taken again after a crash and ends in the same files.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from afk.adapters import git, submodules
from afk.adapters.files import write_atomic
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId
from afk.errors import GitError, NotARepository
from afk.supervisor.survey import Left, Survey

__all__ = ["Haven", "folder_of", "save_commit", "save_directory"]


def folder_of(project: Project, attempt: AttemptId) -> Path:
    """Where what is saved of an attempt is kept; made by whoever saves something."""
    return project.state / "kept" / str(attempt)


class Haven:
    """Where else a commit is: on the remote, or held by something here that no sweep removes."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._root = survey.project.root

    def has(self, sha: str, branch_ref: str) -> bool:
        """Whether it is safe without the worktree, the local branch `branch_ref` and our pointers to it."""
        heads = self._survey.heads
        if sha in heads.values() or self.holds_here(sha):
            return True
        return any(self._is_in(sha, tip) for tip in (heads.get(branch_ref), self.base_tip) if tip is not None)

    def holds_here(self, sha: str) -> bool:
        """Whether a branch or tag of the person's holds it, without asking the remote."""
        holders = git.local_refs(self._root, "refs/heads", "refs/tags", "refs/remotes", containing=sha)
        return any(not _is_ours(ref) for ref in holders)

    @cached_property
    def base_tip(self) -> str | None:
        """The base on the remote, its commits fetched; None when it has none."""
        project = self._survey.project
        ref = f"refs/heads/{project.default_base}"
        tip = self._survey.heads.get(ref)
        if tip is not None and git.rev_parse(self._root, f"{tip}^{{commit}}") is None:
            git.fetch(self._root, project.url, ref)
        return tip

    def _is_in(self, sha: str, tip: str) -> bool:
        return git.rev_parse(self._root, f"{tip}^{{commit}}") is not None and git.is_ancestor(self._root, sha, tip)


def _is_ours(ref: str) -> bool:
    """Live branches and what a person's fetch copied of them: the remote's may go in this very sweep."""
    return ref.startswith("refs/heads/afk/") or (ref.startswith("refs/remotes/") and "/afk/" in ref)


def save_directory(project: Project, attempt: AttemptId, directory: Path, branch_ref: str, haven: Haven) -> str:
    """Save the commits, changes, patches and bundles that are nowhere else; says what was saved, "" for nothing.

    `worktree.left-…` beside the worktree is not looked into: it was set aside before the agent ran, and is no work.
    Raises `Left` when something is there that cannot be saved.
    """
    worktree = directory / "worktree"
    head, dirty = _look_into(worktree)
    into = folder_of(project, attempt)
    tips = dict.fromkeys(sha for sha in (git.rev_parse(project.root, branch_ref), head) if sha)
    saved = [save_commit(project, into, sha, haven) for sha in tips if not haven.has(sha, branch_ref)]
    for path in [*directory.glob("*.patch"), *directory.glob("*.bundle")]:
        if path.is_file() and not path.is_symlink():
            _make(project, into)
            path.replace(into / path.name)
            saved.append(path.name)
    if dirty:
        _make(project, into)
        git.save_patch(worktree, into / "uncommitted.patch")
        saved.append("uncommitted.patch")
    return f"saved in {into}: {', '.join(dict.fromkeys(saved))}" if saved else ""


def save_commit(project: Project, into: Path, sha: str, haven: Haven) -> str:
    """Bundle what the base lacks of a commit; the name of the file."""
    target = into / f"{sha[:12]}.bundle"
    if not target.exists():
        _make(project, into)
        base = haven.base_tip and git.merge_base(project.root, haven.base_tip, sha)
        git.bundle(project.root, target, base, sha)
    return target.name


def _make(project: Project, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ignore = project.state / ".gitignore"
    if not ignore.exists():
        write_atomic(ignore, "*\n")


def _look_into(worktree: Path) -> tuple[str | None, list[str]]:
    """Its HEAD and its dirty paths; nothing for a worktree that is gone or empty."""
    if not os.path.lexists(worktree):
        return None, []
    if worktree.is_symlink() or not worktree.is_dir():
        raise Left("unsavable", f"{worktree} is no directory; look at it, then remove it by hand")
    if not any(worktree.iterdir()):
        worktree.rmdir()
        return None, []
    try:
        head, dirty = git.rev_parse(worktree, "HEAD"), git.dirty_paths(worktree)
        inside = {link.path for link in submodules.links(worktree, "HEAD")} if dirty and head else set()
    except (GitError, NotARepository) as error:
        raise Left(
            "unsavable",
            f"{worktree} cannot be read by git, so what is in it cannot be saved; look at it, then remove it",
        ) from error
    if lost := [path for path in dirty if path.endswith("/") or path in inside]:
        raise Left("unsavable", f"a repository inside the worktree has changes of its own: {', '.join(lost[:3])}")
    return head, dirty
