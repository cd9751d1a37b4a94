"""What `afk demo` works on: a small tested Python project, a bare remote beside it, and issues that end in every way.

Everything is made anew with the person's git, and none of the person's git configuration (signing, hooks, templates)
reaches into it.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from afk.adapters import git
from afk.adapters.localtracker import LocalTracker, init_folder
from afk.errors import DestinationExists

__all__ = ["ISSUES", "DemoIssue", "DemoProject", "make"]

BRANCH = "main"
LABEL = "ready-for-agent"


@dataclass(frozen=True, slots=True)
class DemoProject:
    root: Path
    origin: Path
    checkout: Path


@dataclass(frozen=True, slots=True)
class DemoIssue:
    """`body` ends in the line that tells the scripted agent what to do."""

    title: str
    body: str


ISSUES = (
    DemoIssue(
        "Turn a title into a slug",
        "We need `slugify(text)`: lower-case words, joined by dashes.\n\ndemo: land slugify\n",
    ),
    DemoIssue(
        "Give the initials of a name",
        "`initials(name)` gives the first letter of each part in upper case.\n\ndemo: land initials\n",
    ),
    DemoIssue(
        "Estimate the reading time of a text",
        "Something like `reading_time(text)`, so that people know what they are in for.\n\n"
        "demo: block How many words a minute does a reader manage, and is the answer rounded up?\n",
    ),
    DemoIssue(
        "Count the words of a text",
        "`word_count(text)` counts words, however they are set apart.\n\ndemo: silent-end word_count\n",
    ),
    DemoIssue(
        "Cut long texts",
        "`truncate(text, width)` cuts, and an ellipsis shows that it did.\n\ndemo: break-check truncate\n",
    ),
    DemoIssue(
        "Say in the README's title what this is for",
        "The first line of the README says nothing to somebody who has just come in.\n\ndemo: conflict README.md\n",
    ),
    DemoIssue(
        "Mention the contributors in the licence",
        "Add us all to the licence file.\n\ndemo: guarded LICENSE\n",
    ),
    DemoIssue(
        "Show the reading time in the summary",
        "As soon as there is one.\n\n## Blocked by\n\n- #3\n\ndemo: land slugify\n",
    ),
)

_FILES = {
    ".gitignore": "__pycache__/\n",
    "LICENSE": "Do with it what you like.\n",
    "README.md": "# Wording\n\nSmall functions on texts. Run the tests with `python -m unittest discover -s tests`.\n",
    "wording/__init__.py": '"""Small functions on texts."""\n',
    "wording/shout.py": 'def shout(text):\n    """The same, louder."""\n    return text.upper() + "!"\n',
    "tests/test_shout.py": (
        "import unittest\n\nfrom wording.shout import shout\n\n\n"
        "class ShoutTest(unittest.TestCase):\n    def test_shout(self):\n"
        '        self.assertEqual(shout("hello"), "HELLO!")\n'
    ),
    "scripts/guard.sh": (
        "#!/bin/sh\n"
        "# A pre_merge hook: the licence is not for agents to change.\n"
        'git -C "$RED_AFK_WORKSPACE" diff --name-only "$RED_AFK_MERGE_BASE" HEAD | grep -qx LICENSE || exit 0\n'
        'echo "LICENSE is changed by people only" >&2\n'
        "exit 1\n"
    ),
}
_EXECUTABLE = ("scripts/guard.sh",)

# Each failure is parked at its first try, so that the demonstration ends; a real project tries some of them again.
_CONFIG = """\
afk:
  tracker: local
  label: {label}
  poll_s: 1
  runner: {runner}
{agents}  validation:
    checks:
      - {{name: test, run: {check}, timeout_s: 60}}
  recovery:
    tries: {{crashed: 1, merge-conflict: 1, policy: 1}}
  hooks:
    pre_merge: ./scripts/guard.sh
"""


def make(root: Path, runner: str | None = None) -> DemoProject:
    """Everything below `root`, which may exist if it is empty; `runner` None is the scripted agent.

    Raises: DestinationExists, GitError.
    """
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise DestinationExists(f"{root} is there already and not empty", hint="afk demo")
    project = DemoProject(root, root / "origin.git", root / "project")
    project.origin.mkdir(parents=True)
    git.run(project.origin, "init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}")
    _make_checkout(project, runner)
    _file_issues(project.checkout / ".red" / "issues", scripted=runner is None)
    return project


def _make_checkout(project: DemoProject, runner: str | None) -> None:
    checkout = project.checkout
    checkout.mkdir()
    git.run(checkout, "init", "--quiet", "--template=", f"--initial-branch={BRANCH}")
    for key, value in _SETTINGS.items():
        git.run(checkout, "config", key, value)
    for name, text in _FILES.items():
        path = checkout / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if name in _EXECUTABLE else 0o644)
    _write_config(checkout, runner)
    git.run(checkout, "add", "--all")
    git.run(checkout, "commit", "--quiet", "-m", "wording: begin")
    git.run(checkout, "remote", "add", "origin", str(project.origin))
    git.run(checkout, "push", "--quiet", "--set-upstream", "origin", BRANCH)


_SETTINGS = {
    "user.name": "Demo Person",
    "user.email": "demo@example.invalid",
    "commit.gpgSign": "false",
    "core.hooksPath": "/dev/null",
    "core.autocrlf": "false",
}


def _write_config(checkout: Path, runner: str | None) -> None:
    red = checkout / ".red"
    red.mkdir()
    argv = json.dumps([sys.executable, "-I", "-m", "afk.agents.scripted"])
    scripted = f"  agents:\n    command:\n      argv: {argv}\n"
    check = f"{shlex.quote(sys.executable)} -m unittest discover -s tests"
    text = _CONFIG.format(
        label=LABEL, runner=runner or "command", agents="" if runner else scripted, check=json.dumps(check)
    )
    (red / "config.yaml").write_text(text, encoding="utf-8")


def _file_issues(folder: Path, *, scripted: bool) -> None:
    init_folder(folder)
    tracker = LocalTracker(folder, login="demo")
    for issue in ISSUES:
        body = issue.body if scripted else issue.body[: issue.body.rindex("demo: ")]
        tracker.create_issue(title=issue.title, body=body, labels=[LABEL])
