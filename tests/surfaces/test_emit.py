"""The emitter itself, over real pipes."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from afk.surfaces.emit import EVERYTHING, READER_GONE, Emitter, Mode, Route, terminal_safe
from afk.wire.afdata import ProtocolViolation, check_stream
from afk.wire.json_value import NotJson
from afk.wire.redact import surface_rules


class Ends:
    """Two files that an emitter writes to, as stdout and stderr."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fds = [os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in ("out", "err")]

    def emitter(self, mode: Mode = Mode.JSON, route: Route = Route.SPLIT, **options: object) -> Emitter:
        return Emitter(mode, route, stdout=self.fds[0], stderr=self.fds[1], **options)

    def out(self) -> str:
        return (self.folder / "out").read_text(encoding="utf-8")

    def err(self) -> str:
        return (self.folder / "err").read_text(encoding="utf-8")

    def out_events(self) -> list[dict]:
        return [json.loads(line) for line in self.out().splitlines()]

    def err_events(self) -> list[dict]:
        return [json.loads(line) for line in self.err().splitlines()]


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    opened = Ends(tmp_path)
    yield opened
    for fd in opened.fds:
        os.close(fd)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(writing)


def test_after_the_end_nothing_more_is_said(ends: Ends) -> None:
    emitter = ends.emitter(categories=EVERYTHING)
    emitter.log("a", "before")
    assert emitter.result({}, schema="afk.odd.v1", exit_code=1) is True
    assert emitter.error("late", "too late", exit_code=4) is False
    emitter.log("a", "after")
    emitter.progress({}, schema="afk.odd.v1", always=True)
    assert emitter.exit_code == 1
    assert len(ends.out_events()) == 1
    assert [event["log"]["message"] for event in ends.err_events()] == ["before"]


def test_eight_threads_that_end_at_once_give_one_end(ends: Ends) -> None:
    """Many rounds with threads that are switched as often as the interpreter can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        won = [winners_of_a_race(ends.emitter(route=Route.STDOUT)) for _ in range(40)]
    finally:
        sys.setswitchinterval(interval)
    assert won == [1] * 40
    assert len(ends.out_events()) == 40


def winners_of_a_race(emitter: Emitter) -> int:
    barrier = threading.Barrier(8)
    won: list[bool] = []

    def end(number: int) -> None:
        barrier.wait()
        if number % 2:
            won.append(emitter.result({"worker": number}, schema="afk.odd.v1"))
        else:
            won.append(emitter.error("odd", "even", exit_code=4))

    in_threads(end, range(8))
    return won.count(True)


def in_threads(work: Callable[[int], None], numbers: Iterable[int]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Reader:
    """Drains a pipe from a thread of its own; `begun` is set with the first piece of the first line."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.data = bytearray()
        self._reading, self.writing = os.pipe()
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        while piece := os.read(self._reading, 4096):
            self.data.extend(piece)
            self.begun.set()

    def events(self) -> list[dict]:
        """Everything that was written; closes the pipe."""
        os.close(self.writing)
        self._thread.join()
        os.close(self._reading)
        return [json.loads(line) for line in self.data.splitlines()]


def test_lines_of_eight_threads_stay_whole() -> None:
    """They are longer than what a pipe takes in one piece."""
    reader = Reader()
    emitter = Emitter(Mode.JSON, Route.STDOUT, categories=EVERYTHING, stdout=reader.writing)

    def work(number: int) -> None:
        for step in range(4):
            emitter.progress({"worker": number, "step": step, "padding": "x" * 200_000}, schema="afk.odd.v1")

    in_threads(work, range(8))
    emitter.result({}, schema="afk.odd.v1")
    events = reader.events()
    assert len(events) == 33
    check_stream(events)


def test_the_end_waits_for_the_line_that_is_being_written() -> None:
    reader = Reader()
    emitter = Emitter(Mode.JSON, Route.STDOUT, categories=EVERYTHING, stdout=reader.writing)
    talk = threading.Thread(
        target=emitter.progress, args=({"padding": "x" * 2_000_000},), kwargs={"schema": "afk.odd.v1"}
    )
    talk.start()
    assert reader.begun.wait(timeout=10)
    emitter.result({"padding": "y" * 200_000}, schema="afk.odd.v1")
    talk.join()
    check_stream(reader.events())


def test_a_sentence_for_people_is_masked_and_cannot_steer_the_terminal(ends: Ends) -> None:
    ends.emitter(Mode.TEXT, rules=surface_rules({})).say("pushed to https://u:canary@h/ \x1b[2J")
    assert ends.err() == "pushed to https://u:***@h/ \\u001b[2J\n"


