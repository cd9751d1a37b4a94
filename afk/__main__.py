"""The console script `afk`, and `python -m afk`."""

from __future__ import annotations

import os
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """The exit code of one command line; a second interrupt while the first is answered ends it without a word."""
    _open_missing_streams()
    try:
        from afk.surfaces import cli  # inside, so that an interrupt during the imports gives no traceback either

        return cli.main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    finally:
        # The answer is out. An interrupt while the interpreter packs up would only print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open_missing_streams() -> None:
    """Without this, the first file that is opened would become stdout, and be written to as such."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so it is `fd`
            os.set_inheritable(opened, True)


if __name__ == "__main__":
    sys.exit(main())
