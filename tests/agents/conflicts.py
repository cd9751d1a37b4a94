"""Rewrites a file that the test changes on the base meanwhile: `merge-conflict` with the path named, or `done`.

conflicts.py FILE READY GO [--resolve]

It commits, touches READY and waits for GO before it says DONE. Asked to resolve, it puts both texts into the file when
`--resolve` is given, and says BLOCKED without. A merge that it finds begun in a later attempt it aborts.
"""

import sys
from pathlib import Path

from kit import asked_to, blocked, done, git, issue_number, say, touch, wait_for, work

file, ready, go, *options = sys.argv[1:]


def rewrite() -> None:
    if git("rev-parse", "--quiet", "--verify", "MERGE_HEAD", check=False):
        git("merge", "--abort")
    work(file, f"by issue {issue_number()}\n")
    touch(ready)
    wait_for(go)
    done()


def resolve() -> None:
    ours, theirs = git("show", f":2:{file}"), git("show", f":3:{file}")
    Path(file).write_text(f"{ours}\n{theirs}\n", encoding="utf-8")
    git("add", file)
    say(git("commit", "--no-edit"))
    done()


if not asked_to("Resolve a merge conflict"):
    rewrite()
elif "--resolve" in options:
    resolve()
else:
    say("The two sides exclude each other.")
    blocked()
