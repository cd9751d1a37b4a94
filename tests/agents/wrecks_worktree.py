"""Commits, and then destroys the worktree that it works in: `infra`, the commit is safe, and nobody else is harmed.

wrecks_worktree.py gitfile     without its `.git`, git looks for a repository further up: there is the person's checkout
wrecks_worktree.py directory   all of it is gone
wrecks_worktree.py replaced    git knows of no worktree any more, and a plain folder stands in its place
"""

import shutil
import sys
from pathlib import Path

from kit import done, git, work

how = sys.argv[1]
here = Path.cwd()
work()
if how == "gitfile":
    Path(".git").unlink()
    git("commit", "--quiet", "--allow-empty", "-m", "an agent was here", check=False)
elif how == "directory":
    shutil.rmtree(here)
else:
    git("worktree", "unlock", str(here))
    git("worktree", "remove", "--force", str(here))
    here.mkdir()
done()
