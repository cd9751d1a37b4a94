"""Commits, says DONE and stays, deaf to TERM: killed after the grace, and `done` all the same (L28).

ignores_term.py [MARKER]   the marker is there once TERM does nothing
"""

import signal
import sys

from kit import done, sleep_for_ever, touch, work

signal.signal(signal.SIGTERM, signal.SIG_IGN)
work()
for marker in sys.argv[1:]:
    touch(marker)
done()
sleep_for_ever()
