"""What the kernel offers for holding a process tree: a control group of its own, and who goes first without memory.

Everything that is born in a group stays in it, whatever session, parent or environment it gives itself: nothing of it
can hide, and one word ends all of it. Where there is none (no cgroup v2, or it is not ours to divide) a keeper finds
its tree by other means.
Source: kernel documentation, Control Group v2 (`cgroup.procs`; `cgroup.kill`, 5.14 and newer) and The /proc Filesystem.
"""

# As in the keeper: pathlib would cost memory that it may not have.
# ruff: noqa: PTH102, PTH106, PTH112, PTH116, PTH119, PTH123

from __future__ import annotations

import os
from contextlib import suppress

__all__ = ["OOM_SCORE", "clear", "enter", "is_ours", "kill", "make", "members", "oom_kills", "own_group", "take_blame"]

# Of 1000: when memory is short the kernel takes a worker's tree, not the terminal or the supervisor (L37).
OOM_SCORE = 500


def make(nonce: str) -> str:
    """The folder of a new group inside our own, whose limits therefore hold for it; empty where that cannot be."""
    own = own_group()
    if not own:
        return ""
    path = f"{own}/{_name_of(nonce)}"
    try:
        os.mkdir(path)
    except OSError:
        return ""
    return path


def enter(path: str, pid: int) -> bool:
    """Moves a process into the group; False where the kernel or its owner refuses."""
    return bool(path) and _write(f"{path}/cgroup.procs", str(pid))


def members(path: str) -> list[int]:
    """Pids, those in groups that were made inside it too; empty also when the group is gone."""
    found: list[int] = []
    for folder, _, _ in os.walk(path):
        with suppress(OSError, ValueError), open(f"{folder}/cgroup.procs") as file:
            found += [int(line) for line in file]
    return found


def kill(path: str) -> None:
    """Everything in it at once, what is forked meanwhile too."""
    _write(f"{path}/cgroup.kill", "1")


def clear(path: str) -> None:
    """Removes the empty group with those inside it; one that is not empty, or gone, is left."""
    for folder, _, _ in os.walk(path, topdown=False) if path else ():
        with suppress(OSError):
            os.rmdir(folder)


def is_ours(path: str, nonce: str) -> bool:
    """Whether this is the group that `make` made for this nonce: a record could name any folder."""
    own = own_group()
    try:  # on the file system of our own group: nothing else there can be made to look like one
        return bool(own) and os.path.basename(path) == _name_of(nonce) and os.stat(path).st_dev == os.stat(own).st_dev
    except OSError:
        return False


def take_blame() -> None:
    """For this process and all that it will start."""
    _write("/proc/self/oom_score_adj", str(OOM_SCORE))


def oom_kills() -> int:
    """How many processes the kernel has ended on this machine for want of memory; 0 where it does not count."""
    with suppress(OSError, ValueError), open("/proc/vmstat") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def _name_of(nonce: str) -> str:
    return f"afk-{nonce}"


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        return False
    return True


def own_group() -> str:
    """The folder of the cgroup v2 group that we are in; empty where there is none to see."""
    try:
        with open("/proc/self/cgroup") as file:
            path = next(line.strip()[3:] for line in file if line.startswith("0::"))
        with open("/proc/self/mountinfo") as file:
            mounts = [line.split() for line in file if " - cgroup2 " in line]
    except (OSError, StopIteration):
        return ""
    for fields in mounts:
        root, place = fields[3], fields[4]
        inside = path == root or path.startswith(root.rstrip("/") + "/")
        if inside and os.path.isdir(place):
            return (place + "/" + path[len(root.rstrip("/")) :].strip("/")).rstrip("/")
    return ""
