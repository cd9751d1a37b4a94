"""What attempts leave, made by hand with the parts that make it: journals, worktrees, live branches; no agent runs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import gitkit
from drainkit import Place

from afk.adapters import git, worktrees
from afk.adapters.clock import SystemClock
from afk.adapters.files import append_line, write_atomic
from afk.attempt import history
from afk.attempt.journal import Journal, Step
from afk.attempt.session import Project
from afk.domain.attempt import AttemptId, branch_name
from afk.supervisor import boot, sweep
from afk.supervisor.attemptdirs import Seam
from afk.supervisor.survey import Action, Decision, Kind
from afk.wire import toonl
from afk.wire.claim import ClaimRecord

WORKER = "wDONE"
DEAD = {"pid": 999_999_999, "pid_start_time": "1", "boot_id": "another"}


class Later(SystemClock):
    """The `Clock` port, so many days ahead of the machine's."""

    def __init__(self, days: float) -> None:
        self._ahead = timedelta(days=days)

    def now(self) -> datetime:
        return super().now() + self._ahead


@dataclass(frozen=True)
class Leavings:
    """A place, and what was left there."""

    place: Place

    def project(self, days: float = 0) -> Project:
        """The checkout, seen so many days from now."""
        return Project.open(self.place.clone, environ=os.environ, clock=Later(days))

    def attempt(
        self,
        number: int = 7,
        n: int = 1,
        *,
        decision: str = "park",
        posted: bool = True,
        pushed: bool = True,
        steps: Sequence[Step] = (Step.ENDED, Step.CLEARED),
        **facts: Any,
    ) -> Path:
        """A told attempt with its worktree and one commit; `decision` park, or it has put its worktree away."""
        project = self.project()
        boot.make_ground(project)
        id = AttemptId(WORKER, number, n)
        claim = ClaimRecord("0" * 32, 0, WORKER, project.host, str(id), 900, facts.pop("claim_state", "working"))
        known = {"title": f"Do {n}", "host": project.host, "owner": DEAD, "posted": posted, "claim": claim.message()}
        known |= {"started_at": project.clock.now().isoformat(), "base_sha": gitkit.sha(self.place.clone)}
        directory = project.workers / WORKER / id.directory
        journal = Journal.create(directory, id, known | facts, clock=project.clock)
        if decision == "park":
            branch = branch_name(WORKER, number, f"Do {n}")
            worktrees.add(project.root, directory / "worktree", branch, "HEAD", owner=str(id))
            gitkit.commit(directory / "worktree", "the work", {f"work-{n}.txt": "the work\n"})
            if pushed:
                gitkit.git(directory / "worktree", "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
        write_atomic(directory.parent / "worker.json", json.dumps(DEAD))
        if Step.CLEARED in steps:
            self._remember(id, branch_name(WORKER, number, f"Do {n}"))
        for step in steps:
            journal.record(step, **({"decision": decision} if step is Step.ENDED else {}))
        return directory

    def _remember(self, id: AttemptId, branch: str) -> None:
        """Its row in the history."""
        row = ["2026-05-17", id.issue, str(id), "blocked", "blocked", "command", branch, None, 1, 1, 0, 1, ""]
        path = self.project().state / "history.toonl"
        append_line(path, toonl.row(row), ceiling_bytes=10**6, header=toonl.header(history.FIELDS))

    def close(self, number: int = 7) -> None:
        self.place.edit(number, state="closed", labels=[])

    def sweep(self, days: float = 0, seam: Seam = sweep.no_seam) -> dict[str, Decision]:
        """By name, so many days from now."""
        project = self.project(days)
        return named(sweep.sweep(project, boot.supervisor_log(project), seam=seam))

    def would(self, days: float = 0) -> dict[str, Decision]:
        return named(sweep.decide(self.project(days)))

    def kept(self, number: int = 7, n: int = 1) -> Path:
        return self.place.clone / ".red/state/kept" / f"{WORKER}-{number}-a{n}"

    def refs(self, *prefixes: str) -> dict[str, str]:
        return git.local_refs(self.place.clone, *prefixes)


def named(decisions: Sequence[Decision]) -> dict[str, Decision]:
    """A live branch on the remote is `remote REF`, to tell it from the one of the same name here."""
    names = [f"remote {each.name}" if each.kind is Kind.LIVE_BRANCH else each.name for each in decisions]
    assert len(set(names)) == len(names)
    return dict(zip(names, decisions, strict=True))


def removed(decisions: dict[str, Decision]) -> set[str]:
    return {name for name, each in decisions.items() if each.action is Action.REMOVED}
