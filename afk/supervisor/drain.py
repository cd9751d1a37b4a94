"""`afk run`: boot, then poll, pick, work, until the queue is drained.

The supervisor polls once for everybody, picks, and hands the issue to a slot, a thread that runs
`pipeline.work_one_issue`. It alone reads the queue and watches for changes of the issues that are being worked.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from afk.attempt.briefing import issue_json
from afk.attempt.journal import Seam, no_seam
from afk.attempt.session import Attempt, Project, Stop
from afk.domain.issue import FilterKind
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import Outcome
from afk.domain.queue import QueueItem, QueueState, require_selection
from afk.errors import AfkError, Cancelled, DiskFull, HookAborted, RemoteUnreachable, TrackerError
from afk.supervisor import boot, control, recovery
from afk.supervisor.lane import Lane
from afk.supervisor.queueing import Queue
from afk.supervisor.sessionhooks import SessionHooks
from afk.supervisor.signals import Bell, Signals
from afk.supervisor.slot import Settings, Slot, choose, ready_items
from afk.supervisor.sweep import sweep_for_run
from afk.supervisor.tally import Tally
from afk.supervisor.terms import Ended, Options, Report, Stranded, Waiting

__all__ = ["drain"]

_FOREIGN_WAIT_S = 5.0  # between two looks at a claim of another host that is all that is left


def drain(
    project: Project,
    options: Options,
    *,
    emit: Callable[[dict[str, object]], None],
    say: Callable[[str], None],
    seam: Seam = no_seam,
) -> Report:
    """Work the queue down. `emit` takes transition payloads, `say` sentences for people.

    Raises `AfkError` when the run could not begin or its loop died, `Cancelled` from the second signal on.
    """
    boot.make_ground(project)
    with boot.only_supervisor(project) as session_id:
        run = _Run(project, options, session_id, emit=emit, say=say, seam=seam)
        try:
            return run.whole()
        except Cancelled:
            raise
        except Exception as error:
            run.died(error)
            raise


class _Run:
    """One run's loop; its methods in the order in which they are called."""

    def __init__(
        self,
        project: Project,
        options: Options,
        session_id: str,
        *,
        emit: Callable[[dict[str, object]], None],
        say: Callable[[str], None],
        seam: Seam,
    ) -> None:
        self._project = project
        self._options = options
        self._session_id = session_id
        self._say = say
        self._stop = Stop()
        self._bell = Bell()
        self._tally = Tally(filter=options.filter)
        self._log = boot.supervisor_log(project)
        self._queue = Queue(project, self._log, say=say)
        self._settings = Settings(options.runner or project.config.runner, options.filter, options.cap)
        self._new_slot = partial(Slot, project, options, self._settings, self._stop, self._tally, emit=emit, seam=seam)
        self._slots = [self._new_slot(number=number) for number in range(1, project.config.workers + 1)]
        self._hooks = SessionHooks(project, self._settings.runner, self._log, stopping=lambda: self._stop.now)
        self._lanes: list[Lane] = []
        self._look_again_s = 0.0
        self._said_paused = False
        self._signals = 0
        self._ended: list[Ended] = []
        self._owed: list[Attempt] = []  # attempts whose end could not be told yet
        self._awaited: set[int] = set()  # issues of others that people were told about
        self._left_alone: set[int] = set()  # issues that this run does not pick again
        self._started = 0
        self._exhausted = False

    def whole(self) -> Report:
        with Signals(self._stop, self._bell, self._on_signal):
            stopped_by = self._session()
        if self._signals >= 2:
            where = "not told to its end yet; the next run goes on" if self._owed else "back in the queue"
            raise Cancelled(f"stopped; the work of the agents is kept, what they worked on is {where}", hint="afk run")
        return self._report(stopped_by)

    def died(self, error: BaseException) -> None:
        """The loop itself failed: `on_session_error` decorates that, and cannot change it."""
        about = {"ERROR_CLASS": type(error).__name__, "ERROR_MESSAGE": str(error)}
        self._log.add("session.error", f"{type(error).__name__}: {error}")
        self._hooks.fire(HookPoint.ON_SESSION_ERROR, {"error": str(error)}, about)

    def _session(self) -> str:
        boot.check_ground(self._project, self._options)
        self._recover()
        sweep_for_run(self._project, self._log, self._say)
        self._begin()
        stopped_by = self._loop()
        stats = self._tally.totals()
        if stopped_by == "drained":
            self._log.add("queue.idle", "drained")
            self._hooks.fire(HookPoint.ON_IDLE, {"stats": stats}, {})
        self._hooks.fire(HookPoint.POST_SESSION, {"runner": self._settings.runner, "stats": stats}, {})
        return stopped_by

    def _on_signal(self, level: int) -> None:
        self._signals += 1
        words = {
            1: "finishing what runs; once more stops the agents",
            2: "stopping the agents; their work is kept",
        }
        self._say(words.get(level, "leaving at once; the next `afk run` cleans up"))

    def _recover(self) -> None:
        """Take up what dead runs left, all of it at once and before anything is picked: their agents may be alive."""
        for attempt in recovery.unfinished(self._project, self._new_slot(number=1), self._log):
            self._say(f"taking up {attempt.id} where it stopped")
            self._work(attempt)
        while self._lanes:
            self._wait()
            self._settle_ended()

    def _begin(self) -> None:
        fired = self._hooks.fire(
            HookPoint.PRE_SESSION,
            {
                "runner": self._settings.runner,
                "filter": {"kind": str(self._settings.filter.kind), "value": self._settings.filter.value},
                "cap": self._settings.cap,
            },
            {},
        )
        if fired.aborted is not None and not fired.stopped:
            raise HookAborted(fired.reason, hint="afk hooks list")
        self._settings.take(fired.context)

    # ── The loop ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> str:
        """Until nothing runs and nothing is left to do; the answer is `stopped_by`."""
        while True:
            self._settle_ended()
            stopped_by = self._why_to_stop()
            if stopped_by is None and not self._is_paused() and self._may_look():
                stopped_by = self._fill()
            if stopped_by is not None and not self._lanes:
                return stopped_by
            self._wait()

    def _why_to_stop(self) -> str | None:
        """Why nothing new starts while what runs goes on; None when nothing speaks against it."""
        if self._stop.draining:
            return "stop"
        if self._exhausted:
            return "exhausted"
        return "cap" if self._settings.cap is not None and self._started >= self._settings.cap else None

    def _say_what_is_awaited(self, items: Sequence[QueueItem]) -> None:
        """Once for each: a run that only waits must not look as if it hung."""
        for item in items:
            if item.state is QueueState.CLAIMED and item.issue.number not in self._awaited:
                self._awaited.add(item.issue.number)
                self._say(f"waiting for #{item.issue.number}: {item.reasons[0].message}, or its lease runs out")

    def _ours(self) -> set[int]:
        """Issues whose claims are this run's own: at work, or owed an end."""
        return {attempt.issue.number for attempt in [*(lane.attempt for lane in self._lanes), *self._owed]}

    def _is_paused(self) -> bool:
        """Whether nothing new may start until somebody resumes; said once each time."""
        paused = control.is_paused(self._project.root)
        if paused and not self._said_paused:
            self._say("paused: nothing new is started until `afk resume`")
        self._said_paused = paused
        return paused

    def _may_look(self) -> bool:
        return bool(self._idle_slots()) and self._project.clock.monotonic_s() >= self._look_again_s

    def _idle_slots(self) -> list[Slot]:
        busy = {lane.slot for lane in self._lanes}
        return [slot for slot in self._slots if slot.number not in busy]

    def _fill(self) -> str | None:
        """One look at the queue for all idle slots; `drained` when it holds nothing for us, until something ends."""
        items, label = self._look()
        picked = self._pick(items)
        left = len(picked) if self._settings.cap is None else self._settings.cap - self._started
        for slot, item in zip(self._idle_slots(), picked[:left], strict=False):
            boot.demand_space(self._project)
            self._start(slot, item, items, label)
        held = self._queue.is_held_elsewhere(items, ours=self._ours())
        if held and not picked and not self._lanes:
            self._say_what_is_awaited(items)
        poll_s = self._project.config.poll_s
        self._look_again_s = self._project.clock.monotonic_s() + (min(_FOREIGN_WAIT_S, poll_s) if held else poll_s)
        return None if picked or held else "drained"

    def _look(self) -> tuple[list[QueueItem], str]:
        """List the queue as `pre_pick` wants it; the items ready for us first told to the books."""
        self._hooks.forget_picks()
        config, filter_ = self._project.config, self._settings.filter
        fired = self._hooks.fire(
            HookPoint.PRE_PICK,
            {
                "label": config.label,
                "state": "open",
                "limit": None,
                "filter": {"kind": str(filter_.kind), "value": filter_.value},
            },
            {},
        )
        label = str(fired.context["label"])
        if fired.aborted is not None or fired.context["state"] != "open":
            return [], label
        items = self._queue.patient_look(filter_, label, pause=self._pause)
        if filter_.kind is FilterKind.ISSUES and self._started == 0:
            require_selection(items, filter_.numbers)
        limit = fired.context["limit"]
        ready = ready_items(items, self._left_alone)
        self._tally.see(ready)
        return (ready[: int(limit)] if isinstance(limit, int) else ready) or items, label

    def _pause(self, seconds: float) -> bool:
        """False: stop waiting, the run ends."""
        self._bell.wait(seconds)
        return not self._stop.draining

    def _pick(self, items: Sequence[QueueItem]) -> list[QueueItem]:
        ready = ready_items(items, self._left_alone)
        if not ready:
            return []
        fired = self._hooks.fire(HookPoint.POST_PICK, {"issues": [issue_json(item.issue) for item in ready]}, {})
        issues: Any = fired.context["issues"]  # the hook runner lets nothing but a list of known issues through
        return choose(ready, issues)

    def _start(self, slot: Slot, item: QueueItem, items: Sequence[QueueItem], label: str) -> None:
        siblings = [f"#{other.issue.number} {other.issue.title}" for other in items if other is not item]
        attempt = slot.open(
            item,
            self._queue.thread(item.issue),
            label,
            prior_hooks=self._hooks.runs,
            siblings=siblings,
            taken_n=self._queue.taken_n.get(item.issue.number, 0),
        )
        self._work(attempt)

    def _work(self, attempt: Attempt) -> None:
        """Run one attempt in a lane of its own."""
        self._started += 1
        self._tally.begin(attempt.issue.number)
        self._lanes.append(Lane(attempt, self._bell, self._project.clock.monotonic_s()))

    def _wait(self) -> None:
        """For an end, a signal, or the time to look at the issues that are being worked. Raises `Cancelled`."""
        clock, poll_s = self._project.clock, self._project.config.poll_s
        self._bell.wait(min(poll_s, 1.0))
        if self._stop.level >= 3:
            raise Cancelled("left at once; agents under their keepers go on", hint="afk run")
        self._stop.raise_to(control.stop_level(self._project.root, self._session_id))
        for lane in self._lanes:
            if clock.monotonic_s() - lane.looked_s >= poll_s:
                lane.looked_s = clock.monotonic_s()
                lane.attempt.withdrawn = lane.attempt.withdrawn or self._queue.withdrawn(lane.attempt)

    def _settle_ended(self) -> None:
        """Count every attempt that has ended since; an end may have freed others."""
        ended = [lane for lane in self._lanes if lane.has_ended]
        self._lanes = [lane for lane in self._lanes if lane not in ended]
        for lane in ended:
            self._look_again_s = 0.0
            self._settle(lane.attempt, lane.result)

    def _settle(self, attempt: Attempt, result: Outcome | BaseException | None) -> None:
        """Count what came of it; what could not be told to anybody stays in the journal for the next boot."""
        outcome = result if isinstance(result, Outcome) else None
        self._tally.end(attempt, outcome)
        if outcome is not None:
            attempt.progress.counted()
            merge_sha = attempt.journal.fact("merge_sha") if outcome is Outcome.DONE else None
            self._ended.append(Ended(str(attempt.id), attempt.issue.number, outcome, merge_sha))
            self._exhausted = outcome is Outcome.EXHAUSTED
            if outcome is Outcome.CLAIM_LOST:  # nothing is told about it, so nothing else would ever stop it
                self._left_alone.add(attempt.issue.number)
            return
        self._left_alone.add(attempt.issue.number)
        if result is None:  # somebody else has it, or it is not ready any more
            self._started -= 1
            return
        self._owed.append(attempt)
        assert isinstance(result, BaseException)
        if isinstance(result, DiskFull) or not isinstance(result, Exception):
            raise result
        told = result.message if isinstance(result, AfkError) else f"a bug in afk: {type(result).__name__}"
        if attempt.journal.restore():
            told = f"{attempt.directory} was deleted while it was worked; what was committed is on {attempt.branch}"
        self._log.add("attempt.owed", "".join(traceback.format_exception(result)), journal=attempt.journal)
        self._say(f"{attempt.id}: {told}; the next `afk run` goes on")
        if isinstance(result, (RemoteUnreachable, TrackerError)) and result.retryable:
            self._stop.raise_to(1)  # nobody answers: the others would end no better

    def _report(self, stopped_by: str) -> Report:
        waiting = tuple(
            Waiting(item.issue.number, item.reasons[0].code, item.eligible_at)
            for item in self._queue.last
            if item.reasons and item.state in (QueueState.WAITING, QueueState.CLAIMED, QueueState.BLOCKED)
        )
        stranded = tuple(Stranded(attempt.issue.number, attempt.branch) for attempt in self._owed)
        return Report(self._session_id, stopped_by, self._tally, tuple(self._ended), waiting, stranded)
