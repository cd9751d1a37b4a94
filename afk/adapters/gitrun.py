"""The one way in which `afk` starts git: nobody at the keyboard, no hook, no pager, no editor, and always an end.

`run` is for questions and local work, `run_remote` for what talks to a remote; both translate git's words into the
error tree. What is decided here, and what is left to the person's configuration, is in docs/adr/0002.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from afk.adapters.regular import read_regular
from afk.errors import DiskFull, GitError, GitTimeout, NotARepository, RemoteDenied, RemoteMissing, RemoteUnreachable
from afk.wire.redact import mask_text, surface_rules

__all__ = [
    "GitResult",
    "classified",
    "committer",
    "environment",
    "failure",
    "identity",
    "leads_astray",
    "masked",
    "offer_credentials",
    "run",
    "run_remote",
]

STDOUT_MAX_BYTES = 64 * 1024 * 1024
STDERR_MAX_BYTES = 64 * 1024  # a remote may talk for as long as it likes; the end of it says what went wrong
WORDS_MAX = 2000
_POINTER_MAX_BYTES = 8192  # of a path, which is all that such a file holds

# Configuration that would change what our calls do or print, or start a program that nobody asked for. `-c` outranks
# every file; what is not listed (identity, transports, filters, credential helpers, rewritten URLs) is the person's.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.filesRefLockTimeout=10000",  # milliseconds; the default of 100 loses against nine other slots
    "core.packedRefsTimeout=10000",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "log.showSignature=false",
    "rerere.enabled=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
)

# Of the caller's GIT_* variables only these get through: how to reach a remote and whose configuration holds. A git
# hook, an alias or a rebase sets others (GIT_DIR, GIT_INDEX_FILE, GIT_AUTHOR_DATE …) that speak of its own repository.
_INHERITED = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|HTTP_\w+|PROXY_\w+|PROTOCOL|ALLOW_PROTOCOL|EXEC_PATH|DEFAULT_HASH"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+|PARAMETERS)|CEILING_DIRECTORIES"
    r"|DISCOVERY_ACROSS_FILESYSTEM|(AUTHOR|COMMITTER)_(NAME|EMAIL)|TRACE\w*)\Z"
)

_UNATTENDED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set and empty: git asks neither core.askPass nor SSH_ASKPASS
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",  # `status` must not take index.lock under the agent's fingers
    "GIT_LFS_SKIP_SMUDGE": "1",  # fetching is asked for where it is wanted (R13)
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
}


# `git worktree add` and `remove` fill and empty their directory file by file; every git that looks at all worktrees in
# between (list, fetch, branch …) dies of what it does not find. It has done nothing yet, and soon all is well.
HALF_MADE = re.compile(
    r"failed to read '?.*\bworktrees/.*/(commondir|locked|gitdir)\b|bad object worktrees/.*/HEAD$", re.MULTILINE
)
_HALF_MADE_PAUSES_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, None)


@dataclass(frozen=True, slots=True)
class GitResult:
    """`stdout` keeps bytes that are no UTF-8 as surrogates, so that a path survives; `stderr` is for people only."""

    returncode: int
    stdout: str
    stderr: str


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What git is started with: our own environment without another repository's variables, unable to ask anybody."""
    env = {name: value for name, value in os.environ.items() if _is_passed_on(name)}
    return env | _UNATTENDED | dict(extra or {})


def _is_passed_on(name: str) -> bool:
    if name.startswith("GIT_"):
        return bool(_INHERITED.match(name))
    return name not in ("SSH_ASKPASS", "LANGUAGE", "GPG_TTY")


def leads_astray(repo: Path) -> bool:
    """Whether a directory of ours below `.red/tmp` is not what git would work on there (S28).

    An agent may have put a link to another checkout in the place of its worktree, or another repository into its
    `.git`: then our merge, commit or forced checkout would reach that one.
    """
    below = _below_tmp(repo.absolute())
    if below is None:
        return False
    tmp, rest = below
    if repo.resolve() != tmp.resolve() / rest:
        return True
    pointer = repo / ".git"
    if not os.path.lexists(pointer):
        return False  # git finds nothing there, and `_confined` keeps it from looking further up
    administration = repo / (read_regular(pointer, _POINTER_MAX_BYTES) or "").removeprefix("gitdir: ").rstrip("\n")
    # Source: gitrepository-layout(5), "worktrees/<id>/gitdir".
    back = read_regular(administration / "gitdir", _POINTER_MAX_BYTES)
    try:
        return back is None or not pointer.samefile(administration / back.rstrip("\n"))
    except OSError:
        return True


