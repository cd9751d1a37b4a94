"""Which issues may be worked, in which order, and why each of the others waits."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from afk.domain.issue import Filter, FilterKind, Issue
from afk.errors import InvalidInput, QueueSelection

__all__ = [
    "DEPENDENCY",
    "PARKED",
    "RUNNING",
    "IssueFacts",
    "QueueItem",
    "QueueState",
    "Reason",
    "base_directive",
    "blockers",
    "is_branch_name",
    "is_ours",
    "judge",
    "label_changes",
    "require_selection",
]

RUNNING = "running"
PARKED = "ready-for-human"
DEPENDENCY = "blocked:dependency"  # the one parking that ends by itself (L46)
RUNNER_ERROR = "runner-error"
PARENTS = ("type:prd", "type:spec")
_PRIORITIES = ("priority:urgent", "priority:high", "", "priority:low")  # "" is every other issue


def is_ours(label: str) -> bool:
    """Whether it is one of the labels by which afk tells people what became of an issue; case does not count."""
    folded = label.casefold()
    return folded in (RUNNING, PARKED, RUNNER_ERROR) or folded.startswith("blocked:")


def label_changes(
    decision: str, labels: Iterable[str], *, queue: str, blocked: str | None = None
) -> tuple[list[str], list[str]]:
    """Which labels to add and to remove (L15: nobody else decides that); `queue` is the queue's, `blocked` the reason.

    `decision` is `run`, `done`, `requeue`, `park`, `discard` (back to the queue, marked), or `withdrawn`, which takes
    away what is ours alone: the others are what people made of it.
    """
    told = [name for name in labels if name != blocked and is_ours(name) and name.casefold() not in (RUNNING, PARKED)]
    return {
        "run": ([RUNNING], [queue, PARKED, *told]),
        "done": ([], [RUNNING, queue, PARKED, *told]),
        "requeue": ([queue], [RUNNING, PARKED, *told]),
        "park": ([PARKED, *([blocked] if blocked else [])], [RUNNING, queue, *told]),
        "withdrawn": ([], [RUNNING]),
        "discard": ([queue, RUNNER_ERROR], [RUNNING, PARKED, *(name for name in told if name != RUNNER_ERROR)]),
    }[decision]


class QueueState(StrEnum):
    """From "may be picked now" to "nothing that time or other work brings will make it so"."""

    READY = "ready"
    WAITING = "waiting"  # for a time
    BLOCKED = "blocked"  # by open issues
    CLAIMED = "claimed"  # somebody works on it
    INELIGIBLE = "ineligible"


_STRENGTH = {state: place for place, state in enumerate(QueueState)}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an issue is not picked: a word for machines and a sentence for people."""

    code: str
    message: str


_Judged = tuple[QueueState, Reason]


