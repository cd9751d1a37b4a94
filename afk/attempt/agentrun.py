"""One run of the agent: start or take up again, follow its files, watch its clocks, say what it left.

The agent lives under a keeper and writes to files, so this code can die and be replaced at any moment: a run that was
started is followed from the beginning of its output, whoever started it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from afk.adapters import git, gitlocks
from afk.adapters.files import write_atomic
from afk.adapters.process import ExitRecord, Kept, KeptSpec, LineFollower, boot_id
from afk.agents import agent_for
from afk.agents.environment import agent_environment
from afk.agents.reading import Reading
from afk.attempt.journal import Step, recorded_usage
from afk.attempt.livepush import LivePush
from afk.attempt.session import Attempt
from afk.domain.liveness import Breach, Limits, Liveness, Sample
from afk.domain.outcome import AttemptEnded, EndedBy, GitFacts, Outcome, RunEvidence, RunPurpose
from afk.domain.stage import Stage
from afk.domain.usage import Usage, over_budget
from afk.errors import GitError, KeeperFailed
from afk.ports import Agent, RunContext

__all__ = ["Run", "agent_seconds", "demand_budget", "git_facts", "run_agent", "runner_of", "usage_of"]

_STATE = "agent"  # in the attempt's directory: where an agent keeps its own files, if it can be told where
_TICK_S, _QUIET_TICK_S, _QUIET_S = 0.1, 1.0, 5.0  # after so long without a word nobody waits for the next one
_WEIGH_S = 1.0
_READS_PER_TICK = 32  # of 256 kB each
_KEEPER_WAITS_S = 300.0
_NOBODY = ("afk agent", "afk@localhost")  # who commits on machines where git has nobody
# Programs whose silence is work: a build or a test run prints nothing for a long time and is left alone (L23). Not what
# agents themselves are run by (node, bun): a script's own name is found behind it.
BUILDERS = frozenset(
    {
        *("cargo", "rustc", "cc1", "cc1plus", "gcc", "g++", "clang", "ld", "make", "ninja", "cmake", "go", "javac"),
        *("java", "mvn", "gradle", "pnpm", "npm", "yarn", "tsc", "webpack", "vite", "jest", "vitest", "mocha"),
        *("playwright", "pytest", "tox", "nox", "dotnet", "ctest", "rspec", "phpunit", "mix", "bazel"),
    }
)


@dataclass(frozen=True, slots=True)
class Run:
    """Run number `k` (from 1) of an attempt's agent, by the runner of this name; `env` is what hooks made for it."""

    k: int
    runner: str
    purpose: RunPurpose
    prompt: str
    env: Mapping[str, str]


def run_agent(attempt: Attempt, run: Run) -> RunEvidence:
    """The run to its end, or what is left of one that another process started.

    Everything committed is pushed on the way as far as the remote allows. Raises nothing about the agent itself.
    """
    agent = agent_for(attempt.project.config, run.runner)
    kept, run_dir = _started(attempt, agent, run)
    reader = _Reader(attempt, agent, run, run_dir)
    liveness = _liveness(attempt, run.k)
    with LivePush(attempt) as live:
        record = _Watch(attempt, kept, reader, live, run.k, usage_of(attempt), liveness).to_the_end()
        _unlock(attempt)
        live.sync()
    return replace(
        reader.reading.evidence,
        exit_code=record.exit_code,
        signal=record.signal,
        lost=record.lost,
        # It may have ended long before it was looked after again; the records' own times may have been set meanwhile.
        ran_s=min(liveness.ran_s, max(0.0, (record.ended_at - kept.started_at).total_seconds())),
        ended_by=record.ended_by,
        ended_detail=str(attempt.journal.fact(f"ended_detail:{run.k}", "")),
    )


def _unlock(attempt: Attempt) -> None:
    """A git that was killed with its agent, or by it, holds up neither our own git nor a person's."""
    with suppress(GitError):  # a worktree that is no repository any more is told by whoever looks at the work
        for lock in gitlocks.clear_of_worktree(attempt.worktree, attempt.branch):
            attempt.progress.log("agent.lock", f"removed {lock}, whose git is dead")


