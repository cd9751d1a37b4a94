"""The outcomes of an attempt in one table, and `classify`: what the end of an agent's run comes to.

Source: AFK wire formats, Attempt Outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum

from afk.domain.sentinel import Sentinel
from afk.domain.usage import Usage

__all__ = [
    "OUTCOMES",
    "AttemptEnded",
    "EndedBy",
    "EnvelopeStatus",
    "GitFacts",
    "Outcome",
    "OutcomeRow",
    "RunEvidence",
    "RunPurpose",
    "Verdict",
    "VerdictKind",
    "classify",
    "ended_well",
]


class Outcome(StrEnum):
    DONE = "done"
    BLOCKED = "blocked"
    NO_SENTINEL = "no-sentinel"
    MERGE_CONFLICT = "merge-conflict"
    FEEDBACK_FAILED = "feedback-failed"
    HOOK_ABORTED = "hook-aborted"
    EXHAUSTED = "exhausted"
    RUNNER_TRANSIENT = "runner-transient"
    STALLED = "stalled"
    WALL_CLOCK_CAPPED = "wall-clock-capped"
    INFRA = "infra"
    CLAIM_LOST = "claim-lost"


class EnvelopeStatus(StrEnum):
    BLOCKED = "blocked"
    NO_SENTINEL = "no-sentinel"
    MERGE_CONFLICT = "merge-conflict"
    DONE = "done"
    DISCARDED = "discarded"
    WALL_CLOCK_CAPPED = "wall-clock-capped"


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """`label` is what a parked issue gets; `recovery` the reference's key; `tries_key` also names the two outcomes that
    the supervisor may requeue without a key (`stalled`, `wall-clock-capped`). None means: park at once."""

    status: EnvelopeStatus
    label: str | None = None
    recovery: str | None = None
    tries_key: str | None = None


OUTCOMES: dict[Outcome, OutcomeRow] = {
    Outcome.DONE: OutcomeRow(EnvelopeStatus.DONE),
    Outcome.BLOCKED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:spec"),
    Outcome.NO_SENTINEL: OutcomeRow(EnvelopeStatus.NO_SENTINEL, "blocked:runner", "crashed", "crashed"),
    Outcome.MERGE_CONFLICT: OutcomeRow(
        EnvelopeStatus.MERGE_CONFLICT, "blocked:merge-conflict", "merge-conflict", "merge-conflict"
    ),
    Outcome.FEEDBACK_FAILED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:validation"),
    Outcome.HOOK_ABORTED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:policy", "policy", "policy"),
    Outcome.EXHAUSTED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:quota", "quota", "quota"),
    Outcome.RUNNER_TRANSIENT: OutcomeRow(
        EnvelopeStatus.BLOCKED, "blocked:runner-transient", "runner-transient", "runner-transient"
    ),
    Outcome.STALLED: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:stalled", None, "stalled"),
    Outcome.WALL_CLOCK_CAPPED: OutcomeRow(
        EnvelopeStatus.WALL_CLOCK_CAPPED, "blocked:wall-clock-capped", None, "wall-clock-capped"
    ),
    Outcome.INFRA: OutcomeRow(EnvelopeStatus.BLOCKED, "blocked:infra"),
    Outcome.CLAIM_LOST: OutcomeRow(EnvelopeStatus.BLOCKED),
}


class AttemptEnded(Exception):
    """The one way out of an attempt before its end: what it came to, and why in one line for people.

    `label` replaces the outcome's typed label (`blocked:budget`). `stopped` marks an operator's stop, which costs no
    try; `withdrawn` an issue that people closed or took out of the queue, whose labels are theirs. `not_before` is a
    time that the agent's provider told. `passes` marks what goes by itself, as an outage or a full disk.
    """

    def __init__(
        self,
        outcome: Outcome,
        reason: str = "",
        *,
        label: str | None = None,
        stopped: bool = False,
        withdrawn: bool = False,
        not_before: datetime | None = None,
        passes: bool = False,
    ) -> None:
        super().__init__(f"{outcome}: {reason}" if reason else str(outcome))
        self.outcome = outcome
        self.reason = reason
        self.label = label
        self.stopped = stopped
        self.withdrawn = withdrawn
        self.not_before = not_before
        self.passes = passes


# ── What the end of a run comes to ──────────────────────────────────────────────────────────────────────────────────


class RunPurpose(StrEnum):
    """Why the agent was started; an attempt has one `work` run and at most a few of the others."""

    WORK = "work"
    COMMIT_YOUR_WORK = "commit-your-work"
    RESOLVE_CONFLICT = "resolve-conflict"
    CHECK_FAILED = "check-failed"
    TAKE_OVER = "take-over"  # from another runner that could not go on


class EndedBy(StrEnum):
    """Why the agent was ended, by us or by the kernel; the words of a kept run's `ended_by`."""

    STOP = "stop"  # the operator's
    CLAIM_LOST = "claim_lost"
    WITHDRAWN = "withdrawn"  # the issue was closed or taken out of the queue
    BUDGET = "budget"
    WALL_CLOCK = "wall_clock"
    SILENCE = "silence"
    GRACE = "grace"  # it had said its sentinel and did not go
    OOM = "oom"  # the kernel's, for want of memory


