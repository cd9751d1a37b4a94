"""Whether a runner answers with nobody at the keyboard: one question to the real program, remembered for a week.

It may cost a little money, so it is asked again only when the program, its settings or its login changed (R30). Only
`afk doctor` asks; a run does not.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from afk.adapters import git
from afk.adapters.files import read_json, write_atomic
from afk.adapters.process import ExitRecord, Kept, KeptSpec, LineFollower
from afk.agents import agent_for
from afk.agents.environment import agent_environment
from afk.agents.reading import Reading
from afk.attempt.session import Project
from afk.domain.outcome import RunEvidence, ended_well
from afk.domain.sentinel import Sentinel
from afk.errors import AfkError
from afk.ports import Agent, AgentCommand, RunContext

__all__ = ["Answer", "ask"]

LIMIT_S = 90.0
_VERSION_S = 15.0
_KEPT = timedelta(days=7)
_QUESTION = (
    "This is a test of whether you can be started unattended. Use no tools and change nothing.\n"
    "Reply with this one line and nothing else:\n\n<promise>BLOCKED</promise>\n"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """`why` is one line that says why it is not fit, empty when it is; `version` is empty when it told none.

    `asked_at` is when the program was asked, an earlier time for an answer that is remembered.
    """

    runner: str
    version: str
    why: str
    asked_at: datetime


def ask(project: Project, runner: str, *, fresh: bool) -> Answer:
    """Raises what starting a program raises; `fresh` asks although an answer is remembered."""
    agent, config = agent_for(project.config, runner), project.config
    with tempfile.TemporaryDirectory(prefix="afk-probe-", ignore_cleanup_errors=True) as name:
        place = Path(name).resolve()
        prompt_file = place / "prompt"
        prompt_file.write_text(_QUESTION, encoding="utf-8")
        worktree = place / "work"
        git.run(place, "init", "--quiet", str(worktree))
        command = agent.command(RunContext(worktree, prompt_file, place / "state", project.environ))
        _make_links(command)
        environment = agent_environment(
            project.environ,
            worktree,
            allow=[*config.agent.env_allow, *command.env_names],
            extra=command.env,
        )
        version = _version(command.argv[0], environment, place)
        key = _key(command, environment, version, worktree)
        if not fresh and (known := _remembered(project, key, runner)) is not None:
            return known
        evidence, record = _run(agent, command, environment, place, project)
        answer = Answer(runner, version, _why_not(evidence, record), project.clock.now())
    _remember(project, key, answer)
    return answer


def _make_links(command: AgentCommand) -> None:
    for link, target in command.links:
        if target.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target.resolve())


def _version(program: str, environment: Mapping[str, str], cwd: Path) -> str:
    """The last line with a number in it that it prints of itself; empty when it says nothing in time."""
    try:
        told = subprocess.run(
            [program, "--version"],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = told.stdout.decode("utf-8", "replace").split("\n")
    return next((line.strip()[:100] for line in reversed(lines) if any(char.isdigit() for char in line)), "")


def _run(
    agent: Agent, command: AgentCommand, environment: Mapping[str, str], place: Path, project: Project
) -> tuple[RunEvidence, ExitRecord]:
    run_dir = place / "run"
    kept = Kept.start(
        run_dir,
        KeptSpec(
            argv=command.argv,
            cwd=place / "work",
            env=environment,
            stdin=command.stdin,
            wall_clock_s=LIMIT_S,
            kill_s=project.config.agent.kill_s,
        ),
    )
    try:
        record = kept.wait(LIMIT_S + 30.0) or kept.stop("wall_clock")
    except BaseException:  # Ctrl-C: nothing of it stays behind
        kept.stop("stop")
        raise
    reading = Reading(agent, now=project.clock.now, prompt=_QUESTION)
    for file, heard in (("err", reading.err), ("out", reading.out)):
        lines = LineFollower(run_dir / file)
        for line in [*lines.read(), *lines.finish()]:
            heard(line.text)
    reading.finish()
    return reading.evidence, record


def _why_not(evidence: RunEvidence, record: ExitRecord) -> str:
    if evidence.failure is not None:
        return evidence.failure_text or evidence.failure
    if record.ended_by == "wall_clock":
        return f"it did not answer within {LIMIT_S:.0f} s"
    if evidence.sentinel is Sentinel.BLOCKED or ended_well(
        RunEvidence(
            program=evidence.program, end=evidence.end, tells_end=evidence.tells_end, exit_code=record.exit_code
        )
    ):
        return ""
    code = f"exit code {record.exit_code}" if record.exit_code is not None else f"signal {record.signal}"
    return f"it ended without an answer ({record.ended_by or code})"


# ── What is remembered ──────────────────────────────────────────────────────────────────────────────────────────────


def _file(project: Project) -> Path:
    return project.state / "probes.json"


def _key(command: AgentCommand, environment: Mapping[str, str], version: str, worktree: Path) -> str:
    """Changes with the program, its arguments, its own variables and its login; holds none of them readably."""
    own = {name: environment.get(name, "") for name in command.env_names}
    logins = [(str(target), _mtime(target)) for _, target in command.links]
    argv = [word.replace(str(worktree), "WORKTREE") for word in command.argv]
    told = json.dumps([argv, version, own, logins], sort_keys=True)
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _remembered(project: Project, key: str, runner: str) -> Answer | None:
    """Only a good answer is remembered: what was wrong may be right by now."""
    try:
        entry: Any = (read_json(_file(project)) or {}).get(key)
        asked_at = datetime.fromisoformat(entry["asked_at"])
        version = str(entry["version"])
        if timedelta() <= project.clock.now() - asked_at < _KEPT:
            return Answer(runner, version, "", asked_at)
    except (AfkError, OSError, ValueError, LookupError, TypeError):
        pass
    return None


def _remember(project: Project, key: str, answer: Answer) -> None:
    with suppress(AfkError, OSError):
        known: dict[str, Any] = {}
        with suppress(AfkError):
            known = read_json(_file(project)) or {}
        known.pop(key, None)
        if not answer.why:
            known[key] = {"asked_at": answer.asked_at.isoformat(), "version": answer.version}
        project.state.mkdir(parents=True, exist_ok=True)
        write_atomic(_file(project), json.dumps(dict([*known.items()][-50:]), indent=1) + "\n")
