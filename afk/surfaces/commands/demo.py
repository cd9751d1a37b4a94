"""`afk demo`: the real `afk run` on a made-up project, and a look at what it left."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from afk.adapters import git
from afk.attempt.briefing import read_thread
from afk.attempt.session import Project
from afk.domain.attempt import branch_name
from afk.domain.outcome import Outcome
from afk.errors import Cancelled, InvalidInput
from afk.surfaces.commands.demoproject import ISSUES, DemoProject, make
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import columns
from afk.wire.json_value import parse_json

__all__ = ["demo"]


@dataclass(frozen=True, slots=True)
class _Ended:
    """One issue after the run. `outcome` to `branch` and `merge_sha` are None for an issue that was not tried."""

    issue_number: int
    title: str
    outcome: str | None
    envelope_status: str | None
    attempts: int
    branch: str | None
    branch_on_remote: bool
    merge_sha: str | None


def demo(context: CommandContext, arguments: Arguments) -> Result:
    """Exit 1 when the run did not end well. Raises: DestinationExists, Cancelled, InvalidInput (no such agent)."""
    runner = arguments.text_or_none("runner")
    if runner is not None and shutil.which(runner, path=context.env.get("PATH")) is None:
        raise InvalidInput(f"there is no program {runner} in PATH", hint="afk demo")
    given = arguments.text_or_none("dir")
    root = (context.cwd / given).resolve() if given else Path(tempfile.mkdtemp(prefix="afk-demo-")).resolve()
    made = make(root, runner)
    # The settings of whoever looks at the demonstration are not those of the demonstration.
    env = {name: value for name, value in context.env.items() if not name.startswith("AFK_")}
    run_exit_code = _run(context, made, env)
    if run_exit_code == Cancelled.exit_code:
        raise Cancelled("the demonstration was interrupted", hint=f"cd {made.checkout} && afk run")
    ended = [*_look(Project.open(made.checkout, environ=env))]
    payload = {
        "dir_path": str(made.root),
        "repo_path": str(made.checkout),
        "origin_path": str(made.origin),
        "run_exit_code": run_exit_code,
        "issues": [asdict(issue) for issue in ended],
    }
    return Result(
        payload, 0 if run_exit_code == 0 else 1, text=_text(made, ended, run_exit_code, _program(context.env))
    )


def _run(context: CommandContext, made: DemoProject, env: Mapping[str, str]) -> int:
    """The installed `afk run`, as anybody would type it. Its transitions become ours, or sentences for a person; what
    it came to is looked up afterwards, like everything else."""
    argv = [sys.executable, "-P", "-m", "afk", "run", "--json"]
    child = subprocess.Popen(
        argv, cwd=made.checkout, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    with _left_to_child(signal.SIGINT), child as process:
        for line in process.stderr or ():
            _pass_on(context, line)
        return process.wait()


def _pass_on(context: CommandContext, line: str) -> None:
    """A line of the run's stderr: an event, or a word of somebody who does not know events."""
    try:
        event = parse_json(line)
    except ValueError:
        context.emitter.say(line.rstrip())
        return
    if event["kind"] == "progress" and context.machine:
        context.emitter.progress(event["progress"])
    elif event["kind"] == "progress":
        sentence = _sentence(event["progress"])
        if sentence:
            context.emitter.say(sentence)
    elif event["kind"] == "error":
        context.emitter.say(f"afk run: {event['error']['message']}")


_WORTH_TELLING = {"claimed": "begins", "validating": "is checked", "merge": "is merged"}


def _sentence(moved: Mapping[str, object]) -> str:
    """Empty for the smaller steps."""
    title = ISSUES[int(str(moved["issue_number"])) - 1].title
    told = f"ends as {moved['outcome']}" if moved["to"] == "ended" else _WORTH_TELLING.get(str(moved["to"]))
    return f"#{moved['issue_number']} {title}: {told}" if told else ""


@contextmanager
def _left_to_child(number: signal.Signals) -> Iterator[None]:
    """A Ctrl-C reaches the run as well, which knows what to do about it; we wait for what it decides."""

    def leave(_number: int, _frame: object) -> None:
        """Not SIG_IGN: the child would inherit that."""

    before = signal.signal(number, leave)
    try:
        yield
    finally:
        signal.signal(number, before)


def _look(project: Project) -> Iterator[_Ended]:
    """What the thread and the remote say, which is all that another machine would see."""
    heads = git.ls_remote(project.root, project.url, "refs/heads/*")
    for number, issue in enumerate(ISSUES, start=1):
        told = read_thread(project, number).told
        last = told[-1] if told else None
        branch = branch_name(last.envelope.worker, number, issue.title) if last else None
        yield _Ended(
            issue_number=number,
            title=issue.title,
            outcome=str(last.past.outcome) if last and last.past.outcome else None,
            envelope_status=str(last.envelope.status) if last else None,
            attempts=len(told),
            branch=branch,
            branch_on_remote=f"refs/heads/{branch}" in heads,
            merge_sha=last.envelope.merge_sha if last else None,
        )


def _program(env: Mapping[str, str]) -> str:
    """How this `afk` is typed: by its name where that finds it, by its path else."""
    own = Path(sys.executable).with_name("afk")
    found = shutil.which("afk", path=env.get("PATH"))
    return "afk" if found and own.exists() and Path(found).samefile(own) else str(own)


def _text(made: DemoProject, ended: Sequence[_Ended], run_exit_code: int, afk: str) -> str:
    landed = [issue for issue in ended if issue.outcome == Outcome.DONE]
    parked = [issue for issue in ended if issue.outcome not in (None, Outcome.DONE)]
    untried = [issue for issue in ended if issue.outcome is None]
    parts = [
        _section("Landed on main:", [[f"#{i.issue_number}", i.title, (i.merge_sha or "")[:12]] for i in landed]),
        _section("Handed to people:", [[f"#{i.issue_number}", i.title, str(i.outcome)] for i in parked]),
        _section("Kept on the remote:", [[f"#{i.issue_number}", i.branch or ""] for i in ended if i.branch_on_remote]),
        _section("Not tried:", [[f"#{i.issue_number}", i.title] for i in untried]),
        _next_steps(made, parked, afk),
    ]
    if run_exit_code:
        parts.insert(0, f"afk run ended with exit code {run_exit_code}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"{title}\n{columns(rows, indent=2)}" if rows else ""


def _next_steps(made: DemoProject, parked: Sequence[_Ended], afk: str) -> str:
    steps = [
        [f"cd {made.checkout}", "the checkout; it was not touched meanwhile"],
        [f"git -C {made.origin} log --graph --oneline main", "what landed"],
        [f"{afk} queue list", "why the others wait"],
    ]
    if parked:
        number = parked[-1].issue_number
        steps += [
            [f"{afk} history {number}", "how an issue was tried"],
            [f"{afk} checkout {number}", "its kept branch, in a worktree for you"],
        ]
    return _section("To look around:", steps)