_FAILURES = ("limit", "transient", "refused", "unfit")
_WORKING = ("text", "text_part", "shell", "read", "edit", "tool", "tool_output")
_ASIDE = ("usage", "noise", "session")
_TEXT_MAX = 300


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """Everything that one run of the agent left to judge it by; it travels through the journal as JSON.

    `ended_by` is our own reason (None: it went by itself), `ended_detail` that reason's numbers for people (`tokens:
    limit 1000, used 1204`). `failure` is the last of `limit`, `transient`, `refused`, `unfit` that nothing overcame, in
    the words of `EventKind`; `end` is `good` or `bad` where the stream told its end, which `tells_end` says of every
    stream of its kind that was not cut off. `retrying` is why it waits for its service, empty while it works. `lost`
    says that the keeper was gone, so that no exit status exists. `ran_s` is what the wall clock charges. `usage` is
    None where nothing was told.
    """

    purpose: RunPurpose = RunPurpose.WORK
    program: str = ""
    ended_by: str | None = None
    ended_detail: str = ""
    exit_code: int | None = None
    signal: int | None = None
    lost: bool = False
    ran_s: float = 0.0
    sentinel: Sentinel | None = None
    failure: str | None = None
    failure_text: str = ""
    resets_at: datetime | None = None
    end: str | None = None
    tells_end: bool = False
    retrying: str = ""
    usage: Usage | None = None

    def seeing(self, kind: str, text: str = "", resets_at: datetime | None = None) -> RunEvidence:
        """The evidence after an event of the stream: a good end shows that what failed before was overcome."""
        if kind in _WORKING:
            return replace(self, retrying="") if self.retrying else self
        if kind in _ASIDE:
            return self
        if kind in _FAILURES:
            told = resets_at or (self.resets_at if kind == self.failure else None)
            return replace(self, failure=kind, failure_text=_one_line(text), resets_at=told, retrying="")
        if kind == "end_good":
            return replace(self, end="good", failure=None, failure_text="", resets_at=None, retrying="")
        if kind == "end_bad":
            return replace(self, end="bad", failure_text=self.failure_text or _one_line(text), retrying="")
        if kind == "retrying":
            return replace(self, retrying=_one_line(text) or kind)
        return self

    def hearing(self, sentinel: Sentinel | None) -> RunEvidence:
        """The evidence after the agent's own word, which also shows that it went on after an earlier failure."""
        if sentinel is None:
            return self
        return replace(self, sentinel=sentinel, failure=None, failure_text="", resets_at=None)

    def to_dict(self) -> dict[str, object]:
        """JSON-able, one key for each field."""
        record: dict[str, object] = {name.name: getattr(self, name.name) for name in fields(self)}
        return record | {
            "resets_at": self.resets_at.isoformat() if self.resets_at else None,
            "usage": self.usage.to_dict() if self.usage else None,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, object]) -> RunEvidence:
        """Reads what any version wrote: unknown keys are left aside, missing ones are as if nothing had been seen.

        Raises: ValueError or TypeError for a value that no version writes.
        """
        known = {name.name: record[name.name] for name in fields(cls) if record.get(name.name) is not None}
        made = cls(**known)  # type: ignore[arg-type]  # the words and the time are converted next
        return replace(
            made,
            purpose=RunPurpose(made.purpose),
            sentinel=Sentinel(made.sentinel) if made.sentinel else None,
            resets_at=datetime.fromisoformat(str(made.resets_at)) if made.resets_at else None,
            usage=Usage.from_dict(made.usage) if isinstance(made.usage, dict) else None,
        )


