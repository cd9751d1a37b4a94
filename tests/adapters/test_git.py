from __future__ import annotations

from pathlib import Path

import gitkit
import pytest
from gitkit import commit, refs, sha

from afk.adapters import git
from afk.errors import BaseMissing, EmptyRemote, GitError, GitTooOld, NotARepository, RemoteMissing, RemoteUnreachable

# ── The program and the checkout ────────────────────────────────────────────────────────────────────────────────────


def test_the_version_that_is_there_is_new_enough() -> None:
    assert git.require_version() >= git.MINIMUM


@pytest.mark.parametrize(
    ("told", "is_fine"),
    [("2.37.9", False), ("1.8.3.1", False), ("2.38.0", True), ("2.53.0.windows.1", True), ("3.0.0-rc1", True)],
)
def test_a_git_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, is_fine: bool
) -> None:
    program = tmp_path / "git"
    program.write_text(f"#!/bin/sh\necho 'git version {told}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    if is_fine:
        assert git.require_version()[:2] >= git.MINIMUM
    else:
        with pytest.raises(GitTooOld, match=rf"git {told} is too old, 2\.38 or newer is needed"):
            git.require_version()


def test_the_checkout_is_found_from_anywhere_in_it(clone: Path, tmp_path: Path) -> None:
    gitkit.write(clone, {"deep/er/file": ""})
    assert git.toplevel(clone / "deep" / "er") == clone
    assert git.common_dir(clone / "deep") == clone / ".git"
    tree = tmp_path / "a tree\nwith a break"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(tree))
    assert git.toplevel(tree) == tree
    assert git.common_dir(tree) == clone / ".git"


def test_a_bare_repository_and_a_plain_directory_are_no_checkout(origin: Path, tmp_path: Path) -> None:
    for path in (origin, tmp_path):
        with pytest.raises(NotARepository):
            git.toplevel(path)


def test_worktrees_are_listed_with_lock_and_loss(clone: Path, tmp_path: Path) -> None:
    tip = sha(clone)
    for name in ("a", "b", "c"):
        gitkit.git(clone, "worktree", "add", "-q", "-b", name, str(tmp_path / name))
    gitkit.git(clone, "worktree", "lock", "--reason", "two\nlines", str(tmp_path / "a"))
    gitkit.git(clone, "worktree", "lock", str(tmp_path / "b"))
    (tmp_path / "c").rename(tmp_path / "moved")
    gitkit.git(clone, "checkout", "-q", "--detach")
    main, a, b, c = git.worktree_list(clone)
    assert main == git.WorktreeEntry(clone, tip, None, None, None)
    assert a == git.WorktreeEntry(tmp_path / "a", tip, "refs/heads/a", "two\nlines", None)
    assert (b.locked, b.prunable) == ("", None)
    assert c.locked is None
    assert c.prunable


def test_an_identity_is_what_somebody_set_and_never_a_guess(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git.identity(clone) == ("A Person", "person@example.invalid")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert git.identity(clone) is None
    gitkit.git(clone, "config", "user.name", "Jörg <x")
    gitkit.git(clone, "config", "user.email", "j@example.invalid")
    assert git.identity(clone) == ("Jörg x", "j@example.invalid")


def test_signing_is_told_as_it_is_configured(clone: Path) -> None:
    assert not git.signs_commits(clone)
    gitkit.git(clone, "config", "commit.gpgSign", "yes")
    assert git.signs_commits(clone)


def test_an_ignore_line_is_added_once_and_the_rest_stays(clone: Path) -> None:
    """R16: what afk leaves in a checkout is ignored without touching a file that people track."""
    path = clone / ".git" / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"# mine\r\n*.bak")
    assert git.local_exclude(clone, "/.red/issues/")
    assert not git.local_exclude(clone, "/.red/issues/")
    assert path.read_bytes() == b"# mine\r\n*.bak\n/.red/issues/\n"
    gitkit.write(clone, {".red/issues/1/issue.md": "x"})
    assert git.dirty_paths(clone) == []
    path.unlink()
    path.parent.rmdir()
    assert git.local_exclude(clone, "x")
    assert path.read_bytes() == b"x\n"


# ── Commits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_revision_is_a_full_sha_or_none(clone: Path) -> None:
    tip = sha(clone)
    gitkit.git(clone, "tag", "-a", "-m", "x", "v1")
    for rev in ("HEAD", "main", "refs/heads/main", "refs/remotes/origin/HEAD", tip, tip[:8], "v1^{commit}", "HEAD~0"):
        assert git.rev_parse(clone, rev) == tip, rev
    assert git.rev_parse(clone, "refs/tags/v1") == sha(clone, "refs/tags/v1") != tip
    for rev in ("refs/heads/nope", "nope", "HEAD~9", "f" * 39, "--all", "-x", "refs/heads/../../config", ""):
        assert git.rev_parse(clone, rev) is None, rev


