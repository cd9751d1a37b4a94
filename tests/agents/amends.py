"""Commits, touches READY, waits for GO, rewrites that commit and says DONE: `done`, with the new one alone.

amends.py READY GO
"""

import sys

from kit import done, git, issue_number, say, touch, wait_for, work, write

ready, go = sys.argv[1:]
work(text="the first idea\n")
touch(ready)
wait_for(go)
write(f"work-{issue_number()}.txt", "the work\n")
say("$ git commit --amend")
git("commit", "--quiet", "--all", "--amend", "-m", f"feat: better work on {issue_number()}")
done()
