"""The one validation function: the checks of a configuration, run on exactly the commit that would land.

Its answer has three kinds. A check that ran and failed is a verdict on the branch (`blocker`). A check that could not
run, was killed, or hung says nothing about the branch (`infra`, R49, L33): it is tried once more, alone, and then there
is no verdict (`validator_error`). And where nothing was checked, a person has to decide (`escalate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afk.adapters import git
from afk.adapters.admission import Admission
from afk.adapters.files import write_atomic
from afk.agents.environment import check_environment
from afk.attempt.checkrun import Ran, Runner, StoppedEarly
from afk.domain.globs import matches
from afk.domain.outcome import Outcome
from afk.wire.sidecar import CheckStatus, Infra, SidecarRecord, render

if TYPE_CHECKING:
    from afk.config import Check

__all__ = ["CheckResult", "SetupResult", "Subject", "Validation", "Verdict", "run_setup", "validate"]

STALL_WINDOW_S = 30.0
SETUP_S = 1800.0
KILL_S = 10.0

_NAMED_PATHS = 5


class Verdict(StrEnum):
    """Source: AFK machine interface, `afk validate`."""

    PASS = "pass"
    BLOCKER = "blocker"
    ESCALATE = "escalate"
    VALIDATOR_ERROR = "validator_error"


_OUTCOMES = {
    Verdict.PASS: None,
    Verdict.BLOCKER: Outcome.FEEDBACK_FAILED,
    Verdict.ESCALATE: Outcome.FEEDBACK_FAILED,
    Verdict.VALIDATOR_ERROR: Outcome.INFRA,
}


@dataclass(frozen=True, slots=True)
class Subject:
    """What is validated: `head_sha`, which the worktree has checked out, as a change to `base_sha` (full shas)."""

    worktree: Path
    base_sha: str
    head_sha: str
    attempt_id: str | None = None
    issue_number: int | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check, or one setup command.

    `summary` is one line for people: the last thing that the command said, or why there is no verdict. Nothing was run
    when `command` is None. `exit_code` is as a shell tells it, 128 + N for signal N. With `infra` the failure says
    nothing about the branch. `output_path` holds both outputs of the last try. Nothing is masked yet.
    """

    name: str
    status: CheckStatus
    summary: str
    command: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    infra: Infra | None = None
    output_path: str | None = None

    @property
    def is_verdict(self) -> bool:
        """Whether it speaks for or against the branch."""
        return self.status is not CheckStatus.SKIPPED and self.infra is None

    @classmethod
    def of(cls, name: str, ran: Ran) -> CheckResult:
        return cls(
            name=name,
            status=CheckStatus.FAILED if ran.failed else CheckStatus.PASSED,
            summary=ran.summary,
            command=ran.command,
            exit_code=ran.code,
            duration_ms=round(ran.duration_s * 1000),
            infra=ran.infra,
            output_path=str(ran.out),
        )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CheckResult:
        infra = data["infra"]
        return cls(**{**data, "status": CheckStatus(data["status"]), "infra": infra and Infra(infra)})


