"""A drained project to look at: what `afk demo` left, and commands that are run there."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Demo:
    """`result` is the payload of `afk demo --json`, `lines` what it printed on stdout."""

    code: int
    lines: list[str]
    stderr: str

    @property
    def result(self) -> dict[str, Any]:
        return dict(json.loads(self.lines[0])["result"])

    @property
    def checkout(self) -> Path:
        return Path(self.result["repo_path"])

    @property
    def origin(self) -> Path:
        return Path(self.result["origin_path"])

    def afk(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One command in the drained checkout."""
        return subprocess.run(
            [sys.executable, "-m", "afk", *arguments],
            cwd=self.checkout,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def payload(self, *arguments: str, code: int = 0, stdin: str = "") -> dict[str, Any]:
        """The result of one command, which has to exit with this code."""
        ran = self.afk(*arguments, "--json", stdin=stdin)
        assert ran.returncode == code, ran.stdout + ran.stderr
        return dict(json.loads(ran.stdout)["result"])

    def attempt_id(self, number: int) -> str:
        """Of the one attempt at this issue."""
        [attempt] = self.payload("history", str(number))["attempts"]
        return str(attempt["attempt_id"])
