"""Says DONE over an uncommitted file; asked to commit its work, it does: `done` after two runs (R47)."""

from kit import asked_to, commit, done, issue_number, write

if asked_to("Commit your work"):
    commit(f"feat: work on {issue_number()}")
else:
    write(f"work-{issue_number()}.txt", "the work\n")
done()
