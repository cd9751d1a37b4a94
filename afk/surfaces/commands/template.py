"""The `.red/config.yaml` that `init` writes: every important key with its meaning beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from afk.surfaces.commands.detect import AGENTS, FoundCheck

__all__ = ["PLACEHOLDER", "Choices", "config_text"]

PLACEHOLDER = "name-your-agent-here"


@dataclass(frozen=True, slots=True)
class Choices:
    """What `init` decided. `base` None: follow the remote's default branch, which now is `default_branch` (None: not
    known). `agents` are those that were found, the chosen one first; empty: none."""

    label: str
    remote: str
    on_github: bool
    base: str | None
    default_branch: str | None
    agents: Sequence[str]
    checks: Sequence[FoundCheck]
    setup: Sequence[str]


def config_text(choices: Choices) -> str:
    """Valid YAML of the configuration language, ending in LF."""
    return _TEMPLATE.format(
        tracker=_GITHUB if choices.on_github else _LOCAL,
        label=_yaml(choices.label),
        remote=_yaml(choices.remote),
        base=_base_line(choices),
        runner=choices.agents[0] if choices.agents else "command",
        agents=_agents(choices.agents),
        setup=_setup(choices.setup),
        checks=_checks(choices.checks),
    )


_LOCAL = """\
  # Issues are Markdown files in .red/issues, which git ignores unless you track them.
  tracker: local"""
_GITHUB = """\
  # Issues are those of the remote's repository on GitHub; the token is in GH_TOKEN, GITHUB_TOKEN or `gh auth login`.
  tracker: github"""

_TEMPLATE = """\
# What afk does in this repository. Every key is explained in docs/configuration.md of afk;
# `afk config show` prints all values in effect, `afk config validate` finds mistakes with their line.
afk:
{tracker}
  label: {label}    # what puts an issue into the queue

  # Work starts from the branch `base` of this remote and is merged into it and pushed, without asking you,
  # once every check below has passed. To look first, name a branch here that you merge yourself.
  remote: {remote}
  {base}

  # The agent gets its task on standard input, works in a worktree of its own and asks nobody for permission:
  # it can do on this machine whatever you can.
  runner: {runner}
  agents:
{agents}
  bounds:
    wall_clock_s: 2700    # an agent that runs longer is stopped; its commits are kept

  # Commands for a fresh worktree, before the agent: installing dependencies, say.
{setup}

  # What must pass before anything lands. Without a check nothing lands.
  validation:
{checks}

  # How often an issue is tried before people are asked, and how long to wait in between.
  recovery:
    per_issue: 6
    backoff_s: 60

  # Your own commands at twelve points of a run (`afk hooks list`). This one could veto a merge:
  hooks: {{}}
  #   pre_merge: ./scripts/guard.sh
"""


def _base_line(choices: Choices) -> str:
    if choices.base is not None:
        return f"base: {_yaml(choices.base)}"
    now = f", now {choices.default_branch}" if choices.default_branch else ""
    return f"base: null    # null: the remote's default branch{now}"


def _agents(agents: Sequence[str]) -> str:
    """The entry of the chosen one, the others as comments."""
    if not agents:  # a name that is surely not there: everything but a run works with it, and `doctor` points at it
        return f"""\
    # No coding agent was found. Install one of {", ".join(AGENTS)} and name it as `runner`,
    # or name any program that reads its task from standard input, with its arguments:
    command:
      argv: [{PLACEHOLDER}]"""
    others = "\n".join(f"    # Also installed: {name}" for name in agents[1:])
    entry = f"    {agents[0]}: {{model: null, extra_args: []}}    # model null: the one that it is set to"
    return "\n".join(filter(None, [entry, others]))


def _setup(commands: Sequence[str]) -> str:
    if not commands:
        return "  setup: []"
    return "\n".join(["  setup:", *(f"    - {_yaml(command)}" for command in commands)])


def _checks(checks: Sequence[FoundCheck]) -> str:
    sure = [f"      - {_check(check)}" for check in checks if check.sure]
    offered = [f"      # - {_check(check)}" for check in checks if not check.sure]
    if sure:
        return "\n".join(["    checks:", *sure, *offered])
    example = offered or ['      # - {name: test, run: "make test", timeout_s: 900}']
    return "\n".join(["    checks: []    # take away the [] and the # of a line below", *example])


def _check(check: FoundCheck) -> str:
    return f"{{name: {_yaml(check.name)}, run: {_yaml(check.run)}}}"


def _yaml(text: str) -> str:
    """A plain word stays one; everything else becomes JSON, which YAML reads."""
    is_plain = re.fullmatch(r"-{0,2}[A-Za-z][A-Za-z0-9_./-]*", text) and text.lower() not in _YAML_WORDS
    return text if is_plain else json.dumps(text)


_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
