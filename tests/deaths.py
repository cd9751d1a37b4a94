"""Deaths of a drain: who dies with -9, at which moment, over which queue; and what must be true after the next start.

A *step* death comes from within, at a step of the journal (`crash_run.py`). A *phase* death comes from outside, while
the setup, the agent, a check or a hook is held at a phase of its work, so that keepers and their programs are alive.
`everything` is a reboot: where we may (root), the run has a process namespace and a boot id of its own, which end
with it; elsewhere all its processes are killed at once.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path

import books
import gitkit
import psutil
from drainkit import Place, ended, reach

CRASH_RUN = str(Path(__file__).with_name("crash_run.py"))
KEPT = ("keeper", "agent")
EVERYTHING = "everything"
_OWN_MACHINE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=KILL", "sh", "-c")
BOOT_ID = "/proc/sys/kernel/random/boot_id"


# ── Killing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def kept(root: Path) -> dict[str, list[psutil.Process]]:
    """Living keepers of the checkout at `root`, and what runs under them (`agent`, be it a check or a hook)."""
    runs = [str(tree.parent) for tree in root.glob(".red/tmp/**/runs/*/tree")]
    keepers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(run in (process.info["cmdline"] or ()) for run in runs)
    ]
    below: list[psutil.Process] = []
    for keeper in keepers:
        with suppress(psutil.Error):
            below += keeper.children(recursive=True)
    return {"keeper": keepers, "agent": below}


def alive(root: Path) -> list[str]:
    return [name for name, processes in kept(root).items() if processes]


def kill(root: Path, supervisor: int, who: Sequence[str]) -> None:
    """All of `who` at once as far as that goes; the supervisor last, since it may be the one that kills."""
    if EVERYTHING in who and os.getpid() == 1:
        os._exit(137)  # the first process of a namespace takes all others with it
    names = (*KEPT, "supervisor") if EVERYTHING in who else who
    found = kept(root)
    for name in KEPT:
        for process in found[name] if name in names else ():
            with suppress(psutil.Error):
                process.kill()
    if "supervisor" in names:
        os.kill(supervisor, signal.SIGKILL)


def groups(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Every way to choose at least one of them."""
    return list(chain.from_iterable(combinations(names, count) for count in range(1, len(names) + 1)))


# ── What is drained ─────────────────────────────────────────────────────────────────────────────────────────────────

QUEUES = {
    "done": "agent: phases {folder}",
    "blocked": "agent: blocked",
    "second-run": "agent: dirty_tree",
    "no-sentinel": "agent: no_sentinel --commit",
    "no-commit": "agent: done_without_commit",
    "failed-check": "agent: done bad-{number}.txt",
    "conflict": "agent: conflicts README.md {folder}/ready {folder}/go --resolve",
}
"""What the agents of one queue do, by its name."""

PHASES = ("setup", "began", "committed", "said", "check", "pre_merge", "post_merge")
AGENT_PHASES = ("began", "committed", "said")


def hold(folder: Path, phase: str) -> str:
    """A shell command that says that it is at its phase and goes on when nothing holds it there."""
    here = shlex.quote(str(folder))
    return f"touch {here}/at.{phase}; while [ -e {here}/hold.{phase} ]; do sleep 0.02; done"


@contextmanager
def scene(folder: Path, queue: str, workers: int) -> Iterator[Place]:
    """A fresh project with an issue of that queue for each worker."""
    origin = gitkit.make_origin(folder / "origin.git", {"README.md": "A project.\n"})
    clone = gitkit.clone(gitkit.url(origin), folder / "clone")
    phases = folder / "phases"
    phases.mkdir()
    (phases / "go").touch()
    with Place(origin, clone, {"AFK_WORKERS": str(workers)}) as place:
        books.keep_ledger(place)
        checks = f"{hold(phases, 'check')}; ! ls | grep -q bad"
        place.configure(
            setup=[hold(phases, "setup")],
            validation={"checks": [{"name": "test", "run": checks}]},
            hooks={
                "pre_attempt": _moves_the_base(place, phases) if queue == "conflict" else "true",
                "pre_merge": hold(phases, "pre_merge"),
                "post_merge": hold(phases, "post_merge"),
            },
        )
        for number in range(1, workers + 1):
            body = QUEUES[queue].format(folder=phases, number=number)
            place.file(number, f"Job {number}", f"{body}\n")
        yield place


