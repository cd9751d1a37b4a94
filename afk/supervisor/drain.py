"""`afk run`: boot, then poll, pick, work, until the queue is drained; with `--watch`, until it is stopped.

The supervisor polls once for everybody, picks, and hands the issue to a slot, a thread that runs
`pipeline.work_one_issue`. It alone reads the queue and watches for changes of the issues that are being worked.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable

from afk import __version__
from afk.attempt.journal import Seam, no_seam
from afk.attempt.session import Attempt, Project, Stop
from afk.domain.circuit import Terms
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import Outcome
from afk.domain.queue import QueueItem, QueueState
from afk.domain.usage import affords_another
from afk.errors import AfkError, Cancelled, DiskFull, HookAborted
from afk.supervisor import boot, control, recovery
from afk.supervisor.breaker import Breaker
from afk.supervisor.lane import Lane
from afk.supervisor.outage import Outage, is_outage
from afk.supervisor.outlook import Outlook, Why, waiting_for
from afk.supervisor.owed import Owed
from afk.supervisor.picking import Picked, Picker
from afk.supervisor.queueing import Queue
from afk.supervisor.reload import ConfigWatch
from afk.supervisor.runners import Runners
from afk.supervisor.sessionhooks import SessionHooks
from afk.supervisor.signals import Bell, Signals
from afk.supervisor.slot import Settings, Slot
from afk.supervisor.sweep import sweep_for_run
from afk.supervisor.tally import Tally
from afk.supervisor.terms import Ended, Options, Report, Stranded, Waiting

__all__ = ["drain"]

_FOREIGN_WAIT_S = 5.0  # between two looks at a claim of another host that is all that is left
_STAGGER_S = 0.2  # between the starts of two slots: about what the first takes until its claim is pushed
_REPORTED = 1000  # attempts that a report names, of a run that may last for weeks
_WHY_STOPPED = {"budget": "another attempt might exceed afk.bounds.run_cost_usd; what runs is finished"}
_STOP_WORDS = {
    1: "finishing what runs; once more stops the agents",
    2: "stopping the agents; their work is kept",
    3: "leaving at once; the next `afk run` cleans up",
}


def drain(
    project: Project,
    options: Options,
    *,
    emit: Callable[[dict[str, object]], None],
    say: Callable[[str], None],
    begun: Callable[[str, str], None] = lambda session_id, waits_for: None,
    seam: Seam = no_seam,
) -> Report:
    """Work the queue down. `emit` takes transition payloads, `say` sentences for people.

    `begun` is called once, when the lock is ours and the ground is fit, with the session's id and, for a watching run
    that must wait for the remote or the tracker first, the reason (else "").
    Raises `AfkError` when the run could not begin or its loop died, `Cancelled` from the second signal on.
    """
    boot.make_ground(project)
    with boot.only_supervisor(project) as session:
        run = _Run(project, options, session, emit=emit, say=say, begun=begun, seam=seam)
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
        session: boot.Session,
        *,
        emit: Callable[[dict[str, object]], None],
        say: Callable[[str], None],
        begun: Callable[[str, str], None],
        seam: Seam,
    ) -> None:
        self._project = project
        self._options = options
        self._session = session
        self._emit = emit
        self._say = say
        self._begun = begun
        self._seam = seam
        self._stop = Stop()
        self._bell = Bell()
        self._signals = Signals(self._stop, self._bell)
        self._tally = Tally(filter=options.filter)
        self._log = boot.supervisor_log(project)
        self._queue = Queue(project, self._log, say=say)
        self._settings = Settings(options.runner or project.config.runner, options.filter, options.cap)
        self._hooks = SessionHooks(project, self._settings.runner, self._log, stopping=lambda: self._stop.now)
        self._picker = Picker(project, options, self._settings, queue=self._queue, hooks=self._hooks, tally=self._tally)
        self._watch = ConfigWatch(project, self._log, say=say)
        self._outlook = Outlook(project, session.id, self._log, watching=options.watch, log_path=options.log_path)
        recovery_ = project.config.recovery
        self._outage = Outage(project.clock, patience_s=None if options.watch else recovery_.backoff_max_s, say=say)
        self._runners = Runners(project.clock, first_s=recovery_.backoff_s, watching=options.watch)
        self._breaker = Breaker(project.clock)
        self._resumed = ""
        self._slots: list[Slot] = []
        self._lanes: list[Lane] = []
        self._look_again_s = 0.0
        self._checked_s = project.clock.monotonic_s()  # when the issues at work were last compared with the tracker
        self._is_idle = False
        self._said_paused = False
        self._said_stop = 0
        self._ended: deque[Ended] = deque(maxlen=_REPORTED)
        self._owed = Owed(project.clock)
        self._started = 0

    def whole(self) -> Report:
        self._fit_slots()
        with self._signals:
            stopped_by = self._work_down()
        self._session.how = f"{stopped_by} {self._signals.last}".strip()
        self._outlook.forget()
        if self._signals.count >= 2:
            where = "not told to its end yet; the next run goes on" if self._owed.attempts else "back in the queue"
            raise Cancelled(f"stopped; the work of the agents is kept, what they worked on is {where}", hint="afk run")
        return self._report(stopped_by)

    def died(self, error: BaseException) -> None:
        """The loop itself failed: `on_session_error` decorates that, and cannot change it."""
        about = {"ERROR_CLASS": type(error).__name__, "ERROR_MESSAGE": str(error)}
        self._log.add("session.error", f"{type(error).__name__}: {error}")
        self._hooks.fire(HookPoint.ON_SESSION_ERROR, {"error": str(error)}, about)

    def _work_down(self) -> str:
        if not self._find_ground():
            return "stop"
        self._recover()
        sweep_for_run(self._project, self._log, self._say)
        self._begin()
        stopped_by = self._loop()
        if stopped_by == "drained":
            self._fall_idle()
        stats = self._tally.totals()
        self._hooks.fire(HookPoint.POST_SESSION, {"runner": self._settings.runner, "stats": stats}, {})
        return stopped_by

    def _find_ground(self) -> bool:
        """Make sure that the run may begin. A watching one waits for what passes by itself; False: stopped meanwhile.

        Raises `GroundUnfit`.
        """
        has_begun = False
        while failed := boot.unfit(self._project, self._options):
            error = boot.unfit_error(failed)
            if not self._options.watch or not all(check.passes for check in failed):
                raise error
            self._outage.met(error)
            if not has_begun:
                self._begun(self._session.id, error.message)
            has_begun = True
            while self._outage.holds:
                self._wait()
                if self._stop.draining:
                    return False
        self._outage.over()
        if not has_begun:
            self._begun(self._session.id, "")
        return True

    def _recover(self) -> None:
        """Take up what dead runs left, all of it at once and before anything is picked: their agents may be alive."""
        recovery.clear_locks(self._project, self._log)
        for attempt in recovery.unfinished(self._project, self._slot_for, self._log, seam=self._seam):
            self._say(f"taking up {attempt.id} where it stopped{_drift(attempt)}")
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
            self._reload()
            stopped_by = self._why_to_stop()
            if stopped_by is None and self._may_look():
                stopped_by = self._look_and_fill()
            if stopped_by is not None and not self._lanes:
                return stopped_by
            self._wait()

    def _why_to_stop(self) -> str | None:
        """Why nothing new starts while what runs goes on; None when nothing speaks against it."""
        if self._stop.draining:
            return "stop"
        if not self._options.watch and (self._is_used_up() or self._stands_still()):
            return "exhausted"
        if not self._affords_another():
            return "budget"
        return "cap" if self._settings.cap is not None and self._started >= self._settings.cap else None

    def _affords_another(self) -> bool:
        bounds, tally = self._project.config.bounds, self._tally
        return affords_another(
            tally.costs_usd, in_flight=tally.in_flight, ceiling_usd=bounds.run_cost_usd, attempt_usd=bounds.cost_usd
        )

    def _is_used_up(self) -> bool:
        """Whether no runner's account has anything left."""
        return self._runners.are_used_up(self._project.config, self._settings.runner)

    def _stands_still(self) -> bool:
        """Whether the circuit breaker holds everything."""
        return bool(self._breaker.halted) or self._breaker.comes_back([slot.number for slot in self._slots]) is not None

    def _died_fast(self, slot: int, terms: Terms) -> int:
        deaths = self._breaker.died_fast(slot, terms)
        if deaths:
            told = f"{deaths} agents in a row died at once; slot {slot} starts none for {terms.cooldown_s:.0f} s"
            self._log.add("breaker.parked", told)
            self._say(f"{told}, or until `afk resume`")
        return deaths

    def _ours(self) -> set[int]:
        """Issues whose claims are this run's own: at work, or owed an end."""
        working = [lane.attempt for lane in self._lanes]
        return {attempt.issue.number for attempt in (*working, *self._owed.attempts)}

    def _is_paused(self) -> bool:
        """Whether nothing new may start until somebody resumes; said once each time."""
        paused = control.is_paused(self._project.root)
        if paused and not self._said_paused:
            self._say("paused: nothing new is started until `afk resume`")
        self._said_paused = paused
        return paused

    def _may_look(self) -> bool:
        if (
            self._is_paused()
            or self._watch.is_moving
            or self._outage.holds
            or self._is_used_up()
            or self._breaker.halted
        ):
            return False
        return bool(self._idle_slots()) and self._project.clock.monotonic_s() >= self._look_again_s

    def _idle_slots(self) -> list[Slot]:
        busy = {lane.slot for lane in self._lanes}
        return [slot for slot in self._slots if slot.number not in busy and self._breaker.parked_s(slot.number) is None]

    def _fit_slots(self) -> None:
        """As many slots as are configured: new ones are opened at once, one too many is closed when it is idle."""
        wanted, idle = self._project.config.workers, self._idle_slots()
        while len(self._slots) > wanted and idle:
            self._slots.remove(idle.pop())
        taken = {slot.number for slot in self._slots}
        free = (number for number in range(1, wanted + 1) if number not in taken)
        self._slots += [
            self._new_slot(number) for _, number in zip(range(len(self._slots), wanted), free, strict=False)
        ]

    def _slot_for(self, number: int) -> Slot:
        """The slot that an attempt began in, opened again if need be; where another works in it, one that is free."""
        idle = {slot.number: slot for slot in self._idle_slots()}
        taken = {slot.number for slot in self._slots}
        if number in idle:
            return idle[number]
        if number in taken and idle:
            return idle[min(idle)]
        made = self._new_slot(number if number not in taken else max(taken) + 1)
        self._slots = sorted([*self._slots, made], key=lambda slot: slot.number)
        return made

    def _new_slot(self, number: int) -> Slot:
        slot = Slot(
            self._project,
            self._options,
            self._settings,
            self._stop,
            self._tally,
            emit=self._emit,
            seam=self._seam,
            number=number,
            died_fast=self._died_fast,
        )
        if slot.seat.port_base is None or slot.seat.tmp is None:
            self._log.add("slot.seat", f"slot {number} has no ports or temporary files of its own on this machine")
        return slot

    def _look_and_fill(self) -> str | None:
        """`_fill`, held up by whatever does not answer: a watching run waits for it, another one loses patience."""
        try:
            self._take_up_owed()
            if not self._idle_slots():
                return None
            stopped_by = self._fill()
        except AfkError as error:
            if not is_outage(error) or (isinstance(error, DiskFull) and not self._options.watch):
                raise
            self._log.add("queue.wait", f"{error.message}; again in {self._outage.met(error):.0f} s")
            return None
        self._outage.over()
        return stopped_by

    def _fill(self) -> str | None:
        """One look at the queue for all idle slots; `drained` when it holds nothing for us, until something ends."""
        picked = self._picker.look(self._ours())
        left = len(picked.chosen) if self._settings.cap is None else self._settings.cap - self._started
        for k, (slot, item) in enumerate(zip(self._idle_slots(), picked.chosen[:left], strict=False)):
            boot.demand_space(self._project)
            runner = self._runners.next(self._project.config, self._settings.runner)
            if runner is None or not self._affords_another() or (k and self._stagger()):
                break
            self._start(slot, item, picked, runner)
        held = self._queue.is_held_elsewhere(picked.items, ours=self._ours())
        if held and not picked.chosen and not self._lanes:
            self._queue.say_what_is_awaited(picked.items)
        poll_s, watch = self._project.config.poll_s, self._options.watch
        wait_s = min(_FOREIGN_WAIT_S, poll_s) if held and not watch else poll_s
        self._look_again_s = self._project.clock.monotonic_s() + wait_s
        if picked.chosen or held:
            return None
        if watch and not self._lanes:
            self._fall_idle()
        return None if watch else "drained"

    def _stagger(self) -> bool:
        """Worktrees and agents that begin in the same moment slow each other down. True: stopped meanwhile."""
        time.sleep(_STAGGER_S)
        return self._stop.draining

    def _fall_idle(self) -> None:
        """Told once each time that nothing is left to do, not with each look that finds nothing."""
        if not self._is_idle:
            self._is_idle = True
            self._log.add("queue.idle", "drained")
            if self._options.watch:
                self._say("nothing is left to do; looking again from time to time")
            self._hooks.fire(HookPoint.ON_IDLE, {"stats": self._tally.totals()}, {})

    def _start(self, slot: Slot, item: QueueItem, picked: Picked, runner: str) -> None:
        siblings = [f"#{other.issue.number} {other.issue.title}" for other in picked.items if other is not item]
        attempt = slot.open(
            item,
            self._queue.thread(item.issue),
            picked.label,
            runner=runner,
            prior_hooks=self._hooks.runs,
            siblings=siblings,
            taken_n=self._queue.taken_n.get(item.issue.number, 0),
        )
        self._work(attempt)

    def _work(self, attempt: Attempt) -> None:
        """Run one attempt in a lane of its own."""
        self._is_idle = False
        self._started += 1
        self._tally.begin(attempt.issue.number)
        self._lanes.append(Lane(attempt, self._bell))

    def _take_up_owed(self) -> None:
        """What could not be told is told by the run that watches; another one leaves it to the next."""
        for owed in self._owed.due() if self._options.watch else ():
            if self._idle_slots():
                self._owed.take(owed)
                attempt = recovery.take_up(self._project, owed.id, self._slot_for, self._log, seam=self._seam)
                if attempt is not None:
                    self._started -= 1  # it was counted when it began
                    self._work(attempt)

    def _wait(self) -> None:
        """For an end, a signal, or the time to look at the issues that are being worked. Raises `Cancelled`."""
        clock, poll_s = self._project.clock, self._project.config.poll_s
        self._publish()
        self._bell.wait(min(poll_s, 1.0))
        self._say_stop()
        if self._stop.level >= 3:
            raise Cancelled("left at once; agents under their keepers go on", hint="afk run")
        self._stop.raise_to(control.stop_level(self._project.root, self._session.id))
        self._hear_resume()
        if clock.monotonic_s() - self._checked_s >= poll_s:
            self._checked_s = clock.monotonic_s()
            self._queue.note_withdrawn([lane.attempt for lane in self._lanes])

    def _hear_resume(self) -> None:
        resumed = control.resumed(self._project.root, self._session.id)
        if resumed != self._resumed:
            self._resumed = resumed
            self._breaker.resume()
            self._say("resumed: what the circuit breaker held is tried again")

    def _say_stop(self) -> None:
        """Of signals alone, and here: a handler may interrupt whoever is speaking."""
        for count in range(self._said_stop + 1, min(self._signals.count, 3) + 1):
            self._say(_STOP_WORDS[count])
            self._said_stop = count

    def _reload(self) -> None:
        """What changed in the configuration applies to whatever starts from now on."""
        project = self._watch.look(self._settings.runner)
        if project is not None:
            if self._options.runner is None and self._settings.runner == self._project.config.runner:
                self._settings.runner = project.config.runner
            self._project = project
            self._queue.reconfigure(project)
            self._picker.reconfigure(project)
            self._hooks.reconfigure(project)
            for slot in self._slots:
                slot.reconfigure(project)
        self._fit_slots()

    def _settle_ended(self) -> None:
        """Count every attempt that has ended since; an end may have freed others."""
        ended = [lane for lane in self._lanes if lane.has_ended]
        self._lanes = [lane for lane in self._lanes if lane not in ended]
        for lane in ended:
            self._look_again_s = 0.0
            self._settle(lane.attempt, lane.result)

    def _settle(self, attempt: Attempt, result: Outcome | BaseException | None) -> None:
        """Count what came of it; what could not be told to anybody stays in the journal for whoever takes it up."""
        outcome = result if isinstance(result, Outcome) else None
        self._tally.end(attempt, outcome)
        if isinstance(result, BaseException):
            self._owe(attempt, result)
            return
        self._owed.paid(attempt)
        if outcome is None:  # somebody else has it, or it is not ready any more
            self._picker.leave_alone(attempt.issue.number)
            self._started -= 1
            return
        attempt.progress.counted()
        merge_sha = attempt.journal.fact("merge_sha") if outcome is Outcome.DONE else None
        self._ended.append(Ended(str(attempt.id), attempt.issue.number, outcome, merge_sha))
        if outcome is Outcome.CLAIM_LOST:  # nothing is told about it, so nothing else would ever stop it
            self._picker.leave_alone(attempt.issue.number)
        self._note_exhaustion(attempt)
        self._note_alike(attempt, outcome)

    def _note_alike(self, attempt: Attempt, outcome: Outcome) -> None:
        was = self._breaker.halted
        self._breaker.note(attempt, outcome)
        if self._breaker.halted and not was:
            self._log.add("breaker.halted", self._breaker.halted)
            self._say(f"{self._breaker.halted}; nothing more is started until `afk resume`")

    def _note_exhaustion(self, attempt: Attempt) -> None:
        used_up = self._runners.note(attempt)
        if used_up and self._options.watch and self._is_used_up():
            until = self._runners.until(self._project.config, self._settings.runner)
            told = f" before {until:%H:%M:%S}" if until else ""
            self._say(f"the account of {', '.join(used_up)} is used up; nothing new is started{told}")
        elif used_up and not self._is_used_up():
            self._say(f"the account of {', '.join(used_up)} is used up; the other runners go on")

    def _owe(self, attempt: Attempt, error: BaseException) -> None:
        """Its end could not be told. A watching run takes it up again, every other one leaves it to the next."""
        watch, passes, is_news = self._options.watch, is_outage(error), not self._owed.knows(attempt)
        wait_s = self._owed.add(attempt, passes=passes)
        if not isinstance(error, Exception) or (isinstance(error, DiskFull) and not watch):
            raise error
        told = error.message if isinstance(error, AfkError) else f"a bug in afk: {type(error).__name__}"
        if attempt.journal.restore():
            told = f"{attempt.directory} was deleted while it was worked; what was committed is on {attempt.branch}"
        self._log.add("attempt.owed", "".join(traceback.format_exception(error)), journal=attempt.journal)
        if is_news:
            self._say(f"{attempt.id}: {told}; {'it is taken up again' if watch else 'the next `afk run` goes on'}")
        if passes and watch:  # nobody answers: the others would end no better
            self._look_again_s = self._project.clock.monotonic_s() + wait_s
        elif passes:
            self._stop.raise_to(1)

    # ── Telling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _publish(self) -> None:
        working = {lane.slot: lane.attempt for lane in self._lanes}
        parked = [slot.number for slot in self._slots if self._breaker.parked_s(slot.number) is not None]
        self._outlook.publish(self._slots, working, parked, self._reasons(), self._watch.problem)

    def _reasons(self) -> list[Why]:
        """Why nothing new starts; empty when nothing speaks against it but slots that are all at work."""
        if self._stop.draining:
            return [Why("stopping", "what runs is finished, nothing new is started")]
        if self._said_paused:
            return [Why("paused", "paused until `afk resume`")]
        if self._outage.error is not None:
            return [Why("away", self._outage.error.message, until=self._outage.until)]
        if self._breaker.halted:
            return [Why("halted", f"{self._breaker.halted}; `afk doctor`, then `afk resume`")]
        if until := self._breaker.comes_back([slot.number for slot in self._slots]):
            return [
                Why("parked", "the agents of every slot died at once: `afk resume` lets them try again", until=until)
            ]
        if self._is_used_up():
            until = self._runners.until(self._project.config, self._settings.runner)
            return [Why("exhausted", "the agent's account is used up", until=until)]
        if (stopped_by := self._why_to_stop()) is not None:
            return [Why(stopped_by, _WHY_STOPPED.get(stopped_by, f"stopped by `{stopped_by}`; what runs is finished"))]
        return waiting_for(self._queue.last) if self._picker.has_looked and self._idle_slots() else []

    def _report(self, stopped_by: str) -> Report:
        waiting = tuple(
            Waiting(item.issue.number, item.reasons[0].code, item.eligible_at)
            for item in self._queue.last
            if item.reasons and item.state in (QueueState.WAITING, QueueState.CLAIMED, QueueState.BLOCKED)
        )
        stranded = tuple(Stranded(attempt.issue.number, attempt.branch) for attempt in self._owed.attempts)
        return Report(self._session.id, stopped_by, self._tally, tuple(self._ended), waiting, stranded)


def _drift(attempt: Attempt) -> str:
    """That another version of afk began it, for people (R33)."""
    began = attempt.journal.fact("afk_version")
    return f"; afk {began} began it, this is {__version__}" if began not in (None, __version__) else ""