def test_refs_are_read_afresh_wherever_git_keeps_them(clone: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    gitkit.git(clone, "worktree", "add", "-q", "-b", "side", str(tree))
    assert git.rev_parse(tree, "HEAD") == sha(clone)
    made = commit(tree, "work", {"a": "1"})
    assert git.rev_parse(tree, "HEAD") == git.rev_parse(clone, "refs/heads/side") == made != sha(clone)
    gitkit.git(clone, "pack-refs", "--all")
    assert not (clone / ".git" / "refs" / "heads" / "side").exists()
    assert git.rev_parse(tree, "HEAD") == git.rev_parse(clone, "refs/heads/side") == made
    (tree / "deep").mkdir()
    assert git.rev_parse(tree / "deep", "HEAD") == made


def test_a_branch_without_a_commit_has_no_revision(tmp_path: Path) -> None:
    gitkit.git(tmp_path, "init", "-q", "new")
    assert git.rev_parse(tmp_path / "new", "HEAD") is None
    assert git.current_branch(tmp_path / "new") == "refs/heads/main"


def test_a_repository_that_gitpython_cannot_read_is_read_all_the_same(tmp_path: Path) -> None:
    repo = tmp_path / "sha256"
    gitkit.git(tmp_path, "init", "-q", "--object-format=sha256", str(repo))
    made = commit(repo, "first", {"a": "1"})
    assert len(made) == 64
    assert git.rev_parse(repo, "HEAD") == git.rev_parse(repo, "refs/heads/main") == made


def test_a_broken_repository_is_an_error_and_not_an_absent_revision(clone: Path) -> None:
    (clone / ".git" / "HEAD").write_text("nonsense\n")
    with pytest.raises(NotARepository):
        git.rev_parse(clone, "HEAD")


def test_the_branch_of_a_checkout_is_none_when_head_is_detached(clone: Path) -> None:
    assert git.current_branch(clone) == "refs/heads/main"
    gitkit.git(clone, "checkout", "-q", "--detach")
    assert git.current_branch(clone) is None


def test_a_message_comes_whole_and_in_unicode(clone: Path) -> None:
    made = commit(clone, "Grüße\n\nBody\n  indented\n\nRefs: #1")
    assert git.commit_message(clone, made) == "Grüße\n\nBody\n  indented\n\nRefs: #1"
    gitkit.git(
        clone, "-c", "i18n.commitEncoding=latin1", "commit", "-q", "--allow-empty", "-F", "-", input="\udce9t\udce9\n"
    )
    assert git.commit_message(clone, "HEAD") == "été"
    raw = gitkit.git(clone, "cat-file", "commit", made).replace("Grüße", "\udcff bad")
    bad = gitkit.git(clone, "hash-object", "-t", "commit", "-w", "--stdin", input=raw)
    assert git.commit_message(clone, bad).startswith("\ufffd bad")


def test_ahead_and_ancestors_are_counted_or_raise(clone: Path) -> None:
    """L16: could not count is not zero."""
    base = sha(clone)
    tip = [commit(clone, str(n)) for n in range(3)][-1]
    assert git.commits_ahead(clone, base, tip) == 3
    assert git.commits_ahead(clone, tip, base) == 0
    assert git.is_ancestor(clone, base, tip)
    assert git.is_ancestor(clone, tip, tip)
    assert not git.is_ancestor(clone, tip, base)
    for question in (git.commits_ahead, git.is_ancestor, git.merge_base, git.diffstat, git.touched_files):
        with pytest.raises(GitError):
            question(clone, base, "f" * 40)


def test_histories_without_a_common_commit_have_no_merge_base(clone: Path) -> None:
    base = sha(clone)
    alone = git.commit_tree(clone, git.empty_tree(clone), [], "alone")
    assert git.merge_base(clone, base, alone) is None
    assert git.merge_base(clone, base, commit(clone, "x")) == base


def test_a_missing_branch_is_no_empty_diff(clone: Path) -> None:
    """L31: an empty diff means no checks, so a branch that is not there must raise."""
    for question in (git.diffstat, git.touched_files, git.has_conflict_markers):
        with pytest.raises(GitError, match="refs/heads/gone"):
            question(clone, "main", "refs/heads/gone")


def test_a_diff_is_what_the_branch_did_and_not_what_the_base_did_meanwhile(clone: Path) -> None:
    commit(
        clone, "base", {"keep": "1\n2\n3\n", "old name": "a\nb\nc\nd\ne\n", "binary": bytes(range(256)), "gone": "x\n"}
    )
    gitkit.git(clone, "checkout", "-q", "-b", "work")
    gitkit.git(clone, "mv", "old name", "new näme")
    gitkit.git(clone, "rm", "-q", "gone")
    commit(clone, "work", {"keep": "1\n2\nthree\nfour\n", "binary": b"\0changed", "tab\there": "something new\n"})
    gitkit.git(clone, "checkout", "-q", "main")
    commit(clone, "elsewhere", {"other": "1\n" * 50})
    assert git.touched_files(clone, "main", "work") == ["binary", "gone", "keep", "new näme", "old name", "tab\there"]
    assert git.diffstat(clone, "main", "work") == git.DiffStat(added=3, removed=2, files=5)
    assert git.diffstat(clone, "work", "work") == git.DiffStat(0, 0, 0)


def test_a_landed_trailer_counts_on_the_first_parent_line_only(clone: Path) -> None:
    base = sha(clone)
    gitkit.git(clone, "checkout", "-q", "-b", "work")
    forged = commit(clone, "agent\n\nAfk-Attempt: wAAAA-1-a1")
    gitkit.git(clone, "checkout", "-q", "main")
    landed = gitkit_merge(clone, "work", "merge: #1 x\n\nAfk-Worker: wAAAA\nAfk-Attempt: wAAAA-1-a1\nRefs: #1")
    commit(clone, "prose about Afk-Attempt: wAAAA-1-a1 is no trailer\n\nbecause it stands in a sentence.")
    commit(clone, "longer\n\nAfk-Attempt: wAAAA-1-a11")
    assert git.commits_with_trailer(clone, "main", "Afk-Attempt", "wAAAA-1-a1") == [landed]
    assert git.commits_with_trailer(clone, "work", "Afk-Attempt", "wAAAA-1-a1") == [forged]
    assert git.commits_with_trailer(clone, base, "Afk-Attempt", "wAAAA-1-a1") == []


def gitkit_merge(repo: Path, branch: str, message: str) -> str:
    gitkit.git(repo, "merge", "-q", "--no-ff", "-m", message, branch)
    return sha(repo)


# ── Refs and objects ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ref_moves_only_from_where_it_was_expected(clone: Path) -> None:
    a, ref = sha(clone), "refs/afk/x"
    b = commit(clone, "b")
    assert not git.update_ref(clone, ref, b, a)
    assert git.update_ref(clone, ref, a, None)
    assert not git.update_ref(clone, ref, b, None)
    assert not git.update_ref(clone, ref, a, b)
    assert git.update_ref(clone, ref, b, a)
    assert refs(clone, "refs/afk") == {ref: b}
    assert not git.update_ref(clone, ref, None, a)
    assert not git.update_ref(clone, ref, None, None)
    assert git.update_ref(clone, ref, None, b)
    assert git.update_ref(clone, ref, None, None)
    assert refs(clone, "refs/afk") == {}
    with pytest.raises(GitError):
        git.update_ref(clone, ref, "f" * 40, None)


def test_a_branch_is_deleted_only_where_it_was_and_while_nobody_works_on_it(clone: Path, tmp_path: Path) -> None:
    """R08: a branch that moved, or that a worktree has checked out, stays."""
    a = sha(clone)
    assert git.create_branch(clone, "afk/wAAAA/1-x", a)
    assert not git.create_branch(clone, "afk/wAAAA/1-x", a)
    gitkit.git(clone, "worktree", "add", "-q", str(tmp_path / "tree"), "afk/wAAAA/1-x")
    assert not git.delete_branch(clone, "afk/wAAAA/1-x", a)
    gitkit.git(clone, "worktree", "remove", str(tmp_path / "tree"))
    b = commit(clone, "b")
    assert not git.delete_branch(clone, "afk/wAAAA/1-x", b)
    assert git.delete_branch(clone, "afk/wAAAA/1-x", a)
    assert git.delete_branch(clone, "afk/wAAAA/1-x", a)
    assert not git.delete_branch(clone, "main", b)


def test_a_commit_is_made_of_a_tree_and_touches_no_ref(clone: Path) -> None:
    before, tip = gitkit.contents(clone / ".git" / "refs"), sha(clone)
    who = {f"GIT_{role}_{what}": f"x{what.lower()}" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    made = git.commit_tree(clone, git.tree_of(clone, "HEAD"), [tip, tip[:0] + tip], "Grüße\n\n# kept\n", env=who)
    assert git.commit_message(clone, made) == "Grüße\n\n# kept"
    assert gitkit.log(clone, f"{made}^!", form="%an %ae %cn %ce") == ["xname xemail xname xemail"]
    assert git.tree_of(clone, made) == git.tree_of(clone, tip)
    assert gitkit.contents(clone / ".git" / "refs") == before


def test_a_commit_without_any_identity_says_what_to_set(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    gitkit.git(clone, "config", "user.useConfigOnly", "true")
    with pytest.raises(GitError, match=r"git config --global user\.email"):
        git.commit_tree(clone, git.empty_tree(clone), [], "x")


# ── Remotes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_remote_is_known_by_its_configured_address(clone: Path, origin: Path) -> None:
    assert git.remote_url(clone, "origin") == git.push_url(clone, "origin") == gitkit.url(origin)
    with pytest.raises(RemoteMissing, match=r"no remote named 'upstream' \(there: origin\)") as caught:
        git.remote_url(clone, "upstream")
    assert caught.value.hint == f"git -C {clone} remote add upstream URL"
    gitkit.git(clone, "config", "url.ssh://git@host.invalid/.insteadOf", "gh:")
    gitkit.git(clone, "remote", "add", "short", "gh:owner/name")
    assert git.remote_url(clone, "short") == "gh:owner/name"
    gitkit.git(clone, "remote", "set-url", "--push", "origin", "ssh://git@host.invalid/x")
    assert git.push_url(clone, "origin") == "ssh://git@host.invalid/x"
    assert git.remote_url(clone, "origin") == gitkit.url(origin)


def test_a_relative_remote_means_the_same_from_every_worktree(clone: Path, origin: Path, tmp_path: Path) -> None:
    gitkit.git(clone, "remote", "set-url", "origin", "../origin.git")
    tree = tmp_path / "deep" / "down" / "tree"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(tree))
    assert git.remote_url(clone, "origin") == str(origin)
    assert git.ls_remote(tree, git.remote_url(clone, "origin"), "refs/heads/main")


def test_the_default_branch_is_asked_of_the_remote(tmp_path: Path, clone: Path) -> None:
    """R09: whatever it is called, and whatever is checked out here."""
    gitkit.git(clone, "checkout", "-q", "-b", "elsewhere")
    gitkit.git(clone, "checkout", "-q", "--detach")
    for name in ("main", "trunk", "release/1.x", "größe"):
        remote = gitkit.make_origin(tmp_path / f"{name.replace('/', '-')}.git", {"a": "1"}, branch=name)
        gitkit.git(remote, "branch", "other", name)
        assert git.default_branch(clone, gitkit.url(remote)) == name


def test_an_empty_remote_and_an_ambiguous_one_are_told_apart(tmp_path: Path, clone: Path, origin: Path) -> None:
    """R09: ambiguity is an error, not a guess."""
    empty = gitkit.make_origin(tmp_path / "empty.git", {})
    with pytest.raises(EmptyRemote, match="has no branch yet") as nothing:
        git.default_branch(clone, gitkit.url(empty))
    assert nothing.value.hint == "git push -u origin HEAD"
    gitkit.git(origin, "branch", "other", "main")
    gitkit.git(origin, "symbolic-ref", "HEAD", "refs/heads/gone")
    with pytest.raises(BaseMissing, match=r"there: main, other") as ambiguous:
        git.default_branch(clone, gitkit.url(origin))
    assert ambiguous.value.hint == "afk run --base main"
    gitkit.git(origin, "update-ref", "--no-deref", "HEAD", sha(origin, "main"))
    with pytest.raises(BaseMissing):
        git.default_branch(clone, gitkit.url(origin))


def test_a_head_that_names_nothing_means_the_only_branch_there_is(clone: Path, origin: Path) -> None:
    """R09: `git init --bare` says `master`, the person pushed `main`, and our own live branches are no choice."""
    gitkit.git(origin, "symbolic-ref", "HEAD", "refs/heads/master")
    gitkit.git(origin, "branch", "afk/wAAAA/1-x", "main")
    assert git.default_branch(clone, gitkit.url(origin)) == "main"


def test_a_name_asks_for_that_ref_and_not_for_longer_ones(clone: Path, origin: Path) -> None:
    tip = sha(clone)
    for ref in ("refs/heads/x/refs/heads/main", "refs/afk/claims/1", "refs/afk/claims/12", "refs/tags/light"):
        gitkit.git(origin, "update-ref", ref, tip)
    gitkit.git(origin, "tag", "-a", "-m", "x", "annotated", tip)
    url = gitkit.url(origin)
    assert git.ls_remote(clone, url, "refs/heads/main") == {"refs/heads/main": tip}
    assert git.ls_remote(clone, url, "refs/afk/claims/*") == {"refs/afk/claims/1": tip, "refs/afk/claims/12": tip}
    assert git.ls_remote(clone, url, "refs/afk/claims/1") == {"refs/afk/claims/1": tip}
    assert git.ls_remote(clone, url, "refs/heads/none") == {}
    assert set(git.ls_remote(clone, url, "refs/tags/*")) == {"refs/tags/light", "refs/tags/annotated"}
    assert "HEAD" in git.ls_remote(clone, url)


def test_a_fetch_moves_only_the_refs_it_was_given(clone: Path, origin: Path, tmp_path: Path) -> None:
    """R07: the base is what the remote has now, and nothing of the person's follows along."""
    other = gitkit.clone(gitkit.url(origin), tmp_path / "other")
    tip = commit(other, "new", {"a": "1"})
    gitkit.git(other, "tag", "-a", "-m", "x", "v1")
    gitkit.git(other, "push", "-q", "origin", "main", "v1", "main:side")
    gitkit.git(clone, "config", "fetch.prune", "true")
    gitkit.git(clone, "config", "fetch.pruneTags", "true")
    gitkit.git(clone, "tag", "mine")
    before = refs(clone)
    url = git.remote_url(clone, "origin")
    git.fetch(clone, url, "refs/heads/main")
    assert refs(clone) == before
    assert git.rev_parse(clone, tip) == tip
    assert git.fetch_into(clone, url, "refs/heads/main", "refs/afk/base/1") == tip
    assert refs(clone) == before | {"refs/afk/base/1": tip}
    assert not (clone / ".git" / "FETCH_HEAD").exists()
    git.update_ref(clone, "refs/afk/all/mine", tip, None)
    git.fetch(clone, url, "+refs/heads/*:refs/afk/all/*")
    assert set(refs(clone, "refs/afk/all")) == {f"refs/afk/all/{name}" for name in ("main", "side", "mine")}
    gitkit.git(other, "push", "-q", "--force", "origin", "HEAD^:main")
    assert git.fetch_into(clone, url, "refs/heads/main", "refs/afk/base/1") == before["refs/heads/main"]


def test_a_base_that_is_not_on_the_remote_is_named_and_no_old_copy_is_taken(clone: Path, origin: Path) -> None:
    """R07: when the fetch fails there is no silent way back to what was fetched once."""
    url = git.remote_url(clone, "origin")
    git.fetch_into(clone, url, "refs/heads/main", "refs/afk/base/1")
    with pytest.raises(BaseMissing, match="couldn't find remote ref refs/heads/nope"):
        git.fetch_into(clone, url, "refs/heads/nope", "refs/afk/base/1")
    with pytest.raises(RemoteUnreachable):
        git.fetch_into(clone, f"git://127.0.0.1:{gitkit.free_port()}/x", "refs/heads/main", "refs/afk/base/1")


def test_a_shallow_clone_is_deepened_until_the_histories_meet(origin: Path, clone: Path, tmp_path: Path) -> None:
    """R14: in a shallow clone a missing merge base means that we have not looked far enough."""
    fork = sha(origin, "main")
    gitkit.git(origin, "branch", "side", fork)
    gitkit.many_commits(origin, "main", 60)
    side = gitkit.many_commits(origin, "side", 1)
    shallow = tmp_path / "shallow"
    gitkit.git(tmp_path, "clone", "-q", "--depth=1", gitkit.url(origin), str(shallow))
    url, main = gitkit.url(origin), sha(shallow)
    assert git.is_shallow(shallow)
    assert not git.is_shallow(clone)
    gitkit.git(shallow, "fetch", "-q", "--depth=1", url, "+side:refs/afk/side")
    assert git.merge_base(shallow, main, side) is None
    assert git.find_merge_base(shallow, url, "refs/heads/main", main, side) == fork
    assert git.commits_ahead(shallow, fork, main) == 60


def test_a_whole_history_without_a_merge_base_is_an_error_at_once(clone: Path, origin: Path) -> None:
    alone = git.commit_tree(clone, git.empty_tree(clone), [], "alone")
    with pytest.raises(GitError, match="have no common history"):
        git.find_merge_base(clone, gitkit.url(origin), "refs/heads/main", sha(clone), alone)
