"""Does its work, and writes into the person's checkout too: `done`, and the report names what was touched (R22).

edits_checkout.py [FILE]   relative to the checkout; default `README.md`
"""

import sys
from pathlib import Path

from kit import done, git, work

checkout = Path(git("rev-parse", "--path-format=absolute", "--git-common-dir")).parent
target = checkout / (sys.argv[1] if len(sys.argv) > 1 else "README.md")
with target.open("a", encoding="utf-8") as file:
    file.write("an agent was here\n")
work()
done()