@dataclass(frozen=True, slots=True)
class IssueFacts:
    """What an issue's thread tells: attempts that count against the cap, a backoff's end, and who stands behind it.

    `untrusted` says whose word is missing; empty means that the work may be done.
    """

    attempts_used: int = 0
    not_before: datetime | None = None
    untrusted: str = ""


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One open issue's place in the order (from 1) and its state; every state but `ready` has at least one reason.

    `blocked_by` names open or unknown blockers, `eligible_at` the end of a backoff that has not come yet.
    """

    issue: Issue
    position: int
    state: QueueState
    reasons: tuple[Reason, ...] = ()
    blocked_by: tuple[int, ...] = ()
    eligible_at: datetime | None = None
    attempts_used: int = 0


def judge(
    issues: Iterable[Issue],
    *,
    label: str,
    filter: Filter,
    claims_held: Mapping[int, str],
    facts: Mapping[int, IssueFacts],
    now: datetime,
    per_issue: int,
    closed: Collection[int] = (),
) -> list[QueueItem]:
    """Every open issue that the filter lets through, in the order in which they would be picked.

    `issues` are all open issues. `claims_held` says who works on what. `facts` has an entry for each issue whose thread
    was read; one that would be ready but has none is not picked. `per_issue` caps the attempts. `closed` are the
    blockers that are known and closed, for whatever reason: a blocker neither open nor there is unknown, and blocks.
    """
    everything = {issue.number: issue for issue in issues if issue.is_open}
    waits_for = {number: blockers(issue) for number, issue in everything.items()}
    parents = filter.numbers if filter.kind is FilterKind.PRD else ()

    def item(position: int, issue: Issue) -> QueueItem:
        known = facts.get(issue.number)
        open_blockers = tuple(number for number in waits_for[issue.number] if number not in closed)
        judged = [
            *_standing(issue, label=label, holder=claims_held.get(issue.number), parents=parents),
            *_by_dependencies(issue.number, open_blockers, waits_for),
        ]
        # Threads are read only for issues that could be picked: for the others, none is missing.
        judged += _by_thread(known, now=now, per_issue=per_issue) if known or not judged else ()
        return _item(issue, position, judged, blocked_by=open_blockers, known=known or IssueFacts(), now=now)

    return [item(position, issue) for position, issue in enumerate(_in_order(everything, filter), start=1)]


def _item(
    issue: Issue,
    position: int,
    judged: Sequence[_Judged],
    *,
    blocked_by: tuple[int, ...],
    known: IssueFacts,
    now: datetime,
) -> QueueItem:
    return QueueItem(
        issue,
        position,
        state=max((state for state, _ in judged), key=_STRENGTH.__getitem__, default=QueueState.READY),
        reasons=tuple(reason for _, reason in judged),
        blocked_by=blocked_by,
        eligible_at=known.not_before if known.not_before is not None and known.not_before > now else None,
        attempts_used=known.attempts_used,
    )


def require_selection(items: Sequence[QueueItem], wanted: Sequence[int]) -> None:
    """Refuses a `--issues` that names what cannot be worked; waiting for time, claim or dependency is no such fault.

    Raises: QueueSelection naming each number and why.
    """
    judged = {item.issue.number: item for item in items}
    faults = {
        number: judged[number].reasons[0].message if number in judged else "no open issue of that number"
        for number in wanted
        if number not in judged or judged[number].state is QueueState.INELIGIBLE
    }
    if faults:
        named = "; ".join(f"#{number}: {why}" for number, why in faults.items())
        raise QueueSelection(f"--issues names what cannot be worked: {named}", hint="afk queue list")


# ── Order and selection ─────────────────────────────────────────────────────────────────────────────────────────────


def _in_order(issues: Mapping[int, Issue], filter: Filter) -> list[Issue]:
    match filter.kind:
        case FilterKind.ISSUES:
            return [issues[number] for number in dict.fromkeys(filter.numbers) if number in issues]
        case FilterKind.PRD:
            parents = filter.numbers
            chosen = [i for i in issues.values() if i.number in parents or any(_is_child(i, p) for p in parents)]
        case FilterKind.ALL:
            chosen = list(issues.values())
    return sorted(chosen, key=lambda issue: (_priority(issue), issue.number))


def _priority(issue: Issue) -> int:
    ranked = (place for place, name in enumerate(_PRIORITIES) if name and issue.has_label(name))
    return next(ranked, _PRIORITIES.index(""))


def _is_child(issue: Issue, parent: int) -> bool:
    named = re.compile(rf"[ \t]*prd:[ \t]*#{parent}[ \t]*", re.IGNORECASE)
    return issue.has_label(f"prd:{parent}") or any(named.fullmatch(line) for line in _lines_outside_fences(issue.body))


# ── Why an issue waits ──────────────────────────────────────────────────────────────────────────────────────────────


def _standing(issue: Issue, *, label: str, holder: str | None, parents: Collection[int]) -> Iterator[_Judged]:
    """What the issue's own labels and lines say."""
    if issue.number in parents or any(issue.has_label(parent) for parent in PARENTS):
        yield QueueState.INELIGIBLE, Reason("planning_parent", "a planning parent is not work; its children are")
    if holder is not None:
        yield QueueState.CLAIMED, Reason("claimed", f"{holder} works on it")
    elif issue.has_label(RUNNING):
        yield QueueState.CLAIMED, Reason("claimed", f"labelled `{RUNNING}`")
    elif not issue.has_label(label):
        yield QueueState.INELIGIBLE, _why_not_ready(issue, label)
    try:
        base_directive(issue.body)
    except InvalidInput as error:
        yield QueueState.INELIGIBLE, Reason("branch_invalid", error.message)


def _why_not_ready(issue: Issue, label: str) -> Reason:
    if not issue.has_label(PARKED):
        return Reason("label_missing", f"it has no label `{label}`")
    blocked = [name for name in issue.labels if name.casefold().startswith("blocked:")]
    return Reason("parked", f"handed to people ({', '.join(blocked) or PARKED})")


