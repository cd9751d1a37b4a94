"""Where a submodule's address leads, compared with what git itself makes of it."""

from __future__ import annotations

from pathlib import Path

import gitkit
import pytest

from afk.adapters.submodules import resolve_url

PARENTS = ("https://host.test/a/b.git", "git@host.test:a/b.git", "/srv/git/b.git", "git@host.test:b")
URLS = ("../lib.git", "./lib.git", ".././lib.git", "https://other.test/lib.git", "/abs/lib")


@pytest.mark.parametrize("parent", PARENTS)
@pytest.mark.parametrize("url", URLS)
def test_an_address_means_what_git_takes_it_for(clone: Path, parent: str, url: str) -> None:
    """R12: `submodule init` is the only one who could tell otherwise, and it writes into the configuration."""
    gitkit.git(clone, "remote", "set-url", "origin", parent)
    gitkit.write(clone, {".gitmodules": f'[submodule "lib"]\n\tpath = lib\n\turl = {url}\n'})
    gitkit.git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    gitkit.git(clone, "submodule", "--quiet", "init")
    assert resolve_url(url, parent) == gitkit.git(clone, "config", "--get", "submodule.lib.url")
