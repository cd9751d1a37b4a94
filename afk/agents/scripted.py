"""The demonstration's agent: `python -I -m afk.agents.scripted [--pace SECONDS] < PROMPT`, the standard library alone.

It needs no model: a line `demo: ACTION ARGUMENT` in the issue's body says what it does, so that a drain shows every end
that an issue can meet. It works in the current directory, with git, on a Python project that has one package at its top
and tests below `tests/` for `unittest`. The actions, and what `afk` makes of each:

    demo: land NAME         writes and tests the function NAME and commits it: `done`
    demo: break-check NAME  the same with a slip, and without running the tests: `feedback-failed`
    demo: silent-end NAME   commits half of NAME and ends without a last word: `no-sentinel`
    demo: block QUESTION    looks around and leaves the question in the handoff's notes: `blocked`
    demo: conflict FILE     rewrites the first line of FILE while a colleague, whom it plays itself, pushes another one
                            to the base; asked to resolve that, it gives up: `merge-conflict`
    demo: guarded FILE      changes FILE, which a `pre_merge` hook is expected to guard: `hook-aborted`

NAME is one of `slugify`, `truncate`, `initials`, `word_count`. Any other issue is answered with `blocked`. `--pace`
waits that long after each line, for people who watch.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ACTIONS", "RECIPES", "main"]

_DIRECTIVE = re.compile(r"^demo: ([a-z-]+)(?: (.+))?$", re.MULTILINE)
_NOTES = re.compile(r"(<agent-notes>\n).*?(\n</agent-notes>)", re.DOTALL)
_COLLEAGUE = " (a colleague's words)"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One function of the demonstration's library with its test; `slip` turns the code into what the test catches."""

    code: str
    test: str
    slip: tuple[str, str]


RECIPES = {
    "slugify": Recipe(
        'import re\n\n\ndef slugify(text):\n    """Lower-case words joined by dashes."""\n'
        '    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))\n',
        'self.assertEqual(slugify("Hello, World!"), "hello-world")',
        ('"-".join', '"_".join'),
    ),
    "truncate": Recipe(
        'def truncate(text, width):\n    """At most `width` characters; an ellipsis stands for what is cut."""\n'
        '    return text if len(text) <= width else text[: width - 1] + "…"\n',
        'self.assertEqual(truncate("abcdef", 4), "abc…")',
        ("width - 1", "width"),
    ),
    "initials": Recipe(
        'def initials(name):\n    """The first letter of each part, upper case."""\n'
        '    return "".join(part[0].upper() for part in name.split())\n',
        'self.assertEqual(initials("ada king lovelace"), "AKL")',
        (".upper()", ""),
    ),
    "word_count": Recipe(
        'def word_count(text):\n    """The number of words, however set apart."""\n    return len(text.split())\n',
        'self.assertEqual(word_count("one  two three"), 3)',
        ("split()", 'split(" ")'),
    ),
}

_TEST = """import unittest

from {package}.{name} import {name}


class {title}Test(unittest.TestCase):
    def test_{name}(self):
        {test}
"""


