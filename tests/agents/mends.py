"""Commits work that no check would pass, and mends it when it is told which check fails and what it said: `done`.

mends.py [HOW]   asked to mend, it does: `well` (default), `nothing`, `dirty`, `worse`, `waits READY GO`
"""

import sys

from kit import asked_to, commit, done, prompt, touch, wait_for, work, write

how, *rest = sys.argv[1:] or ["well"]
if not asked_to("A check fails"):
    work("answer.txt", "41\n")
    done()
    sys.exit()
assert "expected 42" in prompt() and "check answer" in prompt()
if how == "waits":
    touch(rest[0])
    wait_for(rest[1])
if how in ("well", "waits"):
    work("answer.txt", "42\n")
elif how == "dirty":
    write("answer.txt", "42\n")
    sys.exit()
elif how == "worse":
    work("answer.txt", "40\n")
commit("as asked")
done()
