"""`afk run --watch` as a service of this user: the text of a systemd unit, or of a launchd job. No I/O.

Source: systemd.service(5), systemd.unit(5), launchd.plist(5).
"""

from __future__ import annotations

import hashlib
import plistlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from afk.domain.attempt import slugify
from afk.errors import InvalidInput

__all__ = ["ServicePlan", "launchd_job", "service_name", "systemd_unit"]

_BOOT_DEATHS, _WITHIN_S, _PAUSE_S = 3, 600, 30  # three deaths at boot in a row stop the respawning (L13)
_PATIENCE_S = 3600  # what runs may take so long to be finished; then the agents are stopped and their work is kept


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """`command` starts `afk` from any directory, without further arguments; `path` is its PATH, its only variable."""

    root: Path
    command: Sequence[str]
    path: str
    config_path: Path | None = None

    @property
    def afk(self) -> list[str]:
        return [*self.command, *(["--config", str(self.config_path)] if self.config_path else [])]


def service_name(root: Path) -> str:
    """`afk-NAME-HASH`: the same for one checkout always, different for two of the same name."""
    digest = hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"afk-{slugify(root.name) or 'checkout'}-{digest}"


def systemd_unit(plan: ServicePlan) -> str:
    """Raises `InvalidInput` for a path that no unit can hold.

    Stopping asks for what Ctrl-C asks for once, and waits. The agents' keepers are never killed along with the
    supervisor: after a restart the next one takes them up.
    """
    root = _plain(str(plan.root))
    return f"""\
# Written by `afk service install`; `afk service remove` takes it away.
[Unit]
Description=afk works on the issues of {_specifiers(root)}
StartLimitIntervalSec={_WITHIN_S}
StartLimitBurst={_BOOT_DEATHS}

[Service]
Type=exec
WorkingDirectory={_specifiers(root)}
Environment={_quoted("PATH=" + plan.path)}
ExecStart={_command([*plan.afk, "run", "--watch"])}
ExecStop={_command([*plan.afk, "stop", "--wait"])}
TimeoutStopSec={_PATIENCE_S}
KillMode=process
# Each agent gets a control group of its own; one that is out of memory does not take the others with it.
Delegate=yes
OOMPolicy=continue
Restart=on-failure
RestartSec={_PAUSE_S}
# 1: stopped with work that is not told to its end; 130: stopped by a second signal. Neither is a fault.
SuccessExitStatus=1 130
# The command line is wrong: that will not change by itself.
RestartPreventExitStatus=2

[Install]
WantedBy=default.target
"""


def launchd_job(plan: ServicePlan, label: str) -> str:
    """The same for macOS. launchd knows no limit of starts, only a pause between them."""
    job: Mapping[str, object] = {
        "Label": label,
        "ProgramArguments": [*plan.afk, "run", "--watch"],
        "WorkingDirectory": str(plan.root),
        "EnvironmentVariables": {"PATH": plan.path},
        "KeepAlive": {"SuccessfulExit": False},
        "RunAtLoad": True,
        "ThrottleInterval": _PAUSE_S,
        "AbandonProcessGroup": True,
        "StandardInPath": "/dev/null",
        "StandardOutPath": str(plan.root / ".red/tmp/service.log"),
        "StandardErrorPath": str(plan.root / ".red/tmp/service.log"),
    }
    return plistlib.dumps(job, sort_keys=False).decode()


def _command(words: Sequence[str]) -> str:
    """systemd takes the program's path as it stands, without quotes or variables in it; `env` takes any."""
    odd = re.search(r"""["'\\$]""", words[0])
    return " ".join(map(_argument, ["/usr/bin/env", *words] if odd else words))


def _argument(word: str) -> str:
    return _quoted(word).replace("$", "$$")


def _quoted(word: str) -> str:
    """One word as systemd reads it back; `%` would begin a specifier."""
    text = _specifiers(_plain(word)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _plain(text: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]|[\udc80-\udcff]", text):
        raise InvalidInput(
            f"no unit can hold {text!r}, which has control characters or is no UTF-8", hint="afk run --watch --detach"
        )
    return text
