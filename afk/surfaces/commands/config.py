"""`afk config`: what is in effect and from where, and everything that is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json import dumps
from typing import TYPE_CHECKING

from afk.adapters import git
from afk.errors import ConfigError
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns

if TYPE_CHECKING:
    from afk.config import Problem

__all__ = ["config_show", "config_validate"]


def config_show(context: CommandContext, _arguments: Arguments) -> Result:
    """Raises: ConfigError when there is no effective configuration; `config validate` then tells all of it."""
    loaded = open_project(context).loaded
    payload = {
        "sources": [{"path": str(source.path), "present": source.present} for source in loaded.sources],
        "effective": {"afk": loaded.config.dump()},
        "origins": loaded.origins,
        "unknown_keys": [],  # an unknown key is an error here, so that none is ever in effect
        "warnings": loaded.warnings,
    }
    return Result(payload, text=_show_text(loaded.origins, loaded.config.dump(), loaded.warnings))


def _show_text(origins: Mapping[str, str], dump: Mapping[str, object], warnings: Sequence[str]) -> str:
    from afk.config.keys import flatten

    values = flatten(dump)
    rows = [["key", "value", "from"], *([key, _shown(values[key]), origins[key]] for key in origins)]
    return "\n".join([columns(rows), *(f"warning: {warning}" for warning in warnings)]) + "\n"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else dumps(value)


def config_validate(context: CommandContext, _arguments: Arguments) -> Result:
    """Every problem of file, environment and this version's abilities; exit 1 when one is an error."""
    from afk import config

    root = git.toplevel(context.cwd)
    try:
        loaded = config.load(root, explicit=context.config_path, env=context.env)
        problems = [*loaded.problems, *loaded.unsupported()]
    except ConfigError as error:
        problems = [problem for problem in error.problems if isinstance(problem, config.Problem)]
        if not problems:
            raise
    valid = all(problem.severity != "error" for problem in problems)
    payload = {"valid": valid, "problems": [_problem(problem) for problem in problems]}
    return Result(payload, 0 if valid else 1, text=_validate_text(problems, valid))


def _problem(problem: Problem) -> dict[str, object]:
    line = f"line {problem.line}: " if problem.line else ""
    return {
        "severity": problem.severity,
        "path": problem.path,
        "key": problem.key,
        "message": f"{line}{problem.message}",
        "fix": problem.fix,
    }


def _validate_text(problems: Sequence[Problem], valid: bool) -> str:
    lines = [f"{problem.severity}: {problem}" for problem in problems]
    return "\n".join([*lines, "The configuration is valid." if valid else "The configuration cannot be used."]) + "\n"
