"""What an attempt works with: the project it serves, and the attempt's own handles.

`Project` is the same for every attempt of a run; `Attempt` is one worker's try at one issue, new or taken up again.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afk.adapters import git
from afk.adapters.admission import Admission
from afk.adapters.claims import Claim, ClaimLost
from afk.adapters.clock import SystemClock
from afk.adapters.seats import Seat
from afk.agents.environment import secret_values
from afk.attempt.hooks import HookRunner
from afk.attempt.journal import Journal
from afk.attempt.progress import Progress
from afk.domain.attempt import AttemptId, branch_name
from afk.domain.circuit import Terms
from afk.domain.issue import Issue
from afk.domain.lifecycle import HookRun
from afk.domain.outcome import AttemptEnded, Outcome
from afk.errors import ConfigError, InvalidInput
from afk.ports import Clock, Tracker
from afk.wire.safetext import mask

if TYPE_CHECKING:
    from afk.config import Config, Loaded

__all__ = ["Attempt", "Project", "Stop", "hook_json"]


@dataclass(frozen=True)
class Project:
    """One checkout with its configuration, its remote and its tracker.

    `url` and `default_base` ask git or the remote on first use and raise what `adapters/git.py` raises.
    """

    root: Path
    loaded: Loaded
    tracker: Tracker
    clock: Clock
    environ: Mapping[str, str]
    host: str

    @classmethod
    def open(
        cls,
        cwd: Path,
        *,
        environ: Mapping[str, str],
        config_path: Path | None = None,
        overrides: Mapping[str, object] | None = None,
        clock: Clock | None = None,
    ) -> Project:
        """Find the checkout around `cwd` and read its configuration; touches nothing.

        Raises `NotARepository`, `ConfigError`, and `InvalidInput` inside one of our own worktrees.
        """
        from afk import config

        root = git.toplevel(cwd)
        outer = _owner_of_worktree(root)
        if outer is not None:
            raise InvalidInput(
                f"{root} is a worktree that afk made for an attempt", hint=f"cd {outer} and type the command again"
            )
        loaded = config.load(root, explicit=config_path, env=environ, overrides=overrides or {})
        tracker = _tracker(root, loaded.config, environ)
        return cls(root, loaded, tracker, clock or SystemClock(), environ, socket.gethostname())

    @property
    def config(self) -> Config:
        return self.loaded.config

    def reconfigured(self, loaded: Loaded) -> Project:
        """The same checkout with the same remote and tracker, which `loaded` must not change, otherwise as it says."""
        made = replace(self, loaded=loaded)
        known = {"url", "secrets"} | ({"default_base"} if loaded.config.base == self.config.base else set())
        made.__dict__.update({name: value for name, value in self.__dict__.items() if name in known})
        return made

    @property
    def tmp(self) -> Path:
        return self.root / ".red" / "tmp"

    @property
    def state(self) -> Path:
        return self.root / ".red" / "state"

    @property
    def workers(self) -> Path:
        return self.tmp / "workers"

    @cached_property
    def url(self) -> str:
        """Where the remote is pushed to, and read from too: what we decide on must be what we change.

        Fetch and push name it, so that no configuration of the checkout is touched.
        """
        return git.push_url(self.root, self.config.remote)

    @cached_property
    def default_base(self) -> str:
        """The branch that work starts from and lands on when neither flag nor issue names one."""
        return self.config.base or git.default_branch(self.root, self.url)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """Values that may leave the machine nowhere, whatever shape they have."""
        return tuple(secret_values(self.environ))

    def mask(self, text: str) -> str:
        return mask(text, self.secrets)


def _owner_of_worktree(root: Path) -> Path | None:
    """The checkout whose attempt this worktree is; None for a person's own."""
    parts = root.parts
    for index in range(len(parts) - 2, 0, -1):
        if parts[index : index + 2] == (".red", "tmp"):
            return Path(*parts[:index])
    return None


def _tracker(root: Path, config: Config, environ: Mapping[str, str]) -> Tracker:
    """Opens nothing: a token is looked for, and the network asked, when something is read."""
    if config.tracker == "github":
        return _github(root, config, environ)
    from afk.adapters.localtracker import LocalTracker

    folder = Path(config.local.path) if config.local.path else root / ".red" / "issues"
    return LocalTracker(folder, login=config.local.login)


def _github(root: Path, config: Config, environ: Mapping[str, str]) -> Tracker:
    from afk.adapters.github import GithubTracker, repo_of_url
    from afk.adapters.githubapi import Api
    from afk.adapters.githubtoken import find_token, helper_for, web_host

    url = git.push_url(root, config.remote)
    repo = config.github.repo or repo_of_url(url)
    if repo is None:
        raise ConfigError(f"the remote {config.remote} names no repository on GitHub", hint="set afk.github.repo")
    host = web_host(config.github.api_url)
    git.offer_credentials(url, host, helper_for(host))
    return GithubTracker(Api(config.github.api_url, lambda: find_token(host, environ)), repo)


