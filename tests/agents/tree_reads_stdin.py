"""Reads its standard input to the end and says how much that was."""

import hashlib
import sys

data = sys.stdin.buffer.read()
print(len(data), hashlib.sha256(data).hexdigest())
