"""The local tracker's two kinds of file, bytes <-> values: YAML front matter between `---` lines, then the body.

Made for files that people edit: a BOM, CRLF, a missing last line break and unknown keys are fine and are kept. Front
matter is edited as a node tree, so that a value nobody here understands comes out as it went in; body bytes are never
touched. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import yaml

from afk.config.yamldoc import YamlError, compose

__all__ = ["BrokenFile", "CommentFile", "Field", "IssueFile", "edit", "fold", "read_comment", "read_issue", "render"]

MAX_FRONT_BYTES: Final = 64 * 1024
Field = str | datetime | Sequence[str]

_FENCED = re.compile(
    rb"\A(?P<open>(?:\xef\xbb\xbf)?---[ \t]*(?P<eol>\r?\n))(?P<front>(?:.*\n)*?)(?P<close>---[ \t]*(?:\r?\n|\Z))"
)
_BOM: Final = b"\xef\xbb\xbf"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_TAG: Final = "tag:yaml.org,2002:"
_ENTRY: Final = {"labels": "a label", "assignees": "an assignee"}


class BrokenFile(ValueError):
    """Why a file cannot be understood, with the line where there is one."""


@dataclass(frozen=True, slots=True)
class IssueFile:
    """`issue.md`; author and created_at are None when the file does not say. `remarks` say what was left out."""

    title: str
    state: str  # "open" | "closed"
    labels: tuple[str, ...]
    author: str | None
    created_at: datetime | None
    closed_reason: str | None
    body: str
    assignees: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommentFile:
    """One comment; a file without front matter is all body."""

    author: str | None
    created_at: datetime | None
    body: str
    remarks: tuple[str, ...] = ()


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_issue(data: bytes) -> IssueFile:
    """Title, state and labels decide what is worked, so they must be sound; what only informs may be absent or broken.

    `labels` and `assignees` may be lists or texts with commas. Raises: BrokenFile.
    """
    parts = _split(data)
    fields = _Fields(_nodes(parts.front))
    return IssueFile(
        title=_required(fold(fields.text("title") or ""), "`title` is missing"),
        state=_state(fields.text("state")),
        labels=fields.labels(),
        author=fields.informative("author"),
        created_at=fields.instant("created_at"),
        closed_reason=fields.informative("closed_reason"),
        body=parts.text,
        assignees=fields.people("assignees"),
        remarks=tuple(fields.remarks),
    )


def read_comment(data: bytes) -> CommentFile:
    """Raises: BrokenFile for front matter that is none."""
    if not _FENCED.match(data[:MAX_FRONT_BYTES]):
        return CommentFile(None, None, data.removeprefix(_BOM).decode("utf-8", "replace"))
    parts = _split(data)
    fields = _Fields(_nodes(parts.front))
    author, created_at = fields.informative("author"), fields.instant("created_at")
    return CommentFile(author, created_at, parts.text, tuple(fields.remarks))


def fold(text: str) -> str:
    """One line: control characters and runs of white space become one blank."""
    return " ".join(_CONTROLS.sub(" ", text).split())


@dataclass(frozen=True, slots=True)
class _Parts:
    """A file cut at its fences; the pieces joined again are the file."""

    open: bytes
    eol: bytes
    front: bytes
    close: bytes
    body: bytes

    @property
    def text(self) -> str:
        """The body without the blank line above it and the line break below, which belong to the frame."""
        inner = re.sub(rb"\A\r?\n", b"", self.body, count=1).removesuffix(b"\n")
        return (inner.removesuffix(b"\r") if self.eol == b"\r\n" else inner).decode("utf-8", "replace")


def _split(data: bytes) -> _Parts:
    match = _FENCED.match(data[:MAX_FRONT_BYTES])
    if match is None:
        raise BrokenFile(_why_unfenced(data))
    return _Parts(match["open"], match["eol"], match["front"], match["close"], data[match.end() :])


def _why_unfenced(data: bytes) -> str:
    if not data.strip():
        return "is empty"
    if not data.removeprefix(_BOM).startswith(b"---"):
        return "line 1: does not begin with front matter (`---`, `title: …`, `---`)"
    return f"line 1: the front matter has no closing `---` within {MAX_FRONT_BYTES // 1024} kB"


def _nodes(front: bytes) -> dict[str, yaml.Node]:
    """The front matter's values by key; lines in messages count from the file's first."""
    mapping = _mapping(front)
    found: dict[str, yaml.Node] = {}
    for key, value in mapping.value:
        name = str(key.value)
        if name in found:
            raise BrokenFile(f"line {_line(key)}: `{name}` stands twice")
        found[name] = value
    return found


def _mapping(front: bytes) -> yaml.MappingNode:
    try:
        node = compose(front.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = front.count(b"\n", 0, error.start) + 2
        raise BrokenFile(f"line {line}: is not UTF-8 text") from error
    except YamlError as error:
        raise BrokenFile(f"line {(error.fault.line or 0) + 1}: {error.fault.message}") from error
    if node is None:
        return yaml.MappingNode(_TAG + "map", [], flow_style=False)
    if not isinstance(node, yaml.MappingNode):
        raise BrokenFile("line 2: the front matter is no mapping")
    return node


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 2  # counted from 1, and the opening fence is above


def _required(value: str, otherwise: str) -> str:
    if not value:
        raise BrokenFile(otherwise)
    return value


def _state(text: str | None) -> str:
    state = (text or "open").casefold()
    if state not in ("open", "closed"):
        raise BrokenFile("`state` is neither `open` nor `closed`")
    return state


@dataclass(slots=True)
class _Fields:
    """Typed looks at the nodes; what is broken and only informs is None, with a remark."""

    nodes: Mapping[str, yaml.Node]
    remarks: list[str] = field(default_factory=list)

    def text(self, name: str) -> str | None:
        """As it is written: a title `1.10` or `No` is text, whatever YAML makes of it."""
        node = self.nodes.get(name)
        if node is None or node.tag == _TAG + "null":
            return None
        if not isinstance(node, yaml.ScalarNode):
            raise BrokenFile(f"line {_line(node)}: `{name}` is no text")
        return str(node.value).strip()

    def informative(self, name: str) -> str | None:
        try:
            return fold(self.text(name) or "") or None
        except BrokenFile as error:
            self.remarks.append(str(error))
            return None

    def instant(self, name: str) -> datetime | None:
        """Without an offset it is the local zone's."""
        text = self.informative(name)
        try:
            return datetime.fromisoformat(text).astimezone() if text else None
        except (ValueError, OverflowError):
            self.remarks.append(f"line {_line(self.nodes[name])}: `{name}` is no date and time")
            return None

    def people(self, name: str) -> tuple[str, ...]:
        """Logins as a list or as one text with commas; what is neither has nobody, with a remark."""
        try:
            return self.names(name)
        except BrokenFile as error:
            self.remarks.append(str(error))
            return ()

    def labels(self) -> tuple[str, ...]:
        return self.names("labels")

    def names(self, key: str) -> tuple[str, ...]:
        """In their order, each once whatever its case; a list, or one text with commas. Raises `BrokenFile`."""
        node = self.nodes.get(key)
        if isinstance(node, yaml.SequenceNode):
            names = [self._name(item, key) for item in node.value]
        else:
            names = (self.text(key) or "").split(",")
        return tuple({name.casefold(): name for name in map(fold, reversed(names)) if name}.values())[::-1]

    def _name(self, node: yaml.Node, key: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise BrokenFile(f"line {_line(node)}: {_ENTRY[key]} is no text (quote it when it holds `: `)")
        return str(node.value)


# ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def render(fields: Mapping[str, Field], body: str) -> bytes:
    """A new file; reading it gives the same fields and the same body."""
    mapping = yaml.MappingNode(_TAG + "map", [], flow_style=False)
    _assign(mapping, fields)
    return b"---\n" + _serialized(mapping, b"\n") + b"---\n\n" + body.encode("utf-8", "replace") + b"\n"


def edit(data: bytes, changes: Mapping[str, Field], *, absent: Mapping[str, Field]) -> bytes:
    """The file with these keys set, and those of `absent` where it has none.

    Body and fences keep every byte, other keys their value; comments inside the front matter are lost.
    Raises: BrokenFile.
    """
    parts = _split(data)
    mapping = _mapping(parts.front)
    held = _nodes(parts.front)
    _assign(mapping, {name: value for name, value in absent.items() if name not in held} | dict(changes))
    return parts.open + _serialized(mapping, parts.eol) + parts.close + parts.body


def _assign(mapping: yaml.MappingNode, fields: Mapping[str, Field]) -> None:
    for name, value in fields.items():
        for index, (key, old) in enumerate(mapping.value):
            if key.value == name:
                mapping.value[index] = (key, _node(value, old))
                break
        else:
            mapping.value.append((_node(name), _node(value)))


def _node(value: Field, old: yaml.Node | None = None) -> yaml.Node:
    """A list keeps the layout it had."""
    if isinstance(value, str):
        return yaml.ScalarNode(_TAG + "str", value.encode("utf-8", "replace").decode())
    if isinstance(value, datetime):
        return yaml.ScalarNode(_TAG + "timestamp", value.isoformat(timespec="seconds"))
    flow = old.flow_style if isinstance(old, yaml.SequenceNode) and value else True
    return yaml.SequenceNode(_TAG + "seq", [_node(item) for item in value], flow_style=flow)


def _serialized(mapping: yaml.MappingNode, eol: bytes) -> bytes:
    text = yaml.serialize(mapping, Dumper=yaml.SafeDumper, allow_unicode=True, width=1 << 30, line_break=eol.decode())
    return str(text).encode()
