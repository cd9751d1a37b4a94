"""One run of the agent: start or take up again, follow its files, watch its clocks, say what it left.

The agent lives under a keeper and writes to files, so this code can die and be replaced at any moment: a run that was
started is followed from the beginning of its output, whoever started it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from afk.adapters import git
from afk.adapters.files import write_atomic
from afk.adapters.process import ExitRecord, Kept, KeptSpec, LineFollower, boot_id
from afk.agents import agent_for
from afk.agents.environment import agent_environment
from afk.attempt.journal import Step
from afk.attempt.livepush import LivePush
from afk.attempt.session import Attempt
from afk.config import Config
from afk.domain.outcome import EndedBy, GitFacts, RunEvidence, RunPurpose
from afk.domain.sentinel import Sentinel, SentinelReader, is_sentinel_line
from afk.domain.stage import StageMemory, advance
from afk.errors import KeeperFailed
from afk.ports import Agent, EventKind, RunContext

__all__ = ["Run", "agent_seconds", "git_facts", "run_agent"]

_TICK_S = 0.1
_READS_PER_TICK = 32  # of 256 kB each
_CPU_WINDOW_S = 20.0
# Programs whose silence is work: a build or a test run prints nothing for a long time and is left alone (L23).
BUILDERS = frozenset(
    {
        *("cargo", "rustc", "cc1", "cc1plus", "gcc", "g++", "clang", "ld", "make", "ninja", "cmake", "go", "javac"),
        *("java", "mvn", "gradle", "node", "pnpm", "npm", "yarn", "bun", "tsc", "pytest", "tox", "nox", "dotnet"),
        *("ctest", "rspec", "phpunit", "mix", "bazel"),
    }
)


@dataclass(frozen=True, slots=True)
class Run:
    """Run number `k` (from 1) of an attempt's agent; `env` is what hooks made for it."""

    k: int
    purpose: RunPurpose
    prompt: str
    env: Mapping[str, str]


def run_agent(attempt: Attempt, run: Run) -> RunEvidence:
    """The run to its end, or what is left of one that another process started.

    Everything committed is pushed on the way as far as the remote allows. Raises nothing about the agent itself.
    """
    agent = _agent(attempt)
    kept, run_dir = _started(attempt, agent, run)
    reader = _Reader(attempt, agent, run)
    with LivePush(attempt) as live:
        record = _Watch(attempt, kept, LineFollower(run_dir / "out"), reader, live, run.k).to_the_end()
        live.sync()
    return replace(
        reader.evidence,
        exit_code=record.exit_code,
        signal=record.signal,
        lost=record.lost,
        ended_by=record.ended_by,
        ended_detail=str(attempt.journal.fact(f"ended_detail:{run.k}", "")),
    )


def _agent(attempt: Attempt) -> Agent:
    return agent_for(attempt.project.config, str(attempt.journal.fact("runner")))


def _started(attempt: Attempt, agent: Agent, run: Run) -> tuple[Kept, Path]:
    """The kept agent and its folder: adopted where it runs already, started otherwise."""
    journal = attempt.journal
    if journal.has(Step.RUN_STARTED, run.k):
        run_dir = attempt.directory / str(journal.get(Step.RUN_STARTED, run.k)["run_dir"])
        with suppress(KeeperFailed):  # no keeper ever was there, so no agent either
            kept = Kept.adopt(run_dir)
            attempt.progress.log("agent.adopted", f"run {run.k} goes on under its keeper")
            return kept, run_dir
    run_dir = attempt.new_run_dir("agent")
    journal.record(
        Step.RUN_STARTED,
        run.k,
        purpose=str(run.purpose),
        run_dir=str(run_dir.relative_to(attempt.directory)),
        boot_id=boot_id(),
        monotonic_s=attempt.project.clock.monotonic_s(),
    )
    run_dir.mkdir(parents=True)
    prompt_file = run_dir / "prompt"
    write_atomic(prompt_file, run.prompt)
    return Kept.start(run_dir, _spec(attempt, agent, prompt_file, run.env)), run_dir


