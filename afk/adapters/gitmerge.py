"""Merging: without any checkout for what lands, inside the attempt's own worktree for what an agent is to solve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from afk.adapters.gitrun import committer, failure, masked, run

__all__ = ["Merged", "abort_merge", "has_conflict_markers", "merge_into_worktree", "merge_tree", "unmerged_paths"]


@dataclass(frozen=True, slots=True)
class Merged:
    """`tree` is the merged tree, None when there are conflicts; `conflicts` their paths, `text` git's account of it."""

    tree: str | None
    conflicts: Sequence[str] = ()
    text: str = ""


def merge_tree(repo: Path, ours: str, theirs: str) -> Merged:
    """What a merge of two commits would give; writes objects only: no ref, no index, no checkout (R23, R79).

    Raises `GitError` when git cannot tell, for instance for histories that have nothing in common.
    Source: git-merge-tree(1), OUTPUT.
    """
    args = ("merge-tree", "--write-tree", "--messages", "--name-only", "-z", "--end-of-options", ours, theirs)
    result = run(repo, *args, check=False)
    if result.returncode not in (0, 1):
        raise failure(repo, args, result)
    tree, *rest = result.stdout.split("\0")
    if result.returncode == 0:
        return Merged(tree)
    end = rest.index("")
    return Merged(None, sorted(rest[:end]), masked("\n".join(_messages(rest[end + 1 :]))))


def _messages(fields: Sequence[str]) -> Iterator[str]:
    """Of the records `count, that many paths, kind, message` only the messages."""
    at = 0
    while at < len(fields) and fields[at].isdigit():
        at += int(fields[at]) + 2
        yield fields[at].strip()
        at += 1


def merge_into_worktree(worktree: Path, sha: str, message: str, *, sign: bool = False) -> Merged:
    """Merge a commit into what is checked out there; a conflict stays in the tree, for whoever works there to solve.

    Fast-forwards where that is possible. Raises `GitError` when git would not even begin, because the tree is dirty.
    """
    args = ("merge", *_MERGE, "-S" if sign else "--no-gpg-sign", "-m", message, "--end-of-options", sha)
    result = run(worktree, *args, env=committer(worktree), check=False)
    if result.returncode == 0:
        return Merged(run(worktree, "rev-parse", "HEAD^{tree}").stdout.strip(), text=masked(result.stdout))
    conflicts = unmerged_paths(worktree)
    if not conflicts:
        raise failure(worktree, args, result)
    return Merged(None, conflicts, masked(result.stdout + result.stderr))


_MERGE = (
    "--ff",
    "--commit",
    "--no-edit",
    "--no-verify",
    "--no-verify-signatures",
    "--no-squash",
    "--no-autostash",
    "--no-log",
    "--no-stat",
    "--cleanup=whitespace",
)


def abort_merge(worktree: Path) -> None:
    """Put the worktree back to before the merge; nothing happens when none is going on."""
    if run(worktree, "rev-parse", "--verify", "--quiet", "MERGE_HEAD", check=False).returncode == 0:
        run(worktree, "merge", "--abort")


def unmerged_paths(worktree: Path) -> list[str]:
    """The paths that are still conflicts in the index, sorted; what an agent staged is solved as far as git knows."""
    entries = run(worktree, "ls-files", "--unmerged", "-z", "--full-name", ":/").stdout.split("\0")
    return sorted({entry.partition("\t")[2] for entry in entries if entry})


def has_conflict_markers(repo: Path, base: str, tip: str) -> list[str]:
    """The files to which `tip`, since it left `base`, added both ends of a conflict, sorted; usually none (R81).

    A line of `=======` alone is no evidence: documents underline headings with it.
    """
    suspects = _where_lines_changed(repo, base, tip, "^<<<<<<< ") & _where_lines_changed(repo, base, tip, "^>>>>>>> ")
    return sorted(path for path in suspects if _adds_both_ends(repo, base, tip, path))


def _where_lines_changed(repo: Path, base: str, tip: str, pattern: str) -> set[str]:
    """Paths whose diff adds or removes a line that matches; only names travel, however large the diff is."""
    result = run(repo, "diff-tree", "-r", "-z", "--name-only", "--merge-base", f"-G{pattern}", base, tip)
    return set(filter(None, result.stdout.split("\0")))


def _adds_both_ends(repo: Path, base: str, tip: str, path: str) -> bool:
    options = ("-p", "-U0", "--no-ext-diff", "--no-textconv", "--merge-base")
    lines = run(repo, "diff-tree", "-r", *options, base, tip, "--", f":(top,literal){path}").stdout.split("\n")
    return any(line.startswith("+<<<<<<< ") for line in lines) and any(line.startswith("+>>>>>>> ") for line in lines)
