from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import gitkit
import pytest
from gitkit import commit, refs, sha

from afk.adapters import git, worktrees
from afk.adapters.process import Identity, identity_of
from afk.adapters.worktrees import Removal, WorktreeOwner
from afk.errors import GitError, GitTimeout

ATTEMPT = "wZ2R4-142-a1"
BRANCH = "afk/wZ2R4/142-fix-it"


@pytest.fixture
def path(clone: Path) -> Path:
    """Where an attempt has its worktree, inside the person's checkout and ignored there."""
    gitkit.write(clone, {".red/tmp/.gitignore": "*\n"})
    return clone / ".red" / "tmp" / "workers" / "wZ2R4" / "142-a1" / "worktree"


@pytest.fixture(scope="module")
def dead() -> Identity:
    """A process that is no more."""
    child = subprocess.Popen(["sleep", "60"])
    identity = identity_of(child.pid)
    child.kill()
    child.wait()
    assert identity is not None
    return identity


def lock_reason(clone: Path, path: Path) -> str | None:
    return next((entry.locked for entry in git.worktree_list(clone) if entry.path == path), None)


def relock(path: Path, reason: str) -> None:
    gitkit.git(path, "worktree", "unlock", str(path))
    gitkit.git(path, "worktree", "lock", "--reason", reason, str(path))


def abandoned(clone: Path, path: Path, dead: Identity) -> str:
    """A worktree whose maker died right after making it; returns the sha it is at."""
    tip = sha(clone)
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    relock(path, str(WorktreeOwner(ATTEMPT, dead, socket.gethostname())))
    return tip


def nothing_left(clone: Path, path: Path) -> bool:
    listed = [entry.path for entry in git.worktree_list(clone)]
    beside = [each.name for each in path.parent.iterdir()] if path.parent.exists() else []
    return (listed, beside, refs(clone, "refs/heads/afk")) == ([clone], [], {})


# ── Making ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worktree_is_made_on_a_new_branch_and_is_clean(clone: Path, path: Path) -> None:
    """R16: `git status` is empty after creation, and nothing of ours lies in it."""
    tip = sha(clone)
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert git.dirty_paths(path) == []
    assert gitkit.git(path, "status", "--porcelain", "--ignored") == ""
    assert (sha(path), git.current_branch(path)) == (tip, f"refs/heads/{BRANCH}")
    assert sorted(each.name for each in path.iterdir()) == [".git", "README.md"]
    assert git.dirty_paths(clone) == []


def test_the_persons_checkout_is_byte_for_byte_the_same(clone: Path, path: Path) -> None:
    """R79: HEAD, index, configuration, hooks, reflog and every file, dirty ones included, through add and remove."""
    gitkit.git(clone, "config", "branch.autoSetupMerge", "always")
    gitkit.git(clone, "config", "push.autoSetupRemote", "true")
    for hook in ("post-checkout", "post-commit", "reference-transaction"):
        gitkit.hook(clone, hook, f"touch '{clone}/hook-ran'")
    gitkit.write(clone, {"README.md": "dirty\n", "untracked": "x", "staged": "x"})
    gitkit.git(clone, "add", "staged")
    (clone / "hook-ran").unlink(missing_ok=True)
    before = _of_the_person(clone)
    worktrees.add(clone, path, BRANCH, sha(clone, "refs/remotes/origin/main"), ATTEMPT)
    assert _of_the_person(clone) == before
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)
    assert git.delete_branch(clone, BRANCH, sha(clone))
    assert _of_the_person(clone) == before


def _of_the_person(clone: Path) -> dict[str, bytes]:
    """Everything but objects and what belongs to the branch and the worktree of the attempt."""
    ours = (".git/objects/", ".git/worktrees/", ".git/refs/heads/afk", ".git/logs/refs/heads/afk", ".red/tmp/")
    return {name: data for name, data in gitkit.contents(clone).items() if not name.startswith(ours)}


def test_the_lock_says_whose_it_is_in_words_that_can_be_read_back(clone: Path, path: Path) -> None:
    """R04: host, pid, start time and attempt stand in git's own lock."""
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    owner = WorktreeOwner.parse(lock_reason(clone, path))
    assert owner == WorktreeOwner(ATTEMPT, _us(), socket.gethostname())
    assert str(owner).startswith(f"afk {ATTEMPT} (pid {os.getpid()}, start {_us().pid_start_time}, ")
    for foreign in (None, "", "moving house", "afk", f"afk {ATTEMPT} (pid x, start 1, boot 2, host 3)"):
        assert WorktreeOwner.parse(foreign) is None


