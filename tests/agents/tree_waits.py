"""Says `ready`, waits until the file `go` exists in its working directory, says `done` and ends with exit code 4."""

import pathlib
import sys
import time

print("ready", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("done")
sys.exit(4)
