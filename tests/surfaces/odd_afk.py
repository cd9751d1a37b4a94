"""The real `afk` with a few more commands in its table: each does one thing that no good command does.

Run as a program: `python odd_afk.py COMMAND …`. It is `afk.__main__.main`, with everything that comes before and after.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from afk.errors import GitError, InvalidInput
from afk.surfaces import table
from afk.surfaces.context import Arguments, CommandContext, Result

HOSTILE = "a\x1b[2Jb\u2028c\u202ed"


def crash(context: CommandContext, arguments: Arguments) -> Result:
    raise ValueError("the value was canary-in-a-bug")


def full(context: CommandContext, arguments: Arguments) -> Result:
    raise OSError(errno.ENOSPC, "No space left on device")


def refuse(context: CommandContext, arguments: Arguments) -> Result:
    raise GitError(
        "git push https://u:canary-in-an-error@h/ was refused", hint="git push", details={"ref": Path("refs/heads/x")}
    )


def bad_details(context: CommandContext, arguments: Arguments) -> Result:
    raise InvalidInput("it cannot be used", details={"code": "another", "data": b"bytes"})


def child(context: CommandContext, arguments: Arguments) -> Result:
    return Result({"exit_code": subprocess.run(["sh", "-c", "echo said"], check=False).returncode})


def wait(context: CommandContext, arguments: Arguments) -> Result:
    context.emitter.progress({"state": "waiting"}, schema="afk.odd.v1", always=True)
    time.sleep(60)
    return Result({})


def talk(context: CommandContext, arguments: Arguments) -> Result:
    context.emitter.log("odd", "a log", at=Path("/tmp"))
    context.emitter.progress({"step": 1}, schema="afk.odd.v1")
    context.emitter.progress({"step": 2}, schema="afk.odd.v1", always=True)
    return Result({"said": True})


def hostile(context: CommandContext, arguments: Arguments) -> Result:
    name = os.fsdecode(b"/tmp/\xff")
    return Result(
        {"title": HOSTILE, "file_path": Path(name), "env": dict(context.env.items() & {("GH_TOKEN", "canary-in-env")})}
    )


def nan(context: CommandContext, arguments: Arguments) -> Result:
    return Result({"loss": float("nan")})


def verdict(context: CommandContext, arguments: Arguments) -> Result:
    return Result({"valid": False}, exit_code=1)


def wrong_exit(context: CommandContext, arguments: Arguments) -> Result:
    return Result({}, exit_code=75)


def race(context: CommandContext, arguments: Arguments) -> Result:
    barrier = threading.Barrier(8)

    def end(number: int) -> None:
        barrier.wait()
        context.emitter.result({"number": number}, schema="afk.odd.v1")

    threads = [threading.Thread(target=end, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Result({"number": -1})


def read(context: CommandContext, arguments: Arguments) -> Result:
    return Result({"text": context.read_input("FILE", arguments.text_or_none("file")), "cwd_path": context.cwd})


def large(context: CommandContext, arguments: Arguments) -> Result:
    return Result({"text": "x" * 1_000_000})


def add(name: str, *, args: tuple[table.Arg, ...] = (), exits: tuple[int, ...] = (0,)) -> table.Command:
    words = (name.replace("_", "-"),)
    return table.Command(words, "odd", f"{__name__}:{name}", "afk.odd.v1", f"afk {words[0]}", args=args, exits=exits)


def main() -> int:
    names = (
        "crash",
        "full",
        "refuse",
        "bad_details",
        "wait",
        "talk",
        "hostile",
        "nan",
        "race",
        "large",
        "child",
        "wrong_exit",
    )
    odd = (*(add(name) for name in names), add("verdict", exits=(0, 1)), add("read", args=(table.INPUT,)))
    table.COMMANDS += odd
    from afk.__main__ import main as afk

    return afk()


if __name__ == "__main__":
    sys.exit(main())
