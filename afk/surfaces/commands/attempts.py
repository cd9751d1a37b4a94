"""`afk history` and `afk attempt show`: what was tried, from this machine's files and from the issue's thread.

The files know more and are gone some day; the thread knows less and stays. Every payload has the same fields from both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from afk.adapters import git
from afk.adapters.process import Identity, is_alive
from afk.attempt.briefing import Told, read_thread
from afk.attempt.journal import JOURNAL, Journal, Step, recorded_usage
from afk.attempt.progress import STATE_FILE
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.outcome import OUTCOMES, EnvelopeStatus, Outcome
from afk.domain.trust import is_ours
from afk.errors import AfkError, AttemptNotFound, IssueNotFound, JournalBroken
from afk.surfaces.commands.envelopes import diff_payload, hooks_payload, malformed_payload
from afk.surfaces.commands.opening import comment_url, instant, open_project, rfc3339
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns
from afk.wire import sidecar
from afk.wire.envelope import is_envelope, parse_thread

__all__ = ["attempt_show", "history", "summaries"]


# ── History: the thread alone ───────────────────────────────────────────────────────────────────────────────────────


def history(context: CommandContext, arguments: Arguments) -> Result:
    """Any machine with the tracker at hand gives the same answer. Raises: IssueNotFound."""
    project, number = open_project(context), arguments.number("issue")
    project.tracker.issue(number)
    attempts: list[dict[str, object]] = []
    malformed: list[dict[str, object]] = []
    for comment in project.tracker.thread(number):
        if not (is_envelope(comment.body) and is_ours(comment, project.config.trust.allow)):
            continue
        parsed = parse_thread(comment.body)
        attempts += [_told_attempt(project, number, Told(comment, found.envelope)) for found in parsed.envelopes[:1]]
        malformed += [{"comment_id": comment.id, **malformed_payload(fault)} for fault in parsed.malformed]
    payload = {"issue_number": number, "attempts": attempts, "malformed": malformed}
    return Result(payload, text=_history_text(number, attempts, malformed))


def _told_attempt(project: Project, number: int, told: Told) -> dict[str, object]:
    seen = told.envelope
    return {
        "attempt_id": str(AttemptId(seen.worker, number, seen.attempt)),
        "worker_id": seen.worker,
        "attempt": seen.attempt,
        "status": str(seen.status),
        "outcome": _word(told.past.outcome),
        "duration_s": seen.duration_s,
        "diff": diff_payload(seen),
        "merge_sha": seen.merge_sha,
        "comment_url": comment_url(project, number, told.comment.id, told.comment.url),
        "hooks": hooks_payload(seen),
    }


def _history_text(number: int, attempts: list[dict[str, Any]], malformed: list[dict[str, object]]) -> str:
    if not attempts and not malformed:
        return f"Issue {number} was not tried yet.\n"
    rows = [["attempt", "outcome", "took", "diff", "comment"]]
    for each in attempts:
        diff = each["diff"]
        change = f"+{diff['added']} -{diff['removed']}" if diff["kind"] == "stat" else each["merge_sha"] or "merged"
        took = str(timedelta(seconds=each["duration_s"]))
        rows.append([each["attempt_id"], each["outcome"] or each["status"], took, change, each["comment_url"]])
    broken = [f"comment {each['comment_id']} cannot be read: {each['message']}" for each in malformed]
    return "\n".join([columns(rows), *broken]) + "\n"


# ── Summaries: the files, then the thread ───────────────────────────────────────────────────────────────────────────


def summaries(project: Project, number: int) -> list[dict[str, object]]:
    """Every attempt at an issue that is known here or in its thread, oldest first."""
    here = {journal.attempt: journal for journal in _journals(project, number)}
    told = {AttemptId(told.envelope.worker, number, told.envelope.attempt): told for told in _told(project, number)}
    every = sorted({*here, *told}, key=lambda attempt: (attempt.n, attempt.worker))
    return [_summary(attempt, here.get(attempt), told.get(attempt)) for attempt in every]


def _journals(project: Project, number: int) -> Iterator[Journal]:
    """Those that can be read: a broken one is for `attempt show` and for the next run to tell."""
    for path in sorted(project.workers.glob(f"w*/{number}-a*/{JOURNAL}")):
        try:
            yield Journal.load(path.parent, clock=project.clock)
        except JournalBroken:
            continue


def _told(project: Project, number: int) -> list[Told]:
    try:
        return list(read_thread(project, number).told)
    except IssueNotFound:
        return []


def _summary(attempt: AttemptId, journal: Journal | None, told: Told | None) -> dict[str, object]:
    known = _by_thread(told) if told is not None else _NOTHING
    if journal is not None:
        known = {**known, **{key: value for key, value in _by_journal(journal).items() if value is not None}}
    return {
        "attempt_id": str(attempt),
        "worker_id": attempt.worker,
        "issue_number": attempt.issue,
        "attempt": attempt.n,
        **known,
    }


_NOTHING: Mapping[str, object] = {
    "state": "finished",
    "outcome": None,
    "envelope_status": None,
    "started_at_rfc3339": None,
    "finished_at_rfc3339": None,
    "duration_ms": None,
    "diff": None,
    "merge_sha": None,
}


def _by_thread(told: Told) -> Mapping[str, object]:
    """The comment was written when the attempt had ended; when it began follows from how long it took."""
    seen, ended = told.envelope, told.comment.created_at
    diff = seen.diff and {"added": seen.diff.added, "removed": seen.diff.removed, "files": seen.diff.files}
    return {
        **_NOTHING,
        "outcome": _word(told.past.outcome),
        "envelope_status": str(seen.status),
        "started_at_rfc3339": rfc3339(ended - timedelta(seconds=seen.duration_s)),
        "finished_at_rfc3339": rfc3339(ended),
        "duration_ms": seen.duration_s * 1000,
        "diff": diff,
        "merge_sha": seen.merge_sha,
    }


def _by_journal(journal: Journal) -> Mapping[str, object]:
    ended = journal.get(Step.ENDED)
    outcome = _outcome_of(journal)
    posted = journal.has(Step.POSTED) and outcome is not None
    status = EnvelopeStatus.DISCARDED if "discarded" in ended else OUTCOMES[outcome].status if outcome else None
    return {
        "state": _state_of(journal),
        "outcome": _word(outcome),
        "envelope_status": str(status) if posted else None,
        "started_at_rfc3339": instant(journal.fact("started_at")),
        "finished_at_rfc3339": instant(ended.get("at")),
        "duration_ms": ended["duration_s"] * 1000 if ended else None,
        "diff": ended.get("diff"),
        "merge_sha": journal.fact("merge_sha"),
    }


def _outcome_of(journal: Journal) -> Outcome | None:
    """None while it goes on. One that was put away without an end had lost its claim."""
    if journal.has(Step.ENDED):
        return Outcome(journal.get(Step.ENDED)["outcome"])
    return Outcome.CLAIM_LOST if journal.has(Step.CLEARED) else None


def _state_of(journal: Journal) -> str:
    """`orphaned`: its owner is gone and something is still owed; the next `afk run` takes it up."""
    if journal.has(Step.CLEARED):
        return "finished"
    owner = journal.fact("owner")
    return "running" if owner and is_alive(Identity(**owner)) else "orphaned"


def _word(outcome: Outcome | None) -> str | None:
    return None if outcome is None else str(outcome)


# ── One attempt ─────────────────────────────────────────────────────────────────────────────────────────────────────


def attempt_show(context: CommandContext, arguments: Arguments) -> Result:
    """Raises: AttemptNotFound when neither files nor thread know it, JournalBroken, JournalTooNew."""
    project = open_project(context)
    attempt = AttemptId.parse(arguments.text("attempt"))
    assert attempt is not None  # the table read it
    directory = project.workers / attempt.worker / attempt.directory
    journal = Journal.load(directory, clock=project.clock) if (directory / JOURNAL).exists() else None
    told = next((t for t in _told(project, attempt.issue) if _is_of(t, attempt)), None)
    if journal is None and told is None:
        raise AttemptNotFound(f"no attempt {attempt} is known here", hint=f"afk history {attempt.issue}")
    return Result(
        {
            **_summary(attempt, journal, told),
            "stages": _stages(journal),
            "result": _result(journal, told),
            "branch": _branch(project, attempt, journal, told),
            "paths": _paths(directory, journal),
            "validation": _validation(directory),
            "hooks": _hooks(journal),
            "envelope": _envelope(project, attempt, journal, told),
            "usage": _usage(journal),
        }
    )


def _is_of(told: Told, attempt: AttemptId) -> bool:
    return (told.envelope.worker, told.envelope.attempt) == (attempt.worker, attempt.n)


def _usage(journal: Journal | None) -> dict[str, int | None] | None:
    """Of the agent's ended runs; None where none of them told."""
    used = recorded_usage(journal) if journal else None
    return used.to_dict() if used else None


