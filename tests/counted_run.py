"""`afk run` that writes down each question to its tracker: `THREAD QUESTION` a line.

counted_run.py FILE
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from afk.attempt.session import Project
from afk.ports import Tracker
from afk.supervisor.drain import drain
from afk.supervisor.terms import Options


class Counted:
    def __init__(self, tracker: Tracker, file: Path) -> None:
        self._tracker = tracker
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if name in ("open_issues", "issue"):
            with self._file.open("a") as file:
                file.write(f"{threading.current_thread().name} {name}\n")
        return getattr(self._tracker, name)


if __name__ == "__main__":
    project = Project.open(Path.cwd(), environ=os.environ)
    counted: Any = Counted(project.tracker, Path(sys.argv[1]))
    report = drain(replace(project, tracker=counted), Options(), emit=lambda payload: None, say=print)
    sys.exit(report.exit_code(strict=False))
