"""How long each foreign claim has stood unchanged, as this machine saw it.

Clocks of different machines are never compared: a claim's age is counted from our first sight of its sha, on our own
monotonic clock. The sights are kept in `.red/state/claims.json`, so that short runs of one boot add up; another boot
starts anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afk.adapters.files import write_atomic
from afk.adapters.process import boot_id
from afk.ports import Clock
from afk.wire.json_value import parse_json

__all__ = ["Sight", "Sights"]


@dataclass(frozen=True, slots=True)
class Sight:
    """`unchanged_s` since this machine first saw `sha` as the claim of the issue."""

    sha: str
    unchanged_s: float


class Sights:
    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def look(self, claims: Mapping[int, str]) -> dict[int, Sight]:
        """Note what the remote holds now and answer how long each of it has stood; claims that went are forgotten."""
        known, now, boot = self._read(), self._clock.monotonic_s(), boot_id()
        seen: dict[str, Any] = {}
        for number, sha in claims.items():
            old = known.get(str(number))
            same = _is_sight(old, sha, boot, now)
            seen[str(number)] = old if same else {"sha": sha, "boot_id": boot, "monotonic_s": now}
        if seen != known:
            write_atomic(self._path, json.dumps(seen, indent=1) + "\n")
        return {n: Sight(sha, now - float(seen[str(n)]["monotonic_s"])) for n, sha in claims.items()}

    def _read(self) -> dict[str, Any]:
        """A file that is gone or broken only means that every age starts anew."""
        try:
            known = parse_json(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def _is_sight(old: Any, sha: str, boot: str, now_s: float) -> bool:
    """Whether an entry of the file is an earlier sight of this very claim in this boot, and nothing else."""
    if not isinstance(old, dict) or (old.get("sha"), old.get("boot_id")) != (sha, boot):
        return False
    seen_s = old.get("monotonic_s")
    return isinstance(seen_s, int | float) and not isinstance(seen_s, bool) and seen_s <= now_s