class Stop:
    """How urgently the person wants the run to end: 0 not at all, 1 finish what runs, 2 stop the agents, 3 at once.

    Raised by signal handlers and `afk stop`; only ever goes up.
    """

    def __init__(self) -> None:
        self.level = 0

    def raise_to(self, level: int) -> None:
        self.level = max(self.level, level)

    def raise_by_one(self) -> None:
        self.raise_to(self.level + 1)

    @property
    def draining(self) -> bool:
        return self.level >= 1

    @property
    def now(self) -> bool:
        return self.level >= 2


@dataclass
class Attempt:
    """One worker's try at one issue, new or taken up again; `issue` is the snapshot that is worked."""

    project: Project
    journal: Journal
    progress: Progress
    stop: Stop
    issue: Issue
    claim: Claim
    seat: Seat
    # Tells the slot of a fast death; the answer is how many there were of late when this one parks it, else 0.
    died_fast: Callable[[Terms], int] = lambda terms: 0
    withdrawn: str | None = None  # set by the supervisor's poll when people closed or took back the issue
    waiting: str = ""  # why a check of it does not start yet, for whoever looks
    lost: bool = False  # set by whoever notices first that the claim is somebody else's
    # Under it the sha that was pushed last is read, pushed against and written again.
    pushing: threading.RLock = field(default_factory=threading.RLock)

    @cached_property
    def hooks(self) -> HookRunner:
        """The hooks of this attempt; every run is noted in its journal."""
        return HookRunner(
            root=self.project.root,
            commands=self.project.config.hooks,
            defaults=self.project.config.hook_defaults,
            environ=self.project.environ,
            run_dir=lambda: self.new_run_dir("hook"),
            on_run=lambda run: self.journal.append_fact("hooks", hook_json(run)),
            log=lambda line: self.progress.log("hook.stderr", line),
            stopping=lambda: self.interrupted,
        )

    @cached_property
    def admission(self) -> Admission:
        """Asked before each setup command and check, so that all that run on this machine find memory."""
        return Admission(self.project.root, self.project.environ, said=self._waits)

    def _waits(self, why: str) -> None:
        self.waiting = why
        if why:
            self.progress.log("check.wait", why)

    @property
    def slot(self) -> int:
        return self.seat.slot

    @property
    def id(self) -> AttemptId:
        return self.journal.attempt

    @property
    def directory(self) -> Path:
        return self.journal.directory

    @property
    def worktree(self) -> Path:
        return self.directory / "worktree"

    @property
    def handoff(self) -> Path:
        return self.directory / "handoff.md"

    @property
    def sidecar(self) -> Path:
        return self.directory / "validation.jsonl"

    @property
    def branch(self) -> str:
        return branch_name(self.id.worker, self.id.issue, str(self.journal.fact("title", "")))

    @property
    def branch_ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def private_ref(self, name: str) -> str:
        """A local ref of this attempt alone: parallel fetches never fight, and gc keeps what we still need."""
        return f"refs/afk/attempts/{self.id}/{name}"

    def new_run_dir(self, kind: str) -> Path:
        """`runs/{k}-{kind}` with the next free k; not created."""
        runs = self.directory / "runs"
        taken = [int(path.name.split("-")[0]) for path in runs.glob("[0-9]*-*")] if runs.is_dir() else []
        return runs / f"{max(taken, default=0) + 1}-{kind}"

    def check_interrupt(self) -> None:
        """Asked between any two steps: raises `ClaimLost` or `AttemptEnded` when going on would be wrong."""
        if self.lost:
            raise ClaimLost(self.issue.number)
        if self.withdrawn is not None:
            raise AttemptEnded(Outcome.BLOCKED, self.withdrawn, withdrawn=True)
        if self.stop.now:
            raise AttemptEnded(Outcome.INFRA, "stopped by the operator; the work is kept", stopped=True)

    @property
    def interrupted(self) -> bool:
        """Whether `check_interrupt` would raise; for loops that have to put something away first."""
        return self.lost or self.withdrawn is not None or self.stop.now


def hook_json(run: HookRun) -> dict[str, Any]:
    """A hook's run as the journal and the memory command have it."""
    return {
        "lifecycle": str(run.lifecycle),
        "command": run.command,
        "exit_code": run.exit_code,
        "duration_ms": run.duration_ms,
        "source": run.source,
    }
