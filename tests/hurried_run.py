"""`afk run` whose clock, behind its port, is in a hurry once a marker is there: 0.2 s more with every reading.

A minute takes some seconds then. Any faster, and a busy machine does not get round to giving an agent the CPU time that
shows that it works.

hurried_run.py MARKER
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from afk.adapters.clock import SystemClock
from afk.attempt.session import Project
from afk.supervisor.drain import drain
from afk.supervisor.terms import Options


class Hurried(SystemClock):
    def __init__(self, marker: Path) -> None:
        self._marker = marker
        self._lock = threading.Lock()
        self._ahead_s = 0.0

    def monotonic_s(self) -> float:
        with self._lock:
            self._ahead_s += 0.2 * self._marker.exists()
            return super().monotonic_s() + self._ahead_s


if __name__ == "__main__":
    project = Project.open(Path.cwd(), environ=os.environ, clock=Hurried(Path(sys.argv[1])))
    report = drain(project, Options(), emit=lambda payload: None, say=lambda text: print(text, file=sys.stderr))
    attempts = [{"issue_number": each.issue_number, "outcome": each.outcome} for each in report.ended]
    print(json.dumps({"result": {"attempts": attempts}}))
