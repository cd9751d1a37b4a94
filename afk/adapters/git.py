"""git as a page of small functions, one question each; `repo` is any directory of the checkout or worktree meant.

Reads come first, then refs and objects, then remotes. Pushing, merging and keeping work are pages of their own
(`gitpush`, `gitmerge`, `gitkeep`) and are named here too, so that a caller needs `from afk.adapters import git` alone.
Names and shas go behind `--end-of-options` or `--`: none is ever read as an option.
Everything raises `GitError` with git's own words; see `gitrun.run`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from afk.adapters.gitkeep import (
    CheckoutSnapshot,
    bundle,
    changed_paths,
    commit_all,
    dirty_paths,
    save_patch,
    snapshot_checkout,
)
from afk.adapters.gitmerge import (
    Merged,
    abort_merge,
    has_conflict_markers,
    merge_into_worktree,
    merge_tree,
    unmerged_paths,
)
from afk.adapters.gitpush import FAST_FORWARD, PushReport, PushStatus, RefUpdate, push
from afk.adapters.gitrun import (
    GitResult,
    committer,
    failure,
    identity,
    leads_astray,
    masked,
    offer_credentials,
    run,
    run_remote,
)
from afk.domain.attempt import DiffStat
from afk.errors import BaseMissing, EmptyRemote, GitError, GitTooOld, RemoteMissing

__all__ = [
    "FAST_FORWARD",
    "MINIMUM",
    "CheckoutSnapshot",
    "DiffStat",
    "GitResult",
    "Merged",
    "NewEntry",
    "PushReport",
    "PushStatus",
    "RefUpdate",
    "WorktreeEntry",
    "abort_merge",
    "bundle",
    "changed_paths",
    "commit_all",
    "commit_message",
    "commit_tree",
    "commits_ahead",
    "commits_with_trailer",
    "committer",
    "common_dir",
    "create_branch",
    "current_branch",
    "deepen",
    "default_branch",
    "delete_branch",
    "diffstat",
    "dirty_paths",
    "empty_tree",
    "fetch",
    "fetch_into",
    "find_merge_base",
    "has_conflict_markers",
    "identity",
    "is_ancestor",
    "is_shallow",
    "local_exclude",
    "local_refs",
    "ls_remote",
    "merge_base",
    "merge_into_worktree",
    "merge_tree",
    "moved_submodules",
    "new_entries",
    "offer_credentials",
    "push",
    "push_url",
    "remote_url",
    "require_version",
    "rev_parse",
    "run",
    "save_patch",
    "signs_commits",
    "snapshot_checkout",
    "toplevel",
    "touched_files",
    "trailer",
    "tree_of",
    "unmerged_paths",
    "update_ref",
    "version",
    "worktree_list",
]

MINIMUM = (2, 38)  # `merge-tree --write-tree`


# ── The program and the checkout ────────────────────────────────────────────────────────────────────────────────────


def version() -> tuple[int, ...]:
    """(2, 39, 5) for `git version 2.39.5 (Vendor-1)`."""
    found = re.search(r"\d+(?:\.\d+)+", run(Path("/"), "version").stdout)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def require_version() -> tuple[int, ...]:
    """The version that is there. Raises `GitTooOld` below `MINIMUM`."""
    there = version()
    if there[:2] < MINIMUM:
        told, wanted = ".".join(map(str, there)), ".".join(map(str, MINIMUM))
        raise GitTooOld(f"git {told} is too old, {wanted} or newer is needed", hint="git --version")
    return there


def toplevel(path: Path) -> Path:
    """The root of the checkout that `path` is in. Raises `NotARepository`, for a bare repository too."""
    return Path(_line(run(path, "rev-parse", "--show-toplevel")))


def common_dir(repo: Path) -> Path:
    """The one git directory that a checkout shares with all its worktrees, absolute."""
    return Path(_line(run(repo, "rev-parse", "--path-format=absolute", "--git-common-dir")))


def worktree_list(repo: Path) -> list[WorktreeEntry]:
    """Every worktree that git has registered, the main one first, whether or not its directory is still there.

    Source: git-worktree(1), "Porcelain Format".
    """
    blocks = run(repo, "worktree", "list", "--porcelain", "-z").stdout.split("\0\0")
    return [_worktree_entry(block) for block in blocks if block.strip("\0")]


@dataclass(frozen=True, slots=True)
class WorktreeEntry:
    """`branch` is a full ref, None when HEAD is detached. `locked` and `prunable` are None, or the reason or ""."""

    path: Path
    head: str | None
    branch: str | None
    locked: str | None
    prunable: str | None


def _worktree_entry(block: str) -> WorktreeEntry:
    fields = dict(line.partition(" ")[::2] for line in block.strip("\0").split("\0"))
    return WorktreeEntry(
        Path(fields["worktree"]),
        fields.get("HEAD"),
        fields.get("branch"),
        fields.get("locked"),
        fields.get("prunable"),
    )


def signs_commits(repo: Path) -> bool:
    """Whether the person's configuration asks for every commit to be signed."""
    return run(repo, "config", "--type=bool", "--get", "commit.gpgSign", check=False).stdout.strip() == "true"


