"""Becomes the agent that the issue asks for: a line `agent: NAME [ARGUMENTS]` in its body, `done` without one.

So that one drain with one configured runner can meet many kinds of agents. The second runs of an attempt have no issue
text and find the line in the handoff.
"""

import re
import shlex

from kit import HANDOFF, become, prompt

text = prompt() + (HANDOFF.read_text(encoding="utf-8") if HANDOFF.exists() else "")
asked = re.search(r"^agent: (\w+)(.*)$", text, re.MULTILINE)
become(asked[1], *shlex.split(asked[2])) if asked else become("done")
