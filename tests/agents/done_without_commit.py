"""Says DONE and has done nothing: `blocked`, and the reason says that nothing was committed (R45)."""

from kit import done, say

say("Everything is finished, trust me.")
done()
