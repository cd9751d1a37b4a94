"""The message of a claim's commit: one compact JSON line that says who holds an issue.

Source: AFK claims, schema `afk.claim.v1`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from afk.wire.json_value import parse_json

__all__ = ["SCHEMA", "ClaimRecord", "ClaimState"]

SCHEMA: Final = "afk.claim.v1"

ClaimState: TypeAlias = Literal["working", "waiting"]
"""`waiting`: a pull request is open and waits for people; such a claim is not taken over for its age."""

_NONCE = re.compile("[0-9a-f]{32}")
_COUNT_MAX = 2**53  # what every reader of JSON holds exactly; a lease is compared with and divided as a float


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """One push of a claim.

    `nonce` (32 hex digits) is the attempt's for good and alone says whose claim it is; `seq` counts its pushes, from 0.
    `worker`, `host` and `attempt` are for people, and whatever their writer made them. `lease_s` is in whole seconds:
    unchanged for longer, the claim may be taken over.
    """

    nonce: str
    seq: int
    worker: str
    host: str
    attempt: str
    lease_s: int
    state: ClaimState = "working"

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
        """None for whatever is no claim of this schema; anybody can push a ref, so nothing is assumed.

        Keys of a later version are passed over.
        """
        try:
            record = parse_json(text)
        except ValueError:
            return None
        if not isinstance(record, dict) or record.get("schema") != SCHEMA or not _is_complete(record):
            return None
        return cls(**{name: record[name] for name in cls.__slots__})


def _is_complete(record: dict[str, Any]) -> bool:
    words = [record.get(name) for name in ("nonce", "worker", "host", "attempt")]
    if not all(isinstance(word, str) for word in words) or not _NONCE.fullmatch(record["nonce"]):
        return False
    if not _is_count(record.get("seq"), least=0) or not _is_count(record.get("lease_s"), least=1):
        return False
    return record.get("state") in get_args(ClaimState)


def _is_count(value: object, *, least: int) -> bool:
    return type(value) is int and least <= value <= _COUNT_MAX
