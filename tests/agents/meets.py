"""Commits, touches a marker of its own in FOLDER, waits until COUNT markers are there, and says DONE: `done`.

Only agents that run at the same time ever meet.

meets.py FOLDER COUNT
"""

import sys
import time
from pathlib import Path

from kit import done, issue_number, touch, work

folder, count = Path(sys.argv[1]), int(sys.argv[2])
work()
touch(str(folder / issue_number()))
while len(list(folder.iterdir())) < count:
    time.sleep(0.02)
done()
