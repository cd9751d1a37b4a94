"""What an agent is told: packaged templates, or the person's own, filled with facts that are never read as template.

A template holds `{{ variable }}`, and nothing else in double braces. Text from the tracker, paths and output are data:
they are put in once and not looked at again, and none of them can put a bare sentinel line into the prompt, so that an
agent which repeats its prompt says nothing by it (R43, R76).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from afk.domain.outcome import RunPurpose
from afk.errors import InvalidInput

__all__ = [
    "PromptContext",
    "check_prompt",
    "commit_prompt",
    "conflict_prompt",
    "render",
    "take_over_prompt",
    "work_prompt",
]

OVERRIDE = ".red/prompt.md"
_LISTED_MAX = 50
_BRACES = re.compile(r"\{\{(.*?)\}\}|\{\{", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The facts of one run. `handoff` is the text of the file at `handoff_path`, for agents that cannot read outside
    their folder. `previous_attempts` and `siblings` are a line each; `conflicts` are paths in which the base could not
    be merged into a branch that is continued; `request` is the operator's, empty for none.
    """

    issue_number: int
    title: str
    attempt: int
    branch: str
    base: str
    worktree_path: Path
    handoff_path: Path
    handoff: str
    request: str = ""
    previous_attempts: Sequence[str] = ()
    siblings: Sequence[str] = ()
    conflicts: Sequence[str] = ()

    def variables(self) -> dict[str, str]:
        """By the names that a template uses."""
        return {
            "issue": f"#{self.issue_number} {_line(self.title)}",
            "issue_number": str(self.issue_number),
            "title": _line(self.title),
            "attempt": str(self.attempt),
            "branch": self.branch,
            "base": self.base,
            "worktree_path": str(self.worktree_path),
            "handoff_path": str(self.handoff_path),
            "handoff": _framed("handoff", self.handoff),
            "request": f"The operator of this run asks for this in addition:\n\n{self.request}" if self.request else "",
            "previous_attempts": _bullets(self.previous_attempts),
            "siblings": _bullets(self.siblings),
            "conflicts": _merge_in_progress(self.base, self.conflicts),
        }


def work_prompt(context: PromptContext, *, template: str | None = None) -> str:
    """The prompt of an attempt's first run; `template` is the text of `.red/prompt.md` where the checkout has one.

    Raises: InvalidInput for a template that cannot be filled; that is for the attempt to end with, not the run (S16).
    """
    if template is not None:
        return render(template, context.variables(), source=OVERRIDE)
    return _packaged(RunPurpose.WORK, context)


def take_over_prompt(context: PromptContext, work: str) -> str:
    """For a runner that goes on where another one was cut off: the prompt `work`, and what it finds."""
    return f"{_packaged(RunPurpose.TAKE_OVER, context)}\n{work}"


def commit_prompt(context: PromptContext, *, dirty: Sequence[str]) -> str:
    """For the one more run of an agent that said DONE over uncommitted paths (R47)."""
    return _packaged(RunPurpose.COMMIT_YOUR_WORK, context, paths=_bullets(dirty))


def conflict_prompt(context: PromptContext, *, paths: Sequence[str]) -> str:
    """For the run that finishes a merge of the base, in progress in the worktree, with conflicts in `paths`."""
    return _packaged(RunPurpose.RESOLVE_CONFLICT, context, paths=_bullets(paths))


def check_prompt(context: PromptContext, *, name: str, output: str) -> str:
    """For a run that mends what a check found; `output` is the end of what the check printed."""
    return _packaged(RunPurpose.CHECK_FAILED, context, check=_line(name), output=_framed("output", output))


def render(template: str, variables: Mapping[str, str], *, source: str) -> str:
    """The template with every `{{ variable }}` replaced, in one pass: a value is never read for variables (R76).

    Raises: InvalidInput naming `source` and line for an unknown variable, a filter, or braces that do not close.
    """

    def value(found: re.Match[str]) -> str:
        name = (found[1] or "").strip()
        if name not in variables:
            line = template.count("\n", 0, found.start()) + 1
            known = ", ".join(variables)
            raise InvalidInput(f"{source}, line {line}: `{found[0].strip()}` is no variable; known are {known}")
        return variables[name].replace("<promise>", "&lt;promise>")

    return _BRACES.sub(value, template)


def _packaged(purpose: RunPurpose, context: PromptContext, **more: str) -> str:
    name = f"{purpose}.md"
    template = (resources.files("afk.agents") / "prompts" / name).read_text(encoding="utf-8")
    return render(template, context.variables() | more, source=name)


def _line(text: str) -> str:
    return " ".join(text.split())


def _bullets(lines: Sequence[str]) -> str:
    shown = [f"- {_line(line)}" for line in lines[:_LISTED_MAX]]
    if len(lines) > _LISTED_MAX:
        shown.append(f"- and {len(lines) - _LISTED_MAX} more")
    return "\n".join(shown) or "- none"


def _framed(name: str, text: str) -> str:
    """The text between two lines that nobody who wrote in it can have written: they hold its own digest."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"===== {name} {digest} begins =====\n{text.strip()}\n===== {name} {digest} ends ====="


def _merge_in_progress(base: str, paths: Sequence[str]) -> str:
    if not paths:
        return ""
    return (
        f"Your branch continues earlier work, and {base} has moved since. A merge of it is in progress in your folder: "
        f"resolve the conflicts below and commit the merge before anything else.\n\n{_bullets(paths)}"
    )
