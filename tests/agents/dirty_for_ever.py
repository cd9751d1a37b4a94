"""Says DONE over an uncommitted file, however often it is asked: `blocked`, and the patch is kept (R47)."""

from kit import done, write

write("never-committed.txt", "the work\n")
done()
