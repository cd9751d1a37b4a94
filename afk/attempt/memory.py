"""`afk.memory.command`: one JSON object per terminal outcome, for a memory of the person's own. It can fail nothing.

Told at least once: after a death before the row of history was on record, it is told again under the same attempt id.
"""

from __future__ import annotations

import json
from typing import Any

from afk.adapters import git
from afk.adapters.files import write_atomic
from afk.adapters.process import Kept, KeptSpec
from afk.adapters.regular import read_regular
from afk.attempt import briefing
from afk.attempt.journal import Step
from afk.attempt.session import Attempt
from afk.domain.outcome import Outcome
from afk.errors import AfkError
from afk.wire import sidecar
from afk.wire.json_value import parse_json

__all__ = ["SCHEMA", "tell"]

SCHEMA = "afk.memory.v1"
_LIMIT_S = 60.0
_SIDECAR_MAX_BYTES = 8 * 1024 * 1024


def tell(attempt: Attempt, outcome: Outcome) -> None:
    """Run the command with the object on its standard input; what it does or fails to do is logged, nothing more."""
    command = attempt.project.config.memory.command
    if command is None:
        return
    run_dir = attempt.new_run_dir("hook")
    try:
        run_dir.mkdir(parents=True)
        stdin = run_dir / "prompt"
        write_atomic(stdin, json.dumps(_record(attempt, outcome)) + "\n")
        spec = KeptSpec(
            argv=("/bin/sh", "-c", command),
            cwd=attempt.project.root,
            env=dict(attempt.project.environ),
            stdin=stdin,
            wall_clock_s=_LIMIT_S,
        )
        ended = Kept.start(run_dir, spec).wait(None)
    except (AfkError, OSError) as error:
        attempt.progress.log("memory.failed", str(error))
        return
    if ended is not None and ended.exit_code != 0:
        attempt.progress.log("memory.failed", f"exit code {ended.exit_code}, ended by {ended.ended_by}")


def _record(attempt: Attempt, outcome: Outcome) -> dict[str, Any]:
    journal, ended = attempt.journal, attempt.journal.get(Step.ENDED)
    mask = attempt.project.mask
    return {
        "schema": SCHEMA,
        "issue_number": attempt.issue.number,
        "attempt_id": str(attempt.id),
        "outcome": str(outcome),
        "branch": attempt.branch,
        "duration_s": ended.get("duration_s", 0),
        "diff": ended.get("diff", {"added": 0, "removed": 0, "files": 0}),
        "merge_sha": journal.fact("merge_sha"),
        "touched_files": _touched(attempt),
        "notes": mask(briefing.notes(attempt)),
        "hooks": journal.fact("hooks", []),
        "validation": _validation(attempt),
    }


def _touched(attempt: Attempt) -> list[str]:
    root, base_sha = attempt.project.root, attempt.journal.fact("base_sha")
    tip = git.rev_parse(root, attempt.branch_ref)
    if tip is None or base_sha is None:
        return []
    return git.touched_files(root, git.merge_base(root, base_sha, tip) or base_sha, tip)


def _validation(attempt: Attempt) -> list[dict[str, Any]]:
    """Only what the sidecar says as JSON; a malformed one gives nothing, prose is never read for it."""
    records = sidecar.parse_or_none(read_regular(attempt.sidecar, _SIDECAR_MAX_BYTES) or "") or []
    return [parse_json(sidecar.render(record)) for record in records]
