"""`afk demo` is run once for all tests that look at what it left, whatever the number of test processes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from demokit import Demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, git_env: Path) -> Demo:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    kept = shared / "demo.json"
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            ran = subprocess.run(
                [sys.executable, "-m", "afk", "demo", "--dir", str(shared / "demo"), "--json", "--verbose"],
                cwd=shared,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            kept.write_text(json.dumps([ran.returncode, ran.stdout.splitlines(), ran.stderr]))
    return Demo(*json.loads(kept.read_text()))