def local_exclude(repo: Path, pattern: str) -> bool:
    """Have git ignore a pattern in this checkout and all its worktrees; False when it was ignored already.

    Only `info/exclude` is touched, never a file that people track, and every byte that stood there stays.
    """
    path = common_dir(repo) / "info" / "exclude"
    before = path.read_bytes() if path.exists() else b""
    if pattern.encode() in (line.strip() for line in before.split(b"\n")):
        return False
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write((b"" if before.endswith(b"\n") or not before else b"\n") + f"{pattern}\n".encode())
    return True


def _line(result: GitResult) -> str:
    """A one-line answer; a path may hold line breaks itself, so only the last one goes."""
    return result.stdout.removesuffix("\n")


# ── Commits ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def rev_parse(repo: Path, rev: str) -> str | None:
    """The full sha behind anything git can resolve; None when there is no such thing here."""
    return _from_ref_files(repo, rev) or _asked(repo, rev)


def _from_ref_files(repo: Path, name: str) -> str | None:
    """`HEAD` or a full ref read without starting a process: slots ask several times a second. None: git has to say.

    GitPython knows neither reftables nor SHA-256; it finds no ref there, and git is asked.
    """
    if (name != "HEAD" and not name.startswith("refs/")) or "GIT_COMMON_DIR" in os.environ or leads_astray(repo):
        return None
    try:
        from git import InvalidGitRepositoryError, NoSuchPathError, Repo, SymbolicReference
    except ImportError:  # it looks for the program when it is imported
        return None
    try:
        with Repo(repo, expand_vars=False) as opened:
            return str(SymbolicReference.dereference_recursive(opened, name))
    except (InvalidGitRepositoryError, NoSuchPathError, ValueError, OSError):
        return None


def _asked(repo: Path, rev: str) -> str | None:
    args = ("rev-parse", "--verify", "--quiet", "--end-of-options", rev)
    result = run(repo, *args, check=False)
    if result.returncode not in (0, 1):
        raise failure(repo, args, result)
    return result.stdout.strip() or None


def current_branch(repo: Path) -> str | None:
    """The full ref that HEAD is on, which may have no commit yet; None when HEAD is detached."""
    return run(repo, "symbolic-ref", "--quiet", "HEAD", check=False).stdout.strip() or None


def tree_of(repo: Path, rev: str) -> str:
    return run(repo, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{tree}}").stdout.strip()


def commit_message(repo: Path, sha: str) -> str:
    """The whole message in Unicode, whatever it was written in, without the blank lines at its end."""
    result = run(repo, "show", "--no-patch", "--no-notes", "--format=%B", "--end-of-options", f"{sha}^{{commit}}")
    return result.stdout.encode("utf-8", "surrogateescape").decode("utf-8", "replace").rstrip("\n")


def commits_ahead(repo: Path, base: str, tip: str) -> int:
    """How many commits of `tip` the base lacks; raises where it cannot be counted, which is not zero (L16)."""
    return int(run(repo, "rev-list", "--count", "--end-of-options", f"{base}..{tip}").stdout)


