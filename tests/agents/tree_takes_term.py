"""Says `ready`, and on TERM takes its leave in an orderly way: a last line, exit code 7."""

import os
import signal
import time


def leave(*_: object) -> None:
    os.write(1, b"leaving\n")
    os._exit(7)


signal.signal(signal.SIGTERM, leave)
os.write(1, b"ready\n")
while True:
    time.sleep(600)
