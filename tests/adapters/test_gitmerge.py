from __future__ import annotations

from pathlib import Path

import gitkit
import pytest
from gitkit import commit, sha

from afk.adapters import git
from afk.errors import GitError


@pytest.fixture
def conflict(clone: Path) -> tuple[str, str]:
    """Two commits that cannot be merged in `a b` and `both`, and can in `clean`; the first is checked out on `main`."""
    start = commit(clone, "start", {"a b": "1\n", "clean": "1\n2\n3\n4\n5\n"})
    gitkit.git(clone, "checkout", "-q", "-b", "theirs")
    theirs = commit(clone, "theirs", {"a b": "theirs\n", "clean": "one\n2\n3\n4\n5\n", "both": "theirs\n"})
    gitkit.git(clone, "checkout", "-q", "-B", "main", start)
    return commit(clone, "ours", {"a b": "ours\n", "clean": "1\n2\n3\n4\nfive\n", "both": "ours\n"}), theirs


# ── Without a checkout ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_merge_is_computed_without_touching_anything(clone: Path) -> None:
    """R23, R79: the person's checkout may be dirty and on the very branch that is landed on."""
    start = commit(clone, "start", {"shared": "1\n2\n3\n4\n5\n"})
    gitkit.git(clone, "checkout", "-q", "-b", "work")
    theirs = commit(clone, "theirs", {"shared": "one\n2\n3\n4\n5\n", "new": "x\n"})
    gitkit.git(clone, "checkout", "-q", "-B", "main", start)
    ours = commit(clone, "ours", {"shared": "1\n2\n3\n4\nfive\n"})
    gitkit.write(clone, {"shared": "dirty\n", "untracked": "x"})
    gitkit.git(clone, "status")  # brings the index up to date, so that nothing else may change it
    before = _all_but_objects(clone)
    merged = git.merge_tree(clone, ours, theirs)
    assert merged.tree is not None
    assert (merged.conflicts, merged.text) == ((), "")
    assert _all_but_objects(clone) == before
    landed = git.commit_tree(clone, merged.tree, [ours, theirs], "merge")
    assert gitkit.git(clone, "show", f"{landed}:shared") == "one\n2\n3\n4\nfive"
    assert git.touched_files(clone, ours, landed) == ["new", "shared"]


def _all_but_objects(repo: Path) -> dict[str, bytes]:
    return {name: data for name, data in gitkit.contents(repo).items() if not name.startswith(".git/objects/")}


def test_a_merge_on_the_current_tip_keeps_what_others_landed(clone: Path) -> None:
    """R24: the branch is older than the base; what landed meanwhile stays, only the branch's files change."""
    start = sha(clone)
    gitkit.git(clone, "checkout", "-q", "-b", "work")
    work = commit(clone, "work", {"mine": "1\n"})
    gitkit.git(clone, "checkout", "-q", "-B", "main", start)
    base = commit(clone, "landed meanwhile", {"theirs": "1\n", "README.md": "changed\n"})
    merged = git.merge_tree(clone, base, work)
    assert merged.tree is not None
    landed = git.commit_tree(clone, merged.tree, [base, work], "merge")
    assert git.touched_files(clone, base, landed) == git.touched_files(clone, base, work) == ["mine"]


def test_a_conflict_names_its_paths_and_gits_account_of_it(clone: Path, conflict: tuple[str, str]) -> None:
    """L02: a conflict without its paths helps nobody."""
    merged = git.merge_tree(clone, *conflict)
    assert merged.tree is None
    assert merged.conflicts == ["a b", "both"]
    assert "CONFLICT (content): Merge conflict in a b" in merged.text
    assert "CONFLICT (add/add): Merge conflict in both" in merged.text
    assert "\0" not in merged.text


def test_branches_that_were_deleted_and_changed_conflict_too(clone: Path, conflict: tuple[str, str]) -> None:
    ours, theirs = conflict
    gitkit.git(clone, "checkout", "-q", "--detach", ours)
    gitkit.git(clone, "rm", "-q", "a b")
    deleted = commit(clone, "deleted")
    merged = git.merge_tree(clone, deleted, theirs)
    assert merged.conflicts == ["a b", "both"]
    assert "modify/delete" in merged.text


