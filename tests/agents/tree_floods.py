"""Writes lines until it has written N bytes (first argument), then one last line, then says on stderr that it is done.

With `wait` as second argument it stays after that.
"""

import os
import sys
import time

LINE = b"%09d " + b"x" * 53 + b"\n"
total = int(sys.argv[1])
written = count = 0
while written < total:
    block = b"".join(LINE % (count + i) for i in range(1024))
    count += 1024
    while block:
        n = os.write(1, block)
        written += n
        block = block[n:]
os.write(1, b"the last line\n")
os.write(2, b"flooded %d\n" % (written + len(b"the last line\n")))
if "wait" in sys.argv:
    time.sleep(600)
