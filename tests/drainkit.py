"""A place to drain: a remote, a person's checkout of it, issues in the local tracker, and the real `afk run`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gitkit
import yaml

from afk.adapters.process import Kept
from afk.errors import KeeperFailed
from afk.supervisor import control

AGENTS = Path(__file__).with_name("agents")
LIMIT_S = 120
ENVELOPE = "<details data-attempt-status="


@dataclass(frozen=True)
class Ran:
    """One ended `afk` process; `payload` is its result event's, {} when there was none."""

    code: int
    stdout: str
    stderr: str

    @property
    def payload(self) -> dict[str, Any]:
        return dict(json.loads(self.stdout)["result"]) if self.stdout.strip() else {}

    @property
    def error(self) -> dict[str, Any]:
        """The last event on stderr, which must be the error."""
        event = json.loads(self.stderr.strip().splitlines()[-1])
        assert event["kind"] == "error", event
        return dict(event["error"])

    @property
    def outcomes(self) -> dict[int, str]:
        """By issue number, the last attempt's."""
        return {entry["issue_number"]: entry["outcome"] for entry in self.payload["attempts"]}

    def transitions(self, number: int) -> list[str]:
        """Where the issue's attempts went, in order, as stderr told it."""
        events = [json.loads(line) for line in self.stderr.splitlines() if line.startswith("{")]
        told = [event["progress"] for event in events if event["kind"] == "progress"]
        return [entry["to"] for entry in told if entry["issue_number"] == number]


