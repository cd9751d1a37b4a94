"""Works without a word until OVER is opened for writing, then commits and says DONE: silent, and not stalled.

quiet_work.py computes READY OVER   burns CPU
quiet_work.py tests READY OVER      takes none, and waits for a test program that takes none either
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

from kit import done, say, touch, work

how, ready, over = sys.argv[1:]
os.mkfifo(over)
say("this takes a while")
if how == "tests":
    program = Path(f"{over}.d/pytest")
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ntouch "{ready}"\nread it < "{over}"\n')
    program.chmod(0o755)
    subprocess.run([str(program)], check=False)
else:
    waiting = threading.Thread(target=lambda: Path(over).read_text())
    waiting.start()
    touch(ready)
    while waiting.is_alive():
        pass
work()
done()
