"""`.red/state/sessions.toonl`: every run that began here, and how it ended, by whatever death (L41).

A death that leaves no time for a word (KILL, a power cut) is written down by the next run, which finds the record of a
supervisor that is gone. What the interpreter says when it is killed by a fault of its own is in `supervisor.crash`.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from afk.adapters.files import append_line
from afk.attempt.session import Project
from afk.errors import AfkError, Cancelled
from afk.wire import toonl
from afk.wire.json_value import parse_json
from afk.wire.safetext import one_line

if TYPE_CHECKING:
    from afk.supervisor.boot import Session

__all__ = ["kept", "note_silent_death"]

_FIELDS = ("at", "session_id", "pid", "event", "how")
_CEILING_BYTES = 1024 * 1024


@contextmanager
def kept(project: Project, session: Session) -> Iterator[None]:
    """Note the beginning, and the end with its reason: `ended`, or `died` of an exception or an `exit`."""
    _note(project, session.id, os.getpid(), "began", "")
    with (project.tmp / "supervisor.crash").open("w") as crash:
        faulthandler.enable(crash)
        try:
            yield
        except Cancelled as error:
            _note(project, session.id, os.getpid(), "ended", session.how or error.message)
            raise
        except BaseException as error:
            _note(project, session.id, os.getpid(), "died", f"{type(error).__name__}: {error}")
            raise
        finally:
            faulthandler.disable()
    _note(project, session.id, os.getpid(), "ended", session.how)


def note_silent_death(project: Project) -> None:
    """For the holder of the supervisor's lock: whoever is still written down as supervisor died without a word."""
    try:
        record: Any = parse_json((project.tmp / "supervisor.json").read_text(encoding="utf-8"))
        session_id, pid = str(record["session_id"]), int(record["pid"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError):
        session_id, pid = "", 0
    _note(project, session_id, pid, "died", _last_words(project) or "without a word: killed, or the machine went down")


def _last_words(project: Project) -> str:
    try:
        with (project.tmp / "supervisor.crash").open(encoding="utf-8", errors="replace") as crash:
            return crash.readline(500).strip()
    except OSError:
        return ""


def _note(project: Project, session_id: str, pid: int, event: str, how: str) -> None:
    """A ledger that cannot be written stops nothing (S76)."""
    at = project.clock.now().isoformat(timespec="seconds")
    row = toonl.row([at, session_id, pid, event, one_line(project.mask(how), 1000)])
    with suppress(OSError, AfkError):
        append_line(
            project.state / "sessions.toonl", row, ceiling_bytes=_CEILING_BYTES, header=toonl.header(list(_FIELDS))
        )
