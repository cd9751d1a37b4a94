"""Commits and ends with code 3 and no last word: `no-sentinel`; it did not end well, so nothing is salvaged."""

from kit import say, work

work()
say("something went wrong")
raise SystemExit(3)