def commits_with_trailer(repo: Path, tip: str, key: str, value: str) -> list[str]:
    """Commits on the first-parent line of `tip` whose trailer `key` is exactly `value`, newest first.

    What a merge brought in does not count: an agent may write any trailer into its own commits.
    """
    show = f"%H%x00%(trailers:key={key},valueonly)%x1e"
    options = ("--first-parent", "--fixed-strings", f"--grep={key}: {value}", f"--format={show}")
    records = run(repo, "log", *options, "--end-of-options", tip).stdout.split("\x1e")
    pairs = (record.strip().split("\0") for record in records if "\0" in record)
    return [sha for sha, values in pairs if value in values.split("\n")]


def trailer(repo: Path, sha: str, key: str) -> str:
    """The last value of a trailer of one commit; empty without it."""
    form = f"--format=%(trailers:key={key},valueonly,separator=%x00)"
    return run(repo, "show", "-s", form, "--end-of-options", sha).stdout.rpartition("\0")[2].strip()


def merge_base(repo: Path, a: str, b: str) -> str | None:
    """The best common ancestor, None when there is none; in a shallow clone see `find_merge_base`."""
    args = ("merge-base", "--end-of-options", a, b)
    result = run(repo, *args, check=False)
    if result.returncode not in (0, 1):
        raise failure(repo, args, result)
    return result.stdout.strip() or None


def is_ancestor(repo: Path, a: str, b: str) -> bool:
    """Whether `b` contains `a`; a commit contains itself."""
    args = ("merge-base", "--is-ancestor", "--end-of-options", a, b)
    result = run(repo, *args, check=False)
    if result.returncode not in (0, 1):
        raise failure(repo, args, result)
    return result.returncode == 0


def diffstat(repo: Path, base: str, tip: str) -> DiffStat:
    """What `tip` changed since it left `base`, renames recognised; what the base did meanwhile does not count.

    Raises `GitError` when either is missing: a branch that is not there is not an empty diff (L31).
    """
    text = _diff_tree(repo, base, tip, "--shortstat", "-M")
    return DiffStat(_count(text, "insertion"), _count(text, "deletion"), _count(text, "file"))


def _count(text: str, noun: str) -> int:
    found = re.search(rf"(\d+) {noun}", text)
    return int(found[1]) if found else 0


def touched_files(repo: Path, base: str, tip: str) -> list[str]:
    """Paths that `tip` added, changed or deleted since it left `base`, both names of a renamed file; sorted."""
    return sorted(filter(None, _diff_tree(repo, base, tip, "--name-only", "--no-renames", "-z").split("\0")))


