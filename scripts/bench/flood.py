"""Peak memory of `afk run` while its agent prints a line of 10 MB and 100 MB of lines.

Baseline: the same drain with an agent that prints five lines. Bound: 100 MB for the flooded run; exit 1 above it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import gitkit
from drainkit import Place

BOUND_MB = 100.0
LOOK_S = 0.02


def main() -> int:
    os.environ |= {"GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost"}
    os.environ |= {"GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@localhost"}
    quiet_mb, quiet_s = peak("done")
    flood_mb, flood_s = peak("floods")
    print(f"baseline, quiet agent: {quiet_mb:.1f} MB peak RSS, {quiet_s:.1f} s")
    print(f"flooding agent:        {flood_mb:.1f} MB peak RSS, {flood_s:.1f} s")
    print(f"ratio: {flood_mb / quiet_mb:.2f} (bound: {BOUND_MB:.0f} MB)")
    return 0 if flood_mb < BOUND_MB else 1


def peak(agent: str) -> tuple[float, float]:
    """Highest resident size of the supervisor in MB, and the drain's seconds."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        origin = gitkit.make_origin(base / "origin.git", {"README.md": "A project.\n"})
        place = Place(origin, gitkit.clone(gitkit.url(origin), base / "clone"))
        place.configure(agent)
        place.file(1)
        began = time.monotonic()
        process = place.start("run", "--json")
        highest = 0.0
        while process.poll() is None:
            highest = max(highest, resident_mb(process.pid))
            time.sleep(LOOK_S)
        assert process.returncode == 0, process.communicate()[1]
        assert place.on_trunk("work-1.txt") == "the work"
        return highest, time.monotonic() - began


def resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0]) / 1024 if lines else 0.0


if __name__ == "__main__":
    sys.exit(main())
