"""An attempt's memory: what was noted is there after a crash, once, whoever wrote beside it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from afk.adapters.clock import SystemClock
from afk.attempt.journal import JOURNAL, Journal, Seam, Step, no_seam
from afk.domain.attempt import AttemptId
from afk.errors import JournalBroken, JournalTooNew

ATTEMPT = AttemptId("wZ2R4", 142, 1)
CLOCK = SystemClock()


def create(folder: Path, *, seam: Seam = no_seam, **facts: object) -> Journal:
    return Journal.create(folder / "142-a1", ATTEMPT, facts, clock=CLOCK, seam=seam)


def load(folder: Path) -> Journal:
    return Journal.load(folder / "142-a1", clock=CLOCK)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return create(tmp_path, title="wire OAuth callback")


# ── Steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_attempt_is_on_disk_when_it_is_opened(tmp_path: Path) -> None:
    create(tmp_path, title="wire OAuth callback")
    again = load(tmp_path)
    assert again.attempt == ATTEMPT
    assert list(again.steps) == ["opened"]
    assert again.fact("title") == "wire OAuth callback"


def test_an_attempts_directory_is_opened_by_one_alone(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        create(tmp_path, title="another")
    assert load(tmp_path).fact("title") == "wire OAuth callback"


def test_a_step_is_taken_when_it_was_recorded_and_not_before(journal: Journal, tmp_path: Path) -> None:
    assert not journal.has(Step.CLAIMED)
    assert journal.get(Step.CLAIMED) == {}
    assert journal.record(Step.CLAIMED, sha="abc") == {"sha": "abc"}
    for seen in (journal, load(tmp_path)):
        assert seen.has(Step.CLAIMED)
        assert seen.get(Step.CLAIMED)["sha"] == "abc"


def test_a_step_that_is_recorded_again_is_there_once(journal: Journal, tmp_path: Path) -> None:
    """A crash may fall between an effect and its record; the second time replaces what the first one left."""
    journal.record(Step.LANDED, sha="a", base="b")
    journal.record(Step.LANDED, sha="c")
    again = load(tmp_path)
    assert again.count(Step.LANDED) == 1
    assert list(again.get(Step.LANDED)) == ["at", "sha"]


def test_numbered_steps_are_counted_and_kept_apart(journal: Journal, tmp_path: Path) -> None:
    for k in (1, 2):
        journal.record(Step.RUN_STARTED, k, purpose=f"run {k}")
    journal.record(Step.RUN_ENDED, 1)
    again = load(tmp_path)
    assert (again.count(Step.RUN_STARTED), again.count(Step.RUN_ENDED), again.count(Step.LANDED)) == (2, 1, 0)
    assert again.has(Step.RUN_STARTED, 2) and not again.has(Step.RUN_ENDED, 2) and not again.has(Step.RUN_STARTED)
    assert [again.get(Step.RUN_STARTED, k)["purpose"] for k in (1, 2)] == ["run 1", "run 2"]


def test_steps_keep_their_order_and_time_over_a_reload(journal: Journal, tmp_path: Path) -> None:
    for step in (Step.CLAIMED, Step.BRANCHED, Step.ENDED):
        journal.record(step)
    again = load(tmp_path)
    assert list(again.steps) == ["opened", "claimed", "branched", "ended"]
    assert again.steps == journal.steps
    times = [evidence["at"] for evidence in again.steps.values()]
    assert times == sorted(times) and all(times)


def test_a_reloaded_journal_goes_on(journal: Journal, tmp_path: Path) -> None:
    load(tmp_path).record(Step.CLAIMED)
    again = load(tmp_path)
    again.record(Step.BRANCHED)
    assert list(load(tmp_path).steps) == ["opened", "claimed", "branched"]


def test_evidence_that_a_caller_changes_is_not_changed_here(journal: Journal) -> None:
    journal.record(Step.CLAIMED, sha="abc")
    journal.get(Step.CLAIMED)["sha"] = "changed"
    journal.steps["claimed"]["sha"] = "changed"
    assert journal.get(Step.CLAIMED)["sha"] == "abc"


# ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_facts_survive_a_reload_whatever_stands_in_them(journal: Journal, tmp_path: Path) -> None:
    odd = "\ud800\0\u2028</x>é"
    journal.set_facts(claim_sha="abc", nested={"a": [1, None, odd]}, durable=True)
    journal.set_fact("pushed:refs/heads/afk/wZ2R4/142-x", odd)
    journal.append_fact("hooks", {"exit_code": 0})
    journal.append_fact("hooks", {"exit_code": 2})
    again = load(tmp_path)
    assert again.fact("claim_sha") == "abc"
    assert again.fact("nested") == {"a": [1, None, odd]}
    assert again.fact("pushed:refs/heads/afk/wZ2R4/142-x") == odd
    assert again.fact("hooks") == [{"exit_code": 0}, {"exit_code": 2}]


def test_a_fact_that_is_not_known_is_the_callers_default(journal: Journal) -> None:
    assert journal.fact("unknown") is None
    assert journal.fact("unknown", 7) == 7
    journal.set_facts(known=None)
    assert journal.fact("known", 7) is None


def test_a_fact_that_did_not_change_is_not_written_again(journal: Journal, tmp_path: Path) -> None:
    path = tmp_path / "142-a1" / JOURNAL
    journal.set_facts(claim_sha="abc", posted=None)
    file = path.stat().st_ino
    journal.set_facts(claim_sha="abc")
    journal.set_fact("posted", None)
    assert path.stat().st_ino == file
    journal.set_facts(claim_sha="def")
    assert path.stat().st_ino != file


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns all the time, so that whatever two of them can do to each other happens."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("restless")
def test_threads_that_write_at_once_lose_nothing(journal: Journal, tmp_path: Path) -> None:
    """The slot and the thread that pushes beside the agent share a journal, while others read the file."""
    start, written = threading.Barrier(5), threading.Event()

    def write(writer: int) -> None:
        start.wait()
        for k in range(1 + 40 * writer, 41 + 40 * writer):
            journal.append_fact("shared", k)
            journal.set_fact(f"own {k}", k)
            journal.record(Step.RUN_ENDED, k)

    def read() -> None:
        start.wait()
        while not written.is_set():
            assert load(tmp_path).attempt == ATTEMPT

    with ThreadPoolExecutor(5) as pool:
        reader, writers = pool.submit(read), [pool.submit(write, writer) for writer in range(4)]
        try:
            assert [each.result() for each in writers] == [None] * 4
        finally:
            written.set()
        reader.result()

    everything = list(range(1, 161))
    for seen in (journal, load(tmp_path)):
        assert sorted(seen.fact("shared")) == everything
        assert [seen.fact(f"own {k}") for k in everything] == everything
        assert [k for k in everything if seen.has(Step.RUN_ENDED, k)] == everything


# ── The seam ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_seam_is_asked_before_and_after_each_record(tmp_path: Path) -> None:
    told: list[tuple[str, str, list[str]]] = []

    def seam(moment: str, key: str) -> None:
        path = tmp_path / "142-a1" / JOURNAL
        told.append((moment, key, list(json.loads(path.read_text())["steps"]) if path.exists() else []))

    journal = create(tmp_path, seam=seam)
    journal.record(Step.RUN_ENDED, 2)
    journal.set_facts(claim_sha="abc")
    assert told == [
        ("before", "opened", []),
        ("after", "opened", ["opened"]),
        ("before", "run-ended:2", ["opened"]),
        ("after", "run-ended:2", ["opened", "run-ended:2"]),
    ]


class Crash(BaseException):
    pass


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_the_seam_leaves_the_step_untaken_or_taken(journal: Journal, tmp_path: Path, moment: str) -> None:
    def crash(now: str, key: str) -> None:
        if now == moment:
            raise Crash

    with pytest.raises(Crash):
        Journal.load(tmp_path / "142-a1", clock=CLOCK, seam=crash).record(Step.CLAIMED)
    assert load(tmp_path).has(Step.CLAIMED) is (moment == "after")


# ── Unreadable ──────────────────────────────────────────────────────────────────────────────────────────────────────


def rewrite(folder: Path, **changes: object) -> bytes:
    path = folder / "142-a1" / JOURNAL
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path.read_bytes()


def test_a_journal_of_a_newer_afk_is_refused_by_name_and_left_as_it_is(journal: Journal, tmp_path: Path) -> None:
    written = rewrite(tmp_path, version=2, attempt_id="a form of tomorrow")
    with pytest.raises(JournalTooNew, match=r"142-a1/attempt\.json was written by a newer afk") as refused:
        load(tmp_path)
    assert "upgrade" in refused.value.hint
    assert (tmp_path / "142-a1" / JOURNAL).read_bytes() == written


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "1"},
        {"version": None},
        {"version": True},
        {"facts": []},
        {"facts": None},
        {"steps": []},
        {"steps": None},
        {"attempt_id": ""},
        {"attempt_id": None},
        {"attempt_id": "wZ2R4-142"},
    ],
)
def test_a_journal_with_a_wrong_value_is_broken(journal: Journal, tmp_path: Path, changes: dict[str, object]) -> None:
    rewrite(tmp_path, **changes)
    with pytest.raises(JournalBroken, match=r"142-a1/attempt\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"{}", b'"journal"', b"\xff\xfe\x00", b'{"version":1}', b"[" * 100_000]
)
def test_what_is_no_journal_is_broken(journal: Journal, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "142-a1" / JOURNAL).write_bytes(content)
    with pytest.raises(JournalBroken, match=r"142-a1/attempt\.json"):
        load(tmp_path)


def test_a_directory_without_a_journal_is_broken(tmp_path: Path) -> None:
    with pytest.raises(JournalBroken):
        load(tmp_path)


def test_a_newer_journal_is_known_by_its_version_alone(journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "142-a1" / JOURNAL).write_text('{"version": 2, "actions": []}')
    with pytest.raises(JournalTooNew):
        load(tmp_path)


def test_a_write_that_fails_is_not_remembered(journal: Journal, tmp_path: Path) -> None:
    """R20: what is remembered is what is on disk; once there is room again, the same call writes it."""
    folder = tmp_path / "142-a1"
    folder.rename(tmp_path / "away")
    with pytest.raises(OSError):
        journal.set_facts(claim_sha="a")
    with pytest.raises(OSError):
        journal.record(Step.CLAIMED)
    assert not journal.has(Step.CLAIMED)
    (tmp_path / "away").rename(folder)

    journal.set_facts(claim_sha="a")
    assert load(tmp_path).fact("claim_sha") == "a"
    assert not load(tmp_path).has(Step.CLAIMED)