def _stages(journal: Journal | None) -> list[dict[str, object]]:
    reached = journal.fact("stages", []) if journal else []
    return [{"stage": each["stage"], "at_rfc3339": instant(each["at"])} for each in reached]


def _result(journal: Journal | None, told: Told | None) -> dict[str, object] | None:
    """None while it goes on."""
    outcome = _outcome_of(journal) if journal else told.past.outcome if told else None
    if outcome is None:
        return None
    ended = journal.get(Step.ENDED) if journal else {}
    reason = ended.get("reason") or (told.envelope.reason if told else "")
    recovery = OUTCOMES[outcome].recovery
    return {"outcome": str(outcome), "label": ended.get("label"), "recovery": recovery, "reason": reason or None}


def _branch(project: Project, attempt: AttemptId, journal: Journal | None, told: Told | None) -> dict[str, object]:
    name = _branch_name(project, attempt, journal, told)
    ref = f"refs/heads/{name}"
    head = git.rev_parse(project.root, ref)
    pushed = journal.fact("pushed_sha") if journal else None
    return {
        "name": name,
        "head_sha": head or pushed,
        "pushed": pushed is not None and pushed == (head or pushed) if journal else None,
        "on_remote": _is_on_remote(project, ref),
    }


def _branch_name(project: Project, attempt: AttemptId, journal: Journal | None, told: Told | None) -> str:
    if journal is not None:
        return branch_name(attempt.worker, attempt.issue, str(journal.fact("title", "")))
    named = told.envelope.branch if told else ""
    return named or branch_name(attempt.worker, attempt.issue, project.tracker.issue(attempt.issue).title)


