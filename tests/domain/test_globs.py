"""Which files a glob means; a glob that silently matches nothing is a check that silently never runs."""

from __future__ import annotations

import pytest

from afk.domain.globs import matches


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("**/*.py", "a.py"),
        ("**/*.py", "src/deep/a.py"),
        ("*.py", "a.py"),
        ("**.py", "src/deep/a.py"),
        ("src/**", "src/a.py"),
        ("src/**", "src/deep/a.py"),
        ("src/", "src/deep/a.py"),
        ("src/**/test_*.py", "src/test_a.py"),
        ("src/**/test_*.py", "src/a/b/test_a.py"),
        ("**/src/**/*.c", "x/src/y/z.c"),
        ("**", "a"),
        ("**", "a/b"),
        ("*", "Makefile"),
        ("./docs/*.md", "docs/a.md"),
        ("/docs/*.md", "docs/a.md"),
        ("**/*.{ts,tsx}", "web/a.tsx"),
        ("{src,lib/{a,b}}/*.c", "lib/b/x.c"),
        ("**/*", ".github/workflows/ci.yml"),
        ("**/[a-c]?.txt", "x/b1.txt"),
        ("**/[!a]*.txt", "x/b1.txt"),
        ("docs/ü*.md", "docs/über uns.md"),
        ("a/[[]id]/*.ts", "a/[id]/page.ts"),
    ],
)
def test_a_glob_means_this_file(glob: str, path: str) -> None:
    assert matches(path, glob)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*.py", "src/a.py"),
        ("src/*", "src/deep/a.py"),
        ("src/**", "src"),
        ("src/**", "lib/src/a.py"),
        ("src/*.py", "src/a.pyc"),
        ("**/*.py", "a.PY"),
        ("**/*.py", "a.py/b"),
        ("**/test", "x/test/y"),
        ("a?c", "a/c"),
        ("a[/]c", "a/c"),
        ("**/*.{ts,tsx}", "web/a.ts.map"),
        ("{a,b}.c", "{a,b}.c"),
        ("", "a"),
    ],
)
def test_a_glob_does_not_mean_that_file(glob: str, path: str) -> None:
    assert not matches(path, glob)


def test_many_stars_end_in_time() -> None:
    assert not matches("/".join("a" * 30), "**/a/**/a/**/b")
