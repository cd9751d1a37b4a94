"""Forks twice, as daemons do, into a session of its own, with an environment that it emptied, and ends.

What is left has no parent of ours, no group of ours, no pipe of ours and no marker.
"""

import os
import sys

told, tells = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(tells, f"{os.getpid()}\n".encode())
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
os.wait()
sys.stdout.write(os.read(told, 64).decode())
sys.stdout.flush()
if "stay" in sys.argv:
    os.execv("/bin/sleep", ["sleep", "600"])