def _is_on_remote(project: Project, ref: str) -> bool | None:
    """None: the remote cannot be asked."""
    try:
        return ref in git.ls_remote(project.root, project.url, ref)
    except AfkError:
        return None


def _paths(directory: Path, journal: Journal | None) -> dict[str, str | None]:
    """Absolute; None for what is not there (any more)."""
    k = journal.count(Step.RUN_STARTED) if journal else 0
    log = directory / str(journal.get(Step.RUN_STARTED, k)["run_dir"]) / "out" if journal and k else None
    wanted = {
        "worktree": directory / "worktree",
        "handoff": directory / "handoff.md",
        "log": log,
        "state": directory / STATE_FILE,
        "validation": directory / "validation.jsonl",
    }
    return {name: str(path) if path is not None and path.exists() else None for name, path in wanted.items()}


def _validation(directory: Path) -> dict[str, object] | None:
    """From the sidecar; None when no check ran, or it cannot be read. `error` are checks that gave no verdict."""
    try:
        records = sidecar.parse_or_none((directory / "validation.jsonl").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    if not records:
        return None
    statuses = ["error" if record.infra else record.status for record in records]
    checks = [
        {
            "name": record.name,
            "status": record.status,
            "command": record.command,
            "duration_ms": record.duration_ms,
            "summary": record.summary,
            "infra": record.infra,
        }
        for record in records
    ]
    return {word: statuses.count(word) for word in ("passed", "failed", "skipped", "error")} | {"checks": checks}


def _hooks(journal: Journal | None) -> list[dict[str, object]]:
    names = ("lifecycle", "source", "command", "exit_code", "duration_ms")
    return [{name: run.get(name) for name in names} for run in (journal.fact("hooks", []) if journal else [])]


def _envelope(project: Project, attempt: AttemptId, journal: Journal | None, told: Told | None) -> dict[str, object]:
    if told is not None:
        url = comment_url(project, attempt.issue, told.comment.id, told.comment.url)
        return {"posted": True, "comment_url": url, "posted_reason": None}
    return {"posted": False, "comment_url": None, "posted_reason": _why_not_posted(journal)}


def _why_not_posted(journal: Journal | None) -> str | None:
    if journal is None or not journal.has(Step.ENDED):
        return "the claim was lost" if journal and journal.has(Step.CLEARED) else "the attempt has not ended"
    gone = journal.get(Step.POSTED).get("gone")
    return "the issue is gone" if gone else "it is still owed; the next `afk run` posts it"
