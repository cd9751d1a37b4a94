"""Writes a line that is not UTF-8, then half a line, then dies by its own hand."""

import os
import signal

os.write(1, b"caf\xe9 \xff\xfe\n")
os.write(1, b"half a li")
os.kill(os.getpid(), signal.SIGKILL)
