"""Commits, and is killed in the middle of the line that would have ended its work: `no-sentinel`."""

import os
import signal
import sys

from kit import work

work()
sys.stdout.write("<promise>DO")
sys.stdout.flush()
os.kill(os.getpid(), signal.SIGKILL)