@dataclass
class Place:
    """`clone` is the person's checkout. Configuration and issues are written like a person writes them: as files."""

    origin: Path
    clone: Path
    environ: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    python: str = sys.executable

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        """End what a test left running: `afk` itself, and agents under their keepers."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate()
        supervisor = control.running(self.clone)
        if supervisor is not None:  # a detached one; its lock is gone when it is
            os.kill(supervisor.pid, signal.SIGKILL)
            gitkit.wait_until(lambda: control.running(self.clone) is None, "the end of a detached supervisor")
        for tree in self.clone.glob(".red/tmp/workers/*/*/runs/*/tree"):
            if not tree.with_name("exit").exists():
                with suppress(KeeperFailed):  # on a full disk there may be a file and no keeper
                    Kept.adopt(tree.parent).stop("the test is over")

    # ── Setting the scene ───────────────────────────────────────────────────────────────────────────────────────────

    def configure(self, agent: str = "by_issue", *arguments: str, **changes: Any) -> None:
        """`.red/config.yaml` for an agent of `tests/agents`; `changes` replace or extend keys under `afk`."""
        argv = [sys.executable, str(AGENTS / f"{agent}.py"), *arguments]
        settings: dict[str, Any] = {
            "runner": "command",
            "agents": {"command": {"argv": argv}},
            "poll_s": 1,
            "agent": {"grace_s": 1, "kill_s": 1},
            "validation": {"checks": [{"name": "test", "run": "true"}]},
            "recovery": {"backoff_s": 0, "backoff_max_s": 5},
            "landing": {"salvage": False},
        }
        self.write_config(yaml.safe_dump({"afk": _merged(settings, changes)}))

    def write_config(self, text: str) -> None:
        gitkit.write(self.clone, {".red/config.yaml": text})

    def file(
        self, number: int, title: str = "Do it", body: str = "", labels: Sequence[str] = ("ready-for-agent",)
    ) -> int:
        """An issue, as an editor would write it."""
        front = yaml.safe_dump(
            {
                "title": title,
                "state": "open",
                "labels": list(labels),
                "author": "person",
                "created_at": "2026-05-17T12:00:00+00:00",
            },
            allow_unicode=True,
        )
        gitkit.write(self.clone, {f".red/issues/{number}/issue.md": f"---\n{front}---\n{body}"})
        return number

    def edit(self, number: int, **changes: Any) -> None:
        """A person changes front matter of an issue."""
        path = self.clone / f".red/issues/{number}/issue.md"
        _, front, body = path.read_text(encoding="utf-8").split("---\n", 2)
        path.write_text(f"---\n{yaml.safe_dump(yaml.safe_load(front) | changes)}---\n{body}", encoding="utf-8")

    def say(self, number: int, text: str) -> None:
        """A person comments."""
        folder = self.clone / f".red/issues/{number}/comments"
        folder.mkdir(exist_ok=True)
        n = 1 + len(list(folder.glob("*.md")))
        front = "author: person\ncreated_at: 2030-05-17T12:00:00+00:00\n"
        (folder / f"{n:04d}.md").write_text(f"---\n{front}---\n{text}", encoding="utf-8")

    # ── Acting ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, *arguments: str, program: Sequence[str] = ("-m", "afk")) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.python, *program, *arguments],
            cwd=self.clone,
            env=os.environ | self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def afk(self, *arguments: str) -> Ran:
        """Run one command to its end, with `--json`."""
        return ended(self.start(*arguments, "--json"))

    def run(self, *arguments: str) -> Ran:
        return self.afk("run", *arguments)

    def push(self, message: str, files: Mapping[str, str | bytes]) -> str:
        """Somebody else's commit lands on the trunk; returns its sha."""
        other = self.origin.parent / "other"
        if not other.exists():
            gitkit.clone(gitkit.url(self.origin), other)
        gitkit.git(other, "pull", "-q", "--ff-only")
        sha = gitkit.commit(other, message, files)
        gitkit.git(other, "push", "-q", "origin", "HEAD")
        return sha

    # ── Looking ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def checkout(self) -> dict[str, tuple[int, bytes]]:
        """Mode and bytes of everything that is the person's: the working tree, and git's files but for new objects.

        `.red/` is ours, and so are branches below `afk/` with their worktrees.
        """
        ours = (".red/", ".git/objects/", ".git/worktrees/", ".git/refs/heads/afk/", ".git/logs/refs/heads/afk/")
        return {
            name: ((self.clone / name).lstat().st_mode, data)
            for name, data in gitkit.contents(self.clone).items()
            if not name.startswith(ours)
        }

    def issue(self, number: int) -> dict[str, Any]:
        text = (self.clone / f".red/issues/{number}/issue.md").read_text(encoding="utf-8")
        return dict(yaml.safe_load(text.split("---\n", 2)[1]))

    def labels(self, number: int) -> set[str]:
        return set(self.issue(number)["labels"])

    def comments(self, number: int) -> list[str]:
        files = sorted((self.clone / f".red/issues/{number}/comments").glob("*.md"))
        return [file.read_text(encoding="utf-8").split("---\n", 2)[2].removeprefix("\n") for file in files]

    def envelopes(self, number: int) -> list[str]:
        return [body for body in self.comments(number) if body.startswith(ENVELOPE)]

    def live_branches(self) -> dict[str, str]:
        """Name to sha, on the remote."""
        return {
            ref.removeprefix("refs/heads/"): sha for ref, sha in gitkit.refs(self.origin, "refs/heads/afk/").items()
        }

    def claims(self) -> dict[str, str]:
        return gitkit.refs(self.origin, "refs/afk/claims/")

    def forge_claim(self, number: int, **changes: Any) -> str:
        """A claim that another host pushed, a live one unless `lease_s` says otherwise; returns its sha."""
        record = {
            "schema": "afk.claim.v1",
            "nonce": f"{number:032x}",
            "seq": 3,
            "worker": "wDEAD",
            "host": "elsewhere",
            "attempt": f"wDEAD-{number}-a1",
            "lease_s": 900,
            "state": "working",
        }
        tree = gitkit.git(self.origin, "hash-object", "-t", "tree", "-w", "--stdin", input="")
        message = json.dumps(record | changes, separators=(",", ":"))
        sha = gitkit.git(self.origin, "commit-tree", tree, "-m", message)
        gitkit.git(self.origin, "update-ref", f"refs/afk/claims/{number}", sha)
        return sha

    def landed(self) -> list[str]:
        """Subjects of the merges on the trunk, newest first."""
        return gitkit.git(self.origin, "log", "--first-parent", "--merges", "--format=%s", "main").splitlines()

    def on_trunk(self, path: str) -> str:
        return gitkit.git(self.origin, "show", f"main:{path}")

    def attempts(self) -> list[Path]:
        return sorted((self.clone / ".red/tmp/workers").glob("w*/*-a*"))

    def attempt(self, number: int, n: int = 1) -> Path:
        [found] = (self.clone / ".red/tmp/workers").glob(f"w*/{number}-a{n}")
        return found

    def state(self, number: int, n: int = 1) -> dict[str, Any]:
        return dict(json.loads((self.attempt(number, n) / "afk.state.json").read_text(encoding="utf-8")))

    def worktrees(self) -> list[Path]:
        """Those beside the person's own checkout."""
        listing = gitkit.git(self.clone, "worktree", "list", "--porcelain")
        return [Path(line.split(" ", 1)[1]) for line in listing.splitlines() if line.startswith("worktree ")][1:]

    def history(self) -> list[dict[str, object]]:
        from afk.wire import toonl

        path = self.clone / ".red/state/history.toonl"
        return list(toonl.parse(path.read_text(encoding="utf-8")).rows) if path.exists() else []


def ended(process: subprocess.Popen[str]) -> Ran:
    try:
        stdout, stderr = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        process.kill()
        raise
    return Ran(process.returncode, stdout, stderr)


def reach(
    process: subprocess.Popen[str], is_true: Callable[[], object], what: str, *, limit_s: float = gitkit.READY_S
) -> None:
    """Wait until a running `afk` has got so far; fails with its words when it ends instead."""
    gitkit.wait_until(lambda: is_true() or process.poll() is not None, what, limit_s=limit_s)
    assert is_true(), f"ended with {process.returncode} instead of {what}: {process.communicate()}"


def status_of(envelope: str) -> str:
    found = re.match(r'<details data-attempt-status="([^"]+)">', envelope)
    assert found, envelope[:100]
    return found[1]


def section(envelope: str, name: str) -> str:
    """The text of one section; fails when the envelope has none of that name."""
    found = re.search(
        rf'<details data-section="{name}"><summary>{name}</summary>\n\n(.*?)\n\n</details>\n', envelope, re.DOTALL
    )
    assert found, f"no section {name} in\n{envelope}"
    return found[1]


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged
