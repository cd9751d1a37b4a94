"""A slot: one lane that works one issue at a time, and the worker id it does so under."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from afk import __version__
from afk.adapters import git, seats
from afk.adapters.claims import Claim
from afk.adapters.files import write_atomic
from afk.adapters.process import boot_id, identity_of
from afk.attempt.briefing import Thread, Told
from afk.attempt.journal import Journal, Seam
from afk.attempt.progress import Log, Progress
from afk.attempt.session import Attempt, Project, Stop, hook_json
from afk.config import Config
from afk.domain.attempt import AttemptId, draw_worker_id
from afk.domain.circuit import Terms
from afk.domain.issue import Filter, FilterKind, Issue
from afk.domain.lifecycle import HookRun
from afk.domain.queue import QueueItem, QueueState
from afk.supervisor.tally import Tally
from afk.wire.claim import ClaimRecord

if TYPE_CHECKING:
    from afk.supervisor.terms import Options

__all__ = ["Settings", "Slot", "choose", "ready_items"]

_SIBLINGS = 20  # titles of other open issues that an agent is shown


def choose(ready: Sequence[QueueItem], allowed: Sequence[Mapping[str, Any]]) -> list[QueueItem]:
    """The ready issues in the order of a list that hooks may have reordered or shortened."""
    by_number = {item.issue.number: item for item in ready}
    return [by_number[entry["number"]] for entry in allowed if entry.get("number") in by_number]


@dataclass
class Settings:
    """What a run works on and with, for all its slots: options, as `pre_session` left them."""

    runner: str
    filter: Filter
    cap: int | None

    def take(self, context: Mapping[str, Any]) -> None:
        """Take over what the hook changed."""
        self.runner = str(context["runner"])
        self.cap = context["cap"]
        told = context["filter"]
        numbers = tuple(int(word) for word in str(told["value"]).split(",")) if told.get("value") else ()
        self.filter = Filter(FilterKind(told["kind"]), numbers)


class Slot:
    """Opens attempts, new or taken up again, under the worker id that this lane has at the moment."""

    def __init__(
        self,
        project: Project,
        options: Options,
        settings: Settings,
        stop: Stop,
        tally: Tally,
        *,
        emit: Callable[[dict[str, object]], None],
        seam: Seam,
        number: int,
        died_fast: Callable[[int, Terms], int],
    ) -> None:
        self.number = number
        self.seat = seats.lease(project.root, number, project.environ)
        self._died_fast = partial(died_fast, number)
        self._project = project
        self._settings = settings
        self._options = options
        self._stop = stop
        self._tally = tally
        self._emit = emit
        self._seam = seam
        self._worker: str | None = None

    def reconfigure(self, project: Project) -> None:
        """For the next attempt; one that has begun keeps what it began with."""
        self._project = project

    @property
    def worker(self) -> str | None:
        """None before the first attempt."""
        return self._worker

    def open(
        self,
        item: QueueItem,
        thread: Thread,
        label: str,
        *,
        runner: str,
        prior_hooks: Sequence[HookRun] = (),
        siblings: Sequence[str] = (),
        taken_n: int = 0,
    ) -> Attempt:
        """A new attempt at an issue, safely in its journal and not claimed yet; its number is above `taken_n`."""
        project, issue = self._project, item.issue
        worker = self._worker_for(issue)
        attempt_id = AttemptId(worker, issue.number, self._next_n(issue.number, thread, taken_n))
        record = ClaimRecord(
            nonce=secrets.token_hex(16),
            seq=0,
            worker=worker,
            host=project.host,
            attempt=str(attempt_id),
            lease_s=max(1, round(project.config.claim.lease_s)),
            state="working",
        )
        facts = {
            "title": issue.title,
            "issue": issue.to_json(),
            "label": label,
            "base_flag": self._options.base,
            "request": self._options.request,
            "runner": runner,
            "runner_kind": project.config.runner_config(runner).kind,
            "host": project.host,
            "afk_version": __version__,
            "owner": _owner(),
            "started_at": project.clock.now().isoformat(),
            "started_monotonic_s": project.clock.monotonic_s(),
            "boot_id": boot_id(),
            "config": project.config.dump(),
            "claim": record.message(),
            "slot": self.number,
            "retries": len(thread.past),
            "past_lines": [_past_line(told) for told in thread.told],
            "siblings": list(siblings[:_SIBLINGS]),
            "hooks": [hook_json(run) for run in prior_hooks],
        }
        directory = project.workers / worker / attempt_id.directory
        write_worker(project, worker)
        self.seat = seats.lease(project.root, self.number, project.environ)
        seats.empty(self.seat)
        journal = Journal.create(directory, attempt_id, facts, clock=project.clock, seam=self._seam)
        return self._attempt(project, journal, issue)

    def resume(self, journal: Journal) -> Attempt:
        """An attempt of a dead owner, under its own id and the configuration it started with."""
        loaded = replace(self._project.loaded, config=Config.model_validate(journal.fact("config")))
        project = replace(self._project, loaded=loaded)
        journal.set_facts(owner=_owner(), slot=self.number, durable=True)
        write_worker(project, journal.attempt.worker)
        return self._attempt(project, journal, Issue.of_json(journal.fact("issue")))

    def _attempt(self, project: Project, journal: Journal, issue: Issue) -> Attempt:
        record = ClaimRecord.parse(str(journal.fact("claim")))
        assert record is not None  # we wrote it
        claim = Claim(
            project.root,
            project.url,
            issue.number,
            record,
            sha=journal.fact("claim_sha"),
            clock=project.clock,
            intend=lambda next_, sha: journal.set_facts(durable=True, claim=next_.message(), claim_sha=sha),
        )
        log = Log(project.workers / journal.attempt.worker / "worker.log.toonl", project)
        progress = Progress(project, journal, issue, log=log, books=self._tally, emit=self._emit)
        progress.opened()
        return Attempt(project, journal, progress, self._stop, issue, claim, seat=self.seat, died_fast=self._died_fast)

    def _worker_for(self, issue: Issue) -> str:
        """The slot's own id, or a new one when it has tried this issue: here, or by a branch on the remote."""
        project = self._project
        taken = git.ls_remote(project.root, project.url, f"refs/heads/afk/*/{issue.number}-*")
        while self._worker is None or self._is_used(self._worker, issue.number, taken):
            self._worker = draw_worker_id()
        return self._worker

    def _is_used(self, worker: str, number: int, remote: Mapping[str, str]) -> bool:
        root, prefix = self._project.root, f"refs/heads/afk/{worker}/{number}-"
        here = git.run(root, "for-each-ref", "--format=%(refname)", f"refs/heads/afk/{worker}/").stdout.split()
        tried = (self._project.workers / worker).glob(f"{number}-a*")
        return any(ref.startswith(prefix) for ref in [*remote, *here]) or any(tried)

    def _next_n(self, number: int, thread: Thread, taken_n: int) -> int:
        """1 + the highest on this disk, in the thread's envelopes, and in a claim that was taken over."""
        here = [
            parsed.n
            for path in self._project.workers.glob(f"*/{number}-a*")
            if (parsed := AttemptId.of_directory(path.parent.name, path.name)) is not None
        ]
        return 1 + max([taken_n, *here, *(past.n for past in thread.past)])


def ready_items(items: Sequence[QueueItem], left_alone: Collection[int]) -> list[QueueItem]:
    return [item for item in items if item.state is QueueState.READY and item.issue.number not in left_alone]


def _past_line(told: Told) -> str:
    past = told.past
    return f"attempt {past.n} ended as {past.outcome or past.status}" + (
        f": {told.envelope.reason}" if told.envelope.reason else ""
    )


def write_worker(project: Project, worker: str) -> None:
    """`worker.json`: who runs this worker now, for readers and for the sweep."""
    folder = project.workers / worker
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "worker.json", json.dumps(_owner()) + "\n")


def _owner() -> dict[str, Any]:
    us = identity_of()
    assert us is not None  # our own process is there
    return {"pid": us.pid, "pid_start_time": us.pid_start_time, "boot_id": us.boot_id}