def _spec(attempt: Attempt, agent: Agent, prompt_file: Path, env: Mapping[str, str]) -> KeptSpec:
    config = attempt.project.config
    command = agent.command(RunContext(attempt.worktree, prompt_file, attempt.id.worker))
    limit_s = config.bounds.wall_clock_s
    return KeptSpec(
        argv=command.argv,
        cwd=attempt.worktree,
        env=agent_environment(
            attempt.project.environ,
            attempt.worktree,
            allow=[*config.agent.env_allow, *command.env_names],
            extra={**_identity(attempt), **_confinement(attempt), **command.env, **env},
        ),
        stdin=command.stdin,
        # We stop the agent ourselves at the ceiling, after a last push; the keeper's own clock is for when we are dead.
        wall_clock_s=None if limit_s is None else max(1.0, limit_s - agent_seconds(attempt)) + config.agent.grace_s,
        kill_s=config.agent.kill_s,
    )


def _confinement(attempt: Attempt) -> dict[str, str]:
    """An agent that lost its worktree finds no repository, instead of the person's checkout around it (R22)."""
    return {"GIT_CEILING_DIRECTORIES": str(attempt.directory)}


def _identity(attempt: Attempt) -> dict[str, str]:
    """A committer for agents on machines where git has none; a configured one is left to git."""
    if git.identity(attempt.project.root) is not None:
        return {}
    return {
        "GIT_AUTHOR_NAME": "afk agent",
        "GIT_AUTHOR_EMAIL": "afk@localhost",
        "GIT_COMMITTER_NAME": "afk agent",
        "GIT_COMMITTER_EMAIL": "afk@localhost",
    }


def agent_seconds(attempt: Attempt) -> float:
    """How long the agent's finished runs of this attempt took together."""
    steps = attempt.journal.steps
    return sum(float(step.get("duration_s", 0.0)) for key, step in steps.items() if key.startswith(Step.RUN_ENDED))


class _Reader:
    """The stream so far: evidence, stage and last line, from complete lines only."""

    def __init__(self, attempt: Attempt, agent: Agent, run: Run) -> None:
        self.evidence = RunEvidence(purpose=run.purpose, program=agent.name)
        self.unknown = 0
        self._attempt = attempt
        self._agent = agent
        self._sentinel = SentinelReader(run.prompt)
        self._stage = StageMemory(reads_text=attempt.journal.fact("runner_kind") == "command")

    def feed(self, line: str) -> None:
        for event in self._agent.read(line):
            self.unknown += event.kind is EventKind.NOISE
            self.evidence = self.evidence.seeing(event.kind, event.text, event.resets_at)
            before = self._stage.stage
            self._stage = advance(self._stage, event.kind, event.text)
            if self._stage.stage is not None and self._stage.stage != before:
                self._attempt.progress.stage(self._stage.stage)
            if event.kind is EventKind.TEXT:
                self.evidence = self.evidence.hearing(self._hear(event.text))
                self._attempt.progress.last_line(event.text)

    def _hear(self, text: str) -> Sentinel | None:
        """The sentinel that this text says, also one that repeats an earlier one: it shows that the agent went on."""
        before, after = self._sentinel.sentinel, self._sentinel.feed(text)
        return after if after != before or any(map(is_sentinel_line, text.split("\n"))) else None


@dataclass
class _Clocks:
    """The silence of the agent's own output, and the wall clock of its runs; both on the monotonic clock."""

    config: Config
    started_s: float
    spent_s: float
    heard_s: float
    cpu_s: float = 0.0
    cpu_at_s: float = 0.0
    sentinel_s: float | None = None
    flagged: bool = False

    def over(self, now: float) -> str | None:
        """The ceiling that the wall clock has reached, in words; None below it."""
        limit, elapsed = self.config.bounds.wall_clock_s, self.spent_s + now - self.started_s
        return None if limit is None or elapsed < limit else f"wall clock: limit {limit:g} s, elapsed {elapsed:.0f} s"

    def said_enough(self, now: float) -> bool:
        """Whether the grace after the sentinel is over."""
        return self.sentinel_s is not None and now - self.sentinel_s > self.config.agent.grace_s

    def hung(self, now: float, kept: Kept) -> str | None:
        """Silent past the limit, no CPU in the whole tree over a window, and no build or test program in it (L23)."""
        silent_s, limit = now - self.heard_s, self.config.bounds.silence_kill_s
        if limit is None or silent_s < limit:
            self.cpu_at_s = 0.0
            return None
        if not self.cpu_at_s:
            self.cpu_s, self.cpu_at_s = kept.tree_cpu_s(), now
            return None
        if now - self.cpu_at_s < min(_CPU_WINDOW_S, limit):
            return None
        idle = kept.tree_cpu_s() - self.cpu_s < 0.01 and not kept.has_descendant(BUILDERS)
        self.cpu_at_s = 0.0
        return f"silent and idle for {silent_s:.0f} s, limit {limit:g} s" if idle else None