def _below_tmp(path: Path) -> tuple[Path, Path] | None:
    """The innermost `.red/tmp` that a path lies in, and the way from there; None outside of any."""
    parts = path.parts
    tops = [at + 2 for at in range(len(parts) - 1) if parts[at : at + 2] == (".red", "tmp")]
    return (Path(*parts[: tops[-1]]), Path(*parts[tops[-1] :])) if tops else None


def _confined(repo: Path) -> dict[str, str]:
    """From below `.red/tmp`, where our worktrees are, no repository is looked for further up.

    Around a worktree that its agent destroyed is the person's own checkout, which a merge, a commit or a forced
    checkout of ours must never reach (R79). Raises `NotARepository` for a directory that leads somewhere else.
    """
    below = _below_tmp(repo.resolve())
    if leads_astray(repo):
        raise NotARepository(f"{repo} is not the worktree that was made there any more", hint=f"ls -la {repo}")
    if below is None:
        return {}
    theirs = os.environ.get("GIT_CEILING_DIRECTORIES", "")
    return {"GIT_CEILING_DIRECTORIES": os.pathsep.join([str(below[0]), theirs]).rstrip(os.pathsep)}


def run(
    repo: Path,
    *args: str,
    input: bytes | None = None,
    output: Path | None = None,
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    again: bool = True,
) -> GitResult:
    """Run git in the directory `repo` and wait; after `timeout_s` its whole process group is killed.

    `check=False` returns whatever exit status there is. `env` is added last and may hold GIT_INDEX_FILE and the like.
    `output` takes what git prints instead of the result, without limit; after an error it is worth nothing.
    `again` False is for what must not be repeated when it stumbled over a worktree that another git was just making.
    Raises `GitError` with git's words, `NotARepository`, `DiskFull`, `GitTimeout`.
    """
    full_env = environment({**_confined(repo), **(env or {})})
    for pause_s in _HALF_MADE_PAUSES_S if again else (None,):
        result = _execute(repo, args, input=input, output=output, timeout_s=timeout_s, env=full_env)
        if pause_s is None or not HALF_MADE.search(result.stderr):
            break
        time.sleep(pause_s)
    if check and result.returncode != 0:
        raise failure(repo, args, result)
    return result


def run_remote(
    repo: Path, url: str, *args: str, timeout_s: float = 60.0, env: Mapping[str, str] | None = None, check: bool = True
) -> GitResult:
    """`run` for a command that talks to `url`; ssh will not ask for anything.

    Raises beside what `run` raises: `RemoteUnreachable` (no answer or none in time), `RemoteDenied` (who we are is not
    accepted), `RemoteMissing` (no repository there). One that has answered this process before and is not there now is
    unreachable: a disk that is unmounted, a server that restarts, a proxy without its backend; it will come back (R59).
    """
    offered = _HELPERS.get(url, ())
    try:
        result = run(repo, *offered, *args, timeout_s=timeout_s, env=_ssh(repo) | dict(env or {}), check=False)
    except GitTimeout as error:
        raise _remote_error(RemoteUnreachable, url, error.message, "timeout") from error
    if result.returncode == 0:
        _ANSWERED.add(url)
    elif check:
        raise classified(repo, url, args, result)
    return result


_ANSWERED: set[str] = set()
_HELPERS: dict[str, tuple[str, ...]] = {}


def offer_credentials(url: str, host: str, helper: str) -> None:
    """Have git ask `helper` when it talks to `url` over HTTP(S) on `host`, after the helpers that the person has.

    Other remotes, and other hosts that a server sends git to, are not told of it.
    """
    address = urlsplit(url)
    if address.scheme in ("http", "https") and address.netloc.rpartition("@")[2].lower() == host:
        _HELPERS[url] = ("-c", f"credential.{address.scheme}://{host}.helper={helper}")


