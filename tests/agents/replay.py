"""Prints what a real agent once printed, at its pace or faster, and does its work: what came of the capture.

replay.py KIND [--scale S] [--note FILE] -- ARGUMENTS

It stands in for a program of that name (`stand_in` in `tests/replaykit.py` puts it first in PATH). A line
`replay: CASE` in the prompt names the capture of `tests/fixtures/streams/KIND`; without one it is `success`. After as
many lines as `hold: N` says it waits for ever. Where the real program committed, a commit is made before the line that
tells of it; `leave: NAME` leaves a file of that name beside it. It ends as the real one did, by exit code or by signal.
`--scale` multiplies the pauses (0: none). `--note` gets a JSON line about how it was started.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

from kit import git, issue_number, prompt, sleep_for_ever

STREAMS = Path(__file__).resolve().parent.parent / "fixtures" / "streams"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--scale", type=float, default=0.0)
    parser.add_argument("--note", type=Path)
    split = sys.argv.index("--")
    given, arguments = parser.parse_args(sys.argv[1:split]), sys.argv[split + 1 :]
    if given.note:
        note(given.note, arguments)
    replay(STREAMS / given.kind / asked("replay", "success"), given.scale, hold=int(asked("hold", "-1")))


def asked(what: str, usual: str) -> str:
    found = re.search(rf"^{what}: (\w+)$", prompt(), re.MULTILINE)
    return found[1] if found else usual


def note(file: Path, arguments: list[str]) -> None:
    told = {
        "arguments": arguments,
        "cwd": str(Path.cwd()),
        "names": sorted(os.environ),
        "prompt_chars": len(prompt()),
        "prompt_begins": prompt()[:20],
        "prompt_sha256": hashlib.sha256(prompt().encode()).hexdigest(),
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(told) + "\n")


def replay(case: Path, scale: float, hold: int) -> None:
    meta = json.loads(case.with_suffix(".meta.json").read_text(encoding="utf-8"))
    print(meta["stderr"], end="", file=sys.stderr, flush=True)
    to_do = bool(meta["new_commits"])
    began = time.monotonic()
    lines = case.with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    for printed, (line, at_s) in enumerate(zip(lines, meta["line_seconds"], strict=True)):
        if printed == hold:
            sleep_for_ever()
        time.sleep(max(0.0, began + at_s * scale - time.monotonic()))
        if to_do and "git add" in line:
            commit(f"the work of {case.parent.name}\n")
            to_do = False
        print(line, flush=True)
    if meta["exit_code"] < 0:
        os.kill(os.getpid(), -meta["exit_code"])
        signal.pause()
    sys.exit(meta["exit_code"])


def commit(work: str) -> None:
    """What `git add -A && git commit` of the capture did, in silence: the captured lines tell of it."""
    Path(f"work-{issue_number()}.txt").write_text(work)
    git("add", "--all")
    git("commit", "--quiet", "-m", "feat: add hello")
    if name := asked("leave", ""):
        Path(name).write_text("left over\n")


main()
