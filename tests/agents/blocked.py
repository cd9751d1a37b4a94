"""Writes a question into the handoff's notes and gives up: `blocked`, and the envelope has the notes.

blocked.py [NOTES]
"""

import sys

from kit import blocked, note, say

say("$ git ls-files")
note(sys.argv[1] if len(sys.argv) > 1 else "Which of the two APIs is meant?")
blocked()
