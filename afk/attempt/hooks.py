"""Lifecycle hooks: the built-in ones, then the person's own commands, each seeing what its predecessor left.

A hook is the person's policy. It runs in their checkout with their environment, is told what it may know as one JSON
object on standard input and in `RED_AFK_*` variables, and answers by its exit code and, if it likes, one JSON object on
standard output. Nothing that came from a tracker or an agent is ever put into its command line (R77).
"""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from afk.adapters.files import disk_errors
from afk.adapters.process import ExitRecord, Kept, KeptSpec, tail_lines
from afk.domain.issue import FilterKind
from afk.domain.lifecycle import POLICY, HookPoint, HookRun
from afk.domain.queue import is_branch_name
from afk.errors import AfkError
from afk.wire.json_value import parse_json

if TYPE_CHECKING:
    from afk.config import HookCommand

__all__ = ["Fired", "HookRunner", "builtins_at"]

RC_CONTRACT = 65  # EX_DATAERR: it exited 0, but its answer is none that the point takes
RC_TIMEOUT = 124  # as timeout(1) says it
RC_STOPPED = 143  # as a shell tells a TERM: the run is being stopped
_RC_CANNOT_START = 126
_RC_LOST = 137

_OUTPUT_BYTES = 1024 * 1024
_LOGGED_LINES = 200
_REASON_CHARS = 200
_TAIL_BYTES = 16 * 1024
_VALUE_CHARS = 16 * 1024  # the kernel takes 128 KiB for one variable
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Fired:
    """What a hook point came to.

    `context` is what the step goes on with. `aborted` is the run that refuses the step, None when the step may go on;
    `reason` says why in one line. `stopped`: the run of `afk` is being stopped, so not every hook was asked; a point
    that guards its step has then refused it.
    """

    context: dict[str, object]
    runs: tuple[HookRun, ...] = ()
    aborted: HookRun | None = None
    reason: str = ""
    stopped: bool = False


class HookRunner:
    """The hooks of one checkout, as its configuration has them; one object may serve many points and attempts.

    `commands` are the person's, by point; `defaults` switches built-ins off by name. `environ` is the person's whole
    environment. `run_dir` gives a folder that does not exist yet, for each run another. `on_run` is told of each run
    as it ends, `log` of each line that a hook writes to stderr and of each failure; nothing is masked here. Once
    `stopping` answers True no further hook is started, and the one that runs is ended.
    """

    def __init__(
        self,
        *,
        root: Path,
        commands: Mapping[str, tuple[HookCommand, ...]],
        defaults: Mapping[str, bool],
        environ: Mapping[str, str],
        run_dir: Callable[[], Path],
        on_run: Callable[[HookRun], None],
        log: Callable[[str], None],
        stopping: Callable[[], bool] = lambda: False,
        kill_s: float = 10.0,
    ) -> None:
        self._root = root
        self._commands = commands
        self._defaults = defaults
        self._environ = environ
        self._run_dir = run_dir
        self._on_run = on_run
        self._log = log
        self._stopping = stopping
        self._kill_s = kill_s

    def fire(self, point: HookPoint, context: dict[str, object], values: Mapping[str, str | int | None]) -> Fired:
        """Run the chain of one point; `context` is what JSON can hold, and is not changed itself.

        `values` are the variables that mean something here, without their prefix; None leaves one unset, `HOOK` is
        added. Raises `KeeperFailed` or `DiskFull` when this machine cannot start a hook that guards its step: nobody
        refused. Where nothing is guarded that counts as exit 126.
        """
        runs: list[HookRun] = []
        for name in builtins_at(point, self._root, self._defaults):
            context = _with_build_folder(context, name, self._build_folder(name, values.get("SLOT")))
            runs.append(self._record(HookRun(point, name, 0, 0, "builtin")))
        for command in self._commands.get(point, ()):
            if self._stopping():
                refused = HookRun(point, command.run, RC_STOPPED, 0, "user")  # never ran: told, but not recorded
                return _Ended(RC_STOPPED, stopped=True).verdict(refused, context, runs)
            run, ended = self._run(point, command, context, values)
            runs.append(self._record(run))
            if ended.stopped or (ended.code and _guards(point)):
                return ended.verdict(run, context, runs)
            context = {**context, **ended.changes}
        return Fired(context, tuple(runs))

    def _record(self, run: HookRun) -> HookRun:
        self._on_run(run)
        return run

    def _run(
        self,
        point: HookPoint,
        command: HookCommand,
        context: Mapping[str, object],
        values: Mapping[str, str | int | None],
    ) -> tuple[HookRun, _Ended]:
        began_s = time.monotonic()
        folder = self._run_dir()
        try:
            record = self._keep(folder, command, context, self._environment(point, values))
        except AfkError as error:
            if _guards(point):
                raise
            ended = _Ended(_RC_CANNOT_START, error.message)
        else:
            ended = _read_end(record, folder, point, context, command.timeout_s)
        run = HookRun(point, command.run, ended.code, round((time.monotonic() - began_s) * 1000), "user")
        self._log_end(run, ended, folder / "err")
        return run, ended

    def _keep(
        self, folder: Path, command: HookCommand, context: Mapping[str, object], environment: dict[str, str]
    ) -> ExitRecord:
        with disk_errors(folder):
            folder.mkdir(parents=True)
            stdin = folder / "stdin"
            stdin.write_text(json.dumps(context) + "\n", encoding="utf-8")
        kept = Kept.start(
            folder,
            KeptSpec(
                argv=("sh", "-c", command.run),
                cwd=self._root,
                env=environment,
                stdin=stdin,
                out_ceiling_bytes=_OUTPUT_BYTES,
                err_ceiling_bytes=_OUTPUT_BYTES,
                wall_clock_s=command.timeout_s,
                kill_s=self._kill_s,
            ),
        )
        while (record := kept.wait(_POLL_S)) is None:
            if self._stopping():
                return kept.stop("stop")
        return record

    def _environment(self, point: HookPoint, values: Mapping[str, str | int | None]) -> dict[str, str]:
        """The person's own, without what an outer `afk` gave its hook; an `AFK_*` setting of theirs is theirs."""
        inherited = {name: value for name, value in self._environ.items() if not name.startswith("RED_AFK_")}
        told = {**values, "HOOK": point}
        return inherited | {f"RED_AFK_{name}": _as_value(value) for name, value in told.items() if value is not None}

    def _build_folder(self, name: str, slot: str | int | None) -> Path:
        return self._root / ".red" / "tmp" / "build" / f"slot-{1 if slot is None else slot}" / name

    def _log_end(self, run: HookRun, ended: _Ended, err: Path) -> None:
        """stderr is for people: it goes to the log, and nothing is ever read from it."""
        name = f"{run.lifecycle} {_one_line(run.command)}"
        lines = tail_lines(err, _LOGGED_LINES + 1, _OUTPUT_BYTES)
        if len(lines) > _LOGGED_LINES:
            self._log(f"{name}: … more in {err}")
        for line in lines[-_LOGGED_LINES:]:
            self._log(f"{name}: {line}")
        if ended.code:
            self._log(ended.why(run))