def _by_thread(known: IssueFacts | None, *, now: datetime, per_issue: int) -> Iterator[_Judged]:
    if known is None:
        yield QueueState.INELIGIBLE, Reason("thread_unread", "its thread could not be read")
        return
    if known.untrusted:
        yield QueueState.INELIGIBLE, Reason("untrusted", known.untrusted)
    if known.attempts_used >= per_issue:
        yield QueueState.INELIGIBLE, Reason("attempts_used", f"{known.attempts_used} of {per_issue} attempts are used")
    if known.not_before is not None and known.not_before > now:
        yield QueueState.WAITING, Reason("backoff", f"not before {known.not_before.isoformat(timespec='seconds')}")


def _by_dependencies(
    number: int, blocked_by: Sequence[int], waits_for: Mapping[int, Sequence[int]]
) -> Iterator[_Judged]:
    cycle = _cycle(number, waits_for)
    if cycle:
        path = " → ".join(f"#{step}" for step in cycle)
        yield QueueState.BLOCKED, Reason("dependency_cycle", f"it waits for itself: {path}")
    for blocker in blocked_by:
        if blocker in waits_for:
            yield QueueState.BLOCKED, Reason("dependency_open", f"#{blocker} is open")
        else:
            yield QueueState.INELIGIBLE, Reason("dependency_unknown", f"it waits for #{blocker}, which is unknown")


def _cycle(number: int, waits_for: Mapping[int, Sequence[int]]) -> list[int]:
    """The shortest way from an issue back to itself through open issues; empty when there is none."""
    seen: set[int] = set()
    paths = [[number]]
    while paths:
        path = paths.pop(0)
        for blocker in waits_for.get(path[-1], ()):
            if blocker == number:
                return [*path, blocker]
            if blocker in waits_for and blocker not in seen:
                seen.add(blocker)
                paths.append([*path, blocker])
    return []


# ── Lines of a body that steer ──────────────────────────────────────────────────────────────────────────────────────

_REQUIRED = re.compile(r"req:#?([1-9][0-9]*)", re.IGNORECASE)
_BLOCKED_BY = re.compile(r"[ ]{0,3}#{1,6}[ \t]+blocked by:?[ \t#]*", re.IGNORECASE)
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+\S.*")
_ITEM = re.compile(
    r"[ \t]*(?:[-*+]|[0-9]+[.)])[ \t]+.*?(?<!\w)(?P<numbers>#[1-9][0-9]*(?:[ \t]*,[ \t]*#[1-9][0-9]*)*)\b.*"
)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})[^`]*")
_BASE = re.compile(r"branch:[ \t]*(\S+)[ \t]*", re.IGNORECASE)


def blockers(issue: Issue) -> tuple[int, ...]:
    """Numbers that an issue waits for: labels `req:N`, then the first of each item under a heading `Blocked by`."""
    labelled = [int(match[1]) for name in issue.labels if (match := _REQUIRED.fullmatch(name.strip()))]
    return tuple(dict.fromkeys([*labelled, *_listed(issue.body)]))


def _listed(body: str) -> Iterator[int]:
    inside = False
    for line in _lines_outside_fences(body):
        if _BLOCKED_BY.fullmatch(line):
            inside = True
        elif _HEADING.fullmatch(line):
            inside = False
        elif inside and (item := _ITEM.fullmatch(line)):
            yield from (int(number) for number in re.findall(r"[0-9]+", item["numbers"]))


def base_directive(body: str) -> str | None:
    """The branch that the body's first line `branch: NAME` asks for as base; None without such a line.

    Raises: InvalidInput when git would not take the name, or when it is one of our own live branches.
    """
    for line in _lines_outside_fences(body):
        if match := _BASE.fullmatch(line):
            if not is_branch_name(match[1]):
                raise InvalidInput(f"the line `branch: {match[1]}` names no branch that work could land on")
            return match[1]
    return None


def _lines_outside_fences(body: str) -> Iterator[str]:
    fence = ""
    for line in body.replace("\r\n", "\n").split("\n"):
        if fence:
            stripped = line.strip()
            fence = "" if len(stripped) >= len(fence) and not stripped.strip(fence[0]) else fence
        elif opened := _FENCE.fullmatch(line):
            fence = opened[1]
        else:
            yield line


_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def is_branch_name(name: str) -> bool:
    """What `git check-ref-format --branch` takes, less full ref names, `HEAD` and our own `afk/…`."""
    if name in ("", "@", "HEAD") or name.startswith(("-", "/", "refs/", "afk/")) or name.endswith(("/", ".")):
        return False
    parts = name.split("/")
    return not _FORBIDDEN.search(name) and not any(part.startswith(".") or part.endswith(".lock") for part in parts)
