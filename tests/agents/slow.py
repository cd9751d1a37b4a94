"""Commits a first half, touches READY, waits for GO, commits the rest and says DONE: `done`, when the test wants it.

slow.py READY GO
"""

import sys

from kit import commit, done, issue_number, touch, wait_for, work, write

ready, go = sys.argv[1:]
work(f"first-{issue_number()}.txt")
touch(ready)
wait_for(go)
write(f"second-{issue_number()}.txt", "the rest\n")
commit(f"feat: the rest of {issue_number()}")
done()