def test_histories_with_nothing_in_common_are_an_error_and_no_conflict(clone: Path) -> None:
    alone = git.commit_tree(clone, git.empty_tree(clone), [], "alone")
    with pytest.raises(GitError, match="unrelated histories"):
        git.merge_tree(clone, sha(clone), alone)


# ── In the attempt's worktree ───────────────────────────────────────────────────────────────────────────────────────


def test_the_base_is_merged_into_the_work_and_hooks_have_no_say(clone: Path) -> None:
    start = sha(clone)
    base = commit(clone, "base", {"base": "1\n"})
    gitkit.git(clone, "checkout", "-q", "-b", "work", start)
    forwarded = git.merge_into_worktree(clone, base, "x")
    assert (forwarded.tree, sha(clone)) == (git.tree_of(clone, base), base)
    gitkit.git(clone, "reset", "-q", "--hard", start)
    work = commit(clone, "work", {"work": "1\n"})
    gitkit.hook(clone, "pre-merge-commit", "exit 1")
    gitkit.hook(clone, "commit-msg", "exit 1")
    gitkit.git(clone, "config", "commit.gpgSign", "true")
    gitkit.git(clone, "config", "merge.ff", "only")
    merged = git.merge_into_worktree(clone, base, "merge: main into the work")
    assert merged.tree == git.tree_of(clone, "HEAD")
    assert gitkit.log(clone, "HEAD^!", form="%P %s") == [f"{work} {base} merge: main into the work"]
    assert git.dirty_paths(clone) == []
    assert git.merge_into_worktree(clone, base, "x").tree == merged.tree


def test_a_conflict_stays_in_the_tree_for_whoever_works_there(clone: Path, conflict: tuple[str, str]) -> None:
    """L18: the base is integrated while an agent can still solve what does not fit."""
    ours, theirs = conflict
    merged = git.merge_into_worktree(clone, theirs, "merge")
    assert merged.tree is None
    assert merged.conflicts == git.unmerged_paths(clone) == ["a b", "both"]
    assert "CONFLICT" in merged.text
    assert "<<<<<<< HEAD" in (clone / "a b").read_text()
    gitkit.write(clone, {"a b": "solved\n", "both": "solved\n"})
    gitkit.git(clone, "add", "a b")
    assert git.unmerged_paths(clone) == ["both"]
    git.abort_merge(clone)
    assert (sha(clone), git.dirty_paths(clone), git.unmerged_paths(clone)) == (ours, [], [])
    git.abort_merge(clone)


def test_a_dirty_tree_that_is_in_the_way_is_an_error_and_stays_as_it_is(clone: Path, conflict: tuple[str, str]) -> None:
    gitkit.write(clone, {"clean": "dirty\n"})
    with pytest.raises(GitError, match="would be overwritten by merge"):
        git.merge_into_worktree(clone, conflict[1], "merge")
    assert (clone / "clean").read_text() == "dirty\n"


def test_a_merge_needs_no_configured_identity(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = sha(clone)
    base = commit(clone, "base", {"base": "1\n"})
    gitkit.git(clone, "checkout", "-q", "-b", "work", start)
    commit(clone, "work", {"work": "1\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert git.merge_into_worktree(clone, base, "merge").tree
    assert gitkit.log(clone, "HEAD^!", form="%cn") == ["afk"]


# ── Conflict markers ────────────────────────────────────────────────────────────────────────────────────────────────

MARKED = "before\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> main\nafter\n"


def test_leftover_conflict_markers_are_found_where_the_branch_added_them(clone: Path) -> None:
    """R81: a conflict that was committed instead of solved does not land."""
    commit(clone, "base", {"old": MARKED, "cured": MARKED, "heading.rst": "x\n"})
    gitkit.git(clone, "checkout", "-q", "-b", "work")
    commit(
        clone,
        "work",
        {
            "old": MARKED + "one more line\n",
            "cured": "before\nboth\nafter\n",
            "heading.rst": "Heading\n=======\n",
            "shell.md": "cat <<<<<<< x\n<<<<<<< only one end\n",
            "dir/bäd file": MARKED,
            "windows": MARKED.replace("\n", "\r\n"),
            "fine": "x\n",
        },
    )
    assert git.has_conflict_markers(clone, "main", "work") == ["dir/bäd file", "windows"]
    assert git.has_conflict_markers(clone, "work", "work") == []
