"""Prints one line, then neither a byte nor a tick of CPU until it is killed: `stalled`, or a ceiling.

silent.py [MARKER]   the marker is there once it is silent
"""

import sys

from kit import say, sleep_for_ever, touch

say("thinking")
for marker in sys.argv[1:]:
    touch(marker)
sleep_for_ever()