def test_programs_get_sentences_only_when_they_ask(ends: Ends) -> None:
    ends.emitter().say("not asked for")
    ends.emitter(categories=EVERYTHING).say("asked for")
    assert [event["log"]["message"] for event in ends.err_events()] == ["asked for"]


def test_a_bug_in_the_text_leaves_the_end_open_for_the_error(ends: Ends) -> None:
    emitter = ends.emitter(Mode.TEXT)
    with pytest.raises(ZeroDivisionError):
        emitter.result({}, schema="afk.odd.v1", text=lambda payload: str(1 / len(payload) if not payload else 1 / 0))
    with pytest.raises(NotJson):
        emitter.result({"x": object()}, schema="afk.odd.v1")
    assert emitter.exit_code is None
    assert emitter.error("internal_error", "a bug", exit_code=4) is True
    assert (ends.out(), ends.err()) == ("", "error[internal_error]: a bug\n")


def test_text_is_made_from_the_redacted_payload(ends: Ends) -> None:
    emitter = ends.emitter(Mode.TEXT)
    emitter.result({"a_secret": "canary"}, schema="afk.odd.v1", text=lambda payload: f"{payload['a_secret']}\n")
    assert ends.out() == "***\n"


def test_a_schema_stands_beside_or_inside_a_progress_payload_but_not_twice(ends: Ends) -> None:
    emitter = ends.emitter()
    emitter.progress({"schema": "afk.transition.v1", "to": "claimed"}, always=True)
    emitter.progress({"to": "claimed"}, schema="afk.transition.v1", always=True)
    first, second = ends.err_events()
    assert first == second
    with pytest.raises(ProtocolViolation):
        emitter.progress({"schema": "a"}, schema="b", always=True)


def test_log_categories_are_told_apart(ends: Ends) -> None:
    emitter = ends.emitter(Mode.TEXT, categories=frozenset({"retry"}))
    emitter.log("retry", "waiting")
    emitter.log("other", "not asked for")
    emitter.progress({"not": "asked for"}, schema="afk.odd.v1")
    assert ends.err() == "retry: waiting\n"


def test_a_log_with_something_that_is_no_json_is_said_without_it(ends: Ends) -> None:
    """S76: a log never fails the work."""
    ends.emitter(categories=EVERYTHING).log("a", "said", thing=object())
    assert ends.err_events()[0]["log"] == {"schema": "afk.log.v1", "category": "a", "message": "said"}


def test_a_reader_that_comes_late_gets_a_large_event_whole() -> None:
    """A non-blocking pipe that is full is waited for."""
    with pipe() as (reading, writing):
        os.set_blocking(writing, False)
        emitter = Emitter(Mode.JSON, stdout=writing, stderr=writing)
        payload = {"text": "x" * 300_000}
        writer = threading.Thread(target=emitter.result, args=(payload,), kwargs={"schema": "afk.odd.v1"})
        writer.start()
        data = b""
        while not data.endswith(b"\n"):
            data += os.read(reading, 65536)
        writer.join()
        os.close(reading)
    assert json.loads(data)["result"]["text"] == payload["text"]


def test_a_closed_reader_is_found_out_at_the_end_and_only_then() -> None:
    with pipe() as (reading, writing):
        os.close(reading)
        emitter = Emitter(Mode.JSON, Route.STDOUT, categories=EVERYTHING, stdout=writing)
        emitter.log("a", "lost")
        assert emitter.exit_code is None
        assert emitter.result({}, schema="afk.odd.v1") is True
    assert emitter.exit_code == READER_GONE


def test_a_result_that_cannot_be_written_is_replaced_by_an_error_on_the_other_stream(ends: Ends) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    emitter = Emitter(Mode.JSON, stdout=full, stderr=ends.fds[1])
    emitter.result({}, schema="afk.odd.v1")
    os.close(full)
    assert emitter.exit_code == 4
    assert [event["error"]["code"] for event in ends.err_events()] == ["output_failed"]


def test_after_a_line_that_broke_off_the_next_one_starts_anew(tmp_path: Path) -> None:
    """A file that may hold 10 bytes takes a part of the first event; then there is room again."""
    import resource

    target = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    emitter = Emitter(Mode.JSON, categories=EVERYTHING, stderr=target)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        emitter.log("a", "does not fit")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    emitter.log("a", "fits")
    os.close(target)
    torn, whole = (tmp_path / "err").read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["log"]["message"] == "fits"


def test_a_terminal_is_not_steered_by_text_from_others() -> None:
    assert terminal_safe("a\x1b]0;title\x07\tb\nc\x9b\u202e") == "a\\u001b]0;title\\u0007\tb\nc\\u009b\\u202e"
