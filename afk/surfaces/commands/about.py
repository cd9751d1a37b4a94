"""What this program is."""

from __future__ import annotations

from afk import __version__
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.table import schema_numbers

__all__ = ["version"]


def version(_context: CommandContext, _arguments: Arguments) -> Result:
    """`afk.version.v1`: a client looks up `schemas` before it relies on a payload."""
    payload = {"name": "afk", "version": __version__, "schemas": schema_numbers()}
    return Result(payload, text=f"afk {__version__}\n")
