"""Stand-ins for real agents: programs of their names, first in PATH, that replay what the real ones once printed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drainkit import AGENTS, Place

__all__ = ["StandIn", "stand_in"]


@dataclass(frozen=True)
class StandIn:
    """`notes` has one entry for each time it was started, in order (see `tests/agents/replay.py`)."""

    file: Path

    @property
    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]


def stand_in(place: Place, folder: Path, kind: str, *, scale: float = 0.0) -> StandIn:
    """From now on `kind` means the replaying program for every `afk` of this place."""
    note = folder / f"{kind}.notes"
    program = folder / kind
    folder.mkdir(exist_ok=True)
    words = [sys.executable, str(AGENTS / "replay.py"), kind, "--scale", str(scale), "--note", str(note), "--"]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)
    if str(folder) not in place.environ.get("PATH", ""):
        place.environ["PATH"] = os.pathsep.join([str(folder), place.environ.get("PATH", os.environ["PATH"])])
    return StandIn(note)
