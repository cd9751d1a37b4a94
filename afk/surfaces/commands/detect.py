"""What `init` can find out by itself: how a repository tests itself, and which coding agent is installed.

Only files at the top of the checkout are looked at, and nothing is started.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afk.wire.json_value import parse_json

__all__ = ["AGENTS", "Found", "FoundCheck", "found_agents", "look_at"]

AGENTS = ("claude", "codex", "gemini", "opencode")  # the one that is preferred first

_NODE_SCRIPTS = ("test", "typecheck", "lint", "build")
_NODE_PLACEHOLDER = "no test specified"  # what `npm init` writes in place of a test


@dataclass(frozen=True, slots=True)
class FoundCheck:
    """`sure`: the repository says itself that this is how it is checked; else it is offered as a comment."""

    name: str
    run: str
    sure: bool


@dataclass(frozen=True, slots=True)
class Found:
    """`setup` are commands that a fresh worktree needs before the checks can run."""

    checks: tuple[FoundCheck, ...] = ()
    setup: tuple[str, ...] = ()


def found_agents(path: str | None) -> list[str]:
    """Names out of `AGENTS` that are on this search path, the first one preferred."""
    return [name for name in AGENTS if shutil.which(name, path=path)]


def look_at(root: Path) -> Found:
    """Every ecosystem that has left its mark at the top of the checkout."""
    found = [look(root) for look in (_python, _node, _rust, _go)]
    checks = [check for each in found for check in each.checks]
    checks += _make(root, known=bool(checks))
    return Found(tuple(_named_apart(checks)), tuple(command for each in found for command in each.setup))


def _python(root: Path) -> Found:
    project = _toml(root / "pyproject.toml")
    configured = "pytest" in project.get("tool", {}) or (root / "pytest.ini").is_file() or _in_setup_cfg(root)
    prefix, setup = _python_tool(root, project)
    if configured:
        return Found((FoundCheck("test", f"{prefix}python -m pytest -q", True),), setup)
    if any((root / "tests").glob("test*.py")):
        return Found((FoundCheck("test", f"{prefix}python -m unittest discover -s tests", False),))
    return Found()


def _python_tool(root: Path, project: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What goes before `python`, and what makes the environment that it then finds."""
    if (root / "uv.lock").is_file():
        return "uv run ", ("uv sync",)
    if (root / "poetry.lock").is_file() or "poetry" in project.get("tool", {}):
        return "poetry run ", ("poetry install",)
    return "", ()


def _in_setup_cfg(root: Path) -> bool:
    return "[tool:pytest]" in _text(root / "setup.cfg")


def _node(root: Path) -> Found:
    scripts = _json(root / "package.json").get("scripts")
    if not isinstance(scripts, dict):
        return Found()
    tool, setup = _node_tool(root)
    checks = tuple(
        FoundCheck(name, f"{tool} run {name}", True)
        for name in _NODE_SCRIPTS
        if isinstance(scripts.get(name), str) and _NODE_PLACEHOLDER not in scripts[name]
    )
    return Found(checks, (setup,) if checks else ())


def _node_tool(root: Path) -> tuple[str, str]:
    for lock, tool in (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")):
        if (root / lock).is_file():
            return tool, f"{tool} install"
    return "npm", "npm ci" if (root / "package-lock.json").is_file() else "npm install"


def _rust(root: Path) -> Found:
    return Found((FoundCheck("test", "cargo test", True),)) if (root / "Cargo.toml").is_file() else Found()


def _go(root: Path) -> Found:
    return Found((FoundCheck("test", "go test ./...", True),)) if (root / "go.mod").is_file() else Found()


def _make(root: Path, *, known: bool) -> Iterator[FoundCheck]:
    """A `test` target usually runs what was found already: then it is only offered."""
    for name in ("Makefile", "makefile", "GNUmakefile"):
        if re.search(r"^test\s*:(?!=)", _text(root / name), re.MULTILINE):
            yield FoundCheck("make-test", "make test", not known)
            return


def _named_apart(checks: list[FoundCheck]) -> Iterator[FoundCheck]:
    """Two ecosystems in one repository each have a `test`; names of checks must differ."""
    taken: set[str] = set()
    for check in checks:
        name = check.name if check.name not in taken else f"{check.name}-{check.run.split()[0]}"
        taken.add(name)
        yield FoundCheck(name, check.run, check.sure)


def _text(path: Path) -> str:
    """Empty for a file that is not there or no text: nothing can be found in it."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _json(path: Path) -> Mapping[str, Any]:
    try:
        value = parse_json(_text(path))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
