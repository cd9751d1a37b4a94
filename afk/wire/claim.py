"""The message of a claim's commit: one compact JSON line that says who holds an issue.

Source: AFK claims, schema `afk.claim.v1`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

__all__ = ["SCHEMA", "ClaimRecord"]

SCHEMA = "afk.claim.v1"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """`nonce` (32 hex digits) is the attempt's for good; `seq` rises with each push; `state`: `working`, `waiting`."""

    nonce: str
    seq: int
    worker: str
    host: str
    attempt: str
    lease_s: int
    state: str = "working"

    def message(self) -> str:
        """The line itself, ASCII, without a line break; key order is part of the format."""
        record = {
            "schema": SCHEMA,
            "nonce": self.nonce,
            "seq": self.seq,
            "worker": self.worker,
            "host": self.host,
            "attempt": self.attempt,
            "lease_s": self.lease_s,
            "state": self.state,
        }
        return json.dumps(record, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> ClaimRecord | None:
        """None for whatever is no claim of this schema; anybody can push a ref, so nothing is assumed."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or record.get("schema") != SCHEMA:
            return None
        words = [record.get(name) for name in ("nonce", "worker", "host", "attempt", "state")]
        numbers = [record.get(name) for name in ("seq", "lease_s")]
        if not all(isinstance(word, str) for word in words) or not all(type(number) is int for number in numbers):
            return None
        if record["state"] not in ("working", "waiting") or record["lease_s"] <= 0 or record["seq"] < 0:
            return None
        return cls(**{name: record[name] for name in cls.__slots__})
