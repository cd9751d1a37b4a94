"""Fills the disk, once, and then does its work as if nothing had happened: `infra` or an error, then `done` with space.

fills_disk.py FILE [LEAVE_MB] [--after]   what takes the space, before or after the work is committed
fills_disk.py FILE --only                 for hooks and checks: no work, no last word

Beside it stays FILE.once, so that the next try finds a quiet agent.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from kit import done, touch, work

SLACK_BYTES = 2_000_000


def fill(file: Path, leave: int) -> None:
    disk = os.statvfs(file.parent)
    with file.open("wb") as big:
        # Somebody else may write meanwhile, and an allocation that does not fit takes nothing: the rest is written.
        os.posix_fallocate(big.fileno(), 0, max(1, disk.f_bavail * disk.f_frsize - leave - SLACK_BYTES))
        big.seek(0, os.SEEK_END)
        with suppress(OSError):
            while not leave:
                big.write(bytes(4096))
                big.flush()


name, *rest = sys.argv[1:]
leave_mb = [int(word) for word in rest if word.isdigit()]
if "--after" in rest:
    work()
if not Path(f"{name}.once").exists():
    touch(f"{name}.once")
    fill(Path(name), sum(leave_mb) * 1_000_000)
if "--only" not in rest:
    work()
    done()