def _ssh(repo: Path) -> dict[str, str]:
    """Batch mode, unless the person chose an ssh command: then it is theirs to keep it from asking."""
    if os.environ.get("GIT_SSH_COMMAND") or os.environ.get("GIT_SSH"):
        return {}
    if run(repo, "config", "--get", "core.sshCommand", check=False).stdout.strip():
        return {}
    return {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes"}


# ── The process ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _execute(
    repo: Path,
    args: Sequence[str],
    *,
    input: bytes | None,
    output: Path | None,
    timeout_s: float,
    env: Mapping[str, str],
) -> GitResult:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    argv = ["git", *settings, "--no-pager", *args]
    # Files, not pipes: what git leaves behind (an ssh master, a credential daemon) may hold a pipe open for ever (R27).
    with output.open("wb") if output else _scratch() as out, _scratch() as err, _stdin(input) as stdin:
        release = _hold_interrupt()
        try:
            process = subprocess.Popen(
                argv, cwd=repo, env=env, stdin=stdin, stdout=out, stderr=err, start_new_session=True
            )
        except BaseException as error:
            release()
            if isinstance(error, OSError):
                raise _not_started(repo, error) from error
            raise
        if not _wait(process, timeout_s, release):
            raise GitTimeout(
                f"git {_verb(args)} in {repo} did not end within {timeout_s:g} s", hint=f"git -C {repo} status"
            )
        stdout, stderr = b"" if output else _read_start(out, args), _read_end(err)
    return GitResult(process.returncode, stdout.decode("utf-8", "surrogateescape"), stderr.decode("utf-8", "replace"))


def _scratch() -> IO[bytes]:
    """A file in memory where there are such, because git must be able to tell us that the disk is full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("git"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


@contextmanager
def _stdin(input: bytes | None) -> Iterator[IO[bytes] | int]:
    if input is None:
        yield subprocess.DEVNULL
        return
    with _scratch() as file:
        file.write(input)
        file.seek(0)
        yield file


def _hold_interrupt() -> Callable[[], None]:
    """Until the answer is called a Ctrl-C waits: it must not fall between git's start and our watch over it."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        return lambda: None  # nothing is raised in this thread
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))

    def release() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if came:
            raise KeyboardInterrupt

    return release


def _wait(process: subprocess.Popen[bytes], timeout_s: float, release: Callable[[], None]) -> bool:
    """False when the time was up; the group is killed then, and on every exception that passes."""
    try:
        release()
        if _ends_within(process, timeout_s):
            process.wait()
            return True
    except BaseException:
        _kill_group(process)
        raise
    _kill_group(process)
    return False


def _ends_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """A pidfd tells at once; `Popen.wait` with a timeout looks every 50 ms, longer than most git calls take."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout_s)
        return process.returncode is not None
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(pidfd)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:  # not reaped yet, so the number is still ours
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _not_started(repo: Path, error: OSError) -> GitError | NotARepository:
    if not repo.is_dir():
        return NotARepository(f"{repo} is not a directory", hint="git clone URL")
    return GitError(f"could not start git: {error.strerror}", hint="git --version")


def _read_start(file: IO[bytes], args: Sequence[str]) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > STDOUT_MAX_BYTES:
        raise GitError(f"git {_verb(args)} answered {size} bytes, more than {STDOUT_MAX_BYTES} are read")
    return os.pread(file.fileno(), size, 0)


def _read_end(file: IO[bytes]) -> bytes:
    size = os.fstat(file.fileno()).st_size
    return os.pread(file.fileno(), STDERR_MAX_BYTES, max(0, size - STDERR_MAX_BYTES))


def _verb(args: Sequence[str]) -> str:
    """The command's name behind options such as `-c KEY=VALUE`."""
    return next(arg for before, arg in zip(("", *args), args, strict=False) if arg[:1] != "-" and before != "-c")


# ── Who commits ─────────────────────────────────────────────────────────────────────────────────────────────────────


def identity(repo: Path) -> tuple[str, str] | None:
    """Name and address that git would commit with here; None when nobody set any (what git guesses does not count)."""
    told = run(repo, "-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT", check=False)
    found = re.match(r"(.*) <(.*)> \d+ [+-]\d{4}$", told.stdout)
    return (found[1], found[2]) if found else None


