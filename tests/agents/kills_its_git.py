"""Commits, then kills a git of its own in the middle of a commit and says DONE: `done`, without its lock."""

import os
import signal
import subprocess
from pathlib import Path

from kit import done, wait_for, work

work()
Path("../ready").unlink(missing_ok=True)
Path("README.md").write_text("half a thought\n")
editor = "touch ../ready; sleep 3600; :"
git = subprocess.Popen(["git", "commit", "-qa"], env=os.environ | {"GIT_EDITOR": editor}, start_new_session=True)
wait_for("../ready")
os.killpg(git.pid, signal.SIGKILL)
git.wait()
subprocess.run(["git", "-c", "core.fsmonitor=", "status"], stdout=subprocess.DEVNULL, check=True)
subprocess.run(["sh", "-c", "git show HEAD:README.md > README.md"], check=True)
done()