@dataclass(frozen=True, slots=True)
class _Ended:
    """How one command ended; `changes` are what it replaces in the context, empty unless `code` is 0."""

    code: int
    detail: str = ""
    changes: Mapping[str, object] = field(default_factory=dict)
    stopped: bool = False

    def why(self, run: HookRun) -> str:
        told = f"{run.lifecycle} hook `{_one_line(run.command)}` exited {self.code}"
        return f"{told}: {self.detail}" if self.detail else told

    def verdict(self, run: HookRun, context: dict[str, object], runs: list[HookRun]) -> Fired:
        """The end of a chain that this command broke off."""
        reason = "stopped before every hook was asked" if self.stopped else self.why(run)
        return Fired(context, tuple(runs), run if _guards(run.lifecycle) else None, reason, self.stopped)


def _guards(point: HookPoint) -> bool:
    return POLICY[point].on_failure == "abort"


def _read_end(
    record: ExitRecord, folder: Path, point: HookPoint, context: Mapping[str, object], limit_s: float
) -> _Ended:
    if record.ended_by == "wall_clock":
        return _Ended(RC_TIMEOUT, f"no end within {limit_s:g} s")
    if record.ended_by == "stop":
        return _Ended(RC_STOPPED, stopped=True)
    if record.ended_by is not None or record.exit_code is None:
        killed = f"ended by {record.ended_by or f'signal {record.signal}'}"
        return _Ended(_RC_LOST if record.lost else 128 + (record.signal or 15), killed)
    if record.exit_code:
        return _Ended(record.exit_code, _last_word(folder / "err"))
    try:
        return _Ended(0, changes=_answer(folder / "out", point, context))
    except _NoAnswer as error:
        return _Ended(RC_CONTRACT, str(error))


def _last_word(err: Path) -> str:
    said = [line for line in tail_lines(err, 20, _TAIL_BYTES) if line.strip()]
    return _one_line(said[-1]) if said else ""


