"""Commits, then a child of its takes 200 MiB of memory and keeps them until it is killed: a budget, if there is one.

hoards.py [MARKER]   the marker is there once it holds them
"""

import subprocess
import sys

from kit import say, work

work()
say("building")
take = (
    "import sys, time; held = b'x' * (200 << 20); [open(name, 'w').close() for name in sys.argv[1:]]; time.sleep(3600)"
)
subprocess.run([sys.executable, "-c", take, *sys.argv[1:]], check=False)