@dataclass(frozen=True, slots=True)
class Validation:
    """The answer of `validate`.

    `tree` is the hash of what the checks saw, empty when none was started. `reason` is one line, empty for a plain
    pass. `infra` is the first evidence that the machine, not the branch, failed. `stopped`: broken off because the run
    of `afk` is being stopped.
    """

    status: Verdict
    results: tuple[CheckResult, ...] = ()
    reason: str = ""
    infra: Infra | None = None
    tree: str = ""
    stopped: bool = False

    @property
    def outcome(self) -> Outcome | None:
        """How an attempt ends on this; None for a pass."""
        return _OUTCOMES[self.status]

    @property
    def records(self) -> tuple[SidecarRecord, ...]:
        """One for each check, in order: the lines of the sidecar."""
        return tuple(
            SidecarRecord(
                name=result.name,
                command=result.command,
                status=result.status,
                duration_ms=result.duration_ms,
                summary=result.summary,
                infra=result.infra,
            )
            for result in self.results
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, for the journal."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Validation:
        return cls(
            status=Verdict(data["status"]),
            results=tuple(CheckResult.from_dict(result) for result in data["results"]),
            reason=data["reason"],
            infra=data["infra"] and Infra(data["infra"]),
            tree=data["tree"],
            stopped=data["stopped"],
        )


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The setup commands that were run, in order, up to the first that failed; `stopped` as in `Validation`."""

    results: tuple[CheckResult, ...]
    stopped: bool = False

    @property
    def failure(self) -> str | None:
        """Why the worktree is not ready, in one line; None when it is."""
        if self.stopped:
            return "stopped before setup was done"
        failed = [result for result in self.results if result.status is CheckStatus.FAILED]
        return f"setup failed: `{failed[0].command}`: {failed[0].summary}" if failed else None


class _NoVerdict(Exception):
    """What was or would be checked is not what is to land; the text says how."""


# ── The two entries ─────────────────────────────────────────────────────────────────────────────────────────────────


def validate(
    subject: Subject,
    *,
    checks: Sequence[Check],
    allow_unvalidated: bool,
    environ: Mapping[str, str],
    run_dir: Callable[[str], Path],
    sidecar: Path | None,
    admission: Admission,
    seat: Mapping[str, str] | None = None,
    stopping: Callable[[], bool] = lambda: False,
    stall_window_s: float = STALL_WINDOW_S,
    kill_s: float = KILL_S,
) -> Validation:
    """Run the checks, one after the other, in the subject's worktree, and say what they say of its head.

    `environ` is ours; checks get the allow-listed part of it, and what their slot has for itself (`seat`). `run_dir`
    gives, for the word `check`, a folder that does not exist yet. `sidecar` is written as a whole at the end, None for
    nowhere. A check that is over its limit and used no CPU during the last `stall_window_s` before it has stalled,
    otherwise it was too slow. `admission` lets it start when there is memory for it.

    Raises `GitError`, and `KeeperFailed` or `DiskFull` when this machine cannot start a check.
    """
    runner = Runner(
        cwd=subject.worktree,
        environment=check_environment(environ, subject.worktree, seat=seat),
        run_dir=lambda: run_dir("check"),
        stopping=stopping,
        stall_window_s=stall_window_s,
        kill_s=kill_s,
        admission=admission,
    )
    results: list[CheckResult] = []
    tree = ""
    try:
        _require_presence(subject)
        tree = git.tree_of(subject.worktree, subject.head_sha)
        for result in _checked(subject, checks, runner):
            results.append(result)  # one by one: what was found out stays when the next one breaks off
        validation = _judge(tuple(results), tree, allow_unvalidated=allow_unvalidated)
    except _NoVerdict as broken:
        validation = Validation(Verdict.VALIDATOR_ERROR, tuple(results), str(broken), tree=tree)
    except StoppedEarly:
        reason = "stopped before every check was run"
        validation = Validation(Verdict.VALIDATOR_ERROR, tuple(results), reason, tree=tree, stopped=True)
    if sidecar is not None:
        write_atomic(sidecar, "".join(map(render, validation.records)))
    return validation


def run_setup(
    worktree: Path,
    commands: Iterable[str],
    *,
    environ: Mapping[str, str],
    run_dir: Callable[[str], Path],
    admission: Admission,
    seat: Mapping[str, str] | None = None,
    stopping: Callable[[], bool] = lambda: False,
    timeout_s: float = SETUP_S,
    stall_window_s: float = STALL_WINDOW_S,
    kill_s: float = KILL_S,
) -> SetupResult:
    """Run the commands of `afk.setup` in a fresh worktree, each within `timeout_s`; parameters as for `validate`.

    `run_dir` is asked for the word `setup`. The first failure ends it, with infra `setup`, whatever it looked like.
    """
    runner = Runner(
        cwd=worktree,
        environment=check_environment(environ, worktree, seat=seat),
        run_dir=lambda: run_dir("setup"),
        stopping=stopping,
        stall_window_s=stall_window_s,
        kill_s=kill_s,
        admission=admission,
    )
    results: list[CheckResult] = []
    try:
        for command in commands:
            ran = runner.run(command, timeout_s)
            result = CheckResult.of("setup", ran)
            if ran.failed:
                return SetupResult((*results, replace(result, infra=Infra.SETUP)))
            results.append(result)
    except StoppedEarly:
        return SetupResult(tuple(results), stopped=True)
    return SetupResult(tuple(results))


# ── The checks in order ─────────────────────────────────────────────────────────────────────────────────────────────


def _require_presence(subject: Subject) -> None:
    """A missing branch has an empty diff, hence no checks, hence nothing against it: so look first (L31)."""
    where = subject.worktree
    for what, sha in (("base", subject.base_sha), ("head", subject.head_sha)):
        if git.rev_parse(where, f"{sha}^{{commit}}") is None:
            raise _NoVerdict(f"the {what} {sha or 'commit'} is not in {where}")
    _require_head(subject, "before any check")
    if git.commits_ahead(where, subject.base_sha, subject.head_sha) == 0:
        raise _NoVerdict(f"{subject.head_sha} is not ahead of {subject.base_sha}: there is nothing to validate")
    if changed := _changed_tracked(where):
        raise _NoVerdict(f"tracked files differ from the commit: {_named(changed)}")


def _require_head(subject: Subject, when: str) -> None:
    """What is checked must be what lands (R51)."""
    head = git.rev_parse(subject.worktree, "HEAD")
    if head != subject.head_sha:
        raise _NoVerdict(f"{when}, {subject.worktree} had {head} checked out, not {subject.head_sha}")


def _checked(subject: Subject, checks: Sequence[Check], runner: Runner) -> Iterable[CheckResult]:
    changed = git.touched_files(subject.worktree, subject.base_sha, subject.head_sha)
    spoiled = ""
    for check in checks:
        if spoiled:
            yield CheckResult(check.name, CheckStatus.SKIPPED, spoiled)
        elif check.when and not any(matches(path, glob) for path in changed for glob in check.when):
            yield CheckResult(check.name, CheckStatus.SKIPPED, f"no changed file matches {', '.join(check.when)}")
        else:
            result, touched = _run_check(subject, check, runner)
            spoiled = f"not run: {check.name} changed tracked files" if touched else ""
            yield result


def _run_check(subject: Subject, check: Check, runner: Runner) -> tuple[CheckResult, list[str]]:
    """A check's result, and the tracked files that it changed: then nothing after it would see the commit any more."""
    ran, touched = _try(subject, check, runner)
    result = CheckResult.of(check.name, ran)
    if (ran.infra or ran.is_suspect) and not touched:
        ran, touched = _try(subject, check, runner)
        result = _second(CheckResult.of(check.name, ran), result)
    return (_touching(result, touched) if touched else result), touched


def _try(subject: Subject, check: Check, runner: Runner) -> tuple[Ran, list[str]]:
    ran = runner.run(check.run, check.timeout_s)
    _require_head(subject, f"after {check.name}")
    return ran, _changed_tracked(subject.worktree)


def _touching(result: CheckResult, touched: Sequence[str]) -> CheckResult:
    """A pass becomes a failure: what passed, or would pass next, is not what was committed."""
    summary = f"changed tracked files: {_named(touched)}"
    if result.status is CheckStatus.FAILED:
        summary = f"{result.summary}; {summary}"
    return replace(result, status=CheckStatus.FAILED, summary=summary)


def _second(result: CheckResult, first: CheckResult) -> CheckResult:
    note = ", twice" if result.summary == first.summary else f" (second try; the first: {first.infra or first.summary})"
    return replace(result, summary=result.summary + note)


def _changed_tracked(worktree: Path) -> list[str]:
    only = ("--untracked-files=no", "--ignore-submodules=untracked", "--no-renames")
    listing = git.run(worktree, "status", "--porcelain", "-z", *only)
    return [entry[3:] for entry in listing.stdout.split("\0") if entry]


def _named(paths: Sequence[str]) -> str:
    more = len(paths) - _NAMED_PATHS
    return ", ".join(paths[:_NAMED_PATHS]) + (f" and {more} more" if more > 0 else "")


def _judge(results: tuple[CheckResult, ...], tree: str, *, allow_unvalidated: bool) -> Validation:
    failed = [result for result in results if result.status is CheckStatus.FAILED]
    verdicts = [result for result in failed if result.is_verdict]
    if verdicts:
        return Validation(Verdict.BLOCKER, results, _told(verdicts), tree=tree)
    if failed:
        return Validation(Verdict.VALIDATOR_ERROR, results, _told(failed), failed[0].infra, tree)
    if any(result.is_verdict for result in results):
        return Validation(Verdict.PASS, results, tree=tree)
    reason = "no check ran" + (", which afk.validation.allow_unvalidated allows" if allow_unvalidated else "")
    said = CheckResult("validation", CheckStatus.SKIPPED, reason)
    return Validation(Verdict.PASS if allow_unvalidated else Verdict.ESCALATE, (*results, said), reason, tree=tree)


def _told(failed: Sequence[CheckResult]) -> str:
    return "; ".join(f"{result.name}: {result.infra or 'failed'}: {result.summary}" for result in failed)