def _us() -> Identity:
    us = identity_of()
    assert us is not None
    return us


def test_a_worktree_outlives_a_prune(clone: Path, path: Path) -> None:
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    path.rename(path.with_name("elsewhere"))
    gitkit.git(clone, "worktree", "prune", "--expire=now")
    assert lock_reason(clone, path)


ADDER = """
import sys
from pathlib import Path
from afk.adapters import git, worktrees
clone, name = Path(sys.argv[1]), sys.argv[2]
sha = git.rev_parse(clone, "HEAD")
print("ready", flush=True)
sys.stdin.readline()
try:
    for n in range(6):
        path = clone / ".red" / "tmp" / name / str(n) / "worktree"
        worktrees.add(clone, path, f"afk/{name}/{n}-x", sha, f"{name}-{n}-a1")
        if n % 2 or name == "wDDDD":
            assert worktrees.remove(clone, path, owner=f"{name}-{n}-a1").gone
    print("fine")
except Exception as error:
    print(repr(error))
"""


def test_parallel_starts_never_fail_on_each_others_locks(clone: Path) -> None:
    names = ["wAAAA", "wBBBB", "wCCCC", "wDDDD"]
    assert gitkit.all_at_once(ADDER, [[str(clone), name] for name in names]) == ["fine"] * 4
    assert len(git.worktree_list(clone)) == 1 + 3 * 3
    assert len(refs(clone, "refs/heads/afk")) == 4 * 6


MAKER = """
import sys
from pathlib import Path
from afk.adapters import git, worktrees
clone, path, branch, attempt = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
worktrees.add(clone, path, branch, git.rev_parse(clone, "HEAD"), attempt)
"""


def test_a_ref_lock_that_another_git_holds_is_waited_for(clone: Path, path: Path) -> None:
    lock = clone / ".git" / "refs" / "heads" / "afk" / "wZ2R4" / "142-fix-it.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    maker = gitkit.python(MAKER, str(clone), str(path), BRANCH, ATTEMPT)
    gitkit.wait_until(lambda: _is_running("branch", BRANCH), "git to make the branch")
    time.sleep(0.3)  # three times as long as git waits of its own accord
    lock.unlink()
    maker.communicate()
    assert maker.returncode == 0
    assert sha(path) == sha(clone)


def _is_running(*words: str) -> bool:
    """Whether some process has these words in its command line."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if {word.encode() for word in words} <= set(each.read_bytes().split(b"\0")):
                return True
    return False


ONCE = """#!/bin/sh
case "$*" in *"worktree add"*)
    if mkdir '{mark}' 2>/dev/null; then
        echo "fatal: could not create directory of '.git/worktrees/worktree': No such file or directory" >&2
        exit 128
    fi
