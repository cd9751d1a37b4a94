"""What an attempt has done so far: sole owner of `attempt.json`.

Every step of `pipeline.work_one_issue` asks the journal first and records after, so that the same function resumes an
attempt whose owner died. A step is recorded once, after its effect; each effect is safe to repeat, because a crash may
fall between the two. fsync where recovery depends on it (claim, landing, outcome, outbox), plain rename elsewhere.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from afk.adapters.files import write_atomic
from afk.domain.attempt import AttemptId
from afk.domain.usage import Usage, total_usage
from afk.errors import JournalBroken, JournalTooNew
from afk.ports import Clock
from afk.wire.json_value import parse_json

__all__ = ["JOURNAL", "Journal", "Seam", "Step", "no_seam", "recorded_usage"]

JOURNAL = "attempt.json"
VERSION = 1

Seam = Callable[[str, str], None]
"""Called with `before` or `after` and the step's key around each record; what the crash tests hold on to."""


def no_seam(moment: str, key: str) -> None:
    """Nobody is listening."""


class Step(StrEnum):
    """In the order in which an attempt takes them; those with a number (`run-ended:2`) may come more than once."""

    OPENED = "opened"
    CLAIMED = "claimed"
    CONFIRMED = "confirmed"
    LABELLED = "labelled"
    BRANCHED = "branched"
    PUBLISHED = "published"
    PREPARED = "prepared"
    HANDED = "handed"
    RUN_STARTED = "run-started"
    RUN_ENDED = "run-ended"
    RUN_TOLD = "run-told"
    SETTLED = "settled"
    VALIDATED = "validated"
    ADMITTED = "admitted"
    MERGED = "merged"
    LANDED = "landed"
    ANNOUNCED = "announced"
    ENDED = "ended"
    SAVED = "saved"
    WRITTEN = "written"
    POSTED = "posted"
    SHELVED = "shelved"
    RELEASING = "releasing"
    RELEASED = "released"
    RECORDED = "recorded"
    CLEARED = "cleared"


class Journal:
    """One attempt's memory on disk. Safe to use from the slot and from the thread that pushes beside the agent."""

    def __init__(self, directory: Path, document: dict[str, Any], *, clock: Clock, seam: Seam = no_seam) -> None:
        self.directory = directory
        self._document = document
        self._clock = clock
        self._seam = seam
        self._synced = False  # whether the last write was waited for
        self._lock = threading.RLock()

    @classmethod
    def create(
        cls, directory: Path, attempt: AttemptId, facts: Mapping[str, Any], *, clock: Clock, seam: Seam = no_seam
    ) -> Journal:
        """Open a new attempt; on return it is safely on disk. Raises `FileExistsError` when the directory is taken."""
        directory.mkdir(parents=True)
        document = {"version": VERSION, "attempt_id": str(attempt), "facts": dict(facts), "steps": {}}
        journal = cls(directory, document, clock=clock, seam=seam)
        journal.record(Step.OPENED, durable=True)
        return journal

    @classmethod
    def load(cls, directory: Path, *, clock: Clock, seam: Seam = no_seam) -> Journal:
        """Raises `JournalTooNew` for one that a newer afk wrote, `JournalBroken` when it cannot be read."""
        path = directory / JOURNAL
        try:
            document = parse_json(path.read_text(encoding="utf-8"))
            version = document["version"]
            if type(version) is not int:
                raise ValueError("its version is no number")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalBroken(f"cannot read {path}: {error}", hint="afk status") from error
        if version > VERSION:  # asked before anything else: what is inside may look quite different by then
            raise JournalTooNew(
                f"{path} was written by a newer afk (journal version {version}, this one reads up to {VERSION})",
                hint="upgrade afk, then: afk run",
            )
        if not isinstance(document.get("steps"), dict) or not isinstance(document.get("facts"), dict):
            raise JournalBroken(f"{path} has no steps or no facts", hint="afk status")
        if AttemptId.parse(str(document.get("attempt_id"))) is None:
            raise JournalBroken(f"{path} names no attempt", hint="afk status")
        return cls(directory, document, clock=clock, seam=seam)

    @property
    def attempt(self) -> AttemptId:
        attempt = AttemptId.parse(self._document["attempt_id"])
        assert attempt is not None  # checked by `load` and `create`
        return attempt

    def has(self, step: Step, k: int | None = None) -> bool:
        with self._lock:
            return _key(step, k) in self._document["steps"]

    def get(self, step: Step, k: int | None = None) -> dict[str, Any]:
        """The evidence recorded with a step; empty when it was not taken."""
        with self._lock:
            return dict(self._document["steps"].get(_key(step, k), {}))

    def count(self, step: Step) -> int:
        """How often a numbered step was taken: its numbers run from 1 without gaps."""
        with self._lock:
            return sum(1 for key in self._document["steps"] if key.partition(":")[0] == step)

    def record(self, step: Step, k: int | None = None, *, durable: bool = False, **evidence: Any) -> dict[str, Any]:
        """Note that a step's effect has happened. Evidence is JSON; `at` is added."""
        key = _key(step, k)
        self._seam("before", key)
        with self._lock:
            taken = {key: {"at": self._clock.now().isoformat(), **evidence}}
            self._write({**self._document, "steps": {**self._document["steps"], **taken}}, durable)
        self._seam("after", key)
        return dict(evidence)

    def fact(self, name: str, default: Any = None) -> Any:
        """Something that changes during the attempt and is no step: the claim's sha, what was pushed last."""
        with self._lock:
            return self._document["facts"].get(name, default)

    def set_facts(self, *, durable: bool = False, **facts: Any) -> None:
        """Nothing is written when nothing changes, unless it has to be `durable` now and was not before."""
        self._change(facts, durable)

    def set_fact(self, name: str, value: Any) -> None:
        """`set_facts` for a name that is no identifier."""
        self._change({name: value}, False)

    def _change(self, facts: Mapping[str, Any], durable: bool) -> None:
        with self._lock:
            known = self._document["facts"]
            if (self._synced or not durable) and all(known.get(name, ...) == value for name, value in facts.items()):
                return
            self._write({**self._document, "facts": {**known, **facts}}, durable)

    def append_fact(self, name: str, item: Any) -> None:
        with self._lock:
            self.set_fact(name, [*self.fact(name, []), item])

    @property
    def steps(self) -> dict[str, dict[str, Any]]:
        """Every step taken, in order, with its evidence."""
        with self._lock:
            return {key: dict(value) for key, value in self._document["steps"].items()}

    def restore(self) -> bool:
        """Write all of it again where somebody deleted the directory under its living owner; False: it is there."""
        with self._lock:
            if (self.directory / JOURNAL).exists():
                return False
            self.directory.mkdir(parents=True, exist_ok=True)
            self._write(self._document, durable=True)
            return True

    def _write(self, document: dict[str, Any], durable: bool) -> None:
        """What is remembered is what is on disk: a write that fails changes neither."""
        text = json.dumps(document, ensure_ascii=True, indent=1)
        write_atomic(self.directory / JOURNAL, text + "\n", durable=durable)
        self._document, self._synced = document, durable


def recorded_usage(journal: Journal) -> Usage | None:
    """What all ended runs of the attempt's agent used together; None where none of them told."""
    runs = range(1, journal.count(Step.RUN_ENDED) + 1)
    told = [journal.get(Step.RUN_ENDED, k)["evidence"].get("usage") for k in runs]
    return total_usage(map(Usage.from_dict, filter(None, told))) if any(told) else None


def _key(step: Step, k: int | None) -> str:
    return str(step) if k is None else f"{step}:{k}"
