"""`afk stop`, `afk pause` and `afk resume`: from another terminal, and each as often as one likes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from afk.adapters import git
from afk.supervisor import control
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["pause", "resume", "stop"]


def stop(context: CommandContext, arguments: Arguments) -> Result:
    """Asks the supervisor of this checkout to end; it answers by ending, for which `--wait` waits without a limit.
    Nobody there: `changed` is false."""
    root = git.toplevel(context.cwd)
    level = 2 if arguments.flag("now") else 1
    found = control.running(root)
    before = control.stop_level(root, found.session_id) if found else 0
    if found is not None and level > before:
        control.wish_stop(root, found.session_id, level)
    changed = found is not None and level > before
    if found is not None and arguments.flag("wait"):
        control.wait_for_end(root, found)
    return Result(
        {
            "action": "stop",
            "changed": changed,
            "before": {"running": found is not None, "stop_level": before},
            "after": {
                "running": found is not None and control.running(root) == found,
                "stop_level": max(level, before) if found else 0,
            },
            "target": None if found is None else {"pid": found.pid, "session_id": found.session_id},
        },
        text=_stop_text(found, level),
    )


def _stop_text(found: control.Supervisor | None, level: int) -> str:
    if found is None:
        return "no `afk run` works in this checkout\n"
    what = "stops its agents and keeps their work" if level == 2 else "finishes what runs and starts nothing new"
    return f"`afk run` (pid {found.pid}) {what}\n"


def pause(context: CommandContext, _arguments: Arguments) -> Result:
    """What runs goes on; nothing new is started, by this session or a later one, until `afk resume`."""
    return _set_paused(context, True)


def resume(context: CommandContext, _arguments: Arguments) -> Result:
    """Ends a pause, and what the circuit breaker of the running session holds."""
    return _set_paused(context, False)


def _set_paused(context: CommandContext, wanted: bool) -> Result:
    root: Path = git.toplevel(context.cwd)
    before, at = control.is_paused(root), datetime.now(UTC).isoformat(timespec="seconds")
    control.set_paused(root, wanted, at=at)
    found = control.running(root)
    parked = control.parked_slots(root, found.session_id) if found else []
    halted = control.is_halted(root, found.session_id) if found else False
    frees = not wanted and bool(parked or halted)
    if found is not None and frees:
        control.wish_resume(root, found.session_id, at=at)
    return Result(
        {
            "action": "pause" if wanted else "resume",
            "changed": before != wanted or frees,
            "before": {"paused": before, "halted": halted, "parked_slots": parked},
            "after": {
                "paused": wanted,
                "halted": halted and not frees,
                "parked_slots": [] if frees else parked,
            },
            "target": None if found is None else {"pid": found.pid, "session_id": found.session_id},
        },
        text="nothing new is started until `afk resume`\n" if wanted else "new issues are picked again\n",
    )
