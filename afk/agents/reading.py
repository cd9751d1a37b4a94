"""What a run's output has shown so far: the one place where lines of any dialect become evidence, stage and usage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from afk.agents.failures import told_reset
from afk.domain.outcome import RunEvidence, RunPurpose
from afk.domain.sentinel import SentinelReader
from afk.domain.stage import Stage, StageMemory, advance
from afk.domain.usage import UsageMeter
from afk.ports import Agent, AgentEvent, EventKind

__all__ = ["Reading"]

_REST_MAX = 64 * 1024  # characters of a line in pieces; no sentinel is as long
# What may come between two pieces of one message without ending it.
_ASIDE = frozenset({EventKind.TEXT_PART, EventKind.NOISE, EventKind.USAGE, EventKind.SESSION})


class Reading:
    """Fed with complete lines, in order; reading a run's files again from their beginning gives the same (R42, S77).

    `now` is asked only for a limit whose end is told as a time to wait or a time of day.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        now: Callable[[], datetime],
        prompt: str = "",
        purpose: RunPurpose = RunPurpose.WORK,
    ) -> None:
        self.last_line = ""  # the last line of the assistant's text that is not blank
        self.session = ""  # the agent's own name for the conversation
        self.unknown = 0  # lines and parts that nobody understood
        self._agent = agent
        self._now = now
        self._evidence = RunEvidence(purpose=purpose, program=agent.name, tells_end=agent.profile.tells_end)
        self._sentinel = SentinelReader(prompt)
        self._stage = StageMemory(reads_text=agent.profile.reads_text)
        self._meter = UsageMeter()
        self._in_message = False
        self._rest = ""  # the unfinished line of a message that comes in pieces

    @property
    def evidence(self) -> RunEvidence:
        return replace(self._evidence, usage=self._meter.total)

    @property
    def has_sentinel(self) -> bool:
        return self._evidence.sentinel is not None

    @property
    def stage(self) -> Stage | None:
        """None before the first line."""
        return self._stage.stage

    @property
    def meter(self) -> UsageMeter:
        return self._meter

    def out(self, line: str) -> None:
        """A line of standard output, without its end."""
        for event in self._agent.read(line):
            self._take(event)

    def err(self, line: str) -> None:
        """A line of standard error."""
        for event in self._agent.complaint(line):
            self._take(event)

    def finish(self) -> None:
        """Nothing more comes: what was said in pieces is complete."""
        self._end_message()

    def _take(self, event: AgentEvent) -> None:
        kind = event.kind
        if self._in_message and kind not in _ASIDE:
            self._end_message()
        if kind is EventKind.TEXT:
            self._hear_message(event.text)
        elif kind is EventKind.TEXT_PART:
            self._hear_part(event.text)
        elif kind is EventKind.USAGE and event.usage is not None:
            self._meter.tell(event.usage, event.usage_of)
        elif kind is EventKind.SESSION:
            self.session = self.session or event.text
        elif kind is EventKind.NOISE:
            self.unknown += 1
        if self._moves_stage(kind):
            self._stage = advance(self._stage, kind, event.text)
        self._evidence = self._evidence.seeing(kind, event.text, self._resets_at(event))

    def _moves_stage(self, kind: EventKind) -> bool:
        """False spares splitting a command: nothing that an agent does moves an attempt beyond its commit."""
        stage = self._stage.stage
        if stage is None or stage is Stage.COMMIT:
            return stage is None
        if kind is EventKind.TEXT:
            return self._stage.reads_text
        return kind is EventKind.SHELL or kind is EventKind.READ or kind is EventKind.EDIT

    def _resets_at(self, event: AgentEvent) -> datetime | None:
        if event.kind is not EventKind.LIMIT or event.resets_at is not None:
            return event.resets_at
        return told_reset(event.text, self._now())

    # ── The assistant's words ───────────────────────────────────────────────────────────────────────────────────────

    def _hear_message(self, text: str) -> None:
        if not self._stage.reads_text:  # there every line comes alone, and a fence spans many
            self._sentinel.begin_message()
        self._hear(text)
        self._show(text)

    def _hear_part(self, text: str) -> None:
        if not self._in_message:
            self._in_message = True
            self._sentinel.begin_message()
        ended, lf, rest = (self._rest + text).rpartition("\n")
        self._rest = rest[:_REST_MAX]
        if lf:
            self._hear(ended)
        self._show(f"{ended}{lf}{rest}")

    def _end_message(self) -> None:
        rest, self._rest, self._in_message = self._rest, "", False
        if rest:
            self._hear(rest)

    def _hear(self, text: str) -> None:
        """A sentinel that repeats an earlier one is heard too: it shows that the agent went on."""
        before = self._sentinel.count
        sentinel = self._sentinel.feed(text)
        if self._sentinel.count != before:
            self._evidence = self._evidence.hearing(sentinel)

    def _show(self, text: str) -> None:
        self.last_line = text.strip().rpartition("\n")[2] or self.last_line
