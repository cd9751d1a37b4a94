"""What every test finds: a git that knows nothing of the machine it runs on, and repositories to play with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import gitkit
import pytest
from drainkit import Place


@pytest.fixture(scope="session", autouse=True)
def git_env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A scratch HOME and git configuration; the value is the global configuration file."""
    with gitkit.alone(tmp_path_factory.mktemp("home")) as config:
        yield config


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files are: what checkouts of one machine share is shared within a test, and with no other."""
    folder = tmp_path.with_name(f"{tmp_path.name}-machine")
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture(scope="session")
def _origin_template(git_env: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gitkit.make_origin(tmp_path_factory.mktemp("template") / "origin.git", {"README.md": "A project.\n"})


@pytest.fixture
def origin(_origin_template: Path, tmp_path: Path) -> Path:
    """A bare repository with one commit on `main`; `gitkit.url(origin)` is its file:// address."""
    return Path(shutil.copytree(_origin_template, tmp_path / "origin.git"))


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Path:
    """A person's checkout of `origin`, on `main`, with the remote `origin` at its file:// address."""
    return gitkit.clone(gitkit.url(origin), tmp_path / "clone")


@pytest.fixture
def git_daemon(origin: Path) -> Iterator[str]:
    """The git:// address of `origin`, served with pushing allowed on loopback."""
    with gitkit.daemon(origin.parent) as base:
        yield f"{base}/{origin.name}"


@pytest.fixture
def place(origin: Path, clone: Path) -> Iterator[Place]:
    """A project to drain, configured for an agent that does what each issue asks for; nothing of it runs afterwards."""
    with Place(origin, clone) as made:
        made.configure()
        yield made
