"""Commits, then talks for ever; on TERM it writes to TOLD whether its commit is on the remote, and goes.

chatters.py WORKING HURRY TOLD   WORKING is there before the commit is; HURRY is taken away first thing on TERM
"""

import signal
import sys
import time
from pathlib import Path
from types import FrameType

from kit import git, say, touch, work

working, hurry, told = sys.argv[1:]


def look_and_go(number: int, frame: FrameType | None) -> None:
    Path(hurry).unlink()
    there = git("ls-remote", "origin", f"refs/heads/{git('branch', '--show-current')}").split("\t")[0]
    Path(told).write_text("on the remote" if there == git("rev-parse", "HEAD") else f"not there: {there}")
    sys.exit(1)


signal.signal(signal.SIGTERM, look_and_go)
touch(working)
work()
while True:
    say("one more thing")
    time.sleep(0.05)