esac
exec {git} "$@"
"""


def test_a_directory_that_vanished_with_the_last_worktree_is_made_again(
    clone: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in about one of 300 starts while others remove theirs; here git's words for it come from a wrapper."""
    program, mark = tmp_path / "bin" / "git", tmp_path / "failed once"
    program.parent.mkdir()
    program.write_text(ONCE.format(mark=mark, git=shutil.which("git")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    assert mark.exists()
    assert git.dirty_paths(path) == []


# ── What fails leaves nothing ───────────────────────────────────────────────────────────────────────────────────────


def test_a_start_that_fails_leaves_neither_directory_nor_branch_nor_entry(clone: Path, path: Path) -> None:
    """R01: the next try does not meet a half-made one."""
    gitkit.git(clone, "config", "filter.broken.clean", "cat")
    gitkit.git(clone, "config", "filter.broken.smudge", "false")
    gitkit.git(clone, "config", "filter.broken.required", "true")
    tip = commit(clone, "a file that cannot be checked out", {".gitattributes": "*.bin filter=broken\n", "x.bin": "x"})
    with pytest.raises(GitError, match="smudge filter broken failed"):
        worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert nothing_left(clone, path)
    gitkit.git(clone, "config", "filter.broken.smudge", "cat")
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert sha(path) == tip


def test_a_start_that_takes_too_long_leaves_nothing(clone: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R01: git, killed in the middle, cleans up nothing itself."""
    monkeypatch.setattr(worktrees, "_ADD_S", 0.5)
    gitkit.git(clone, "config", "filter.slow.smudge", "sleep 600")
    tip = commit(clone, "slow", {".gitattributes": "*.bin filter=slow\n", "a.bin": "x"})
    with pytest.raises(GitTimeout):
        worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert nothing_left(clone, path)


def test_a_commit_that_is_not_there_leaves_nothing(clone: Path, path: Path) -> None:
    with pytest.raises(GitError):
        worktrees.add(clone, path, BRANCH, "f" * 40, ATTEMPT)
    assert nothing_left(clone, path)


def test_a_branch_that_cannot_be_named_leaves_nothing(clone: Path, path: Path) -> None:
    """R10: the length of a ref is the file system's, and git's words are told."""
    with pytest.raises(GitError, match=r"File name too long|not a valid branch name"):
        worktrees.add(clone, path, "afk/wZ2R4/142-" + "x" * 300, sha(clone), ATTEMPT)
    assert nothing_left(clone, path)


def test_after_a_kill_in_the_middle_of_a_checkout_the_next_try_succeeds(
    clone: Path, path: Path, tmp_path: Path
) -> None:
    """R01, R02: directory, entry, branch and index lock of the dead are recognised by the record in git's own lock."""
    marker, go_on = tmp_path / "in the middle", tmp_path / "go on"
    slow = f"touch '{marker}'; while ! test -e '{go_on}'; do sleep 0.01; done; cat"
    gitkit.git(clone, "config", "filter.slow.smudge", slow)
    tip = commit(clone, "slow", {".gitattributes": "*.bin filter=slow\n", "a.bin": "x", "z": "later"})
    maker = gitkit.python(MAKER, str(clone), str(path), BRANCH, ATTEMPT)
    gitkit.wait_until(marker.exists, "the checkout")
    with pytest.raises(GitError, match=rf"is locked: afk {ATTEMPT} \(pid {maker.pid},"):
        worktrees.add(clone, path, BRANCH, tip, ATTEMPT)  # R04: the maker lives
    assert not worktrees.remove(clone, path, owner=ATTEMPT).gone
    maker.kill()
    maker.communicate()
    for entry in Path("/proc").glob("[0-9]*/cwd"):  # its git leads its own session, and is killed as an OOM would
        try:
            if entry.readlink() in (path, clone) and int(entry.parent.name) != os.getpid():
                os.kill(int(entry.parent.name), 9)
        except OSError:
            continue
    go_on.touch()
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert git.dirty_paths(path) == []
    assert len(git.worktree_list(clone)) == 2


# ── The four cases of directory × registration, and the branch ──────────────────────────────────────────────────────


def test_neither_directory_nor_entry_but_a_branch_at_the_same_commit(clone: Path, path: Path) -> None:
    """R08: such a branch holds nothing, and is made anew."""
    gitkit.git(clone, "branch", BRANCH)
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    assert git.current_branch(path) == f"refs/heads/{BRANCH}"


def test_a_branch_with_other_commits_is_never_moved_or_deleted(clone: Path, path: Path) -> None:
    """R08: what it points to may be somebody's work."""
    start = sha(clone)
    other = commit(clone, "work")
    gitkit.git(clone, "branch", BRANCH)
    with pytest.raises(GitError, match=f"branch {BRANCH} exists already"):
        worktrees.add(clone, path, BRANCH, start, ATTEMPT)
    assert refs(clone, "refs/heads/afk") == {f"refs/heads/{BRANCH}": other}
    gitkit.git(clone, "worktree", "add", "-q", str(clone.parent / "mine"), BRANCH)
    with pytest.raises(GitError, match="exists already"):
        worktrees.add(clone, path, BRANCH, other, ATTEMPT)
    assert refs(clone, "refs/heads/afk") == {f"refs/heads/{BRANCH}": other}


def test_an_entry_whose_directory_is_gone_is_forgotten_alone(clone: Path, path: Path, dead: Identity) -> None:
    """R03: locked entries survive every prune, and other people's prunable ones are none of our business."""
    tip = abandoned(clone, path, dead)
    theirs = clone.parent / "theirs"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(theirs))
    theirs.rename(clone.parent / "moved by hand")
    path.rename(clone.parent / "lost")
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert git.dirty_paths(path) == []
    assert {entry.path for entry in git.worktree_list(clone)} == {clone, theirs, path}


def test_a_directory_that_git_forgot_is_set_aside_with_its_work(clone: Path, path: Path, dead: Identity) -> None:
    """R02: without an entry git refuses for ever; what lies there may be work, so it is moved and not deleted."""
    tip = abandoned(clone, path, dead)
    gitkit.write(path, {"work": "uncommitted"})
    gitkit.git(clone, "worktree", "unlock", str(path))
    path.rename(path.with_name("hidden"))
    gitkit.git(clone, "worktree", "prune", "--expire=now")
    path.with_name("hidden").rename(path)
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    (left,) = path.parent.glob("worktree.left-*")
    assert (left / "work").read_text() == "uncommitted"
    assert git.dirty_paths(path) == []


def test_an_untouched_worktree_is_taken_over(clone: Path, path: Path, dead: Identity) -> None:
    """R01: the maker died before it could write down that it had made it."""
    tip = abandoned(clone, path, dead)
    inode = path.stat().st_ino
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert path.stat().st_ino == inode
    owner = WorktreeOwner.parse(lock_reason(clone, path))
    assert owner is not None
    assert owner.process == _us()
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)


def test_a_worktree_in_which_somebody_worked_is_set_aside(clone: Path, path: Path, dead: Identity) -> None:
    tip = abandoned(clone, path, dead)
    gitkit.write(path, {"work": "uncommitted"})
    worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    (left,) = path.parent.glob("worktree.left-*")
    assert (left / "work").read_text() == "uncommitted"
    assert git.dirty_paths(path) == []


def test_a_worktree_with_commits_is_set_aside_and_its_branch_stays(clone: Path, path: Path, dead: Identity) -> None:
    tip = abandoned(clone, path, dead)
    made = commit(path, "work", {"a": "1"})
    with pytest.raises(GitError, match="exists already"):
        worktrees.add(clone, path, BRANCH, tip, ATTEMPT)
    assert refs(clone, "refs/heads/afk") == {f"refs/heads/{BRANCH}": made}


def test_an_empty_directory_in_the_way_is_used_and_a_strangers_is_left(clone: Path, path: Path) -> None:
    """R05: what afk did not make is neither deleted nor moved."""
    path.mkdir(parents=True)
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    worktrees.remove(clone, path, owner=ATTEMPT)
    path.mkdir()
    (path / "notes").write_text("mine")
    with pytest.raises(GitError, match="was not made by afk"):
        worktrees.add(clone, path, "afk/wZ2R4/142-other", sha(clone), ATTEMPT)
    assert (path / "notes").read_text() == "mine"
    gitkit.git(clone, "clone", "-q", str(clone), str(path.with_name("a clone")))
    path.rename(path.with_name("aside"))
    path.with_name("a clone").rename(path)
    with pytest.raises(GitError, match="was not made by afk"):
        worktrees.add(clone, path, "afk/wZ2R4/142-other", sha(clone), ATTEMPT)
    path.rename(path.with_name("again"))
    path.symlink_to(path.with_name("aside"))
    with pytest.raises(GitError, match="was not made by afk"):
        worktrees.add(clone, path, "afk/wZ2R4/142-other", sha(clone), ATTEMPT)


# ── Removing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worktree_is_removed_whatever_is_in_it_and_its_branch_stays(clone: Path, path: Path) -> None:
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    tip = commit(path, "work", {"a": "1"})
    gitkit.write(path, {"dirty": "x", "deep/down/here": "x"})
    (path / "deep" / "link").symlink_to(clone)
    (path / "deep" / "down").chmod(0o500)
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)
    assert [each.name for each in path.parent.iterdir()] == []
    assert [entry.path for entry in git.worktree_list(clone)] == [clone]
    assert (clone / "README.md").exists()
    assert refs(clone, "refs/heads/afk") == {f"refs/heads/{BRANCH}": tip}
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)


