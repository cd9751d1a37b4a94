"""The one comment that an attempt leaves: what its envelope says, gathered from journal and files."""

from __future__ import annotations

from datetime import datetime

from afk.adapters.process import tail_lines
from afk.attempt import briefing, livepush
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.attempt.validation import Validation
from afk.domain.outcome import OUTCOMES, EnvelopeStatus, Outcome
from afk.wire import envelope

__all__ = ["status_of", "text"]

LOG_LINES = 50
_LOG_TAIL_BYTES = 256 * 1024


def text(attempt: Attempt, outcome: Outcome) -> str:
    """The envelope as it is posted: masked, harmless, within its bound; the same record gives the same bytes."""
    return envelope.render(_envelope(attempt, outcome), secrets=attempt.project.secrets, hosts=_hosts(attempt))


def _envelope(attempt: Attempt, outcome: Outcome) -> envelope.Envelope:
    journal, ended = attempt.journal, attempt.journal.get(Step.ENDED)
    diff = ended["diff"]
    discarded = ended.get("discarded")
    return envelope.Envelope(
        status=status_of(attempt, outcome),
        worker=attempt.id.worker,
        attempt=attempt.id.n,
        duration_s=ended["duration_s"],
        diff=None if outcome is Outcome.DONE else envelope.DiffStat(diff["added"], diff["removed"], diff["files"]),
        merge_sha=journal.fact("merge_sha"),
        notes="" if outcome is Outcome.DONE else briefing.notes(attempt),
        validation=tuple(_check_lines(attempt, outcome, ended["reason"])),
        validation_text=_validation_text(attempt),
        branch_link=_branch_link(attempt),
        worktree_path=str(attempt.worktree.relative_to(attempt.project.root)),
        log=tuple(_log(attempt, outcome)),
        outcome=None if discarded else outcome,
        reason="" if outcome is Outcome.DONE else ended["reason"],
        not_before=datetime.fromisoformat(ended["not_before"]) if ended["not_before"] else None,
        hooks=tuple(
            envelope.Hook(run["lifecycle"], run["command"], run["exit_code"])
            for run in journal.fact("hooks", [])
            if run["source"] == "user"
        ),
        discarded=envelope.Discarded(**discarded) if discarded else None,
    )


def status_of(attempt: Attempt, outcome: Outcome) -> EnvelopeStatus:
    """The envelope's status: the outcome's own, but for the attempt that parked its slot."""
    is_discarded = "discarded" in attempt.journal.get(Step.ENDED)
    return EnvelopeStatus.DISCARDED if is_discarded else OUTCOMES[outcome].status


def _last_validation(attempt: Attempt) -> Validation | None:
    k = attempt.journal.count(Step.VALIDATED)
    return Validation.from_dict(attempt.journal.get(Step.VALIDATED, k)["validation"]) if k else None


def _check_lines(attempt: Attempt, outcome: Outcome, reason: str) -> list[envelope.CheckLine]:
    """The last validation, and for a `done` whatever else a person should know: it has no other section for it."""
    validation = _last_validation(attempt)
    lines = [
        envelope.CheckLine(
            str(result.status),
            result.name,
            None if result.duration_ms is None else result.duration_ms / 1000,
            result.summary if result.summary or result.infra is None else str(result.infra),
        )
        for result in (validation.results if validation else ())
    ]
    if outcome is Outcome.DONE and attempt.journal.get(Step.SETTLED).get("salvaged"):
        lines.append(
            envelope.CheckLine("skipped", "sentinel", None, "salvaged: the agent ended well without its last line")
        )
    if outcome is Outcome.DONE and reason:
        lines.append(envelope.CheckLine("skipped", "note", None, reason))
    return lines


def _validation_text(attempt: Attempt) -> str:
    validation = _last_validation(attempt)
    return validation.reason if validation is not None and not validation.results else ""


def _branch_link(attempt: Attempt) -> str:
    if attempt.journal.fact("pushed_sha") is None or attempt.journal.fact("foreign_sha") == livepush.DELETED:
        return f"`{attempt.branch}` (not pushed)"
    return attempt.project.tracker.branch_link(attempt.branch, attempt.issue.number)


def _log(attempt: Attempt, outcome: Outcome) -> list[str]:
    """The end of the merge for a conflict, of the last agent run's output for every other outcome."""
    if outcome is Outcome.MERGE_CONFLICT:
        return str(attempt.journal.fact("merge_text") or "").splitlines()[-LOG_LINES:]
    k = attempt.journal.count(Step.RUN_STARTED)
    if not k:
        return []
    out = attempt.directory / str(attempt.journal.get(Step.RUN_STARTED, k)["run_dir"]) / "out"
    return tail_lines(out, LOG_LINES, _LOG_TAIL_BYTES)


def _hosts(attempt: Attempt) -> tuple[str, ...]:
    """The tracker's host, whose issue addresses would link."""
    url = attempt.issue.url or ""
    return (url.split("/")[2],) if url.count("/") > 2 else ()
