"""Which changed files a glob of the configuration means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

__all__ = ["matches"]

_CHOICE = re.compile(r"\{([^{}]*)\}")


def matches(path: str, glob: str) -> bool:
    """Whether a path below the top of the repository matches as a whole; case counts.

    `**` stands for any number of folders, `*`, `?` and `[…]` for something inside one name, a leading dot included,
    `{a,b}` for either. A glob that ends in `/` means everything below.
    """
    return any(_match(path.split("/"), _parts(choice)) for choice in _choices(glob))


def _choices(glob: str) -> list[str]:
    found = _CHOICE.search(glob)
    if not found:
        return [glob]
    before, after = glob[: found.start()], glob[found.end() :]
    return [choice for word in found[1].split(",") for choice in _choices(f"{before}{word}{after}")]


def _parts(glob: str) -> list[str]:
    parts: list[str] = []
    for part in (f"{glob}**" if glob.endswith("/") else glob).split("/"):
        if part.startswith("**") and part != "**":
            # `**.py` is meant as `**/*.py`: taken as one name it would match nothing below, and nobody would hear.
            parts += ["**", part[1:]]
        elif part not in ("", "."):
            parts.append(part)
    return [*parts, "*"] if parts[-1:] == ["**"] else parts


def _match(names: Sequence[str], parts: Sequence[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_match(names[skip:], parts[1:]) for skip in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], parts[0]) and _match(names[1:], parts[1:])
