"""Prints bytes that are no text, between lines that are, and says DONE: `done`, and nothing chokes."""

import sys

from kit import done, work

work()
sys.stdout.buffer.write(b"caf\xe9 \xff\xfe\x00 \xed\xa0\x80 \xf0\x9f\n")
sys.stdout.flush()
done()
