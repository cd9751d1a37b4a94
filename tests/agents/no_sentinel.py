"""Goes away without a last word: `no-sentinel`.

no_sentinel.py [--commit]   with complete commits before it goes: salvaged, when the configuration allows it (R44)
"""

import sys

from kit import say, work

if "--commit" in sys.argv:
    work()
say("I think that is all.")