def _moves_the_base(place: Place, phases: Path) -> str:
    """A hook that lands a stranger's commit once, in the way of what the agent is about to write."""
    other = gitkit.clone(gitkit.url(place.origin), place.origin.parent / "other")
    gitkit.commit(other, "a stranger's commit", {"README.md": "By a stranger.\n"})
    return f"test -e {phases}/moved || {{ git -C {other} push -q origin HEAD:main && touch {phases}/moved; }}"


# ── A death, and the next start ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Death:
    """`moment` is `before` or `after` a step of the journal `at`, or `during`, where `at` is a phase."""

    queue: str
    workers: int
    moment: str
    at: str
    who: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.queue}/{self.workers}/{self.moment}/{self.at}/{'+'.join(self.who)}"

    @classmethod
    def parse(cls, text: str) -> Death:
        queue, workers, moment, at, who = text.split("/")
        return cls(queue, int(workers), moment, at, tuple(who.split("+")))


def steps(folder: Path, queue: str) -> list[list[str]]:
    """Each moment of a queue that one worker drains undisturbed: `before` or `after`, the step, who was alive."""
    with scene(folder, queue, 1) as place:
        ran = ended(place.start("note", str(folder / "moments"), program=[CRASH_RUN]))
        assert ran.code == 0, ran.stderr
        assert books.imbalances(place) == []
        return [line.split() for line in (folder / "moments").read_text().splitlines()]


def deaths(queue: str, workers: int, moments: Sequence[Sequence[str]]) -> Iterator[Death]:
    """Every death of that queue."""
    for moment, at, *others in moments:
        for who in [*groups(["supervisor", *others]), (EVERYTHING,)]:
            yield Death(queue, workers, moment, at, who)
    for phase in PHASES if queue == "done" else ():
        for who in [*groups(["supervisor", *KEPT]), (EVERYTHING,)]:
            yield Death(queue, workers, "during", phase, who)


def wrong_after(folder: Path, death: Death) -> list[str]:
    """Let it come, start `afk run` once more, and say what does not add up then.

    Where only the supervisor or the whole machine died nothing may be charged; a keeper or a program that dies in a
    setup ends that attempt as `infra`, by the law.
    """
    with scene(folder, death.queue, death.workers) as place:
        first = _until_dead(place, death)
        again = place.run()
        wrong = books.imbalances(place)
        if again.code != 0:
            wrong.append(f"the next run ended with {again.code}: {again.stderr.strip()[-300:]}")
        fine = death.queue == "done" and (EVERYTHING in death.who or death.who == ("supervisor",))
        if fine and (open := [n for n in books.numbers(place) if place.issue(n)["state"] != "closed"]):
            wrong.append(f"not done: {open}")
        return [*wrong, f"(the first run ended with {first})"] if wrong else []


def _until_dead(place: Place, death: Death) -> int:
    """The exit code of the run that met it; one whose supervisor lives goes on to its end."""
    phases = place.origin.parent / "phases"
    inside = death.who == (EVERYTHING,) and os.geteuid() == 0
    if death.moment != "during":
        arguments = (death.moment, death.at, *death.who)
        process = (
            _start_in_namespace(place, CRASH_RUN, *arguments)
            if inside
            else place.start(*arguments, program=[CRASH_RUN])
        )
        return ended(process).code
    held = phases / f"hold.{death.at}"
    held.touch()
    process = _start_in_namespace(place, "-m", "afk", "run") if inside else place.start("run")
    count = death.workers if death.at in AGENT_PHASES else 1
    reach(process, lambda: len(list(phases.glob(f"at.{death.at}*"))) >= count, f"{death.at} of {count}")
    if inside:
        process.kill()
    else:
        kill(place.clone, process.pid, death.who)
    held.unlink()
    return ended(process).code


def _start_in_namespace(place: Place, *program: str) -> subprocess.Popen[str]:
    """As the first process of a machine that has another boot id and no other process."""
    fake = place.origin.parent / "boot_id"
    fake.write_text("11111111-2222-3333-4444-555555555555\n")
    inner = shlex.join([sys.executable, *program])
    process = subprocess.Popen(
        [*_OWN_MACHINE, f"mount --bind {shlex.quote(str(fake))} {BOOT_ID} && exec {inner}"],
        cwd=place.clone,
        env=os.environ | place.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    place.started.append(process)
    return process
