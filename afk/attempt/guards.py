"""What an agent's branch may not carry onto the trunk unasked, however green its checks are.

Files that steer what runs on people's machines and in their CI, links that lead out of the tree, and files too large to
ever leave the history again. `afk.landing.allow_paths` names what the person lets through.
"""

from __future__ import annotations

import posixpath

from afk.adapters import git, lfs
from afk.adapters.git import NewEntry
from afk.attempt.session import Attempt
from afk.domain.globs import matches

__all__ = ["PROTECTED", "refusal"]

PROTECTED = (
    ".red/**",
    ".github/workflows/**",
    ".github/actions/**",
    ".gitmodules",
    ".gitlab-ci.yml",
    ".circleci/**",
    ".woodpecker/**",
    ".woodpecker.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    "**/CODEOWNERS",
)
_LINK = "120000"
_NAMED = 5


def refusal(attempt: Attempt, base_sha: str, head: str) -> str | None:
    """Why the branch does not land, in one line that names the paths; None when nothing stands against it."""
    root, landing = attempt.project.root, attempt.project.config.landing
    allowed = landing.allow_paths
    entries = [entry for entry in git.new_entries(root, base_sha, head) if not _any(entry.path, allowed)]
    moved = [path for path in git.moved_submodules(root, base_sha, head) if not _any(path, allowed)]
    touched = [path for path in git.touched_files(root, base_sha, head) if not _any(path, allowed)]
    limit_bytes = landing.max_file_mb * 1024 * 1024
    found = {
        "changes what is protected": [path for path in touched if _any(path, PROTECTED)],
        "moves a submodule": moved,
        "links out of the tree": [entry.path for entry in entries if _leads_out(attempt, entry)],
        "adds LFS files whose content is on no server": _unsent(attempt, entries),
        f"is larger than {landing.max_file_mb:g} MB": [e.path for e in entries if e.size_bytes > limit_bytes],
    }
    told = [f"{what}: {_few(paths)}" for what, paths in found.items() if paths]
    return f"the branch {'; '.join(told)} (afk.landing.allow_paths lets paths through)" if told else None


def _any(path: str, globs: tuple[str, ...]) -> bool:
    return any(matches(path, glob) for glob in globs)


def _leads_out(attempt: Attempt, entry: NewEntry) -> bool:
    """Judged by the link's own text; what it would meet on a machine is not looked at."""
    if entry.mode != _LINK:
        return False
    target = git.run(attempt.project.root, "cat-file", "blob", entry.sha).stdout
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
    return target.startswith("/") or reached == ".." or reached.startswith("../")


def _unsent(attempt: Attempt, entries: list[NewEntry]) -> list[str]:
    """Content that LFS keeps is sent before landing where `afk.landing.lfs` is `pull`, and else by nobody (R13)."""
    if attempt.project.config.landing.lfs == "pull":
        return []
    return [entry.path for entry in entries if lfs.is_pointer(attempt.project.root, entry)]


def _few(paths: list[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(paths[:_NAMED]) + more
