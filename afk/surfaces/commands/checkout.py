"""`afk checkout N`: the branch that an attempt left, in a worktree of its own for a person to go on with."""

from __future__ import annotations

from pathlib import Path

from afk.adapters import git
from afk.adapters.files import write_atomic
from afk.attempt.briefing import read_thread
from afk.attempt.session import Project
from afk.domain.attempt import branch_name, slugify
from afk.errors import AttemptNotFound
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["checkout"]


def checkout(context: CommandContext, arguments: Arguments) -> Result:
    """Idempotent: a worktree that is there stays as it is. The person's branch is not the live one, which `afk` moves.

    Raises: IssueNotFound, AttemptNotFound when no branch of this issue is on the remote.
    """
    project, number = open_project(context), arguments.number("issue")
    issue = project.tracker.issue(number)
    live = _live_branch(project, number, issue.title)
    path = project.root / ".red" / "checkouts" / str(number)
    branch = f"checkout/{number}-{slugify(issue.title)}"
    changed = path not in [entry.path for entry in git.worktree_list(project.root)]
    if changed:
        _make(project, path, branch, live)
    payload = {
        "action": "checkout",
        "changed": changed,
        "issue_number": number,
        "branch": branch,
        "live_branch": live,
        "head_sha": git.rev_parse(path, "HEAD"),
        "worktree_path": str(path),
    }
    return Result(payload, text=_text(project, path, branch, live, changed=changed))


def _live_branch(project: Project, number: int, title: str) -> str:
    """The one of the latest attempt whose branch is still there."""
    refs = git.ls_remote(project.root, project.url, f"refs/heads/afk/*/{number}-*")
    there = [ref.removeprefix("refs/heads/") for ref in refs]
    told = [seen.envelope for seen in reversed(read_thread(project, number).told)]
    latest_first = [seen.branch or branch_name(seen.worker, number, title) for seen in told]
    for branch in [*latest_first, *sorted(there)]:
        if branch in there:
            return branch
    raise AttemptNotFound(f"no branch of an attempt at issue {number} is on the remote", hint=f"afk history {number}")


def _make(project: Project, path: Path, branch: str, live: str) -> None:
    root = project.root
    path.parent.mkdir(parents=True, exist_ok=True)
    if not (path.parent / ".gitignore").exists():
        write_atomic(path.parent / ".gitignore", "*\n")
    sha = git.fetch_into(root, project.url, f"refs/heads/{live}", f"refs/afk/checkouts/{path.name}")
    if git.rev_parse(root, f"refs/heads/{branch}") is None:
        git.run(root, "worktree", "add", "--no-track", "-b", branch, "--", str(path), sha)
    else:  # from an earlier checkout whose worktree was removed: what the person committed there is theirs
        git.run(root, "worktree", "add", "--", str(path), branch)


def _text(project: Project, path: Path, branch: str, live: str, *, changed: bool) -> str:
    made = f"{live} is checked out for you" if changed else "it was checked out before, and is as you left it"
    return (
        f"{made}\n\n"
        f"  cd {path}    # on your branch {branch}\n"
        f"  git push {project.config.remote} HEAD:{live}    # to keep your work with the issue\n"
        f"  git worktree remove {path}    # when you are done\n"
    )
