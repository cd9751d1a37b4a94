"""The ground that agents are run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ground import Ground, make_ground


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Agent")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "agent@example.test")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return make_ground(tmp_path)
