"""`afk service install|status|remove`: `afk run --watch` under this user's service manager."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from afk.adapters.files import write_atomic
from afk.attempt.session import Project
from afk.errors import InvalidInput, ServiceUnavailable
from afk.supervisor import boot, control
from afk.supervisor.service import ServicePlan, launchd_job, service_name, systemd_unit
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["install", "remove", "status"]

_INSTEAD = "afk run --watch --detach"
_ASK_S = 30
_SHOWN = {
    "ActiveState": "active_state",
    "SubState": "sub_state",
    "UnitFileState": "enabled_state",
    "Result": "result",
}


@dataclass(frozen=True, slots=True)
class _Service:
    """Where the service of a checkout is written down, and by which manager it is run."""

    name: str
    manager: str  # systemd | launchd
    path: Path
    env: Mapping[str, str]

    @property
    def unit(self) -> str:
        return f"{self.name}.service" if self.manager == "systemd" else self.name

    def text(self, plan: ServicePlan) -> str:
        return systemd_unit(plan) if self.manager == "systemd" else launchd_job(plan, self.name)

    def written(self) -> str | None:
        """What stands there; None when nothing does."""
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None


def install(context: CommandContext, arguments: Arguments) -> Result:
    """Writes the unit and lets the manager read it; starts nothing. As often as one likes."""
    project = open_project(context)
    boot.refuse_unsupported(project)
    service, dry_run = _service(context, project.root), arguments.flag("dry_run")
    text = service.text(_plan(context, project))
    changed = service.written() != text
    if not dry_run:
        _demand_manager(service)
        if changed:
            service.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(service.path, text)
        _reload(service)
    payload = {
        "action": "install",
        "changed": changed and not dry_run,
        "dry_run": dry_run,
        "name": service.name,
        "manager": service.manager,
        "unit_path": str(service.path),
        "unit_text": text,
        "supervisor": _supervisor(project.root),
        "notes": _notes(context, project),
        "next_commands": _next_commands(service),
    }
    return Result(payload, text=_install_text(payload))


def status(context: CommandContext, _arguments: Arguments) -> Result:
    """What the manager says about the unit; every field of its is null where it does not answer."""
    project = open_project(context)
    service = _service(context, project.root)
    written = service.written()
    shown = _shown(service) if written is not None else {}
    supervisor = _supervisor(project.root)
    main_pid = int(shown.get("MainPID") or 0) or None
    payload: dict[str, object] = {
        "name": service.name,
        "manager": service.manager,
        "unit_path": str(service.path),
        "installed": written is not None,
        "up_to_date": None if written is None else written == service.text(_plan(context, project)),
        **{key: shown.get(name) or None for name, key in _SHOWN.items()},
        "main_pid": main_pid,
        "restarts": int(shown["NRestarts"]) if shown.get("NRestarts", "").isdigit() else None,
        "supervisor": supervisor,
    }
    return Result(payload, text=_status_text(payload))


def remove(context: CommandContext, _arguments: Arguments) -> Result:
    """Takes the unit away. A supervisor that it runs is asked to finish what runs, and is not waited for."""
    root = open_project(context).root
    service = _service(context, root)
    changed = service.written() is not None
    if changed:
        if service.manager == "systemd":
            _demand_manager(service)
            _systemctl(service, "disable", service.unit)
            _systemctl(service, "stop", "--no-block", service.unit)
        service.path.unlink(missing_ok=True)
        _reload(service)
    payload = {
        "action": "remove",
        "changed": changed,
        "name": service.name,
        "manager": service.manager,
        "unit_path": str(service.path),
        "supervisor": _supervisor(root),
    }
    told = f"{service.path} is removed; what runs is finished" if changed else f"there is no {service.path}"
    return Result(payload, text=told + "\n")


# ── The plan ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _service(context: CommandContext, root: Path) -> _Service:
    home = context.env.get("HOME")
    if not home:
        raise InvalidInput("HOME is not set, so there is no place for a service of yours", hint=_INSTEAD)
    name = service_name(root)
    if sys.platform == "darwin":
        return _Service(name, "launchd", Path(home) / "Library/LaunchAgents" / f"{name}.plist", context.env)
    config = Path(context.env.get("XDG_CONFIG_HOME") or Path(home) / ".config")
    return _Service(name, "systemd", config / "systemd/user" / f"{name}.service", context.env)


def _plan(context: CommandContext, project: Project) -> ServicePlan:
    return ServicePlan(project.root, _command(), context.env.get("PATH") or "/usr/bin:/bin", context.config_path)


def _command() -> list[str]:
    """The program beside our interpreter; else the module, which must not be looked for in the checkout (`-P`)."""
    beside = Path(sys.executable).with_name("afk")
    return [str(beside)] if beside.is_file() else [sys.executable, "-P", "-m", "afk"]


def _supervisor(root: Path) -> dict[str, object] | None:
    found = control.running(root)
    return None if found is None else {"pid": found.pid, "session_id": found.session_id}


def _notes(context: CommandContext, project: Project) -> list[dict[str, str]]:
    found = []
    if (running := control.running(project.root)) is not None:
        message = f"`afk run` (pid {running.pid}) works here; a service is refused until it has ended: afk stop"
        found.append({"code": "supervisor_running", "message": message})
    names = sorted(key for key in context.env if key.startswith("AFK_"))
    if names:
        message = f"{', '.join(names)} is set here and will not be set there: put it into .red/config.yaml"
        found.append({"code": "environment_left_out", "message": message})
    return found


def _next_commands(service: _Service) -> list[str]:
    if service.manager == "launchd":
        path = shlex.quote(str(service.path))
        return [f"launchctl bootstrap gui/$(id -u) {path}", "afk service status"]
    return [
        f"systemctl --user enable --now {service.unit}",
        "loginctl enable-linger",  # or it ends when the person logs out
        f"journalctl --user --unit {service.unit} --follow",
        "afk service status",
    ]


# ── The manager ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _systemctl(service: _Service, *words: str) -> subprocess.CompletedProcess[str]:
    """Raises `ServiceUnavailable` when there is no such program, or it does not answer."""
    argv = ["systemctl", "--user", *words]
    found = shutil.which(argv[0], path=service.env.get("PATH"))
    if found is None:
        raise ServiceUnavailable("there is no systemctl here, so no service of yours", hint=_INSTEAD)
    try:
        return subprocess.run(
            [found, *argv[1:]],
            env=dict(service.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceUnavailable(f"`{shlex.join(argv)}` did not answer in {_ASK_S} s", hint=_INSTEAD) from error


def _demand_manager(service: _Service) -> None:
    """Raises `ServiceUnavailable` where no manager of this user runs, as in a container or after `su`."""
    if service.manager == "systemd":
        asked = _systemctl(service, "show-environment")
        if asked.returncode != 0:
            words = asked.stderr.strip() or f"exit status {asked.returncode}"
            raise ServiceUnavailable(
                f"no systemd of this user answers ({words}); use `{_INSTEAD}`, or cron with `@reboot`", hint=_INSTEAD
            )


def _reload(service: _Service) -> None:
    if service.manager == "systemd":
        done = _systemctl(service, "daemon-reload")
        if done.returncode != 0:
            raise ServiceUnavailable(
                f"systemd did not read its units again: {done.stderr.strip()}", hint="systemctl --user daemon-reload"
            )


def _shown(service: _Service) -> dict[str, str]:
    """The unit's properties as systemd has them; empty where nobody can be asked."""
    if service.manager != "systemd":
        return {}
    try:
        names = ",".join([*_SHOWN, "MainPID", "NRestarts"])
        asked = _systemctl(service, "show", service.unit, f"--property={names}")
    except ServiceUnavailable:
        return {}
    lines = asked.stdout.splitlines() if asked.returncode == 0 else []
    return dict(line.split("=", 1) for line in lines if "=" in line)


# ── Text ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _install_text(payload: Mapping[str, Any]) -> str:
    if payload["dry_run"]:
        head = f"{payload['unit_path']} would be:\n\n{payload['unit_text']}"
    else:
        head = f"{'written' if payload['changed'] else 'unchanged'}: {payload['unit_path']}"
    notes = [f"note: {note['message']}" for note in payload["notes"]]
    return _lines([head, *notes, "next:", *(f"  {command}" for command in payload["next_commands"])])


def _status_text(payload: Mapping[str, Any]) -> str:
    if not payload["installed"]:
        return f"{payload['name']} is not installed; next: afk service install\n"
    state = payload["active_state"] or "not known: the service manager does not answer"
    lines = [f"{payload['name']}: {state}, {payload['enabled_state'] or 'not enabled'}", str(payload["unit_path"])]
    if payload["result"] not in (None, "success"):
        lines.append(f"it failed ({payload['result']}); see: journalctl --user --unit {payload['name']}.service")
    if not payload["up_to_date"]:
        lines.append("the unit is not what this afk would write; next: afk service install")
    if payload["supervisor"]:
        lines.append(f"`afk run` works here, pid {payload['supervisor']['pid']}")
    return _lines(lines)


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
