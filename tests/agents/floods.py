"""Commits, prints one line of 10 MB and 100 MB of lines, and says DONE: `done`, in bounded memory (R36, R37, R41).

floods.py [TOTAL_MB [LINE_MB]]
"""

import sys

from kit import done, say, work

total_mb, line_mb = [int(argument) for argument in sys.argv[1:]] + [100, 10][len(sys.argv) - 1 :]

work()
say("x" * line_mb * 1_000_000)
block = ("flood " * 20 + "\n") * 1000
for _ in range(total_mb * 1_000_000 // len(block)):
    sys.stdout.write(block)
done()
