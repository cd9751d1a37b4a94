"""Becomes the agent that the issue asks for: a line `agent: NAME [ARGUMENTS]` in its body, `done` without one.

So that one drain with one configured runner can meet many kinds of agents. The second runs of an attempt have no issue
text and find the line in the handoff.
"""

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from kit import HANDOFF, prompt

text = prompt() + (HANDOFF.read_text(encoding="utf-8") if HANDOFF.exists() else "")
asked = re.search(r"^agent: (\w+)(.*)$", text, re.MULTILINE)
name, arguments = (asked[1], shlex.split(asked[2])) if asked else ("done", [])
with tempfile.TemporaryFile() as again:
    again.write(prompt().encode())
    again.seek(0)
    os.dup2(again.fileno(), 0)
os.execv(sys.executable, [sys.executable, str(Path(__file__).with_name(f"{name}.py")), *arguments])
