"""Has 0.3 s of CPU used by a child that it waits for and as much by one that it left to others, and then idles.

Says `burnt` when both have ended.
"""

import os
import sys
import time


def burn() -> None:
    while time.process_time() < 0.3:
        pass
    os._exit(0)


if os.fork() == 0:
    burn()
os.wait()

ends, held = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        burn()
    os._exit(0)
os.wait()
os.close(held)
os.read(ends, 1)  # until the orphan, the last to hold the other end, has ended

sys.stdout.write("burnt\n")
sys.stdout.flush()
time.sleep(600)
