"""Puts a pipe in the place of its handoff and of its own output, and links in the place of our files: `blocked`.

swaps_files.py SECRET VICTIM
"""

import os
import sys
from pathlib import Path

from kit import HANDOFF, blocked

secret, victim = sys.argv[1:]
out = max(Path("../runs").glob("*-agent")) / "out"
blocked()
HANDOFF.unlink()
os.mkfifo(HANDOFF)
out.unlink()
os.mkfifo(out)
os.mkfifo(out.with_name("exit"))
Path("../outbox.json").symlink_to(victim)
Path("../validation.jsonl").symlink_to(victim)
Path("../stray.patch").symlink_to(secret)
