"""Whose text is obeyed: directives, our own envelopes, and who may put work on the queue."""

from __future__ import annotations

import re
from collections.abc import Collection

from afk.domain.issue import Comment

__all__ = ["directive_text", "is_directive", "is_ours", "may_direct", "may_queue"]

_ENVELOPE_START = "<details data-attempt-status="
_DIRECTIVE_START = re.compile(r"""<details\b[^>]*\sdata-kind\s*=\s*(["']?)directive\1(?=[\s>])[^>]*>""", re.IGNORECASE)
_DETAILS = re.compile(r"<details\b|</details\s*>", re.IGNORECASE)
_SUMMARY = re.compile(r"<summary\b[^>]*>.*?</summary\s*>", re.IGNORECASE | re.DOTALL)
_FENCED = re.compile(r"^[ ]{0,3}(`{3,}|~{3,})[^\n`]*\n.*?(?:^[ ]{0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def is_directive(body: str) -> bool:
    """Whether the comment holds a `<details data-kind="directive">` block; who wrote it is for `may_direct`."""
    return directive_text(body) is not None


def directive_text(body: str) -> str | None:
    """What the comment's directive blocks say, their summaries left out; None when it has none, "" when they are empty.

    A block shown inside a code fence is quoted, one inside an envelope is an agent's text: neither counts. A block that
    nobody closed reaches to the end.
    """
    if body.startswith(_ENVELOPE_START):
        return None
    body = body.replace("\r\n", "\n")
    quoted = [match.span() for match in _FENCED.finditer(body)]
    blocks: list[str] = []
    end = 0
    for start in _DIRECTIVE_START.finditer(body):
        if start.start() < end or any(low <= start.start() < high for low, high in quoted):
            continue
        end = _end_of_block(body, start.end())
        blocks.append(_SUMMARY.sub("", body[start.end() : end], count=1).strip())
    return "\n\n".join(block for block in blocks if block) if blocks else None


def _end_of_block(body: str, start: int) -> int:
    depth = 1
    for tag in _DETAILS.finditer(body, start):
        depth += -1 if tag.group().startswith("</") else 1
        if depth == 0:
            return tag.start()
    return len(body)


def may_direct(comment: Comment) -> bool:
    """Directives count from write access alone: who is merely allowed to put work on the queue gives no orders."""
    return comment.can_write


def is_ours(comment: Comment, allow: Collection[str]) -> bool:
    """Whether the comment is an envelope that may be believed.

    It begins with our first bytes, and its author is our own login, has write access, or is on `afk.trust.allow`: a
    developer and a CI bot may share a queue.
    """
    trusted = comment.by_us or comment.can_write or _named(comment.author, allow)
    return trusted and comment.body.startswith(_ENVELOPE_START)


def may_queue(login: str, *, can_write: bool, allow: Collection[str], require_write_access: bool) -> bool:
    """Whether work that this person wrote, or put on the queue, is picked."""
    return can_write or not require_write_access or _named(login, allow)


def _named(login: str, allow: Collection[str]) -> bool:
    """Logins are compared without regard to case, as forges do."""
    return login.casefold() in {name.casefold() for name in allow}
