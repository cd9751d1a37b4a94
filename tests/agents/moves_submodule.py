"""Commits in the submodule at `vendor/lib` and in the project, which then needs that commit; pushes neither."""

from kit import done, git, write

write("vendor/lib/from-agent.txt", "x\n")
git("-C", "vendor/lib", "add", "--all")
git("-C", "vendor/lib", "commit", "--quiet", "--message", "feat: in the library")
git("add", "--all")
git("commit", "--quiet", "--message", "feat: needs the library's commit")
done()
