"""`docs/errors.md` and `afk/errors.py` say the same, in both directions."""

from __future__ import annotations

import re
from pathlib import Path

from afk.errors import AfkError, UsageError
from afk.surfaces.parser import CliCode

PAGE = Path(__file__).parent.parent.parent / "docs" / "errors.md"
ROW = re.compile(r"\| `([a-z0-9_]+)` \| ([0-9]+) \| (yes|no) \| ([^|]+) \| ([^|]+) \|")


def classes(root: type[AfkError]) -> list[type[AfkError]]:
    return [root, *(found for child in root.__subclasses__() for found in classes(child))]


def in_the_program() -> dict[str, tuple[int, bool]]:
    """Every code with its exit and whether it is retryable; only the program's own classes count."""
    kinds = [kind for kind in classes(AfkError) if kind.__module__ == "afk.errors" and kind is not UsageError]
    usage = {str(code): (UsageError.exit_code, UsageError.retryable) for code in CliCode}
    return usage | {kind.code: (kind.exit_code, kind.retryable) for kind in kinds}


def on_the_page() -> dict[str, tuple[int, bool]]:
    return {row[1]: (int(row[2]), row[3] == "yes") for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}


def test_the_page_has_every_code_and_no_other() -> None:
    assert on_the_page().keys() == in_the_program().keys()


def test_the_page_tells_exit_code_and_retry_as_they_are() -> None:
    assert on_the_page() == in_the_program()


def test_no_code_belongs_to_two_errors() -> None:
    codes = [kind.code for kind in classes(AfkError) if kind.__module__ == "afk.errors" and kind is not UsageError]
    assert len(set(codes)) == len(codes)


def test_every_code_has_a_cure() -> None:
    rows = list(ROW.finditer(PAGE.read_text(encoding="utf-8")))
    assert len(rows) == len(on_the_page())
    assert all(row[4].strip() and row[5].strip() for row in rows)