def _one_line(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= _REASON_CHARS else folded[: _REASON_CHARS - 1] + "…"


def _as_value(value: str | int) -> str:
    """As a variable can hold it: the kernel takes no NUL and not every length."""
    return str(value).replace("\0", "")[:_VALUE_CHARS]


# ── The answer on standard output ───────────────────────────────────────────────────────────────────────────────────


class _NoAnswer(Exception):
    """The output is not what the contract allows; the text says what about it."""


def _answer(out: Path, point: HookPoint, context: Mapping[str, object]) -> dict[str, object]:
    """The mutable keys that the output replaces, checked; empty output replaces nothing, other keys are ignored.

    Raises: `_NoAnswer`.
    """
    with out.open("rb") as file:
        data = file.read(_OUTPUT_BYTES + 1)
    if len(data) > _OUTPUT_BYTES:
        raise _NoAnswer(f"its output was cut at {_OUTPUT_BYTES} bytes")
    if not data.strip():
        return {}
    given = _json_object(data)
    return {key: _checked(key, given[key], context) for key in POLICY[point].mutable if key in given}


def _json_object(data: bytes) -> dict[str, object]:
    try:
        value = parse_json(data.decode("utf-8"))
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")  # refuses NaN and half a surrogate pair
    except ValueError as error:
        raise _NoAnswer(f"its output is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _NoAnswer("its output is JSON, but not an object")
    return value


def _checked(key: str, value: object, context: Mapping[str, object]) -> object:
    if key == "issues":
        return _reordered(value, context.get(key))
    what, holds = _SHAPES[key]
    if not holds(value):
        raise _NoAnswer(f"`{key}` must be {what}")
    return value


def _reordered(value: object, offered: object) -> list[object]:
    """The issues that were offered, as they were offered: a hook may reorder and drop, and change nothing else."""
    ours = {_number(issue): issue for issue in offered} if isinstance(offered, list) else {}
    numbers = [_number(issue) for issue in value] if isinstance(value, list) else [None]
    for number in numbers:
        if number is None or number not in ours:
            raise _NoAnswer("`issues` must be a list of the given issues: nothing may be added")
    if len(set(numbers)) < len(numbers):
        raise _NoAnswer("`issues` has an issue twice")
    return [ours[number] for number in numbers]


def _number(issue: object) -> int | None:
    number = issue.get("number") if isinstance(issue, dict) else issue
    return number if type(number) is int else None  # True is an int too


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_limit(value: object) -> bool:
    return value is None or (type(value) is int and value > 0)


def _is_filter(value: object) -> bool:
    """As in the state file: kind and value, null for all and comma-joined numbers else."""
    if not isinstance(value, dict) or set(value) != {"kind", "value"}:
        return False
    kind, numbers = value["kind"], value["value"]
    if kind == FilterKind.ALL or not isinstance(numbers, str):
        return kind == FilterKind.ALL and numbers is None
    one = re.fullmatch(r"[1-9][0-9]*", numbers)
    several = re.fullmatch(r"[1-9][0-9]*(,[1-9][0-9]*)*", numbers)
    return bool((kind == FilterKind.PRD and one) or (kind == FilterKind.ISSUES and several))


def _is_environment(value: object) -> bool:
    return isinstance(value, dict) and all(
        re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and isinstance(text, str) and "\0" not in text
        for name, text in value.items()
    )


_SHAPES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "runner": ("the name of a runner", _is_text),
    "filter": ('{"kind": "all" | "prd" | "issues", "value": null or numbers}', _is_filter),
    "cap": ("a whole number from 1, or null for no limit", _is_limit),
    "label": ("a label", _is_text),
    "state": ("open, closed or all", lambda value: value in ("open", "closed", "all")),
    "limit": ("a whole number from 1, or null for no limit", _is_limit),
    "target": ("the name of a branch", lambda value: isinstance(value, str) and is_branch_name(value)),
    "env": ("an object from names of variables to text", _is_environment),
}


# ── Built-ins ───────────────────────────────────────────────────────────────────────────────────────────────────────

# What says, at the top of the checkout, that a built-in has something to do.
_BUILTINS: dict[HookPoint, dict[str, tuple[str, ...]]] = {
    HookPoint.PRE_WORKTREE: {
        "cargo": ("Cargo.toml",),
        "gradle": ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
    }
}


def builtins_at(point: HookPoint, root: Path, defaults: Mapping[str, bool]) -> tuple[str, ...]:
    """The built-ins that `fire` runs before the person's commands here, in order."""
    return tuple(
        name
        for name, files in _BUILTINS.get(point, {}).items()
        if defaults.get(name, True) and any((root / file).is_file() for file in files)
    )


def _with_build_folder(context: Mapping[str, object], name: str, folder: Path) -> dict[str, object]:
    """A slot's worktrees come and go; what was built in one is still warm in the next, and no two slots share it."""
    given = context.get("env")
    env: dict[str, str] = dict(given) if isinstance(given, dict) else {}
    if name == "cargo":
        env.setdefault("CARGO_TARGET_DIR", str(folder))
    else:
        # The project cache, not GRADLE_USER_HOME: that is where a person's repository credentials are.
        option = shlex.quote(f"-Dorg.gradle.projectcachedir={folder}")
        env["GRADLE_OPTS"] = " ".join(filter(None, (option, env.get("GRADLE_OPTS"))))
    return {**context, "env": env}