def _diff_tree(repo: Path, base: str, tip: str, *options: str) -> str:
    """The plumbing command: no setting of the person's changes what it prints."""
    return run(repo, "diff-tree", "-r", "--merge-base", *options, "--end-of-options", base, tip).stdout


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A path that a branch adds or changes: its file mode (`120000` is a link), its blob and how long that is."""

    path: str
    mode: str
    sha: str
    size_bytes: int


def new_entries(repo: Path, base: str, tip: str) -> list[NewEntry]:
    """What `tip` brings since it left `base`; deletions and submodules are left out."""
    changed = _raw_diff(repo, base, tip)
    kept = [(path, mode, sha) for path, mode, sha in changed if mode not in (_GONE, _SUBMODULE)]
    asked = "".join(f"{sha}\n" for _, _, sha in kept)
    sizes = run(repo, "cat-file", "--batch-check=%(objectsize)", input=asked.encode()).stdout.split() if kept else []
    return [NewEntry(path, mode, sha, int(size)) for (path, mode, sha), size in zip(kept, sizes, strict=True)]


def moved_submodules(repo: Path, base: str, tip: str) -> dict[str, str]:
    """The submodules that `tip` adds, or moves to another commit, since it left `base`: path to commit."""
    return {path: sha for path, mode, sha in _raw_diff(repo, base, tip) if mode == _SUBMODULE}


_GONE, _SUBMODULE = "000000", "160000"


def _raw_diff(repo: Path, base: str, tip: str) -> list[tuple[str, str, str]]:
    """Path, new mode and new object of all that differs."""
    fields = _diff_tree(repo, base, tip, "--raw", "--no-renames", "--no-abbrev", "-z").split("\0")
    pairs = zip(fields[::2], fields[1::2], strict=False)
    return [(path, meta.split()[1], meta.split()[3]) for meta, path in pairs]


# ── Refs and objects ────────────────────────────────────────────────────────────────────────────────────────────────


def update_ref(repo: Path, ref: str, new: str | None, old: str | None) -> bool:
    """Move a local ref if it still is at `old` (None: if it does not exist); `new` None deletes it.

    False when it is elsewhere, and untouched then.
    """
    if new is None and old is None:  # git would take an empty old value for "whatever it is"
        return rev_parse(repo, ref) is None
    change = ("-d", ref, old or "") if new is None else (ref, new, old or "")
    args = ("update-ref", "--no-deref", *change)
    result = run(repo, *args, check=False)
    if result.returncode == 0:
        return True
    if rev_parse(repo, ref) == old:
        raise failure(repo, args, result)
    return False


def local_refs(repo: Path, *prefixes: str, containing: str | None = None) -> dict[str, str]:
    """Full ref name to sha below the given prefixes; with `containing`, only refs that hold that commit."""
    options = ["--format=%(objectname) %(refname)"] + ([f"--contains={containing}"] if containing else [])
    lines = run(repo, "for-each-ref", *options, "--", *prefixes).stdout.splitlines()
    return {ref: sha for sha, _, ref in (line.partition(" ") for line in lines)}


def create_branch(repo: Path, name: str, sha: str) -> bool:
    """A new branch without upstream; False when there is one of that name."""
    return update_ref(repo, f"refs/heads/{name}", sha, None)


def delete_branch(repo: Path, name: str, expect: str) -> bool:
    """Delete a branch if it is at `expect` and checked out nowhere (R08); True when it is gone afterwards."""
    ref = f"refs/heads/{name}"
    if rev_parse(repo, ref) is None:
        return True
    if any(entry.branch == ref for entry in worktree_list(repo)):
        return False
    return update_ref(repo, ref, None, expect)


def empty_tree(repo: Path) -> str:
    """The sha of the tree without files, which is in the object store afterwards."""
    return run(repo, "hash-object", "-t", "tree", "-w", "--stdin").stdout.strip()


def commit_tree(
    repo: Path,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    env: Mapping[str, str] | None = None,
    sign: bool = False,
) -> str:
    """A commit object that no ref names yet; `env` may hold GIT_AUTHOR_NAME and the like.

    `sign` uses the person's own signing configuration, which must then work without asking (R18).
    """
    options = [word for parent in parents for word in ("-p", parent)]
    options += ["-S"] if sign else ["--no-gpg-sign"]
    return run(repo, "commit-tree", *options, "-F", "-", tree, input=message.encode(), env=env).stdout.strip()


# ── Remotes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def remote_url(repo: Path, name: str) -> str:
    """Where a remote is fetched from, as it was configured: git itself applies `insteadOf` whenever it is used.

    A relative path becomes absolute, since the same address is used from other worktrees. Raises `RemoteMissing`.
    """
    urls = _configured(repo, f"remote.{name}.url")
    if not urls:
        known = ", ".join(run(repo, "remote").stdout.split()) or "none"
        raise RemoteMissing(
            f"{repo} has no remote named {name!r} (there: {known})", hint=f"git -C {repo} remote add {name} URL"
        )
    return _absolute(repo, urls[0])


def push_url(repo: Path, name: str) -> str:
    """Where a remote is pushed to: `pushurl` if the person set one, else the same as `remote_url`."""
    urls = _configured(repo, f"remote.{name}.pushurl")
    return _absolute(repo, urls[0]) if urls else remote_url(repo, name)


def _configured(repo: Path, key: str) -> list[str]:
    return list(filter(None, run(repo, "config", "-z", "--get-all", key, check=False).stdout.split("\0")))


def _absolute(repo: Path, url: str) -> str:
    """git takes for a path what has neither a scheme nor a colon before the first slash."""
    is_path = "://" not in url and ":" not in url.partition("/")[0]
    return os.path.normpath(toplevel(repo) / url) if is_path else url


def default_branch(repo: Path, url: str) -> str:
    """The short name of the branch that the remote's HEAD is on, whatever is checked out here (R09).

    Where HEAD names no branch that exists, the only branch there is (ours left aside) is meant: a bare repository made
    by hand says `master` and has `main`. Raises `EmptyRemote`; `BaseMissing` when several could be meant: no guesses.
    """
    answer = run_remote(repo, url, "ls-remote", "--symref", "--", url, "HEAD").stdout
    found = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", answer, re.MULTILINE)
    if found and re.search(r"^[0-9a-f]+\tHEAD$", answer, re.MULTILINE):
        return found[1]
    heads = [ref.removeprefix("refs/heads/") for ref in ls_remote(repo, url, "refs/heads/*")]
    heads = [name for name in heads if not name.startswith("afk/")]
    if len(heads) == 1:
        return heads[0]
    if not heads:
        raise EmptyRemote(f"remote {masked(url)} has no branch yet", hint="git push -u origin HEAD")
    raise BaseMissing(
        f"remote {masked(url)} does not say which branch is its default (there: {', '.join(heads[:10])})",
        hint=f"afk run --base {heads[0]}",
    )


def ls_remote(repo: Path, url: str, *patterns: str) -> dict[str, str]:
    """Full ref name to sha, as the remote says now; `patterns` are full names or globs over full names, none = all."""
    lines = run_remote(repo, url, "ls-remote", "--", url, *patterns).stdout.splitlines()
    refs = {ref: sha for sha, _, ref in (line.partition("\t") for line in lines) if not ref.endswith("^{}")}
    # git also takes a pattern for the end of a longer name, such as refs/heads/x/refs/heads/main.
    return {ref: sha for ref, sha in refs.items() if not patterns or any(fnmatchcase(ref, p) for p in patterns)}


def fetch(repo: Path, url: str, *refspecs: str, timeout_s: float = 300.0) -> None:
    """Fetch exactly these; touches no ref, tag or FETCH_HEAD that the refspecs do not name.

    Raises `BaseMissing` when the remote lacks a ref; a failed fetch is never made up for by an older copy (R07).
    """
    _fetch(repo, url, refspecs, timeout_s)


def fetch_into(repo: Path, url: str, src: str, dst: str) -> str:
    """Fetch the remote's ref `src` into the local ref `dst`, whatever it was, and return its sha."""
    fetch(repo, url, f"+{src}:{dst}")
    return run(repo, "rev-parse", "--verify", "--end-of-options", dst).stdout.strip()


