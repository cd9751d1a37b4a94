"""The wheel that `pipx install` takes: built as the package says, complete, and able to speak."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_all_that_runs_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    [wheel] = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "there")

    packaged = {str(path.relative_to(ROOT)) for path in (ROOT / "afk").rglob("*") if path.suffix in (".py", ".md")}
    assert packaged | {"afk/py.typed"} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"afk"}
    entry = next(name for name in names if name.endswith("entry_points.txt"))
    assert (tmp_path / "there" / entry).read_text().split() == ["[console_scripts]", "afk", "=", "afk.__main__:main"]
    told = subprocess.run(
        [sys.executable, "-P", "-m", "afk", "version", "--json"],
        cwd=tmp_path / "there",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "there")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"schema":"afk.version.v1"' in told.stdout