def committer(repo: Path) -> dict[str, str]:
    """Nothing where git knows whom to commit as, else a neutral identity: work is not lost for want of a name."""
    if identity(repo) is not None:
        return {}
    return {
        "GIT_AUTHOR_NAME": "afk",
        "GIT_AUTHOR_EMAIL": "afk@localhost",
        "GIT_COMMITTER_NAME": "afk",
        "GIT_COMMITTER_EMAIL": "afk@localhost",
    }


# ── What went wrong ─────────────────────────────────────────────────────────────────────────────────────────────────

# Of a write to a file that failed at the end git remembers no more than that it did.
_DISK_FULL = re.compile(
    r"^(?!remote:).*(No space left on device|Disk quota exceeded|write failure on standard output)", re.MULTILINE
)
_DUBIOUS = "detected dubious ownership"  # another user's repository, whose configuration git does not follow (R19)
_ADVICE = "\nTo add an exception for this directory"
_NO_REPOSITORY = re.compile(r"not a git repository|must be run in a work tree")

# The first that matches decides. Denied stands before missing and unreachable, because ssh and http servers add
# "Could not read from remote repository" to all three; a git daemon does not tell the first two apart.
_DENIED = re.compile(
    r"Authentication failed|could not read (Username|Password)|Permission denied \(|Permission to \S+ denied"
    r"|Host key verification failed|Too many authentication failures|returned error: 40[13]\b|HTTP 40[13]\b"
    r"|service not enabled|no matching host key|Load key .*: (bad permissions|error in libcrypto)"
)
_MISSING = re.compile(
    r"does not appear to be a git repository|[Rr]epository not found|repository '.*' not found"
    r"|returned error: 404\b|no such repository|access denied or repository not exported"
)
_UNREACHABLE = re.compile(
    r"Could not resolve|unable to look up|unable to connect|[Ff]ailed to connect|Couldn't connect"
    r"|Connection (refused|reset|timed out|closed)|timed out|No route to host|Network is unreachable"
    r"|hung up unexpectedly|early EOF|Broken pipe|returned error: (429|5\d\d)\b|HTTP (429|5\d\d)\b"
    r"|gnutls_handshake|SSL_(connect|read|ERROR)|RPC failed|Could not read from remote repository",
)


_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")


def masked(text: str) -> str:
    """git's words as they may be shown: no colour, no credentials in URLs, no secret of our environment (R74).

    Only the end of a long text is kept: there stands what went wrong.
    """
    plain = _COLOUR.sub("", text.strip())
    lines = "\n".join(line.rstrip() for line in plain.splitlines())  # a remote's lines are padded with blanks
    return mask_text(lines, surface_rules(os.environ))[-WORDS_MAX:]


def failure(repo: Path, args: Sequence[str], result: GitResult) -> GitError | NotARepository | DiskFull:
    """git's refusal as one of our errors, for a caller that had a look at the exit status first."""
    words = masked(result.stderr) or f"exit status {result.returncode} without a word"
    if _DISK_FULL.search(words):
        return DiskFull(f"git {_verb(args)} in {repo}: {words}", hint=f"df -h {repo}")
    if _NO_REPOSITORY.search(words):
        return NotARepository(f"{repo} is not in a git checkout: {words}", hint="git clone URL")
    cure = f"git config --global --add safe.directory {repo}" if _DUBIOUS in words else f"git -C {repo} status"
    return GitError(
        f"git {_verb(args)} in {repo} failed: {words.partition(_ADVICE)[0]}",
        hint=cure,
        details={"returncode": result.returncode},
    )


def classified(repo: Path, url: str, args: Sequence[str], result: GitResult) -> GitError | NotARepository | DiskFull:
    """`failure` for a command that talked to `url`, by what the remote or the way to it said."""
    words = masked(result.stderr)
    if _DENIED.search(words):
        return _remote_error(RemoteDenied, url, words, "denied")
    if _MISSING.search(words):
        return _remote_error(RemoteUnreachable if url in _ANSWERED else RemoteMissing, url, words, "missing")
    if _UNREACHABLE.search(words):
        return _remote_error(RemoteUnreachable, url, words, "unreachable")
    return failure(repo, args, result)


def _remote_error(kind: type[GitError], url: str, words: str, reason: str) -> GitError:
    """`reason`: timeout, unreachable, denied or missing; the hint shows the same without `afk` in between."""
    shown = masked(url)
    return kind(f"remote {shown}: {words}", hint=f"git ls-remote {shown}", details={"reason": reason})
