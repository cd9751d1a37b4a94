"""Commits its work and says DONE, and can be held at `began`, `committed` and `said`: `done`.

phases.py FOLDER   at a phase it makes FOLDER/at.PHASE.ISSUE and goes on when there is no FOLDER/hold.PHASE (any more)
"""

import sys
import time
from pathlib import Path

from kit import done, issue_number, work

folder = Path(sys.argv[1])


def phase(name: str) -> None:
    (folder / f"at.{name}.{issue_number()}").touch()
    while (folder / f"hold.{name}").exists():
        time.sleep(0.02)


phase("began")
work()
phase("committed")
done()
phase("said")
