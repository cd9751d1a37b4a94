"""Ends with code 3 and nothing done: `no-sentinel`, a fast death (S51).

dies_at_once.py [MARKER]   with the marker there it does its work: `done`
"""

import sys
from pathlib import Path

from kit import done, say, work

if any(Path(marker).exists() for marker in sys.argv[1:]):
    work()
    done()
else:
    say("no license on this machine")
    raise SystemExit(3)
