"""`afk service`: the unit is one that systemd takes, and its manager is asked through PATH."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest
from drainkit import Place, ended

from afk.errors import InvalidInput
from afk.supervisor.service import ServicePlan, launchd_job, service_name, systemd_unit

# Stands where systemctl is looked for: notes how it was asked, and answers like a manager that has started the unit.
SYSTEMCTL = """#!/bin/sh
printf '%s\\n' "$*" >> "$SYSTEMCTL_ASKED"
[ -z "$SYSTEMCTL_AWAY" ] || { echo 'Failed to connect to bus: No medium found' >&2; exit 1; }
case "$2" in
  show) printf '%s\\n' ActiveState=active SubState=running UnitFileState=enabled
        printf '%s\\n' Result=success MainPID=4711 NRestarts=2 ;;
esac
"""


@pytest.fixture
def asked(place: Place, tmp_path: Path) -> Path:
    """What systemctl was asked, a line each; the place has a home of its own."""
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(SYSTEMCTL)
    program.chmod(0o755)
    note = tmp_path / "asked"
    note.touch()
    place.environ |= {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "SYSTEMCTL_ASKED": str(note),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    return note


def unit_path(place: Place) -> Path:
    return Path(place.environ["XDG_CONFIG_HOME"]) / f"systemd/user/{service_name(place.clone)}.service"


def test_install_writes_the_unit_once_and_says_what_to_type_next(place: Place, asked: Path) -> None:
    """L13: restarts have a limit; the keepers of agents are not killed with the supervisor."""
    first, again = place.afk("service", "install").payload, place.afk("service", "install").payload
    unit = unit_path(place).read_text()

    assert (first["changed"], again["changed"]) == (True, False)
    assert first["unit_path"] == str(unit_path(place))
    assert asked.read_text().splitlines() == ["--user show-environment", "--user daemon-reload"] * 2
    assert first["next_commands"][0] == f"systemctl --user enable --now {service_name(place.clone)}.service"
    for line in ("KillMode=process", "StartLimitBurst=3", "Restart=on-failure", f"WorkingDirectory={place.clone}"):
        assert line in unit.splitlines()
    assert f'"PATH={place.environ["PATH"]}"' in unit
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    assert Path(command.split('"')[1]).is_absolute()
    assert command.endswith('"run" "--watch"')


def test_a_dry_run_shows_the_unit_and_asks_nobody(place: Place, asked: Path) -> None:
    shown = ended(place.start("service", "install", "--dry-run"))
    assert "ExecStop=" in shown.stdout
    assert (asked.read_text(), unit_path(place).exists()) == ("", False)


def test_without_a_manager_it_is_refused_with_what_works_instead(place: Place, asked: Path) -> None:
    place.environ["SYSTEMCTL_AWAY"] = "1"
    ran = place.afk("service", "install")
    assert (ran.code, ran.error["code"], ran.error["hint"]) == (4, "service_unavailable", "afk run --watch --detach")
    assert "No medium found" in ran.error["message"]
    assert not unit_path(place).exists()


def test_status_and_remove(place: Place, asked: Path) -> None:
    before = place.afk("service", "status").payload
    place.afk("service", "install")
    installed = place.afk("service", "status").payload
    unit_path(place).write_text("[Unit]\n")
    edited = place.afk("service", "status").payload
    asked.write_text("")
    removed, again = place.afk("service", "remove").payload, place.afk("service", "remove").payload

    assert (before["installed"], before["active_state"]) == (False, None)
    assert (installed["active_state"], installed["main_pid"], installed["restarts"]) == ("active", 4711, 2)
    assert (installed["up_to_date"], edited["up_to_date"]) == (True, False)
    assert (removed["changed"], again["changed"], unit_path(place).exists()) == (True, False, False)
    unit = f"{service_name(place.clone)}.service"
    assert asked.read_text().splitlines() == [
        "--user show-environment",
        f"--user disable {unit}",
        f"--user stop --no-block {unit}",
        "--user daemon-reload",
    ]


def test_a_supervisor_that_runs_already_and_variables_that_get_lost_are_told(place: Place, asked: Path) -> None:
    """L43: the service would be refused by the lock; the person is told beforehand."""
    place.environ["AFK_WORKERS"] = "2"
    place.file(1, labels=["for-people"])
    begun = place.run("--watch", "--detach").payload
    notes = {note["code"]: note["message"] for note in place.afk("service", "install").payload["notes"]}
    stopped = place.afk("stop", "--wait").payload

    assert str(begun["pid"]) in notes["supervisor_running"]
    assert "AFK_WORKERS" in notes["environment_left_out"]
    assert (stopped["changed"], stopped["after"]["running"]) == (True, False)


ODD = ["plain", "with space", "100% $HOME", 'quo"te\\back', "日本"]


@pytest.mark.parametrize("name", ODD)
def test_systemd_takes_the_unit_whatever_the_checkout_is_called(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    root.mkdir()
    program = root / "afk"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / f"{service_name(root)}.service"
    unit.write_text(systemd_unit(ServicePlan(root, [str(program)], "/usr/bin:/bin", config_path=root / "c.yaml")))
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    ours = [line for line in told.stderr.splitlines() if unit.name in line]
    assert (told.returncode, ours) == (0, []), told.stderr


def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="control characters"):
        systemd_unit(ServicePlan(Path("/a\nExecStart=/bin/evil"), ["/usr/bin/afk"], "/usr/bin"))


def test_two_checkouts_of_one_name_have_two_services() -> None:
    names = {service_name(Path(path)) for path in ("/a/project", "/b/project", "/b/project")}
    assert len(names) == 2
    assert all(name.startswith("afk-project-") for name in names)


def test_the_launchd_job_is_a_property_list_that_says_the_same() -> None:
    plan = ServicePlan(Path("/Users/x/a & b"), ["/opt/afk"], "/usr/bin")
    job = plistlib.loads(launchd_job(plan, "afk-a-b").encode())
    assert job["ProgramArguments"] == ["/opt/afk", "run", "--watch"]
    assert job["WorkingDirectory"] == "/Users/x/a & b"
    assert job["EnvironmentVariables"] == {"PATH": "/usr/bin"}
    assert job["AbandonProcessGroup"] is True
