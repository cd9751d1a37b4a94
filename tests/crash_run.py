"""`afk run` with a seam: a program that drains the current directory and dies with -9 at one step of the journal.

crash_run.py note FILE             writes each moment that is passed to FILE, one `MOMENT KEY` a line
crash_run.py MOMENT KEY            kills itself when MOMENT (`before`, `after`) of the step KEY comes
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from afk.attempt.session import Project
from afk.supervisor.drain import drain
from afk.supervisor.terms import Options


def note(moment: str, key: str) -> None:
    with Path(sys.argv[2]).open("a") as file:
        file.write(f"{moment} {key}\n")


def die(moment: str, key: str) -> None:
    if [moment, key] == sys.argv[1:3]:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    project = Project.open(Path.cwd(), environ=os.environ)
    seam = note if sys.argv[1] == "note" else die
    drain(project, Options(), emit=lambda payload: None, say=print, seam=seam)
