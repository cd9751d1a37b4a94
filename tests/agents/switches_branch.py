"""Commits somewhere else than on its branch and says DONE: the commits are brought back, `done`.

switches_branch.py [branch | detached | away]   `away` leaves a commit that does not continue the branch behind
"""

import sys

from kit import done, git, work

how = sys.argv[1] if len(sys.argv) > 1 else "branch"
if how == "branch":
    git("checkout", "--quiet", "-b", "somewhere-else")
elif how == "detached":
    git("checkout", "--quiet", "--detach")
else:
    git("checkout", "--quiet", "--orphan", "an-orphan")
work()
done()
