"""`afk doctor` asks a known agent one question with nobody at the keyboard, and remembers a good answer (L50)."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from drainkit import Place
from replaykit import StandIn, stand_in

from afk.adapters.process import identity_of
from afk.attempt.session import Project
from afk.supervisor import probe

STREAMS = Path(__file__).parents[1] / "fixtures/streams"


def _answers(place: Place, *flags: str) -> dict[str, Any]:
    [check] = [check for check in place.afk("doctor", *flags).payload["checks"] if check["id"] == "answers"]
    return dict(check)


def _questions(agent: StandIn) -> int:
    """How often it was asked; its version is asked for without a word."""
    return sum(note["prompt_chars"] > 0 for note in agent.notes)


def _program(place: Place, folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo {name} 1.2.3; exit; fi\n{script}\n')
    (folder / name).chmod(0o755)
    place.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def test_a_good_answer_is_remembered_until_the_login_changes_or_it_is_asked_afresh(
    place: Place, tmp_path: Path
) -> None:
    agent = stand_in(place, tmp_path / "bin", "codex")
    place.configure(runner="codex", agents={"codex": {}})
    place.environ["OPENAI_API_KEY"] = "sk-one-0123456789"
    assert _answers(place)["status"] == "pass"
    assert _answers(place)["status"] == "pass"
    assert _questions(agent) == 1
    assert _answers(place, "--fresh")["status"] == "pass"
    assert _questions(agent) == 2
    place.environ["OPENAI_API_KEY"] = "sk-two-0123456789"
    assert _answers(place)["status"] == "pass"
    assert _questions(agent) == 3
    remembered = (place.clone / ".red/state/probes.json").read_text()
    assert "0123456789" not in remembered


def test_a_run_asks_nothing(place: Place, tmp_path: Path) -> None:
    agent = stand_in(place, tmp_path / "bin", "codex")
    place.configure(runner="codex", agents={"codex": {}})
    place.file(7)
    assert place.run().outcomes == {7: "done"}
    assert _questions(agent) == 1  # the work itself


def test_what_keeps_it_from_working_is_said_with_the_command_that_mends_it(place: Place, tmp_path: Path) -> None:
    stream = STREAMS / "codex/unauthorized_401.jsonl"
    _program(place, tmp_path / "bin", "codex", f"cat {shlex.quote(str(stream))}; exit 1")
    place.configure(runner="codex", agents={"codex": {}})
    told = _answers(place)
    assert (told["status"], told["fix"]) == ("fail", "codex login")
    assert told["summary"].startswith("codex (codex 1.2.3) cannot work unattended: ")
    assert place.afk("doctor").code == 1


def test_a_program_that_asks_back_is_not_waited_for(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "LIMIT_S", 1.0)
    asking = tmp_path / "pid"
    _program(place, tmp_path / "bin", "codex", f"echo $$ > {asking}; sleep 600")
    place.configure(runner="codex", agents={"codex": {}}, agent={"kill_s": 1})
    project = Project.open(place.clone, environ=os.environ | place.environ)
    answer = probe.ask(project, "codex", fresh=False)
    assert answer.why == "it did not answer within 1 s"
    assert identity_of(int(asking.read_text())) is None


def test_another_program_is_not_started_to_see_whether_it_can_be(place: Place) -> None:
    """What a person's own program does and costs, nobody but them knows."""
    assert _answers(place)["status"] == "skipped"


def test_every_runner_that_may_be_started_is_asked(place: Place, tmp_path: Path) -> None:
    agents = [stand_in(place, tmp_path / "bin", kind) for kind in ("codex", "gemini", "claude")]
    kinds: dict[str, Any] = {"codex": {}, "gemini": {}, "claude": {}}
    place.configure(runner="codex", agents=kinds, fallback_runner="gemini", alternate=["claude"])
    assert _answers(place)["status"] == "pass"
    assert [_questions(agent) for agent in agents] == [1, 1, 1]