NOBODY = """
import os, sys
from pathlib import Path
from afk.adapters import worktrees
if os.getuid() == 0:
    os.setuid(65534)  # root is stopped by nothing
print(repr(worktrees.delete_tree(Path(sys.argv[1]))))
"""


def test_a_read_only_cache_in_a_worktree_does_not_resist() -> None:
    """Package caches are written without write permission, and would be there for ever."""
    with tempfile.TemporaryDirectory() as directory:
        gitkit.write(Path(directory), {"gone/cache/module/file": "x"})
        for each in (Path(directory), *Path(directory).rglob("*")):
            os.chown(each, 65534 if os.getuid() == 0 else -1, -1)
        (Path(directory) / "gone" / "cache" / "module").chmod(0o500)
        argv = [sys.executable, "-c", NOBODY, f"{directory}/gone"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert done.stdout == "''\n"
        assert list(Path(directory).iterdir()) == []


def test_a_removal_that_was_cut_short_is_finished_by_the_next_one(clone: Path, path: Path) -> None:
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    path.rename(path.with_name("worktree.gone-0123abcd"))  # here the first one died
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)
    assert [each.name for each in path.parent.iterdir()] == []
    path.with_name("worktree.gone-0123abcd").mkdir()  # and here the second
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)
    assert [each.name for each in path.parent.iterdir()] == []


