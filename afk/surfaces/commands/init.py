"""`afk init`: the few decisions that a repository needs, made from what is there and written down to be changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from afk.adapters import git
from afk.adapters.files import disk_errors, write_atomic
from afk.adapters.github import GithubTracker
from afk.adapters.localtracker import init_folder
from afk.agents import agent_argv
from afk.attempt.session import Project
from afk.config import Config
from afk.errors import AfkError, DestinationExists, RemoteMissing
from afk.supervisor.boot import ignore_issues
from afk.surfaces.commands.detect import Found, found_agents, look_at
from afk.surfaces.commands.template import Choices, config_text
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["init"]


def init(context: CommandContext, arguments: Arguments) -> Result:
    """Write `.red/config.yaml` and make a place for issues; nothing that exists is changed.

    Raises: DestinationExists, RemoteMissing, NotARepository.
    """
    root = git.toplevel(context.cwd)
    target = context.config_path or root / ".red" / "config.yaml"
    if target.exists() or target.is_symlink():
        raise DestinationExists(f"{target} is there already and stays as it is", hint="afk doctor")
    on_github = arguments.flag("github")
    remote, others = _choose_remote(root)
    # Refuses our own worktrees and broken AFK_* variables.
    flags = {"afk.tracker": "github" if on_github else "local", "afk.remote": remote}
    project = Project.open(root, environ=context.env, overrides=flags)
    default_branch, unknown = _default_branch(root, remote)
    agents, found = found_agents(context.env.get("PATH")), look_at(root)
    choices = Choices(
        label=arguments.text_or_none("label") or project.config.label,
        remote=remote,
        on_github=on_github,
        base=arguments.text_or_none("base"),
        default_branch=default_branch,
        agents=agents,
        checks=found.checks,
        setup=found.setup,
    )
    labels = _make_labels(project, choices.label) if on_github else []
    issues = None if on_github else root / ".red" / "issues"
    made = [path for path in (target, issues) if path is not None and not path.exists()]
    with disk_errors(target):
        if issues is not None:
            init_folder(issues)
        write_atomic(target, config_text(choices))
    excluded = ignore_issues(root) if issues is not None else None
    outcome = _Outcome(root, target, issues, choices, found, tuple(made), tuple(labels), excluded)
    notes = [*_notes(outcome, others, unknown)]
    return Result(outcome.payload(notes), text=_text(outcome, notes))


def _make_labels(project: Project, label: str) -> list[str]:
    """Every label that a run sets or reads, where it is missing; before anything is written here."""
    tracker = project.tracker
    assert isinstance(tracker, GithubTracker)  # what `--github` opens
    return tracker.make_labels([label])


@dataclass(frozen=True, slots=True)
class _Outcome:
    root: Path
    config: Path
    issues: Path | None
    choices: Choices
    found: Found
    made: tuple[Path, ...]
    labels: tuple[str, ...]
    excluded: str | None

    @property
    def lands_on(self) -> str | None:
        """None: the remote did not say what its default branch is."""
        return self.choices.base or self.choices.default_branch

    @property
    def agent(self) -> str | None:
        return self.choices.agents[0] if self.choices.agents else None

    @property
    def argv(self) -> list[str]:
        """How the agent will be started; empty for none."""
        return list(agent_argv(Config(), self.agent)) if self.agent else []

    def payload(self, notes: Sequence[_Note]) -> dict[str, object]:
        return {
            "root_path": str(self.root),
            "config_path": str(self.config),
            "issues_path": None if self.issues is None else str(self.issues),
            "tracker": "github" if self.choices.on_github else "local",
            "label": self.choices.label,
            "remote": self.choices.remote,
            "base_branch": self.lands_on,
            "agent": self.agent,
            "argv": self.argv,
            "checks": [{"name": each.name, "run": each.run, "active": each.sure} for each in self.found.checks],
            "setup": list(self.found.setup),
            "created_paths": [str(path) for path in self.made],
            "created_labels": list(self.labels),
            "excluded_patterns": [self.excluded] if self.excluded else [],
            "notes": [asdict(note) for note in notes],
            "next_commands": _next_commands(self),
        }


def _choose_remote(root: Path) -> tuple[str, list[str]]:
    """`origin`, else what the current branch follows, else the first; and those that were not chosen."""
    names = git.run(root, "remote").stdout.split()
    if not names:
        raise RemoteMissing(
            f"{root} has no remote; afk shares claims, branches and finished work through one",
            hint="git remote add origin URL",
        )
    branch = (git.current_branch(root) or "").removeprefix("refs/heads/")
    followed = git.run(root, "config", "--get", f"branch.{branch}.remote", check=False).stdout.strip()
    chosen = next((name for name in ("origin", followed) if name in names), names[0])
    return chosen, [name for name in names if name != chosen]


def _default_branch(root: Path, remote: str) -> tuple[str | None, AfkError | None]:
    """The branch, or why it is not known: a remote that sleeps is no reason not to begin."""
    try:
        return git.default_branch(root, git.remote_url(root, remote)), None
    except AfkError as error:
        return None, error


@dataclass(frozen=True, slots=True)
class _Note:
    code: str
    message: str


def _notes(outcome: _Outcome, other_remotes: list[str], unknown: AfkError | None) -> Iterator[_Note]:
    """What a person should know before the first run, most important first."""
    where = f"the branch {outcome.lands_on}" if outcome.lands_on else "the remote's default branch"
    yield _Note(
        "lands_unasked",
        f"`afk run` merges work that passes your checks into {where} of {outcome.choices.remote} and pushes it. "
        "The agent that does the work asks nobody for permission and can do on this machine whatever you can.",
    )
    if outcome.choices.base is None:
        yield _Note(
            "review_first",
            "To look at everything first, set `base` in the configuration to a branch that you merge yourself. "
            "Pull requests are not in this version.",
        )
    if outcome.agent is None:
        yield _Note("agent_missing", "No coding agent was found on PATH: name yours in agents.command.argv.")
    if not any(check.sure for check in outcome.found.checks):
        yield _Note("checks_missing", "No check is certain: nothing lands until validation.checks declares one.")
    if unknown is not None:
        yield _Note("remote_unknown", f"The remote did not tell its default branch: {unknown.message}")
    if other_remotes:
        yield _Note("remotes_left", f"Other remotes are not used: {', '.join(other_remotes)}.")


def _next_commands(outcome: _Outcome) -> list[str]:
    base = outcome.choices.base
    make_base = [f"git push {outcome.choices.remote} HEAD:refs/heads/{base}"] if base else []
    label = outcome.choices.label
    return [*make_base, f"afk issue create --title 'TITLE' --label '{label}'", "afk doctor", "afk run --dry-run"]


def _text(outcome: _Outcome, notes: Sequence[_Note]) -> str:
    written = [f"wrote {path}" if path == outcome.config else f"made {path}" for path in outcome.made]
    if outcome.labels:
        written.append(f"made labels on GitHub: {', '.join(outcome.labels)}")
    checks = ", ".join(f"{check.name} ({check.run})" for check in outcome.found.checks if check.sure) or "none"
    chosen = [
        f"agent:   {' '.join(outcome.argv) or 'none'}",
        f"checks:  {checks}",
        f"lands on {outcome.lands_on or 'the default branch'} of {outcome.choices.remote}",
    ]
    told = [note.message for note in notes]
    steps = ["Next:", *(f"  {command}" for command in _next_commands(outcome))]
    return "\n".join([*written, "", *chosen, "", *told, "", *steps]) + "\n"
