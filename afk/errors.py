"""Everything `afk` raises on purpose.

    AfkError                     code               exit
    ├─ UsageError                cli_*                 2   decided before any I/O
    ├─ ConfigError               config_invalid        4   carries every problem with key and line
    ├─ NotARepository            not_a_repository      4
    ├─ GitError                  git_failed            4   carries git's own words, masked
    │  ├─ GitTooOld              git_too_old           4
    │  ├─ GitTimeout             git_timeout           4   retryable; what git did so far is not known
    │  ├─ RemoteMissing          remote_missing        4
    │  ├─ RemoteUnreachable      remote_unreachable    4   retryable
    │  ├─ RemoteDenied           remote_denied         4   reached, but it does not accept who we are
    │  ├─ EmptyRemote            remote_empty          4
    │  ├─ BaseMoved              base_moved            4   retryable; others landed in every round
    │  └─ BaseMissing            base_missing          4
    ├─ TrackerError              tracker_failed        4   retryable
    │  ├─ TrackerDenied          tracker_denied        4   no token, no permission, or values it does not take
    │  ├─ IssueNotFound          issue_not_found       4
    │  └─ IssueUnreadable        issue_unreadable      4
    ├─ AttemptNotFound           attempt_not_found     4
    ├─ SupervisorRunning         supervisor_running    4   another `afk run` lives in this checkout
    ├─ LockHeld                  lock_held             4   retryable; `details["owner"]` says by whom
    ├─ QueueSelection            queue_selection       4   `--issues` names what cannot be worked
    ├─ JournalTooNew             journal_too_new       4   written by a newer afk
    ├─ JournalBroken             journal_broken        4
    ├─ DiskFull                  disk_full             4   retryable
    ├─ KeeperFailed              keeper_failed         4   no process was started, or none ever was in that folder
    ├─ OutputFailed              output_failed         4   retryable; the result is there, its reader did not get it
    ├─ HookAborted               hook_aborted          4   a `pre_session` hook refused
    ├─ InvalidInput              invalid_input         4   a file or value a person gave cannot be used
    ├─ DestinationExists         destination_exists    4   `init` or `demo` would overwrite something
    ├─ GroundUnfit               ground_unfit          4   a boot check failed; the cure is in the hint
    ├─ DetachFailed              detach_failed         4   the background process died before it had begun
    ├─ ServiceUnavailable        service_unavailable   4   no service manager of this user answers
    └─ Cancelled                 cancelled           130   a second signal

Outcomes of an attempt are values (`domain/outcome.py`), not errors. `docs/errors.md` gives the cure for each code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

__all__ = [
    "AfkError",
    "AttemptNotFound",
    "BaseMissing",
    "BaseMoved",
    "Cancelled",
    "ConfigError",
    "DestinationExists",
    "DetachFailed",
    "DiskFull",
    "EmptyRemote",
    "GitError",
    "GitTimeout",
    "GitTooOld",
    "GroundUnfit",
    "HookAborted",
    "InvalidInput",
    "IssueNotFound",
    "IssueUnreadable",
    "JournalBroken",
    "JournalTooNew",
    "KeeperFailed",
    "LockHeld",
    "NotARepository",
    "OutputFailed",
    "QueueSelection",
    "RemoteDenied",
    "RemoteMissing",
    "RemoteUnreachable",
    "ServiceUnavailable",
    "SupervisorRunning",
    "TrackerDenied",
    "TrackerError",
    "UsageError",
    "of_code",
]


class AfkError(Exception):
    """What a caller cannot settle; `message` says what was tried on what, `hint` the next command to type."""

    code: ClassVar[str] = "internal_error"
    exit_code: ClassVar[int] = 4
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Mapping[str, object] = details or {}


class UsageError(AfkError):
    """A command line that names something unknown, missing or doubled; `code` is one of the eight `cli_*` codes."""

    exit_code = 2

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.cli_code = code


class ConfigError(AfkError):
    """`.red/config.yaml` (or an `AFK_*` variable) cannot be used; `problems` has one line for each fault."""

    code = "config_invalid"

    def __init__(self, message: str, *, hint: str = "", problems: Sequence[object] = ()) -> None:
        super().__init__(message, hint=hint or "afk config validate")
        self.problems = tuple(problems)


class NotARepository(AfkError):
    code = "not_a_repository"


class GitError(AfkError):
    code = "git_failed"


class GitTooOld(GitError):
    code = "git_too_old"


class GitTimeout(GitError):
    code = "git_timeout"
    retryable = True


class RemoteMissing(GitError):
    code = "remote_missing"


class RemoteUnreachable(GitError):
    code = "remote_unreachable"
    retryable = True


class RemoteDenied(GitError):
    code = "remote_denied"


class EmptyRemote(GitError):
    code = "remote_empty"


class BaseMoved(GitError):
    code = "base_moved"
    retryable = True


class BaseMissing(GitError):
    code = "base_missing"


class TrackerError(AfkError):
    code = "tracker_failed"
    retryable = True


class TrackerDenied(TrackerError):
    """The server will not do this however often it is asked: no token, no permission, or values it does not take."""

    code = "tracker_denied"
    retryable = False


class IssueNotFound(TrackerError):
    code = "issue_not_found"
    retryable = False


class IssueUnreadable(TrackerError):
    code = "issue_unreadable"
    retryable = False


class AttemptNotFound(AfkError):
    code = "attempt_not_found"


class SupervisorRunning(AfkError):
    code = "supervisor_running"


class LockHeld(AfkError):
    code = "lock_held"
    retryable = True


class QueueSelection(AfkError):
    code = "queue_selection"


class JournalTooNew(AfkError):
    code = "journal_too_new"


class JournalBroken(AfkError):
    code = "journal_broken"


class DiskFull(AfkError):
    code = "disk_full"
    retryable = True


class KeeperFailed(AfkError):
    code = "keeper_failed"


class OutputFailed(AfkError):
    code = "output_failed"
    retryable = True


class HookAborted(AfkError):
    code = "hook_aborted"


class InvalidInput(AfkError):
    code = "invalid_input"


class DestinationExists(AfkError):
    code = "destination_exists"


class GroundUnfit(AfkError):
    code = "ground_unfit"


class DetachFailed(AfkError):
    code = "detach_failed"


class ServiceUnavailable(AfkError):
    code = "service_unavailable"


class Cancelled(AfkError):
    code = "cancelled"
    exit_code = 130


def of_code(code: str) -> type[AfkError]:
    """The class behind a code that another process of ours told; `AfkError` itself for one that is unknown here."""
    waiting: list[type[AfkError]] = [AfkError]
    while waiting:
        kind = waiting.pop()
        if kind.code == code:
            return kind
        waiting += kind.__subclasses__()
    return AfkError
