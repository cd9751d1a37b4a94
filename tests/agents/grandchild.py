"""Commits, says DONE and ends, but leaves a process of another session that holds its output open: `done` (R27).

grandchild.py [PID_FILE]   where the pid of the process that must be gone is written
"""

import subprocess
import sys
from pathlib import Path

from kit import done, work

work()
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
for file in sys.argv[1:]:
    Path(file).write_text(f"{left.pid}\n")
done()