@dataclass
class _Watch:
    """Follows one run: reads what it writes, and ends it when a clock, the person or the claim says so."""

    attempt: Attempt
    kept: Kept
    follower: LineFollower
    reader: _Reader
    live: LivePush
    k: int

    def to_the_end(self) -> ExitRecord:
        clock, started = self.attempt.project.clock, self.attempt.journal.get(Step.RUN_STARTED, self.k)
        now = clock.monotonic_s()
        began_s = float(started["monotonic_s"]) if started.get("boot_id") == boot_id() else now
        clocks = _Clocks(self.attempt.project.config, began_s, agent_seconds(self.attempt), heard_s=now)
        while (record := self.kept.wait(_TICK_S)) is None:
            now = clock.monotonic_s()
            if self._read():
                clocks.heard_s = now
            if self.reader.evidence.sentinel is not None and clocks.sentinel_s is None:
                clocks.sentinel_s = now
            if why := self._reason_to_end(clocks, now):
                record = self._end(*why)
                break
            self._flag_silence(clocks, now)
            self.attempt.progress.catch_up()
        for line in self.follower.finish():
            self.reader.feed(line.text)
        return record

    def _read(self) -> bool:
        """Whether anything was written since, an unended line included. Bounded, so that a flood stops no clock."""
        before = self.follower.bytes_read
        for _ in range(_READS_PER_TICK):
            for line in self.follower.read():
                self.reader.feed(line.text)
            if not self.follower.has_more:
                break
        return self.follower.bytes_read != before

    def _end(self, ended_by: EndedBy, detail: str) -> ExitRecord:
        """What is committed is pushed first: a ceiling is policy, no reason to lose anything (L20)."""
        self.attempt.journal.set_fact(f"ended_detail:{self.k}", detail)
        self.attempt.progress.log("agent.end", f"{ended_by} {detail}".rstrip())
        self.live.sync()
        return self.kept.stop(ended_by)

    def _reason_to_end(self, clocks: _Clocks, now: float) -> tuple[EndedBy, str] | None:
        if self.attempt.lost:
            return EndedBy.CLAIM_LOST, ""
        if self.attempt.withdrawn is not None:
            return EndedBy.WITHDRAWN, self.attempt.withdrawn
        if self.attempt.stop.now:
            return EndedBy.STOP, "stopped by the operator; the work is kept"
        if clocks.said_enough(now):
            return EndedBy.GRACE, ""
        if over := clocks.over(now):
            return EndedBy.WALL_CLOCK, over
        if hung := clocks.hung(now, self.kept):
            return EndedBy.SILENCE, hung
        return None

    def _flag_silence(self, clocks: _Clocks, now: float) -> None:
        limit = self.attempt.project.config.bounds.silence_flag_s
        if limit is None or now - clocks.heard_s < limit:
            clocks.flagged = False
        elif not clocks.flagged:
            clocks.flagged = True
            self.attempt.progress.log("agent.silent", f"no output for {now - clocks.heard_s:.0f} s")


def git_facts(attempt: Attempt) -> GitFacts:
    """What the worktree shows now, against the base it started from; None where they have nothing in common."""
    worktree, base = attempt.worktree, str(attempt.journal.fact("base_sha"))
    head = git.rev_parse(worktree, "HEAD")
    if head is None or git.rev_parse(worktree, base) is None:
        return GitFacts(None, None)
    merge_base = git.merge_base(worktree, base, head)
    if merge_base is None:
        return GitFacts(None, None, tuple(git.dirty_paths(worktree)))
    return GitFacts(
        git.commits_ahead(worktree, base, head),
        git.diffstat(worktree, merge_base, head).files,
        tuple(git.dirty_paths(worktree)),
    )
