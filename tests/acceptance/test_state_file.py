"""`afk.state.json` as its readers see it: whole at every moment, a stage at a time, and quiet when nobody works."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import gitkit
import pytest
from drainkit import Place, ended, reach

STAGES = ("setup", "explore", "impl", "validate", "commit", "merge", "push", "close")


@dataclass
class Reader:
    """Polls every state file below a folder until told to stop, and keeps each version that it saw."""

    workers: Path
    seen: list[bytes] = field(default_factory=list)
    held: dict[int, tuple[IO[bytes], bytes]] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Reader:
        self.thread = threading.Thread(target=self._poll)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()

    def _poll(self) -> None:
        while not self.stop.wait(0.005):
            for path in self.workers.glob("w*/*-a*/afk.state.json"):
                with suppress(FileNotFoundError):  # a directory of an attempt that never began
                    self._read(path)

    def _read(self, path: Path) -> None:
        file = path.open("rb")
        text = file.read()
        if not self.seen or self.seen[-1] != text:
            self.seen.append(text)
            self.held[len(self.seen)] = (file, text)

    def documents(self) -> list[dict[str, Any]]:
        """Fails for one that was torn or empty, and for one that was written over while it could be read."""
        for file, text in self.held.values():
            with file:
                file.seek(0)
                assert file.read() == text
        return [json.loads(text) for text in self.seen]


@pytest.fixture
def documents(place: Place, tmp_path: Path) -> list[dict[str, Any]]:
    """Every version of one attempt's file that a reader saw, from the opening to the end."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    place.file(7, "Say hello", f"agent: slow {ready} {go}\n")
    with Reader(place.clone / ".red/tmp/workers") as reader:
        process = place.start("run", "--json")
        reach(process, ready.exists, "the agent's commit")
        reach(process, lambda: reader.seen and b'"create mode 100644 first-7.txt"' in reader.seen[-1], "its last line")
        go.touch()
        ran = ended(process)
        gitkit.wait_until(lambda: b'"posted": true' in reader.seen[-1], "the last version")
    assert ran.outcomes == {7: "done"}, ran.stderr
    return reader.documents()


def test_a_reader_sees_whole_documents_with_stages_in_order(documents: list[dict[str, Any]]) -> None:
    working = [document["current"] for document in documents if document["current"]]
    stages = list(dict.fromkeys(current["stage"] for current in working))
    assert stages == sorted(stages, key=STAGES.index)
    assert {"setup", "commit"} <= set(stages)
    assert [current["heartbeat_pid"] for current in working] == [None] * len(working)


def test_nobody_works_before_the_worktree_is_there_and_after_the_end(documents: list[dict[str, Any]]) -> None:
    working = [document["current"] is not None for document in documents]
    assert working[0] is False
    assert documents[0]["envelope"] == {"posted": False}
    assert working[-1] is False
    assert documents[-1]["envelope"] == {"posted": True}
    assert documents[-1]["completed"] == [7]
    assert "".join("x" if works else "." for works in working).strip(".").count(".") == 0  # once on, once off


def test_the_books_of_the_run_are_in_every_file(place: Place) -> None:
    """Requeued, landed and parked: each attempt's last version counts itself, and the retries of its issue."""
    place.configure(recovery={"tries": {"crashed": 2}})
    place.file(7, body="agent: no_sentinel\n")
    place.file(8, body="agent: done\n", labels=["ready-for-agent", "priority:low"])

    ran = place.run()

    assert ran.outcomes == {7: "no-sentinel", 8: "done"}, ran.stderr
    counts = {
        key: (state["total"], state["done"], state["failed"], state["blocked"], state["completed"], state["queue"])
        for key, state in {"7-a1": place.state(7, 1), "7-a2": place.state(7, 2), "8-a1": place.state(8)}.items()
    }
    assert counts == {
        "7-a1": (1, 0, 1, 0, [], [8]),
        "7-a2": (2, 0, 1, 1, [], [8]),
        "8-a1": (2, 1, 1, 1, [8], []),
    }
    assert len(place.state(8)["durations_seconds"]) == 3
    assert place.state(8)["filter"] == {"kind": "all", "value": None}
