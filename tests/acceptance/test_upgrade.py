"""An upgrade while agents work: installed wheels in environments of their own, the newer one with a higher version.

Lower and higher are built from this checkout; what they depend on they find where the tests do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import gitkit
import pytest
from drainkit import Place, ended

from afk.attempt.journal import JOURNAL

ROOT = Path(__file__).parents[2]
HIGHER = "99.0.0"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`as it is` and `higher`."""
    folder = tmp_path_factory.mktemp("wheels")
    built = {}
    for name in ("as it is", "higher"):
        source = folder / name.replace(" ", "-")
        source.mkdir()
        for path in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / path, source)
        shutil.copytree(ROOT / "afk", source / "afk", ignore=shutil.ignore_patterns("__pycache__"))
        if name == "higher":
            (source / "afk/__init__.py").write_text(f'"""The next one."""\n\n__version__ = "{HIGHER}"\n')
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=source, check=True)
        [built[name]] = (source / "dist").glob("*.whl")
    return built


def install(wheel: Path, environment: Path) -> str:
    """Makes the environment, or upgrades it in place as pip does: the old files go first. Returns its interpreter."""
    if not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python3.*/site-packages")
    for old in packages.glob("afk*"):
        shutil.rmtree(old)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(environment / "bin/python")


def version(place: Place) -> str:
    return str(place.afk("version").payload["version"])


@pytest.mark.parametrize("second", ["another environment", "the same environment"])
def test_agents_are_followed_to_their_ends_across_an_upgrade(
    place: Place, tmp_path: Path, wheels: dict[str, Path], second: str
) -> None:
    """Nothing changes for them: no second agent run, and every attempt ends `done`."""
    place.python = install(wheels["as it is"], tmp_path / "first")
    (tmp_path / "met").mkdir()
    for number in range(1, 5):
        place.file(number, f"Job {number}", f"agent: meets {tmp_path / 'met'} 5\n")
    process = place.start("run", "--json", "--workers", "4")
    gitkit.wait_until(lambda: len(list((tmp_path / "met").iterdir())) == 4, "four agents")
    process.kill()
    assert ended(process).code == -9

    place.python = install(wheels["higher"], tmp_path / ("second" if second == "another environment" else "first"))
    if second == "another environment":
        shutil.rmtree(tmp_path / "first")
    assert version(place) == HIGHER
    (tmp_path / "met/go").write_text("")
    ran = place.run("--workers", "2")

    assert ran.outcomes == dict.fromkeys(range(1, 5), "done"), ran.stderr
    assert [len(list(attempt.glob("runs/*-agent"))) for attempt in place.attempts()] == [1, 1, 1, 1]
    assert [len(place.envelopes(number)) for number in range(1, 5)] == [1, 1, 1, 1]


def test_an_older_program_refuses_what_a_newer_one_began_and_loses_nothing(place: Place, tmp_path: Path) -> None:
    """It names the journal and the cure and touches nothing; the newer one goes on from there."""
    place.file(1, "Begun by the newer one", f"agent: slow {tmp_path / 'ready'} {tmp_path / 'go'}\n")
    process = place.start("run", "--json")
    gitkit.wait_until((tmp_path / "ready").exists, "the agent's first half")
    process.kill()
    assert ended(process).code == -9
    journal = place.attempt(1) / JOURNAL
    ours = json.loads(journal.read_text())
    journal.write_text(theirs := json.dumps({"version": ours["version"] + 1, "quite": "different"}))
    claims, issue = place.claims(), place.issue(1)

    older = place.run()

    assert older.code == 4
    assert older.error["code"] == "journal_too_new"
    assert f"{journal} was written by a newer afk" in older.error["message"]
    assert older.error["hint"] == "upgrade afk, then: afk run"
    assert (journal.read_text(), place.claims(), place.issue(1), place.envelopes(1)) == (theirs, claims, issue, [])

    journal.write_text(json.dumps(ours))
    (tmp_path / "go").touch()
    assert place.run().outcomes == {1: "done"}
    assert len(place.envelopes(1)) == 1
    assert len(list(place.attempt(1).glob("runs/*-agent"))) == 1
