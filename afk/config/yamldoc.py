"""YAML that people wrote, read with bounds: text -> node tree, node tree -> plain values with the line of every key.

PyYAML's own constructors are not used on whole documents: they expand aliases without limit, let a doubled key win
silently and forget where a value stood. Nodes keep all of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

__all__ = ["MAX_DEPTH", "MAX_VALUES", "Fault", "Tree", "YamlError", "compose", "plain"]

MAX_DEPTH = 50  # deeper than any configuration, well inside Python's own recursion limit
MAX_VALUES = 20_000  # values after aliases were followed: a "billion laughs" document stops here

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Fault:
    """What cannot be read, and where: `line` from 1 (None: nowhere in particular), `key` dotted, "" for the whole."""

    message: str
    line: int | None = None
    key: str = ""


class YamlError(ValueError):
    """A document that gives no tree at all."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"line {fault.line}: {fault.message}" if fault.line else fault.message)
        self.fault = fault


class _Loader(yaml.SafeLoader):
    """Refuses nesting before Python's recursion limit does."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.depth >= MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH} levels", self.get_mark())
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def compose(text: str) -> yaml.Node | None:
    """The document's node tree; None for a text without a value (empty, or comments only).

    Raises: YamlError with the line, also for a second document, a control character and a tab used as indentation.
    """
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None or node.tag == _TAG + "null" else node
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        character = f"U+{ord(text[error.position]):04X}"
        raise YamlError(Fault(f"the character {character} cannot stand in YAML", line)) from error
    except yaml.MarkedYAMLError as error:
        raise YamlError(_fault_of(error)) from error
    finally:
        if loader is not None:
            loader.dispose()


def _fault_of(error: yaml.MarkedYAMLError) -> Fault:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    problem = error.problem or "not YAML"
    if "'\\t'" in problem:
        return Fault("a tab cannot indent YAML: use spaces", line)
    if problem == "mapping values are not allowed here":
        return Fault("a `: ` that YAML cannot place: quote the value or look at the indentation", line)
    return Fault(f"{error.context}: {problem}" if error.context else problem, line)


@dataclass(slots=True)
class Tree:
    """Plain values (`dict`, `list`, `str`, `int`, `float`, `bool`, None) with the line of every dotted key (`a.b.0.c`).

    A value that cannot be read is left out and stands in `faults`.
    """

    value: object = None
    lines: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def plain(node: yaml.Node | None, key: str = "") -> Tree:
    """The values below `node`, whose own dotted key is `key`; never raises."""
    walk = _Walk()
    try:
        value = None if node is None else walk.value(node, key, 0)
    except YamlError as error:
        return Tree(None, walk.lines, [*walk.faults, error.fault])
    return Tree(None if value is _UNREADABLE else value, walk.lines, walk.faults)


_UNREADABLE = object()


@dataclass(slots=True)
class _Walk:
    lines: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    seen: int = 0

    def value(self, node: yaml.Node, key: str, depth: int) -> object:
        self.seen += 1
        if self.seen > MAX_VALUES or depth > MAX_DEPTH:
            top = ".".join(key.split(".")[:2])
            raise YamlError(Fault(f"aliases (`*name`) unfold to more than {MAX_VALUES} values", _line(node), top))
        self.lines.setdefault(key, _line(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, key, depth)
        if isinstance(node, yaml.SequenceNode):
            items = [self.value(item, f"{key}.{index}", depth + 1) for index, item in enumerate(node.value)]
            return [item for item in items if item is not _UNREADABLE]
        return self.scalar(node, key)

    def mapping(self, node: yaml.MappingNode, key: str, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        first: dict[str, int] = {}
        for name_node, value_node in node.value:
            name = self.name(name_node, key, first)
            if name is None:
                continue
            below = f"{key}.{name}" if key else name
            self.lines[below] = _line(name_node)
            value = self.value(value_node, below, depth + 1)
            if value is not _UNREADABLE:
                found[name] = value
        return found

    def name(self, node: yaml.Node, key: str, first: dict[str, int]) -> str | None:
        line = _line(node)
        if not isinstance(node, yaml.ScalarNode):
            self.faults.append(Fault("a key must be one word", line, key))
            return None
        name = str(node.value)
        if node.tag == _TAG + "merge":
            self.faults.append(Fault("merge keys (`<<`) are not read here: write the keys out", line, key))
            return None
        if name in first:
            below = f"{key}.{name}" if key else name
            self.faults.append(Fault(f"stands twice, first on line {first[name]}", line, below))
            return None
        first[name] = line
        return name

    def scalar(self, node: yaml.Node, key: str) -> object:
        try:
            return _scalar(node.tag.removeprefix(_TAG), yaml.ScalarNode(node.tag, str(node.value)))
        except (ValueError, KeyError, yaml.YAMLError):
            tag = node.tag.replace(_TAG, "!!")
            self.faults.append(Fault(f"a value of the kind `{tag}` cannot be read here", _line(node), key))
            return _UNREADABLE


def _scalar(kind: str, node: yaml.ScalarNode) -> object:
    """Dates stay text: a branch may be called `2024-01-01`."""
    constructor = yaml.constructor.SafeConstructor()
    match kind:
        case "str" | "timestamp" | "value" | "merge":
            return node.value
        case "null":
            return None
        case "bool":
            return constructor.construct_yaml_bool(node)
        case "int":
            return constructor.construct_yaml_int(node)
        case "float":
            return constructor.construct_yaml_float(node)
    raise ValueError(kind)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
