"""The captured streams of `tests/fixtures/streams`, and how a run's output is read in tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afk.agents import KINDS
from afk.agents.command import CommandAgent
from afk.agents.reading import Reading
from afk.config import AgentConfig
from afk.domain.outcome import GitFacts, RunEvidence, Verdict, classify
from afk.domain.stage import Stage
from afk.domain.usage import Usage
from afk.ports import Agent

STREAMS = Path(__file__).parent.parent / "fixtures" / "streams"
DIALECTS = ("claude", "codex", "opencode", "gemini")
NOW = datetime(2026, 11, 30, 22, 0, tzinfo=UTC)
CAPTURES = sorted(path.relative_to(STREAMS).as_posix().split(".")[0] for path in STREAMS.glob("*/*.meta.json"))


@dataclass(frozen=True)
class Capture:
    """One run of a real program: what it printed, and what its folder and its exit status were afterwards."""

    kind: str
    lines: tuple[str, ...]
    errors: tuple[str, ...]
    meta: dict[str, Any]

    @classmethod
    def load(cls, name: str) -> Capture:
        """`name` is `codex/success`."""
        kind = name.partition("/")[0]
        meta = json.loads((STREAMS / f"{name}.meta.json").read_text(encoding="utf-8"))
        out = (STREAMS / f"{name}.{'jsonl' if kind in DIALECTS else 'txt'}").read_text(encoding="utf-8")
        return cls(kind, tuple(out.split("\n")), tuple(meta["stderr"].split("\n")), meta)

    @property
    def prompt(self) -> str:
        return str(self.meta["argv"][-1])

    @property
    def facts(self) -> GitFacts:
        commits = len(self.meta["new_commits"])
        return GitFacts(commits, commits, tuple(self.meta["dirty"]))

    def read(self, lines: Iterable[str] | None = None) -> Seen:
        """What an attempt sees in it; `lines` in place of what the program printed."""
        return seen(self.kind, self.lines if lines is None else lines, errors=self.errors, prompt=self.prompt)

    def judge(self, read: Seen, facts: GitFacts | None = None) -> Verdict:
        code = self.meta["exit_code"]
        ends = {"signal": -code} if code < 0 else {"exit_code": code}
        return classify(replace(read.evidence, **ends), facts or self.facts, salvage=True)


@dataclass(frozen=True)
class Seen:
    evidence: RunEvidence
    stages: tuple[Stage, ...]
    last_line: str
    unknown: int

    @property
    def usage(self) -> Usage | None:
        return self.evidence.usage


def agent(kind: str) -> Agent:
    """Programs that have no dialect of ours are run as `command`."""
    return KINDS[kind](kind, AgentConfig()) if kind in DIALECTS else CommandAgent(kind, (kind,))


def seen(kind: str, lines: Iterable[str], *, errors: Iterable[str] = (), prompt: str = "") -> Seen:
    reading, stages = Reading(agent(kind), now=lambda: NOW, prompt=prompt), list[Stage]()
    for line in errors:
        reading.err(line)
    for line in lines:
        reading.out(line)
        if reading.stage is not None and reading.stage not in stages:
            stages.append(reading.stage)
    reading.finish()
    return Seen(reading.evidence, tuple(stages), reading.last_line, reading.unknown)
