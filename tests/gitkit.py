"""Small things that tests do with git, said in a word each. Plain git processes: nothing here goes through `afk`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

READY_S = 60.0  # a machine may be busy with other things; nothing waits longer than it has to


@contextmanager
def alone(home: Path) -> Iterator[Path]:
    """Git, and all we start, know nothing of the machine inside: a HOME of their own; gives the git configuration."""
    config, before = home / "gitconfig", dict(os.environ)
    config.write_text(
        "[user]\n\tname = A Person\n\temail = person@example.invalid\n"
        "[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n"
    )
    # Compiling all of afk anew costs a fifth of each process that a test starts.
    for name in [name for name in os.environ if name.startswith(("GIT_", "SSH_ASKPASS", "XDG_", "PYTHONDONTWRITE"))]:
        del os.environ[name]
    os.environ |= {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }
    try:
        yield config
    finally:
        os.environ.clear()
        os.environ |= before


def git(repo: Path, *args: str, input: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """What git printed, without the line break at its end; fails loudly, with git's words."""
    done = subprocess.run(
        ["git", *args],
        cwd=repo,
        input=input,
        env=os.environ | dict(env or {}),
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.removesuffix("\n")


def make_origin(path: Path, files: Mapping[str, str | bytes], *, branch: str = "main") -> Path:
    """A bare repository with one commit on `branch`, or with none when there are no files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    git(path.parent, "init", "-q", "--bare", "--template=", f"--initial-branch={branch}", str(path))
    if files:
        work = path.with_name(f"{path.name}.work")
        git(path.parent, "init", "-q", "--template=", f"--initial-branch={branch}", str(work))
        commit(work, "the beginning", files)
        git(work, "push", "-q", str(path), branch)
    return path


def url(path: Path) -> str:
    return path.as_uri()


def clone(address: str, path: Path) -> Path:
    git(path.parent, "clone", "-q", address, str(path))
    return path


def write(repo: Path, files: Mapping[str, str | bytes]) -> None:
    """Text or bytes by path; directories are made."""
    for name, content in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(repo: Path, message: str, files: Mapping[str, str | bytes] | None = None) -> str:
    """Write the files, commit all there is (an empty commit when nothing is), and return the sha."""
    write(repo, files or {})
    git(repo, "add", "--all")
    git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return sha(repo)


def many_commits(repo: Path, branch: str, count: int) -> str:
    """So many empty commits on top of a branch that is not checked out, by one process; returns the new tip."""
    who = "committer A Person <person@example.invalid> 0 +0000"
    ref = f"refs/heads/{branch}"
    one = f"commit {ref}\n{who}\ndata {len(branch.encode())}\n{branch}"
    git(repo, "fast-import", "--quiet", input="\n".join([f"{one}\nfrom {ref}^0", *[one] * (count - 1), ""]))
    return sha(repo, ref)


def sha(repo: Path, rev: str = "HEAD") -> str:
    return git(repo, "rev-parse", "--verify", rev)


def refs(repo: Path, *patterns: str) -> dict[str, str]:
    """Full ref name to sha, of a bare repository or of a checkout."""
    lines = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", *patterns).splitlines()
    return dict(line.split(" ") for line in lines)


def log(repo: Path, rev: str = "HEAD", *, form: str = "%s") -> list[str]:
    """Newest first; one line each."""
    return git(repo, "log", f"--format={form}", rev).splitlines()


def hook(repo: Path, name: str, script: str) -> None:
    """A hook of a bare repository or of a checkout."""
    directory = Path(git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "hooks"
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below, byte for byte; a link counts as what it says."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(directory))] = os.fsencode(path.readlink())
        elif path.is_file():
            found[str(path.relative_to(directory))] = path.read_bytes()
    return found


def wait_until(is_true: Callable[[], object], what: str, *, limit_s: float = READY_S) -> None:
    """For a marker of another process; never for time to pass."""
    give_up = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < give_up, f"waited {limit_s} s for {what}"
        time.sleep(0.01)


def python(script: str, *args: str) -> subprocess.Popen[str]:
    """A process of our own interpreter that runs `script`, with pipes to talk to it."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def all_at_once(script: str, arguments: Sequence[Sequence[str]]) -> list[str]:
    """Run one process for each argument list; a script prints `ready`, reads a line, then does it and prints a line."""
    racers = [python(script, *args) for args in arguments]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    return [racer.communicate()[0].strip() for racer in racers]


@contextmanager
def daemon(base: Path, port: int | None = None) -> Iterator[str]:
    """`git daemon` for everything below `base`, pushing allowed; gives `git://127.0.0.1:PORT`."""
    for _ in range(5):
        port = port or free_port()
        options = [f"--port={port}", f"--base-path={base}", "--listen=127.0.0.1", "--export-all", "--reuseaddr"]
        process = subprocess.Popen(
            ["git", "daemon", *options, "--enable=receive-pack", "--informative-errors"],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            if _answers(process, port):
                yield f"git://127.0.0.1:{port}"
                return
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    raise AssertionError("git daemon found no port")


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """False when the daemon ended, because somebody took the port before it did."""
    give_up = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < give_up:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        time.sleep(0.01)
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
