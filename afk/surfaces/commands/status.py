"""`afk status`: what is running here, read from files alone; no network, no configuration model, a few milliseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from afk import __version__
from afk.adapters import git
from afk.adapters.process import Identity, boot_id, is_alive
from afk.attempt import history
from afk.surfaces.context import Arguments, CommandContext, Result
from afk.surfaces.text import aligned
from afk.wire import statefile
from afk.wire.json_value import parse_json
from afk.wire.statefile import State, StateFileError

__all__ = ["status"]

_TOTALS = ("total", "done", "failed", "blocked", "queued", "in_flight")
_SLOT_KEYS = ("slot", "state", "worker_id", "issue_number", "attempt_id", "reason")
_WHY_KEYS = ("code", "message", "issue_number", "until_rfc3339")
_SHOWN_REASONS = 5


def status(context: CommandContext, _arguments: Arguments) -> Result:
    """Exit 0 whatever there is to see. Raises: NotARepository."""
    root = git.toplevel(context.cwd)
    config_path = context.config_path or root / ".red" / "config.yaml"
    daemon = _daemon(root)
    activity = _activity(root, daemon)
    workers = [worker for worker in _workers(root) if worker.word != "idle" or _has_slot(worker.id, activity)]
    newest = max((worker for worker in workers if worker.state), key=lambda worker: worker.written_at, default=None)
    shown = [worker.payload() for worker in workers if worker.word]
    settings = _settings(config_path)
    payload = {
        "project": {
            "root_path": str(root),
            "repo": root.name,
            "base_branch": _base_branch(root, settings or {}, context.env),
            "config_path": str(config_path),
        },
        "daemon": daemon,
        "activity": activity,
        "runner": newest.state.runner or None if newest and newest.state else None,
        "filter": _filter(newest.state if newest else None),
        "totals": _totals(newest.state if newest else None, shown),
        "workers": shown,
        "last_attempt": _last_attempt(root),
        "notes": [*_notes(config_path, settings, daemon, shown), *_notes_of(activity)],
    }
    return Result(payload, text=_text(payload))


# ── The supervisor ──────────────────────────────────────────────────────────────────────────────────────────────────


def _daemon(root: Path) -> dict[str, object]:
    """`stale`: it is written down and its process is gone; the next `afk run` takes up what it left."""
    found = _json(root / ".red" / "tmp" / "supervisor.json")
    record = found or {}
    state = "stopped" if found is None else "running" if _is_alive(record) else "stale"
    return {
        "state": state,
        "pid": record.get("pid"),
        "pid_start_time": record.get("pid_start_time"),
        "started_at_rfc3339": _instant(record.get("started_at")),
        "session_id": record.get("session_id"),
    }


def _activity(root: Path, daemon: Mapping[str, object]) -> dict[str, Any] | None:
    """What the live supervisor says that it does, and why nothing new starts; None when none lives, or none has said
    so yet. What a dead one or another version wrote is not repeated."""
    found = _json(root / ".red" / "tmp" / "supervisor.state.json") if daemon["state"] == "running" else None
    if not found or (found.get("version"), found.get("session_id")) != (1, daemon["session_id"]):
        return None
    try:
        return {
            "afk_version": found["afk_version"],
            "watching": bool(found["watching"]),
            "log_path": found["log_path"],
            "slots": [{key: slot[key] for key in _SLOT_KEYS} for slot in found["slots"]],
            "waits_for": [{key: why[key] for key in _WHY_KEYS} for why in found["waits_for"]],
            "config_problem": found["config_problem"],
        }
    except (KeyError, TypeError):
        return None


def _has_slot(worker_id: str, activity: Mapping[str, Any] | None) -> bool:
    """Whether an idle worker is still one: its slot may be closed, or go by another name now."""
    return activity is None or any(slot["worker_id"] == worker_id for slot in activity["slots"])


def _notes_of(activity: Mapping[str, Any] | None) -> Iterator[dict[str, str]]:
    if activity is None:
        return
    if activity["afk_version"] != __version__:  # R33: an upgrade does not reach who runs already
        message = f"`afk run` is still afk {activity['afk_version']}, this is {__version__}; stop it and start it again"
        yield {"code": "version_drift", "message": message}
    if activity["config_problem"]:
        message = f"the configuration cannot be used, the last good one stays: {activity['config_problem']}"
        yield {"code": "config_broken", "message": message}


def _identity(record: Mapping[str, Any] | None) -> Identity | None:
    """None when the record does not name a process."""
    try:
        return Identity(int(record["pid"]), str(record["pid_start_time"]), str(record["boot_id"])) if record else None
    except (KeyError, TypeError, ValueError):
        return None


# ── Workers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker's newest state file. `word` is its state, empty when nothing of it lives any more; `state` None: the
    file is not readable, or there is none."""

    id: str
    word: str
    state: State | None
    attempt_id: str | None
    alive: bool | None
    written_at: float

    def payload(self) -> dict[str, object]:
        current = self.state.current if self.state else None
        return {
            "worker_id": self.id,
            "state": self.word,
            "issue_number": current.number if current else None,
            "attempt_id": self.attempt_id if current else None,
            "stage": current.stage if current else None,
            "alive": self.alive,
            "last_activity_at_rfc3339": _instant_of(self.written_at) if self.written_at else None,
        }


def _workers(root: Path) -> Iterator[_Worker]:
    for folder in sorted((root / ".red" / "tmp" / "workers").glob("w*")):
        owner = _json(folder / "worker.json")
        files = sorted(_written(path) for path in folder.glob("*/afk.state.json"))
        if files:
            yield _worker(folder.name, *files[-1], owner)
        elif _is_alive(owner):
            yield _Worker(folder.name, "idle", None, None, True, 0)


