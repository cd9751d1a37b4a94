"""Ignores every polite request to end, says so, and so does its child."""

import os
import signal
import sys
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
pid = os.fork()
if pid:
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()
time.sleep(600)
