"""Where an agent is run in tests: a repository, a worktree and a handoff above it, as an attempt has them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from afk.agents.command import CommandAgent
from afk.agents.environment import agent_environment
from afk.agents.prompt import PromptContext, work_prompt
from afk.agents.reading import Reading
from afk.domain.outcome import GitFacts, RunEvidence
from afk.domain.stage import Stage

PROGRAMS = Path(__file__).parent.parent / "agents"
HANDOFF = "# Issue #7 — greet\n\n<issue-body>\n{body}\n</issue-body>\n\n<agent-notes>\n_Notes._\n</agent-notes>\n"
BRANCH = "afk/w0001/7-greet"


@dataclass(frozen=True)
class Ground:
    """`checkout` is the person's, `worktree` the agent's; `base` the commit that both began with."""

    checkout: Path
    worktree: Path
    handoff: Path
    base: str

    @property
    def environment(self) -> dict[str, str]:
        return agent_environment(os.environ, self.worktree)

    def git(self, *arguments: str, at: Path | None = None) -> str:
        command = ["git", *arguments]
        ended = subprocess.run(command, cwd=at or self.worktree, capture_output=True, text=True, check=True)
        return ended.stdout.strip()

    def prompt(self, body: str = "Greet.") -> str:
        """The work prompt for an issue of this body; the handoff is written as the prompt has it."""
        self.handoff.write_text(HANDOFF.format(body=body))
        return work_prompt(
            PromptContext(
                issue_number=7,
                title="greet",
                attempt=1,
                branch=BRANCH,
                base="main",
                worktree_path=self.worktree,
                handoff_path=self.handoff,
                handoff=self.handoff.read_text(),
            )
        )

    def start(self, argv: Sequence[str], prompt: str) -> subprocess.Popen[bytes]:
        """The program with the prompt as its whole input; `finish` reads the rest."""
        (self.worktree.parent / "prompt").write_text(prompt)
        with (self.worktree.parent / "prompt").open("rb") as stdin:
            return subprocess.Popen(
                argv,
                cwd=self.worktree,
                env=self.environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def run(self, program: str, *arguments: str, prompt: str | None = None) -> Ran:
        argv = [sys.executable, str(PROGRAMS / f"{program}.py"), *arguments]
        return self.finish(self.start(argv, prompt if prompt is not None else self.prompt()))

    def finish(self, process: subprocess.Popen[bytes]) -> Ran:
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def facts(self) -> GitFacts:
        """As the worktree shows them now, against the base."""
        ahead = int(self.git("rev-list", "--count", f"{self.base}..HEAD"))
        changed = self.git("diff", "--name-only", self.base, "HEAD").splitlines()
        return GitFacts(ahead, len(changed), tuple(self.git("status", "--porcelain").splitlines()))


@dataclass(frozen=True)
class Ran:
    """What a program left, read the way an attempt reads it."""

    exit_code: int
    out: str
    err: str

    @property
    def evidence(self) -> RunEvidence:
        ends = {"signal": -self.exit_code} if self.exit_code < 0 else {"exit_code": self.exit_code}
        return replace(self._read()[0].evidence, **ends)

    @property
    def stages(self) -> list[Stage]:
        """Each stage once, in the order in which it was reached."""
        return self._read()[1]

    def _read(self) -> tuple[Reading, list[Stage]]:
        reading, reached = Reading(CommandAgent("test", ("test",)), now=lambda: datetime.now(UTC)), []
        for line in self.out.split("\n"):
            reading.out(line)
            if reading.stage is not None and reading.stage not in reached:
                reached.append(reading.stage)
        reading.finish()
        return reading, reached


def make_ground(root: Path) -> Ground:
    """Both halves below `root`, with one commit; git takes its identity from the environment."""
    checkout, attempt = root / "checkout", root / "attempt"
    attempt.mkdir()
    made = Ground(checkout, attempt / "worktree", attempt / "handoff.md", "")
    made.git("init", "--quiet", "--initial-branch=main", str(checkout), at=root)
    (checkout / "README.md").write_text("the project\n")
    made.git("add", ".", at=checkout)
    made.git("commit", "--quiet", "-m", "first", at=checkout)
    made.git("worktree", "add", "--quiet", "-b", BRANCH, str(made.worktree), at=checkout)
    return replace(made, base=made.git("rev-parse", "HEAD"))
