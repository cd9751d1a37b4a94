"""The person's own checkout: whatever a drain does, it is byte for byte what it was, and their hooks are theirs."""

from __future__ import annotations

from pathlib import Path

import gitkit
import pytest
from drainkit import Place, ended, reach, section, status_of

# Every hook that git could run for something that `afk` does; they log the git command that ran them.
HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit", "post-merge", "pre-push"),
    *("post-checkout", "post-rewrite", "reference-transaction", "post-index-change", "pre-rebase", "pre-auto-gc"),
)


@pytest.mark.parametrize("hooks", ["in .git/hooks", "by core.hooksPath"])
def test_a_drain_that_lands_parks_and_conflicts_leaves_the_checkout_alone(
    place: Place, tmp_path: Path, hooks: str
) -> None:
    """R15, R16, R23, R79: with the base branch itself checked out and dirty, and hooks that must not run for us."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    _person_at_work(place.clone)
    _install_hooks(place.clone, tmp_path / "ran", by_setting="hooksPath" in hooks)
    place.file(1, "Lands", "agent: done\n")
    place.file(2, "Parks", "agent: blocked\n")
    place.file(3, "Conflicts", f"agent: conflicts README.md {ready} {go}\n")
    place.configure(recovery={"tries": {"merge-conflict": 1}})
    before = place.checkout()

    process = place.start("run", "--json")
    reach(process, ready.exists, "the agent's commit")
    place.push("by a person", {"README.md": "by a person\n"})
    go.touch()
    ran = ended(process)

    assert ran.outcomes == {1: "done", 2: "blocked", 3: "merge-conflict"}, ran.stderr
    _is_the_same(place, before)
    assert "the checkout changed" not in place.envelopes(3)[0]
    callers = (tmp_path / "ran").read_text().splitlines()
    assert any(line.startswith("git commit") for line in callers)  # the agents' own: they are in the repository too
    assert [line for line in callers if "--no-pager" in line] == []


@pytest.mark.parametrize("at", ["another branch", "a detached HEAD", "an older commit of the base branch"])
def test_it_does_not_matter_what_is_checked_out(place: Place, at: str) -> None:
    """R09, R23, R79: work starts from the remote's default branch and lands there, whatever HEAD is."""
    gitkit.commit(place.clone, "mine, not pushed", {"mine.txt": "mine\n"})
    if at == "another branch":
        gitkit.git(place.clone, "switch", "-q", "-c", "my/topic")
    elif at == "a detached HEAD":
        gitkit.git(place.clone, "switch", "-q", "--detach")
    else:
        place.push("theirs", {"theirs.txt": "theirs\n"})
    _person_at_work(place.clone)
    place.file(7, "Lands", "agent: done\n")
    before = place.checkout()

    ran = place.run()

    assert ran.outcomes == {7: "done"}, ran.stderr
    _is_the_same(place, before)
    assert place.on_trunk("work-7.txt") == "the work"
    assert "mine.txt" not in gitkit.git(place.origin, "ls-tree", "--name-only", "main").splitlines()


def test_no_setting_of_a_repository_hinders_or_is_touched(place: Place) -> None:
    """R15, R18, R79: settings that change what git does and prints are the person's, and none reaches our writes."""
    for key, value in {
        "push.default": "nothing",
        "push.gpgSign": "false",
        "pull.rebase": "true",
        "merge.ff": "only",
        "commit.template": "/nowhere",
        "status.branch": "true",
        "status.showUntrackedFiles": "no",
        "core.autocrlf": "input",
        "diff.noprefix": "true",
        "fetch.prune": "true",
        "remote.origin.prune": "true",
        "push.followTags": "true",
        "branch.autoSetupMerge": "always",
        "color.ui": "always",
        "alias.push": "!false",
    }.items():
        gitkit.git(place.clone, "config", key, value)
    gitkit.git(place.clone, "tag", "-a", "v1", "-m", "mine alone")
    gitkit.git(place.clone, "update-ref", "refs/remotes/origin/long-gone", "HEAD")
    place.file(7, "Lands", "agent: done\n")
    before = place.checkout()

    ran = place.run()

    assert ran.outcomes == {7: "done"}, ran.stderr
    _is_the_same(place, before)
    assert gitkit.refs(place.origin, "refs/tags/") == {}


@pytest.mark.parametrize("how", ["gitfile", "directory", "replaced", "linked", "pointed"])
def test_a_worktree_that_its_agent_destroyed_never_leads_git_to_the_checkout_around_it(place: Place, how: str) -> None:
    """R22, R60, R79, S28: what was committed is on the remote, and the next issue is worked."""
    _person_at_work(place.clone)
    place.file(7, body=f"agent: wrecks_worktree {how}\n")
    place.file(8)
    before = place.checkout()

    ran = place.run()

    assert ran.outcomes == {7: "infra", 8: "done"}, ran.stderr
    _is_the_same(place, before)
    [branch] = place.live_branches()
    assert gitkit.git(place.origin, "show", f"{branch}:work-7.txt") == "the work"
    assert place.labels(7) == {"ready-for-human", "blocked:infra"}
    assert place.claims() == {}


def test_a_commit_hook_that_refuses_the_agent_loses_no_work(place: Place) -> None:
    """R17: the hook is the repository's and counts; what it refused is kept as a patch, its words are in the report."""
    gitkit.hook(place.clone, "pre-commit", "echo 'no commit without a ticket' >&2; exit 1")
    place.file(7, "Lands", "agent: dirty_tree\n")

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    [envelope] = place.envelopes(7)
    assert status_of(envelope) == "blocked"
    assert "work-7.txt" in section(envelope, "outcome")
    assert "+the work" in (place.attempt(7) / "uncommitted.patch").read_text()


def _person_at_work(clone: Path) -> None:
    """Staged, changed, deleted, untracked and ignored files, a stash, a note, a commit of one's own."""
    gitkit.commit(clone, "some files", {"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n", ".gitignore": "*.log\n"})
    gitkit.write(clone, {"b.txt": "to be stashed\n"})
    gitkit.git(clone, "stash", "-q")
    gitkit.write(clone, {"a.txt": "staged\n", "new.txt": "staged too\n"})
    gitkit.git(clone, "add", "a.txt", "new.txt")
    gitkit.write(clone, {"a.txt": "staged and changed\n", "b.txt": "changed\n", "own.txt": "x\n", "y.log": "ignored\n"})
    (clone / "c.txt").unlink()
    (clone / "link").symlink_to("a.txt")


def _install_hooks(clone: Path, log: Path, *, by_setting: bool) -> None:
    """Each notes the command line of the git that ran it; those of `afk` all carry `--no-pager`."""
    for name in HOOKS:
        gitkit.hook(clone, name, f"tr '\\0' ' ' < /proc/$PPID/cmdline >> {log}; echo >> {log}")
    if by_setting:
        (clone / ".git/hooks").rename(clone / ".husky")
        gitkit.git(clone, "config", "core.hooksPath", str(clone / ".husky"))


def _is_the_same(place: Place, before: dict[str, tuple[int, bytes]]) -> None:
    """But for lines that `info/exclude` gained."""
    after = place.checkout()
    exclude = ".git/info/exclude"
    gained = after.pop(exclude)[1].removeprefix(before.get(exclude, (0, b""))[1])
    assert gained.decode().split() == ["/.red/issues/"]
    assert {name: data for name, data in before.items() if name != exclude} == after
