"""Commits, writes what it was told of its slot into a file of FOLDER, meets COUNT others (2) at PLACE: `done`.

tells_seat.py FOLDER PLACE [COUNT]
"""

import os
import sys
import time
from pathlib import Path

from kit import done, issue_number, touch, work

folder, place, count = Path(sys.argv[1]), Path(sys.argv[2]), int((sys.argv[3:] or ["2"])[0])
names = ("RED_AFK_SLOT", "RED_AFK_PORT_BASE", "RED_AFK_PORT_COUNT", "RED_AFK_CACHE_DIR", "TMPDIR")
folder.mkdir(exist_ok=True)
(folder / issue_number()).write_text(" ".join(os.environ.get(name, "-") for name in names))
work()
touch(str(place / issue_number()))
while len(list(place.iterdir())) < count:
    time.sleep(0.02)
done()
