"""Commits, and then destroys the worktree that it works in: `infra`, the commit is safe, and nobody else is harmed.

wrecks_worktree.py gitfile     without its `.git`, git looks for a repository further up: there is the person's checkout
wrecks_worktree.py directory   all of it is gone
wrecks_worktree.py replaced    git knows of no worktree any more, and a plain folder stands in its place
wrecks_worktree.py linked      a link to the person's checkout stands in its place
wrecks_worktree.py tmp         everything that afk keeps about attempts is gone with it
wrecks_worktree.py pointed     its `.git` names the person's repository, so that git there means their branch and index
"""

import shutil
import sys
from pathlib import Path

from kit import done, git, work

how = sys.argv[1]
here = Path.cwd()
checkout = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir")).parent
work()
if how == "gitfile":
    Path(".git").unlink()
    git("commit", "--quiet", "--allow-empty", "-m", "an agent was here", check=False)
elif how == "directory":
    shutil.rmtree(here)
elif how == "tmp":
    shutil.rmtree(checkout / ".red" / "tmp")
elif how == "linked":
    shutil.rmtree(here)
    here.symlink_to(checkout, target_is_directory=True)
elif how == "pointed":
    Path(".git").write_text(f"gitdir: {checkout / '.git'}\n")
else:
    git("worktree", "unlock", str(here))
    git("worktree", "remove", "--force", str(here))
    here.mkdir()
done()