def runner_of(attempt: Attempt, k: int) -> str | None:
    """Who was started for run `k`; None when nobody was."""
    started = attempt.journal.get(Step.RUN_STARTED, k)
    return str(started.get("runner") or attempt.journal.fact("runner")) if started else None


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
        runner=run.runner,
        run_dir=str(run_dir.relative_to(attempt.directory)),
        head=git.rev_parse(attempt.worktree, "HEAD"),
        boot_id=boot_id(),
        monotonic_s=attempt.project.clock.monotonic_s(),
    )
    run_dir.mkdir(parents=True)
    prompt_file = run_dir / "prompt"
    write_atomic(prompt_file, run.prompt)
    return Kept.start(run_dir, _spec(attempt, agent, prompt_file, run.env)), run_dir


def _spec(attempt: Attempt, agent: Agent, prompt_file: Path, env: Mapping[str, str]) -> KeptSpec:
    config, environ = attempt.project.config, attempt.project.environ
    command = agent.command(RunContext(attempt.worktree, prompt_file, attempt.directory / _STATE, environ))
    _make_links(command.links)
    limit_s = config.bounds.wall_clock_s
    return KeptSpec(
        argv=command.argv,
        cwd=attempt.worktree,
        env=agent_environment(
            environ,
            attempt.worktree,
            allow=[*config.agent.env_allow, *command.env_names],
            seat=attempt.seat.ready(),
            extra={**_confinement(attempt), **command.env, **env},
            # Told to every agent: gemini hides the person's own configuration of git from its tools.
            committer=git.identity(attempt.project.root) or _NOBODY,
        ),
        stdin=command.stdin,
        # We stop the agent ourselves at the ceiling, after a last push; the keeper's own clock is for when we are dead.
        wall_clock_s=None if limit_s is None else max(1.0, limit_s - agent_seconds(attempt)) + _KEEPER_WAITS_S,
        kill_s=config.agent.kill_s,
    )


def _make_links(links: Sequence[tuple[Path, Path]]) -> None:
    """What is there already stays: a second run of the attempt finds what the first one had."""
    for place, target in links:
        if target.exists() and not place.is_symlink() and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target.resolve())


def _confinement(attempt: Attempt) -> dict[str, str]:
    """An agent that lost its worktree finds no repository, instead of the person's checkout around it (R22)."""
    return {"GIT_CEILING_DIRECTORIES": str(attempt.directory)}


def usage_of(attempt: Attempt) -> Usage:
    """What the agent's finished runs of this attempt used together, as far as they told."""
    return recorded_usage(attempt.journal) or Usage()


def demand_budget(attempt: Attempt) -> None:
    """Raises: AttemptEnded where earlier runs have spent what the attempt may cost: no further one is started."""
    bounds = attempt.project.config.bounds
    spent = over_budget(usage_of(attempt), tokens=bounds.tokens, cost_usd=bounds.cost_usd)
    if spent is not None:
        raise AttemptEnded(Outcome.BLOCKED, f"budget spent: {spent}", label="blocked:budget")


def agent_seconds(attempt: Attempt) -> float:
    """How long the agent's finished runs of this attempt took together."""
    steps = attempt.journal.steps
    return sum(float(step.get("duration_s", 0.0)) for key, step in steps.items() if key.startswith(Step.RUN_ENDED))


def _liveness(attempt: Attempt, k: int) -> Liveness:
    """The clocks of run `k`, which also ran while nobody looked after it."""
    config, started = attempt.project.config, attempt.journal.get(Step.RUN_STARTED, k)
    bounds, now_s = config.bounds, attempt.project.clock.monotonic_s()
    began_s = float(started["monotonic_s"]) if started.get("boot_id") == boot_id() else now_s
    limits = Limits(bounds.silence_flag_s, bounds.silence_kill_s, bounds.wall_clock_s, config.agent.grace_s)
    return Liveness(limits, now_s=now_s, spent_s=agent_seconds(attempt), ran_s=now_s - began_s)