def _written(path: Path) -> tuple[float, Path]:
    try:
        return path.stat().st_mtime, path
    except OSError:  # put away while we look
        return 0.0, path


def _worker(name: str, written_at: float, path: Path, owner: Mapping[str, Any] | None) -> _Worker:
    attempt_id = f"{name}-{path.parent.name}"
    try:
        state = statefile.load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, StateFileError):
        return _Worker(name, "unreadable", None, attempt_id, None, written_at)
    if state.current is None:
        alive = _is_alive(owner)
        return _Worker(name, "idle" if alive else "", state, attempt_id, alive, written_at)
    alive = is_alive(Identity(state.pid, state.pid_start_time, _boot_of(owner, state.pid)))
    return _Worker(name, "working" if alive else "stale", state, attempt_id, alive, written_at)


def _is_alive(owner: Mapping[str, Any] | None) -> bool:
    identity = _identity(owner)
    return identity is not None and is_alive(identity)


def _boot_of(owner: Mapping[str, Any] | None, pid: int) -> str:
    """The state file does not name the boot; the worker's own record of the same process does."""
    return str(owner.get("boot_id")) if owner and owner.get("pid") == pid else boot_id()


# ── The run as a whole ──────────────────────────────────────────────────────────────────────────────────────────────


def _filter(state: State | None) -> dict[str, object]:
    return {"kind": state.filter.kind, "value": state.filter.value} if state else {"kind": "all", "value": None}


def _totals(state: State | None, workers: list[dict[str, object]]) -> dict[str, int]:
    """As the newest state file has them: each speaks of its whole run."""
    if state is None:
        return dict.fromkeys(_TOTALS, 0)
    return {
        "total": state.total,
        "done": state.done,
        "failed": state.failed,
        "blocked": state.blocked,
        "queued": len(state.queue),
        "in_flight": sum(worker["state"] == "working" for worker in workers),
    }


def _last_attempt(root: Path) -> dict[str, object] | None:
    rows = history.recent(root / ".red" / "state", 5)
    if not rows:
        return None
    last = rows[-1]
    return {
        "attempt_id": last.get("attempt"),
        "outcome": last.get("outcome"),
        "finished_at_rfc3339": _instant(last.get("at")),
    }


# ── Settings, leniently ─────────────────────────────────────────────────────────────────────────────────────────────


def _settings(path: Path) -> Mapping[str, Any] | None:
    """What stands under `afk` in the file, unchecked; None when it cannot be read, {} when there is none."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError):
        return None
    found = document.get("afk") if isinstance(document, dict) else None
    return found if isinstance(found, dict) else {}


def _base_branch(root: Path, settings: Mapping[str, Any], env: Mapping[str, str]) -> str | None:
    """As far as it is known without asking the remote."""
    configured = env.get("AFK_BASE") or settings.get("base")
    if configured:
        return str(configured)
    remote = str(env.get("AFK_REMOTE") or settings.get("remote") or "origin")
    head = git.run(root, "symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", check=False).stdout.strip()
    return head.removeprefix(f"refs/remotes/{remote}/") or None


def _notes(
    config_path: Path, settings: Mapping[str, Any] | None, daemon: Mapping[str, object], workers: list[dict[str, Any]]
) -> Iterator[dict[str, str]]:
    if settings is None:
        yield {"code": "config_unreadable", "message": f"{config_path} cannot be read: afk config validate"}
    elif not config_path.exists():
        yield {"code": "config_missing", "message": "there is no configuration yet: afk init"}
    if daemon["state"] != "running" and any(worker["state"] == "stale" for worker in workers):
        yield {"code": "attempt_orphaned", "message": "an attempt was left behind; it is taken up by: afk run"}
    for worker in workers:
        if worker["state"] == "unreadable":
            yield {"code": "state_unreadable", "message": f"the state file of {worker['worker_id']} cannot be read"}


def _json(path: Path) -> dict[str, Any] | None:
    """None when there is none; {} for one that cannot be read."""
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _instant(text: object) -> str | None:
    """UTC to the second; None for what is no time."""
    try:
        return _utc(datetime.fromisoformat(str(text))) if text else None
    except ValueError:
        return None


def _instant_of(seconds: float) -> str:
    return _utc(datetime.fromtimestamp(seconds, UTC))


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _text(payload: Mapping[str, Any]) -> str:
    daemon, totals, last = payload["daemon"], payload["totals"], payload["last_attempt"]
    running = f"running (pid {daemon['pid']})" if daemon["state"] == "running" else daemon["state"]
    counts = f"{totals['done']} landed, {totals['blocked']} parked, {totals['failed']} to be tried again"
    facts = [
        ("project", payload["project"]["root_path"]),
        ("base", payload["project"]["base_branch"] or "the remote's default branch"),
        ("run", f"{running}; {counts}, {totals['queued']} waiting"),
        *(("waits for", _why_text(why)) for why in _reasons(payload)[:_SHOWN_REASONS]),
        *((f"worker {worker['worker_id']}", _worker_text(worker)) for worker in payload["workers"]),
        (
            "last attempt",
            f"{last['attempt_id']} {last['outcome']} at {last['finished_at_rfc3339']}" if last else "none",
        ),
    ]
    return "\n".join([aligned(facts), *(f"note: {note['message']}" for note in payload["notes"])]) + "\n"


def _reasons(payload: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return payload["activity"]["waits_for"] if payload["activity"] else []


def _why_text(why: Mapping[str, Any]) -> str:
    return str(why["message"]) + (f" (until {why['until_rfc3339']})" if why["until_rfc3339"] else "")


def _worker_text(worker: Mapping[str, Any]) -> str:
    return f"{worker['state']} #{worker['issue_number']} {worker['stage']}" if worker["stage"] else worker["state"]
