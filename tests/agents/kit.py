"""What the agents of this folder share. Each is a program: `python tests/agents/NAME.py [ARGUMENTS] < PROMPT`.

They work in the current directory with the real git, and speak by printing lines. Those that tests must meet half way
touch one marker file and wait for another; both come as arguments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NoReturn

HANDOFF = Path("../handoff.md")
_NOTES = re.compile(r"(<agent-notes>\n).*?(\n</agent-notes>)", re.DOTALL)


@cache
def prompt() -> str:
    """The whole prompt, read once."""
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def issue_number() -> str:
    """From the prompt's first line; `0` without one, so that the programs also run by hand."""
    found = re.search(r"issue #(\d+)", prompt().partition("\n")[0], re.IGNORECASE)
    return found[1] if found else "0"


def asked_to(what: str) -> bool:
    """Whether this is the second run named so: `Commit your work`, `Resolve a merge conflict`."""
    return prompt().startswith(f"# {what}")


def say(line: str) -> None:
    print(line, flush=True)


def become(name: str, *arguments: str) -> NoReturn:
    """This process goes on as another agent of this folder, which gets the whole prompt again."""
    with tempfile.TemporaryFile() as again:
        again.write(prompt().encode())
        again.seek(0)
        os.dup2(again.fileno(), 0)
    os.execv(sys.executable, [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *arguments])


def done() -> None:
    say("<promise>DONE</promise>")


def blocked() -> None:
    say("<promise>BLOCKED</promise>")


def git(*arguments: str, check: bool = True) -> str:
    """Git's answer without the last line break; its complaints go to our standard error."""
    ended = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=check)
    return ended.stdout.rstrip("\n")


def write(path: str | Path, text: str) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    say(f"wrote {path}")
    return target


def commit(message: str) -> None:
    """Everything in the worktree; an unchanged tree makes no commit."""
    git("add", "--all")
    if git("status", "--porcelain"):
        say(f"$ git commit -m '{message}'")
        say(git("commit", "-m", message))


def work(path: str | None = None, text: str = "the work\n") -> None:
    """One believable piece of work on this issue, committed."""
    name = path or f"work-{issue_number()}.txt"
    say("$ git ls-files")
    write(name, text)
    commit(f"feat: work on {issue_number()}")


def note(text: str) -> None:
    """Writes between the tags of `agent-notes` in the handoff, in place; without a handoff, nowhere."""
    if HANDOFF.exists():
        whole = HANDOFF.read_text(encoding="utf-8")
        HANDOFF.write_text(_NOTES.sub(lambda found: found[1] + text + found[2], whole), encoding="utf-8")


def touch(marker: str) -> None:
    Path(marker).write_text("here\n")


def wait_for(marker: str) -> None:
    while not Path(marker).exists():
        time.sleep(0.02)


def sleep_for_ever() -> None:
    while True:
        time.sleep(3600)