class _Reader:
    """Follows the two files of one run, from complete lines only, and tells at once what can be seen from outside."""

    def __init__(self, attempt: Attempt, agent: Agent, run: Run, run_dir: Path) -> None:
        clock = attempt.project.clock
        self.reading = Reading(agent, now=clock.now, prompt=run.prompt, purpose=run.purpose)
        self._progress = attempt.progress
        self._out, self._err = LineFollower(run_dir / "out"), LineFollower(run_dir / "err")
        self._told: tuple[Stage | None, str, str] = (None, "", "")

    def read(self) -> bool:
        """Whether anything was written since, an unended line included. Bounded, so that a flood stops no clock."""
        before = self._bytes_read
        for _ in range(_READS_PER_TICK):
            # Errors first: what an agent does afterwards shows that it got over them.
            for line in self._err.read():
                self.reading.err(line.text)
            for line in self._out.read():
                self.reading.out(line.text)
                self._tell()
            if not self._out.has_more and not self._err.has_more:
                break
        return self._bytes_read != before

    def finish(self) -> None:
        """Nobody writes any more: whatever is left, and what nobody understood (R38)."""
        for line in self._err.finish():
            self.reading.err(line.text)
        for line in self._out.finish():
            self.reading.out(line.text)
            self._tell()
        self.reading.finish()
        self._tell()
        if self.reading.unknown:
            self._progress.log("agent.unread", f"{self.reading.unknown} lines of its stream were not understood")

    @property
    def _bytes_read(self) -> int:
        return self._out.bytes_read + self._err.bytes_read

    def _tell(self) -> None:
        reading = self.reading
        now = (reading.stage, reading.last_line, reading.session)
        if now == self._told:
            return
        (stage, line, session), self._told = self._told, now
        if reading.session != session:
            self._progress.log("agent.session", reading.session)
        if reading.stage is not None and reading.stage != stage:
            self._progress.stage(reading.stage)
        if reading.last_line != line:
            self._progress.last_line(reading.last_line)


@dataclass
class _Watch:
    """Follows one run: reads what it writes, and ends it when a clock, the person or the claim says so."""

    attempt: Attempt
    kept: Kept
    reader: _Reader
    live: LivePush
    k: int
    before: Usage  # what the attempt's earlier runs used
    liveness: Liveness
    weighed_s: float = 0.0  # when its memory was looked at last

    def to_the_end(self) -> ExitRecord:
        while (record := self.kept.wait(self._tick_s())) is None:
            if why := self._reason_to_end(heard=self.reader.read()):
                record = self._end(why)
                break
            if self.liveness.newly_silent():
                self.attempt.progress.log("agent.silent", f"no output for {self.liveness.silent_s:.0f} s")
            self.attempt.progress.catch_up()
        self.reader.finish()
        return record

    def _tick_s(self) -> float:
        return _TICK_S if self.liveness.silent_s < _QUIET_S else _QUIET_TICK_S

    def _end(self, why: Breach) -> ExitRecord:
        """What is committed is pushed first: a ceiling is policy, no reason to lose anything (L20)."""
        self.attempt.journal.set_fact(f"ended_detail:{self.k}", why.detail)
        self.attempt.progress.log("agent.end", f"{why.ended_by} {why.detail}".rstrip())
        self.live.sync()
        return self.kept.stop(why.ended_by)

    def _reason_to_end(self, *, heard: bool) -> Breach | None:
        # Asked first: its clocks go on whatever else there is to say.
        breach = self.liveness.look(
            self.attempt.project.clock.monotonic_s(),
            heard=heard,
            has_sentinel=self.reader.reading.has_sentinel,
            sample=self._sample,
        )
        if self.attempt.lost:
            return Breach(EndedBy.CLAIM_LOST)
        if self.attempt.withdrawn is not None:
            return Breach(EndedBy.WITHDRAWN, self.attempt.withdrawn)
        if self.attempt.stop.now:
            return Breach(EndedBy.STOP, "stopped by the operator; the work is kept")
        if spent := self._spent() or self._overweight():
            return Breach(EndedBy.BUDGET, spent)
        return breach

    def _sample(self) -> Sample | None:
        try:
            return Sample(self.kept.tree_cpu_s(), self.kept.has_descendant(BUILDERS))
        except OSError:
            return None

    def _overweight(self) -> str | None:
        """That the whole tree holds more memory than it may, in words; looked at once a second, and only if limited."""
        limit, now_s = self.attempt.project.config.bounds.peak_rss_mb, self.attempt.project.clock.monotonic_s()
        if limit is None or now_s - self.weighed_s < _WEIGH_S or self.reader.reading.has_sentinel:
            return None
        self.weighed_s = now_s
        with suppress(OSError):
            held_mb = self.kept.tree_rss_bytes() / 1024**2
            return f"memory: limit {limit:g} MiB, used {held_mb:.0f} MiB" if held_mb > limit else None
        return None

    def _spent(self) -> str | None:
        """The budget that is used up, in words; after the agent's last word there is nothing left to save."""
        told, bounds = self.reader.reading.meter.total, self.attempt.project.config.bounds
        if told is None or self.reader.reading.has_sentinel:
            return None
        return over_budget(self.before + told, tokens=bounds.tokens, cost_usd=bounds.cost_usd)


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
