"""Says DONE over commits that change no file: `blocked`, because no change is needed or none was made (R46)."""

from kit import done, git, work

work("passing.txt")
git("rm", "--quiet", "passing.txt")
git("commit", "--quiet", "-m", "revert: not needed after all")
git("commit", "--quiet", "--allow-empty", "-m", "chore: nothing")
done()