@dataclass(frozen=True, slots=True)
class GitFacts:
    """What the worktree shows after a run. None means that it could not be counted, which is not zero (L16, L31).

    `commits_ahead` and `changed_files` compare the branch with its merge base; `dirty` names uncommitted paths.
    """

    commits_ahead: int | None
    changed_files: int | None
    dirty: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there is work that could be validated as it stands: commits that change something, a clean tree."""
        return bool(self.commits_ahead) and bool(self.changed_files) and not self.dirty


class VerdictKind(StrEnum):
    VALIDATE = "validate"
    RERUN = "rerun"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows a run: validate it (`salvaged`: without the agent's word), run once more (`rerun`), or the end.

    The other fields are those of `AttemptEnded` and mean something only for `ended`.
    """

    kind: VerdictKind
    salvaged: bool = False
    rerun: RunPurpose | None = None
    outcome: Outcome | None = None
    reason: str = ""
    not_before: datetime | None = None
    label: str | None = None
    stopped: bool = False
    withdrawn: bool = False

    def as_ended(self) -> AttemptEnded:
        """The exception for a verdict of kind `ended`. Raises: ValueError for the other kinds."""
        if self.outcome is None:
            raise ValueError(f"a verdict to {self.kind} ends nothing")
        return AttemptEnded(
            self.outcome,
            self.reason,
            label=self.label,
            stopped=self.stopped,
            withdrawn=self.withdrawn,
            not_before=self.not_before,
        )


def classify(evidence: RunEvidence, facts: GitFacts, *, salvage: bool) -> Verdict:
    """What a run comes to, by the strongest evidence: our own kill, the stream's own end, sentinel and git, exit code.

    Exit codes lie, and what an agent writes in prose is never read. `salvage` lets complete commits of an agent that
    ended well be validated although it forgot its sentinel.
    """
    return (
        _by_a_kill(evidence)
        or _by_the_stream(evidence)
        or _by_the_sentinel(evidence, facts)
        or _without_sentinel(evidence, facts, salvage=salvage)
    )


def _ended(outcome: Outcome, reason: str, *, label: str | None = None, not_before: datetime | None = None) -> Verdict:
    return Verdict(VerdictKind.ENDED, outcome=outcome, reason=reason, label=label, not_before=not_before)


def _by_a_kill(evidence: RunEvidence) -> Verdict | None:
    detail = evidence.ended_detail
    match evidence.ended_by:
        case EndedBy.STOP:
            return replace(_ended(Outcome.INFRA, detail or "stopped by the operator"), stopped=True)
        case EndedBy.CLAIM_LOST:
            return _ended(Outcome.CLAIM_LOST, detail or "the claim was lost while the agent worked")
        case EndedBy.WITHDRAWN:
            return replace(_ended(Outcome.BLOCKED, detail or "the issue was withdrawn"), withdrawn=True)
        case EndedBy.OOM if evidence.sentinel is None:
            return _ended(
                Outcome.INFRA,
                "out of memory: the kernel ended the agent; fewer workers or afk.bounds.peak_rss_mb leave more",
            )
        case EndedBy.BUDGET:
            return _ended(Outcome.BLOCKED, f"budget spent: {detail}", label="blocked:budget")
        case EndedBy.WALL_CLOCK | EndedBy.SILENCE if evidence.sentinel is None:
            return _ceiling(evidence)
    return None


def _ceiling(evidence: RunEvidence) -> Verdict:
    if evidence.ended_by == EndedBy.SILENCE:
        return _ended(Outcome.STALLED, evidence.ended_detail or "silent and idle")
    return _ended(Outcome.WALL_CLOCK_CAPPED, evidence.ended_detail or "wall clock")


