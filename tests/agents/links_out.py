"""Commits a symbolic link to a place outside of the tree and says DONE: `hook-aborted`, the path is named.

links_out.py TARGET
"""

import sys
from pathlib import Path

from kit import commit, done, issue_number

Path(f"link-{issue_number()}").symlink_to(sys.argv[1])
commit("feat: a link")
done()
