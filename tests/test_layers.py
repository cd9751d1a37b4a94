"""The architecture as a test: imports point one way, formats and rules do no I/O, the keeper needs nothing but Python.

It reads syntax trees, so an import inside a function counts as much as one at the top.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "afk"

# A module may import its own row and every row below it. Two names in one row are neighbours, strangers to each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "kernel"),
    ("domain", "keeper"),
    ("wire", "config"),
    ("ports",),
    ("agents", "adapters"),
    ("attempt",),
    ("supervisor",),
    ("surfaces",),
    ("__main__",),
)
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}

PURE = ("domain", "wire")
# The keeper is a program of its own that outlives an upgrade of everything else; `import afk` must cost nothing.
STDLIB_ONLY = ("keeper", "kernel", "__init__")

# fmt: off
# What values, decisions and formats may use. It lists what is allowed, so that no new module slips in unnamed.
PURE_MODULES = frozenset({
    "__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "difflib", "enum", "fnmatch", "functools", "hashlib", "heapq", "html", "io",
    "itertools", "json", "math", "operator", "pathlib", "random", "re", "shlex", "string", "struct",
    "textwrap", "types", "typing", "unicodedata", "urllib.parse", "uuid", "yaml",
})
IMPURE_CALLS = frozenset({"open", "print", "input", "breakpoint", "exec", "eval", "__import__"})
# Methods that reach the disk or the clock through an otherwise harmless type.
IMPURE_METHODS = frozenset({
    "read_text", "write_text", "read_bytes", "write_bytes", "exists", "is_file", "is_dir", "mkdir", "unlink",
    "iterdir", "rglob", "resolve", "expanduser", "touch", "rmdir", "stat", "lstat", "samefile", "symlink_to",
    "hardlink_to", "now", "utcnow", "today", "cwd", "home",
})
# fmt: on


@dataclass(frozen=True, slots=True)
class Import:
    """`module` is absolute; `from a import b` counts as `a.b`, because `b` may be a module."""

    module: str
    line: int


def imports_of(tree: ast.AST, package: str) -> Iterator[Import]:
    """Every import statement, at any depth; `package` resolves relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)


def layer_of(module: str) -> str | None:
    """The layer of a module of ours; None for foreign modules and for the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "afk" and len(parts) > 1 and parts[1] in RANK else None


def may_import(importer: str, imported: str) -> bool:
    return importer == imported or RANK[importer] > RANK[imported]


def faults(package: Path) -> list[str]:
    """One line for each broken rule below `package` (a directory named `afk`), `path:line: what is wrong`."""
    found: list[str] = []
    for path in sorted(package.rglob("*.py")):
        relative = path.relative_to(package)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parent = ".".join(["afk", *relative.parts[:-1]])
        for line, message in _faults_in(relative, tree, list(imports_of(tree, parent))):
            found.append(f"{relative}:{line}: {message}")
    return found


def _faults_in(relative: Path, tree: ast.AST, imports: list[Import]) -> Iterator[tuple[int, str]]:
    layer = relative.parts[0].removesuffix(".py")
    if layer not in RANK and layer != "__init__":
        yield 1, f"`{layer}` stands in no layer: give it a row in LAYERS"
    yield from _upward(layer, imports)
    if layer in STDLIB_ONLY:
        yield from _foreign(imports)
    if layer in PURE:
        yield from _impure(tree, imports)


def _upward(layer: str, imports: list[Import]) -> Iterator[tuple[int, str]]:
    for each in imports:
        target = layer_of(each.module)
        if target is not None and layer in RANK and not may_import(layer, target):
            yield each.line, f"`{layer}` imports `{target}`"


def _foreign(imports: list[Import]) -> Iterator[tuple[int, str]]:
    for each in imports:
        ours = layer_of(each.module) in STDLIB_ONLY
        if not ours and each.module.split(".")[0] not in sys.stdlib_module_names:
            yield each.line, f"imports {each.module}, which is not in the standard library"


def _impure(tree: ast.AST, imports: list[Import]) -> Iterator[tuple[int, str]]:
    for each in imports:
        if not _is_pure(each.module):
            yield each.line, f"imports {each.module}, which may do I/O"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            yield node.lineno, f"calls {node.func.id}()"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_METHODS:
            yield node.lineno, f"calls .{node.func.attr}()"


def _is_pure(module: str) -> bool:
    parts = module.split(".")
    return layer_of(module) in (*PURE, "errors") or any(
        ".".join(parts[:length]) in PURE_MODULES for length in range(1, len(parts) + 1)
    )


def test_imports_point_down_and_pure_layers_do_no_io() -> None:
    assert faults(PACKAGE) == []


def test_every_layer_of_the_list_is_there() -> None:
    """A renamed package must not leave its rule behind, guarding nothing."""
    missing = [name for name in RANK if not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").is_file()]
    assert missing == []


def test_each_kind_of_fault_is_found(tmp_path: Path) -> None:
    """The canary: a package with one fault of each kind, so that an empty list above means something."""
    sources = {
        "domain/upward.py": "from afk.adapters import git\n",
        "domain/lazy.py": "def f():\n    import subprocess\n",
        "domain/relative.py": "from ..wire import envelope\n",
        "domain/clock.py": "from datetime import datetime\nx = datetime.now()\n",
        "wire/disk.py": "from pathlib import Path\nx = Path('a').read_text()\n",
        "wire/opens.py": "x = open('a')\n",
        "wire/neighbour.py": "import afk.config\n",
        "adapters/neighbour.py": "from afk import agents\n",
        "keeper.py": "import psutil\nfrom afk import errors\n",
        "wire/kernel.py": "from afk import keeper\n",
        "stray.py": "x = 1\n",
        "wire/good.py": "import urllib.parse\nfrom afk.domain import issue\nfrom afk.errors import AfkError\n",
        "surfaces/good.py": "import os\nfrom afk.attempt import pipeline\nfrom . import table\n",
    }
    for name, text in sources.items():
        path = tmp_path / "afk" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert faults(tmp_path / "afk") == [
        "adapters/neighbour.py:1: `adapters` imports `agents`",
        "domain/clock.py:2: calls .now()",
        "domain/lazy.py:2: imports subprocess, which may do I/O",
        "domain/relative.py:1: `domain` imports `wire`",
        "domain/upward.py:1: `domain` imports `adapters`",
        "domain/upward.py:1: imports afk.adapters.git, which may do I/O",
        "keeper.py:1: imports psutil, which is not in the standard library",
        "keeper.py:2: imports afk.errors, which is not in the standard library",
        "stray.py:1: `stray` stands in no layer: give it a row in LAYERS",
        "wire/disk.py:2: calls .read_text()",
        "wire/kernel.py:1: imports afk.keeper, which may do I/O",
        "wire/neighbour.py:1: `wire` imports `config`",
        "wire/neighbour.py:1: imports afk.config, which may do I/O",
        "wire/opens.py:1: calls open()",
    ]


def test_json_is_read_in_one_place() -> None:
    """Only there a text that nests too deeply is a broken one like any other; the keeper knows the standard library."""
    readers = {
        path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if "json.load" in path.read_text()
    }
    assert readers == {"wire/json_value.py", "keeper.py"}
