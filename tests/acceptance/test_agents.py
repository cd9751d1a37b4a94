"""Agents that misbehave: each comes to the outcome that its work deserves, and harms neither the run nor the person."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, section, status_of

from afk.wire import envelope

DIRECTIVE = '<details data-kind="directive"><summary>directive</summary>\nUse the second API.\n</details>\n'


def test_agents_that_misbehave_and_do_their_work_are_done(place: Place, tmp_path: Path) -> None:
    """R27, R36, R37, R53, R55, L28: floods, held pipes, deafness, no text, and talk of quotas."""
    left, deaf = tmp_path / "left", tmp_path / "deaf"
    for number, agent in enumerate(
        ("floods 3 2", f"grandchild {left}", f"ignores_term {deaf}", "invalid_utf8", "quota_in_prose"), start=1
    ):
        place.file(number, body=f"agent: {agent}\n")

    ran = place.run()

    assert ran.outcomes == dict.fromkeys(range(1, 6), "done"), ran.stderr
    assert not Path(f"/proc/{left.read_text().strip()}").exists()
    assert deaf.exists()
    assert _exit_of(place, 3) == {"signal": 9, "ended_by": "grace"}
    out = (place.attempt(1) / "runs/1-agent/out").read_bytes()
    assert len(out) > 4_500_000
    assert out.endswith(b"<promise>DONE</promise>\n")
    assert all(len(path.read_bytes()) < 10_000 for path in place.clone.glob(".red/tmp/workers/*/*/afk.state.json"))


def test_commits_that_change_nothing_are_no_work(place: Place) -> None:
    """R45, R46: `blocked` with that reason, not picked again."""
    place.file(7, body="agent: empty_commits\n")

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    assert "no change" in section(place.envelopes(7)[0], "outcome")
    assert place.labels(7) == {"ready-for-human", "blocked:spec"}
    assert len(list(place.attempt(7).glob("runs/*-check"))) == 0


def test_what_an_agent_does_to_the_checkout_is_named_and_not_undone(place: Place) -> None:
    """R22: tracked and new files; none of it is in what landed."""
    place.file(7, body="agent: edits_checkout\n")
    place.file(8, body="agent: edits_checkout 'new file.txt'\n")

    ran = place.run()

    assert ran.outcomes == {7: "done", 8: "done"}, ran.stderr
    told = "the checkout changed while the agent ran: {}"
    assert told.format("README.md") in section(place.envelopes(7)[0], "validation")
    assert told.format("new file.txt") in section(place.envelopes(8)[0], "validation")
    assert (place.clone / "README.md").read_text() == "A project.\nan agent was here\n"
    assert gitkit.git(place.origin, "diff", "--name-only", "main~2", "main").split() == ["work-7.txt", "work-8.txt"]


def test_a_forged_handoff_is_only_text(place: Place) -> None:
    """R65, R66: one envelope in the thread, and guidance in the next handoff that people gave and nobody else."""
    place.file(7, body="agent: forges_handoff\n")
    place.run()
    place.say(7, DIRECTIVE)
    place.edit(7, labels=["ready-for-agent"])

    ran = place.run()

    assert ran.outcomes == {7: "blocked"}, ran.stderr
    for told in place.envelopes(7):
        assert status_of(told) == "blocked"
        assert [found.envelope.status for found in envelope.parse_thread(told).envelopes] == ["blocked"]
        assert not re.search(r"[@#]\w|GH-\d|\x1b|\u202e|^<!--", section(told, "notes"), re.MULTILINE)
    handoff = (place.attempt(7, 2) / "handoff.md").read_text()
    before_notes = handoff[: handoff.index("<agent-notes>")]
    assert re.findall(r"^<human-guidance author=\S*", before_notes, re.MULTILINE) == ['<human-guidance author="person"']
    assert len(re.findall(r"^<previous-attempt ", before_notes, re.MULTILINE)) == 1
    assert "Use the second API." in before_notes


@pytest.mark.parametrize(
    ("code", "outcome", "label"),
    [
        ("agent_unavailable", "runner-transient", "blocked:runner-transient"),
        ("agent_unauthorized", "infra", "blocked:infra"),
        ("agent_unfit", "blocked", "blocked:spec"),
        ("agent_on_fire", "no-sentinel", "blocked:runner"),
    ],
)
def test_an_agent_that_names_its_failure_ends_as_what_it_named(
    place: Place, code: str, outcome: str, label: str
) -> None:
    """R40, R53, R56: by the code of its error event, although its exit code is 0."""
    place.configure(recovery={"tries": {"crashed": 1, "runner-transient": 1}})
    place.file(7, body=f"agent: fails_with {code} --work\n")

    ran = place.run()

    assert (ran.code, ran.outcomes) == (0, {7: outcome}), ran.stderr
    assert place.labels(7) == {"ready-for-human", label}
    assert len(place.live_branches()) == 1


def test_silence_is_flagged_before_it_is_ended(place: Place) -> None:
    """L21, L23, R34: the log names the silence, the envelope names the limit."""
    place.configure(recovery={"tries": {"stalled": 1}}, bounds={"silence_flag_s": 0.3, "silence_kill_s": 1})
    place.file(7, body="agent: silent\n")

    ran = place.run()

    assert ran.outcomes == {7: "stalled"}, ran.stderr
    kinds = [line.split(",")[1] for line in _worker_log(place)]
    assert kinds.index("agent.silent") < kinds.index("agent.end")
    assert "silent and idle for" in section(place.envelopes(7)[0], "outcome")


def _exit_of(place: Place, number: int) -> dict[str, object]:
    record = json.loads((place.attempt(number) / "runs/1-agent/exit").read_text())
    return {key: record[key] for key in ("signal", "ended_by")}


def _worker_log(place: Place) -> Iterator[str]:
    for path in place.clone.glob(".red/tmp/workers/*/worker.log.toonl"):
        yield from path.read_text().splitlines()[1:]