def _by_the_stream(evidence: RunEvidence) -> Verdict | None:
    if evidence.ended_by == EndedBy.GRACE:  # it was told to go after its sentinel: how it went says nothing
        return None
    text = evidence.failure_text
    match evidence.failure:
        case "limit":
            return _ended(Outcome.EXHAUSTED, text or "the runner's quota is used up", not_before=evidence.resets_at)
        case "transient":
            return _ended(Outcome.RUNNER_TRANSIENT, text or "the runner's service failed for a while")
        case "refused":
            return _ended(Outcome.INFRA, text or "the runner was refused; next: afk doctor --fresh")
        case "unfit":
            return _ended(Outcome.BLOCKED, text or "the task does not fit the runner")
    return None


def _by_the_sentinel(evidence: RunEvidence, facts: GitFacts) -> Verdict | None:
    # The second run is there because DONE was said: it need not be said again.
    done_before = evidence.purpose is RunPurpose.COMMIT_YOUR_WORK and not evidence.lost
    match evidence.sentinel or (Sentinel.DONE if done_before else None):
        case Sentinel.BLOCKED:
            return _ended(Outcome.BLOCKED, "the agent reported that it is blocked")
        case Sentinel.DONE:
            return _done(evidence, facts)
    return None


def _done(evidence: RunEvidence, facts: GitFacts) -> Verdict:
    """DONE is a claim (L30): commits, a change and a clean tree prove it."""
    if facts.dirty:
        return _done_but_dirty(evidence, facts)
    if facts.commits_ahead is None or facts.changed_files is None:
        return _ended(Outcome.INFRA, "the branch could not be compared with its base; next: afk doctor")
    if not facts.commits_ahead:
        return _ended(Outcome.BLOCKED, "the agent said DONE and committed nothing")
    if not facts.changed_files:
        return _ended(Outcome.BLOCKED, "no change: the commits leave every file as it is on the base")
    return Verdict(VerdictKind.VALIDATE)


def _done_but_dirty(evidence: RunEvidence, facts: GitFacts) -> Verdict:
    if evidence.purpose is RunPurpose.COMMIT_YOUR_WORK:
        return _ended(Outcome.BLOCKED, f"the agent said DONE and left uncommitted: {_few(facts.dirty)}")
    if evidence.ended_by in (EndedBy.WALL_CLOCK, EndedBy.SILENCE):  # no time is left to commit in
        return _ceiling(evidence)
    return Verdict(VerdictKind.RERUN, rerun=RunPurpose.COMMIT_YOUR_WORK)


def _without_sentinel(evidence: RunEvidence, facts: GitFacts, *, salvage: bool) -> Verdict:
    if salvage and facts.complete and ended_well(evidence):
        return Verdict(VerdictKind.VALIDATE, salvaged=True)
    if evidence.retrying:
        return _ended(Outcome.RUNNER_TRANSIENT, f"it ended while it waited for its service: {evidence.retrying}")
    if evidence.exit_code in (126, 127) and evidence.end is None:  # what a shell and an exec answer for "cannot run it"
        program = evidence.program or "the agent's program"
        reason = f"{program} could not be run (exit code {evidence.exit_code}); next: afk doctor"
        return _ended(Outcome.INFRA, reason)
    return _ended(Outcome.NO_SENTINEL, _how_it_went(evidence))


def ended_well(evidence: RunEvidence) -> bool:
    """Positive evidence only (R40): a told good end, or exit code 0 of an agent of a kind that tells no end."""
    return evidence.end == "good" or (evidence.end is None and not evidence.tells_end and evidence.exit_code == 0)


def _how_it_went(evidence: RunEvidence) -> str:
    if evidence.lost:
        return "its keeper was lost"
    if evidence.ended_by:
        return f"ended by {evidence.ended_by}"
    how = f"killed by signal {evidence.signal}" if evidence.signal else f"exit code {evidence.exit_code}"
    return f"{how}: {evidence.failure_text}" if evidence.failure_text else how


def _few(paths: tuple[str, ...], most: int = 5) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(paths[:most]) + more


def _one_line(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= _TEXT_MAX else folded[: _TEXT_MAX - 1] + "…"