def test_only_this_entry_is_forgotten(clone: Path, path: Path) -> None:
    """R03, R05: never a blind prune, which would take a worktree on an unplugged disk along."""
    theirs = clone.parent / "on a disk"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(theirs))
    theirs.rename(clone.parent / "unplugged")
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    assert worktrees.remove(clone, path, owner=ATTEMPT).gone
    assert [entry.path for entry in git.worktree_list(clone)] == [clone, theirs]


def test_what_is_not_ours_is_left_and_reported(clone: Path, path: Path, dead: Identity) -> None:
    """R04, R05: another attempt's, another machine's, a living process's, a person's, and nobody's."""
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    parent, host = identity_of(os.getppid()), socket.gethostname()
    assert parent is not None
    for reason in (
        str(WorktreeOwner("wZ2R4-142-a2", dead, host)),
        str(WorktreeOwner(ATTEMPT, dead, "elsewhere")),
        str(WorktreeOwner(ATTEMPT, parent, host)),
        "do not touch",
        "",
    ):
        relock(path, reason)
        removal = worktrees.remove(clone, path, owner=ATTEMPT)
        assert not removal.gone
        assert removal.reason == f"the worktree {path} is locked: {reason or 'no reason given'}"
    gitkit.git(clone, "worktree", "unlock", str(path))
    assert worktrees.remove(clone, path, owner=ATTEMPT).reason == f"the worktree {path} was not made by afk"
    assert git.dirty_paths(path) == []
    relock_unlocked(path, str(WorktreeOwner(ATTEMPT, dead, host)))
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)


def relock_unlocked(path: Path, reason: str) -> None:
    gitkit.git(path, "worktree", "lock", "--reason", reason, str(path))


def test_a_persons_checkout_or_directory_is_never_removed(clone: Path, tmp_path: Path) -> None:
    """R05: whatever path a broken record names."""
    (tmp_path / "plain").mkdir()
    for path in (clone, tmp_path / "plain", tmp_path):
        removal = worktrees.remove(clone, path, owner=ATTEMPT)
        assert not removal.gone
        assert "is left as it is" in removal.reason
        assert path.exists()


def test_a_directory_that_took_the_place_of_ours_is_left(clone: Path, path: Path) -> None:
    """R21: the record belongs to the path; what lies there now has to belong to the record."""
    other = path.with_name("other")
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    worktrees.add(clone, other, "afk/wZ2R4/143-x", sha(clone), "wZ2R4-143-a1")
    path.rename(path.with_name("moved"))
    other.rename(path)
    removal = worktrees.remove(clone, path, owner=ATTEMPT)
    assert not removal.gone
    assert "belongs to another worktree" in removal.reason
    path.rename(other)
    path.symlink_to(other)
    assert "symbolic link" in worktrees.remove(clone, path, owner=ATTEMPT).reason
    assert git.dirty_paths(other) == []


def test_a_worktree_below_a_symbolic_link_is_found(clone: Path, path: Path) -> None:
    link = clone.parent / "link"
    link.symlink_to(clone)
    through = link / path.relative_to(clone)
    worktrees.add(link, through, BRANCH, sha(clone), ATTEMPT)
    assert worktrees.remove(link, through, owner=ATTEMPT) == Removal(True)
    assert not path.exists()


def test_a_worktree_whose_git_file_an_agent_broke_can_be_removed(clone: Path, path: Path) -> None:
    worktrees.add(clone, path, BRANCH, sha(clone), ATTEMPT)
    (path / ".git").write_bytes(b"\xff")
    assert worktrees.remove(clone, path, owner=ATTEMPT) == Removal(True)
    assert [entry.path for entry in git.worktree_list(clone)] == [clone]


def test_an_attempt_that_is_resumed_puts_its_own_process_into_the_lock(clone: Path, path: Path, dead: Identity) -> None:
    """R04: from then on the lock speaks of a process that lives."""
    abandoned(clone, path, dead)
    worktrees.take_over(clone, path, ATTEMPT)
    assert WorktreeOwner.parse(lock_reason(clone, path)) == WorktreeOwner(ATTEMPT, _us(), socket.gethostname())
    relock(path, "mine")
    with pytest.raises(GitError, match="locked: mine"):
        worktrees.take_over(clone, path, ATTEMPT)
    with pytest.raises(GitError, match="knows no worktree"):
        worktrees.take_over(clone, path.with_name("none"), ATTEMPT)
