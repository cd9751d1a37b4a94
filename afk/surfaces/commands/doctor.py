"""`afk doctor`: the checks that a run makes before it starts, with the cure beside each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from afk.errors import ConfigError
from afk.supervisor.ground import Asks, Category, CheckStatus, DoctorCheck, ground_checks, skipped_checks
from afk.surfaces.commands.opening import open_project
from afk.surfaces.context import Arguments, CommandContext, Result

__all__ = ["doctor"]


def doctor(context: CommandContext, arguments: Arguments) -> Result:
    """Raises: NotARepository; every other fault is a check that failed."""
    checks = _checks(context, Asks.AGAIN if arguments.flag("fresh") else Asks.ONCE)
    counts = Counter(check.status for check in checks)
    verdict, exit_code = _verdict(counts)
    payload = {
        "verdict": verdict,
        "checks": [_payload(check) for check in checks],
        "counts": {status.value: counts[status] for status in CheckStatus},
    }
    return Result(payload, exit_code, text=_text(checks, verdict))


def _payload(check: DoctorCheck) -> dict[str, object]:
    return {name: value for name, value in asdict(check).items() if name != "passes"}


def _checks(context: CommandContext, asks: Asks) -> list[DoctorCheck]:
    try:
        project = open_project(context)
    except ConfigError as error:
        broken = DoctorCheck("config", Category.CONFIG, CheckStatus.FAIL, error.message, error.hint, 0)
        return [broken, *skipped_checks({"config"}, "the configuration cannot be read")]
    return ground_checks(project, asks=asks)


def _verdict(counts: Counter[CheckStatus]) -> tuple[str, int]:
    if counts[CheckStatus.FAIL]:
        return "fail", 1
    if counts[CheckStatus.ERROR]:
        return "unknown", 3
    return ("warn" if counts[CheckStatus.WARN] else "ok"), 0


_MARKS = {
    CheckStatus.PASS: "ok",
    CheckStatus.WARN: "warn",
    CheckStatus.FAIL: "FAIL",
    CheckStatus.ERROR: "????",
}
_LAST_WORD = {
    "ok": "Fit for a run.",
    "warn": "Fit for a run; look at the warnings.",
    "fail": "Not fit for a run.",
    "unknown": "Not everything could be checked.",
}


def _text(checks: Sequence[DoctorCheck], verdict: str) -> str:
    width = max(len(check.id) for check in checks)
    lines: list[str] = []
    for check in (check for check in checks if check.status is not CheckStatus.SKIPPED):
        lines.append(f"{_MARKS[check.status]:>4}  {check.id:<{width}}  {check.summary}")
        if check.fix and check.status in (CheckStatus.WARN, CheckStatus.FAIL):
            lines.append(f"{'':>4}  {'':<{width}}  → {check.fix}")
    return "\n".join([*lines, "", _LAST_WORD[verdict]]) + "\n"
