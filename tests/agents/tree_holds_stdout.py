"""Ends at once, but leaves a grandchild behind that holds its stdout and stderr open and never writes to them."""

import os
import sys

pid = os.fork()
if pid == 0:
    os.execv("/bin/sleep", ["sleep", "600"])
sys.stdout.write(f"{pid}\n")
