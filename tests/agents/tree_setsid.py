"""Starts a tool in a session of its own, as real agents do, which says its pid, and waits for it."""

import os

if os.fork() == 0:
    os.setsid()
    os.write(1, f"{os.getpid()}\n".encode())
    os.execv("/bin/sleep", ["sleep", "600"])
os.wait()