def is_shallow(repo: Path) -> bool:
    return run(repo, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"


def deepen(repo: Path, url: str, ref: str, by: int) -> None:
    """Fetch `by` more commits of a shallow clone's history of `ref`, below what is there."""
    _fetch(repo, url, [ref], 300.0, f"--deepen={by}")


DEEPENING = (50, 200, 800, 3200)


def find_merge_base(repo: Path, url: str, ref: str, a: str, b: str) -> str:
    """`merge_base`, after deepening a shallow clone's history of the remote's `ref` as far as needed (R14).

    Raises `GitError` when there is none within 4250 more commits, or in a whole history.
    """
    for by in (0, *DEEPENING):
        if by and not is_shallow(repo):
            break
        if by:
            deepen(repo, url, ref, by)
        found = merge_base(repo, a, b)
        if found is not None:
            return found
    hint = f"git -C {repo} fetch --unshallow" if is_shallow(repo) else f"git -C {repo} log {a} {b}"
    raise GitError(f"{a} and {b} have no common history in {repo}", hint=hint)


_FETCH = (
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-prune",
    "--no-prune-tags",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
    "--no-show-forced-updates",
)


def _fetch(repo: Path, url: str, refspecs: Sequence[str], timeout_s: float, *options: str) -> None:
    try:
        run_remote(repo, url, *_FETCH, *options, "--", url, *refspecs, timeout_s=timeout_s)
    except GitError as error:
        if "couldn't find remote ref" not in error.message:
            raise
        raise BaseMissing(error.message, hint=error.hint, details=error.details) from error