class GivesUp(Exception):
    """The task cannot be done; the message is what a person should read."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the agent works: the worktree, its prompt, and a voice."""

    root: Path
    prompt: str
    pace_s: float = 0.0

    def say(self, line: str) -> None:
        print(line, flush=True)
        time.sleep(self.pace_s)

    def shell(self, *argv: str, shown: str = "") -> subprocess.CompletedProcess[bytes]:
        """Runs a command as it is shown, with its output below it; the caller looks at the return code."""
        self.say(f"$ {shown or ' '.join(argv)}")
        ended = subprocess.run(argv, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        for line in ended.stdout.decode("utf-8", "replace").splitlines():
            self.say(f"  {line}")
        return ended

    def write(self, path: str, text: str) -> None:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        self.say(f"wrote {path}")

    def read(self, path: str) -> str:
        target = self._inside(path)
        if not target.is_file():
            raise GivesUp(f"There is no file `{path}`.")
        return target.read_text(encoding="utf-8")

    def _inside(self, path: str) -> Path:
        """A path from an issue's text is data: it may not lead out of the worktree."""
        target = (self.root / path).resolve()
        if not target.is_relative_to(self.root.resolve()) or ".git" in target.parts:
            raise GivesUp(f"`{path}` is no file of this project.")
        return target

    def commit(self, message: str) -> None:
        self.shell("git", "add", "--all")
        self.shell("git", "commit", "-m", message, shown=f"git commit -m '{message}'")

    def note(self, text: str) -> None:
        """Into the handoff's notes, in place; the handoff lies above the worktree."""
        handoff = self.root.parent / "handoff.md"
        if handoff.is_file():
            whole = handoff.read_text(encoding="utf-8")
            handoff.write_text(_NOTES.sub(lambda found: found[1] + text + found[2], whole), encoding="utf-8")

    def package(self) -> str:
        """The project's own package. Raises: GivesUp without exactly one."""
        found = [path.parent.name for path in self.root.glob("*/__init__.py") if path.parent.name != "tests"]
        if len(found) != 1:
            raise GivesUp("This project does not have one package at its top.")
        return found[0]

    def look_around(self) -> None:
        self.say("I look at the project first.")
        self.shell("git", "ls-files")


def _recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise GivesUp(f"I do not know how to write `{name}`; I know {', '.join(RECIPES)}.")
    return RECIPES[name]


def _write_function(desk: Desk, name: str, *, slip: bool = False, tested: bool = True) -> None:
    recipe, package = _recipe(name), desk.package()
    desk.look_around()
    desk.say(f"I write `{name}` into a module of its own.")
    desk.write(f"{package}/{name}.py", recipe.code.replace(*recipe.slip) if slip else recipe.code)
    if tested:
        title = name.title().replace("_", "")
        desk.write(f"tests/test_{name}.py", _TEST.format(package=package, name=name, title=title, test=recipe.test))


def _run_tests(desk: Desk) -> None:
    command = ("-m", "unittest", "discover", "-s", "tests")
    # No bytecode: it would be left in the worktree as something uncommitted.
    if desk.shell(sys.executable, "-B", *command, shown=" ".join(("python", *command))).returncode:
        raise GivesUp("The tests do not pass, and I do not know why.")


def _land(desk: Desk, name: str) -> int:
    _write_function(desk, name)
    _run_tests(desk)
    desk.commit(f"feat: add {name}")
    desk.note(f"Added `{name}` with a test; the whole suite passes.")
    return _done(desk)


def _break_check(desk: Desk, name: str) -> int:
    _write_function(desk, name, slip=True)
    desk.say("This is simple enough to go without a test run.")
    desk.commit(f"feat: add {name}")
    return _done(desk)


def _silent_end(desk: Desk, name: str) -> int:
    _write_function(desk, name, tested=False)
    desk.commit(f"wip: {name}, tests are missing")
    desk.say("Next I write the tests, and")
    return 1


def _block(desk: Desk, question: str) -> int:
    desk.look_around()
    raise GivesUp(question or "What exactly is wanted here?")


def _conflict(desk: Desk, file: str) -> int:
    if desk.shell("git", "rev-parse", "--quiet", "--verify", "MERGE_HEAD").returncode == 0:
        desk.shell("git", "merge", "--abort")
    first, _, rest = desk.read(file).partition("\n")
    desk.look_around()
    desk.write(file, f"{first.removesuffix(_COLLEAGUE)} (the agent's words)\n{rest}")
    desk.commit(f"docs: reword {file}")
    _colleague_pushes(desk, file)
    return _done(desk)


def _colleague_pushes(desk: Desk, file: str) -> None:
    """Somebody else changes the same line on the base meanwhile: from a clone of its own, once."""
    base = re.search(r"^- base branch: (.+)$", desk.prompt, re.MULTILINE)
    if base is None:
        raise GivesUp("The prompt does not name the base branch.")
    with tempfile.TemporaryDirectory(prefix="colleague-") as folder:
        theirs = Desk(Path(folder), desk.prompt)
        url = subprocess.run(
            ["git", "remote", "get-url", "origin"], cwd=desk.root, capture_output=True, text=True, check=True
        ).stdout.strip()
        _quietly(theirs, "clone", "--quiet", "--branch", base[1], url, ".")
        first, _, rest = theirs.read(file).partition("\n")
        if not first.endswith(_COLLEAGUE):
            (theirs.root / file).write_text(f"{first}{_COLLEAGUE}\n{rest}", encoding="utf-8")
            _quietly(theirs, "commit", "--quiet", "-am", f"docs: other words for {file}")
            _quietly(theirs, "push", "--quiet", "origin", f"HEAD:refs/heads/{base[1]}")


def _quietly(desk: Desk, *arguments: str) -> None:
    who = ("-c", "user.name=A Colleague", "-c", "user.email=colleague@example.test")
    subprocess.run(["git", *who, *arguments], cwd=desk.root, check=True, capture_output=True)


def _guarded(desk: Desk, file: str) -> int:
    text = desk.read(file)
    desk.look_around()
    desk.write(file, f"{text.rstrip()}\nchanged by an agent\n")
    desk.commit(f"chore: change {file}")
    return _done(desk)


def _done(desk: Desk) -> int:
    desk.say("<promise>DONE</promise>")
    return 0


ACTIONS: dict[str, Callable[[Desk, str], int]] = {
    "land": _land,
    "break-check": _break_check,
    "silent-end": _silent_end,
    "block": _block,
    "conflict": _conflict,
    "guarded": _guarded,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the prompt on standard input asks for; the exit code is 0 wherever a last word was said."""
    parser = argparse.ArgumentParser(prog="afk.agents.scripted", allow_abbrev=False)
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS")
    pace_s: float = parser.parse_args(argv).pace
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the locale says
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    desk = Desk(Path.cwd(), sys.stdin.buffer.read().decode("utf-8", "replace"), pace_s)
    try:
        return _act(desk)
    except GivesUp as reason:
        desk.say(str(reason))
        desk.note(str(reason))
        desk.say("<promise>BLOCKED</promise>")
        return 0


def _act(desk: Desk) -> int:
    if desk.prompt.startswith("# Commit your work"):
        desk.commit("chore: the rest of the work")
        return _done(desk)
    if desk.prompt.startswith("# Resolve a merge conflict"):
        raise GivesUp("Both sides reword the same line; which words are meant?")
    asked = _DIRECTIVE.search(desk.prompt)
    if asked is None or asked[1] not in ACTIONS:
        raise GivesUp("I am a script and only know the issues of the demonstration.")
    return ACTIONS[asked[1]](desk, asked[2] or "")


if __name__ == "__main__":
    raise SystemExit(main())
