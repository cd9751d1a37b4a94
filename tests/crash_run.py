"""`afk run` with a seam in its journal, and somebody who kills with -9 there.

crash_run.py note FILE             writes each moment that is passed to FILE, `MOMENT KEY [WHO…]` a line, with who was
                                   alive besides the supervisor: `keeper`, `agent`
crash_run.py MOMENT KEY [WHO…]     kills WHO (`supervisor` unless named) when MOMENT (`before`, `after`) of the step KEY
                                   comes for the first time
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from deaths import alive, kill

from afk.attempt.session import Project
from afk.supervisor.drain import drain
from afk.supervisor.terms import Options

HERE = Path.cwd()
ONCE = threading.Lock()  # never given back: several slots come by the same step


def note(moment: str, key: str) -> None:
    with Path(sys.argv[2]).open("a") as file:
        file.write(" ".join([moment, key, *alive(HERE)]) + "\n")


def die(moment: str, key: str) -> None:
    if [moment, key] == sys.argv[1:3] and ONCE.acquire(blocking=False):
        kill(HERE, os.getpid(), sys.argv[3:] or ["supervisor"])


if __name__ == "__main__":
    project = Project.open(HERE, environ=os.environ)
    seam = note if sys.argv[1] == "note" else die
    drain(project, Options(), emit=lambda payload: None, say=print, seam=seam)
