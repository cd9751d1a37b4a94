"""Keeps the facts in docs/ that the program knows better: `scripts/docs` rewrites them, a test compares.

A row of docs/configuration.md is `| key | default | holds | what it does |`. The first three cells come from the
program, the last is written by people and stays. A key without a row gets one that ends in `?`, for a person to fill.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from afk.config import Key, describe

CONFIGURATION = Path(__file__).parent.parent / "docs" / "configuration.md"

_ROW = re.compile(r"\| `(?P<key>afk\.[^`]+)` \|.*\| (?P<meaning>[^|]*) \|$")
# `claude` stands for any name under `agents`, whose keys are those of `command`; hook points have a page of their own.
_ELSEWHERE = re.compile(r"afk\.agents\.claude\.|afk\.hooks\.(?!defaults\.)")


def configuration_keys() -> list[Key]:
    """The keys that docs/configuration.md has a row for."""
    return [key for key in describe() if not _ELSEWHERE.match(key.key)]


def refreshed(page: str, keys: Sequence[Key]) -> str:
    """The page with each row as the program has it, rows of keys that are gone left out, missing ones at the end."""
    known = {key.key: key for key in keys}
    lines = [*_kept_lines(page, known)]
    there = {match["key"] for line in lines if (match := _ROW.match(line))}
    lines += [_row(key, "?") for key in keys if key.key not in there]
    return "\n".join(lines) + "\n"


def _kept_lines(page: str, known: Mapping[str, Key]) -> Iterator[str]:
    for line in page.rstrip("\n").split("\n"):
        match = _ROW.match(line)
        if match is None:
            yield line
        elif match["key"] in known:
            yield _row(known[match["key"]], match["meaning"])


def _row(key: Key, meaning: str) -> str:
    default = key.default if isinstance(key.default, str) else json.dumps(key.default)
    return f"| `{key.key}` | `{default}` | {key.type.replace('|', 'or')} | {meaning} |"


if __name__ == "__main__":
    CONFIGURATION.write_text(
        refreshed(CONFIGURATION.read_text(encoding="utf-8"), configuration_keys()), encoding="utf-8"
    )
