"""Every command of `afk`, declared once: the parser, the help, the tests and the documentation read this table.

It imports nothing that a light command would have to pay for; the function behind a command is named by text and loaded
when the command runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

__all__ = ["COMMANDS", "EXITS", "GLOBAL_OPTIONS", "Arg", "Command", "Option", "Value", "schema_numbers"]

EXITS: Mapping[int, str] = {
    0: "done; whatever was observed",
    1: "done, and the verdict is no",
    2: "the command line is wrong; nothing was done",
    3: "done, but no verdict could be reached",
    4: "no result; the error says why",
    75: "the runner is exhausted and work is left",
    130: "interrupted",
    141: "the reader of the output is gone",
}


@dataclass(frozen=True, slots=True)
class Value:
    """How the text of one argument is read; `read` raises ValueError, `expects` ends the sentence "… must be"."""

    placeholder: str
    expects: str
    read: Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument by position. `key` is its name in `Arguments`."""

    value: Value
    help: str
    required: bool = True
    key: str = ""

    @property
    def name(self) -> str:
        return self.value.placeholder


@dataclass(frozen=True, slots=True)
class Option:
    """An argument by name, given at most once unless `repeated`; without `value` it is a flag."""

    name: str
    help: str
    value: Value | None = None
    required: bool = False
    repeated: bool = False
    alias: str = ""

    @property
    def key(self) -> str:
        """`dry_run` for `--dry-run`, `n` for `-n`."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def absent(self) -> object:
        """What `Arguments` holds when the option was not given."""
        if self.value is None:
            return False
        return () if self.repeated else None


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `load` and `text` are `module:name`: the function behind it, and what makes its payload readable.

    `exits` are those that the command itself decides; 2, 4, 130 and 141 can always happen. `more_schemas` are payloads
    that it gives under some option instead of `schema`. `exclusive` are groups of options of which one may be given.
    """

    path: tuple[str, ...]
    summary: str
    load: str
    schema: str
    example: str
    args: tuple[Arg, ...] = ()
    options: tuple[Option, ...] = ()
    exits: tuple[int, ...] = (0,)
    exclusive: tuple[tuple[str, ...], ...] = ()
    more_schemas: tuple[str, ...] = ()
    text: str = "afk.surfaces.text:readable"

    @property
    def words(self) -> str:
        return " ".join(("afk", *self.path))

    @property
    def schemas(self) -> tuple[str, ...]:
        return (self.schema, *self.more_schemas)


def schema_numbers() -> dict[str, int]:
    """The version of every payload, `{"queue.list": 1}` for `afk.queue.list.v1`."""
    found = (_SCHEMA.fullmatch(schema) for command in COMMANDS for schema in command.schemas)
    return {match[1]: int(match[2]) for match in found if match}


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError
    return _text(text)


def _path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError
    return os.fsdecode(text.encode("utf-8"))  # the spelling that `open` takes in this locale


def _number(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise ValueError
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(_number(part.strip()) for part in text.split(","))
    if len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def _categories(text: str) -> tuple[str, ...]:
    categories = tuple(part.strip() for part in text.split(","))
    if not all(re.fullmatch(r"[a-z][a-z0-9_-]*", category) for category in categories):
        raise ValueError
    return categories


def _names(text: str) -> tuple[str, ...]:
    names = tuple(_line(part.strip()) for part in text.split(","))
    if len(set(names)) < len(names):
        raise ValueError
    return names


def _attempt(text: str) -> str:
    from afk.domain.attempt import AttemptId

    if AttemptId.parse(text) is None:
        raise ValueError
    return text


def _branch(text: str) -> str:
    if not re.fullmatch(r"(?!-)[^\s~^:?*\[\\\x00-\x1f\x7f]+", text) or ".." in text:
        raise ValueError
    return text


def _point(text: str) -> str:
    from afk.domain.lifecycle import HookPoint

    return HookPoint(text).value


def _one_of(placeholder: str, *words: str) -> Value:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Value(placeholder, f"one of {', '.join(words)}", read)


_SCHEMA = re.compile(r"afk\.([a-z_.]+)\.v([0-9]+)")

TEXT = Value("TEXT", "a text that is not empty", _text)
LINE = Value("TEXT", "one line of text that is not empty", _line)
NUMBER = Value("N", "a whole number from 1", _number)
NUMBERS = Value("N,N…", "different whole numbers from 1, with commas between", _numbers)
FILE = Value("FILE", "the path of a file, or - for standard input", _path)
PATH = Value("PATH", "a path", _path)
DIRECTORY = Value("DIR", "a path", _path)
BRANCH = Value("BRANCH", "the name of a branch", _branch)
NAMES = Value("NAME,…", "different names with commas between", _names)
NAME = Value("NAME", "one line of text that is not empty", _line)
ATTEMPT = Value("ID", "an attempt's id such as wZ2R4-142-a1", _attempt)
POINT = Value("POINT", "one of the twelve hook points (afk hooks list)", _point)
CATEGORIES = Value("CATEGORY,…", "names with commas between", _categories)
OUTPUT = _one_of("FORMAT", "text", "json", "yaml", "plain")
STREAM = _one_of("STREAM", "stdout", "stderr")
AGENT = _one_of("AGENT", "claude", "codex", "gemini", "opencode")
REASON = _one_of("REASON", "completed", "not_planned")

ISSUE = Arg(NUMBER, "the issue's number", key="issue")
INPUT = Arg(FILE, "the file to read; - or nothing is standard input", required=False, key="file")

GLOBAL_OPTIONS: tuple[Option, ...] = (
    Option("--json", "events as JSON, for programs; the same as --output json"),
    Option("--output", "text for people, or events as json, yaml or plain (default: AFK_OUTPUT, else text)", OUTPUT),
    Option(
        "--output-to", "everything on one stream, in order (default: results on stdout, the rest on stderr)", STREAM
    ),
    Option("--log", "also say what is logged under these names", CATEGORIES, repeated=True),
    Option("--verbose", "also say progress and everything that is logged"),
    Option("--config", "this configuration file instead of .red/config.yaml", PATH),
    Option("-C", "as if started in this directory", DIRECTORY),
    Option("--help", "this help", alias="-h"),
    Option("--version", "the same as afk version"),
)

_BODY = Option("--body", "the file with the text, in Markdown; - is standard input", FILE)

_AT = "afk.surfaces.commands"

COMMANDS: tuple[Command, ...] = (
    Command(
        ("init",),
        "set afk up in this repository: a commented .red/config.yaml and a place for issues; overwrites nothing",
        load=f"{_AT}.init:init",
        schema="afk.init.v1",
        example="afk init",
        options=(
            Option("--label", "the label that puts an issue into the queue (default: ready-for-agent)", LINE),
            Option("--base", "a branch to land on in place of the remote's default branch", BRANCH),
            Option("--github", "take issues from GitHub, and make the labels there that are missing"),
        ),
    ),
    Command(
        ("demo",),
        "make a small project with issues and drain it: no account, no key, no network",
        load=f"{_AT}.demo:demo",
        schema="afk.demo.v1",
        example="afk demo --dir /tmp/afk-demo",
        options=(
            Option("--dir", "where to make it; a new or an empty directory (default: a temporary one)", DIRECTORY),
            Option(
                "--runner", "a real agent in place of the scripted one; needs its login and costs what it costs", AGENT
            ),
        ),
        exits=(0, 1),
    ),
    Command(
        ("run",),
        "drain the queue: claim, work, validate, land and report, issue by issue",
        load=f"{_AT}.drain:run",
        schema="afk.run.v1",
        more_schemas=("afk.run.plan.v1", "afk.run.detached.v1"),
        text=f"{_AT}.drain:run_text",
        example="afk run --once",
        options=(
            Option("--dry-run", "show what would be picked, what would run and where it would land; touch nothing"),
            Option("--once", "one issue, then stop"),
            Option("-n", "at most so many issues", NUMBER),
            Option("--workers", "how many issues are worked at once (default: afk.workers, else 1)", NUMBER),
            Option("--prd", "only issues that belong to this one", NUMBER),
            Option("--issues", "exactly these issues, in this order", NUMBERS),
            Option("--base", "the branch to start from and to land on (default: the remote's default branch)", BRANCH),
            Option("--runner", "the agent to use, by its name in the configuration", NAME),
            Option("--fallback-runner", "who goes on when the runner is used up or its service is away", NAME),
            Option("--alternate", "further runners, which take turns with it from issue to issue", NAMES),
            Option("--request", "something to tell the agent beside the issue", TEXT),
            Option("--strict", "exit 1 when an issue was parked"),
            Option("--watch", "stay up when the queue is drained, and look again until stopped"),
            Option("--detach", "leave the terminal: begin in the background, say how to stop it, and return"),
        ),
        exits=(0, 1, 75),
        exclusive=(("--prd", "--issues"), ("--once", "-n"), ("--watch", "--dry-run"), ("--detach", "--dry-run")),
    ),
    Command(
        ("stop",),
        "have the `afk run` of this checkout finish what runs and end",
        load=f"{_AT}.control:stop",
        schema="afk.stop.v1",
        example="afk stop --now",
        options=(
            Option("--now", "stop the agents too; their work is kept, their issues go back to the queue"),
            Option("--wait", "return only when the run has ended"),
        ),
    ),
    Command(
        ("service", "install"),
        "have `afk run --watch` of this checkout started by systemd (or launchd), now and after a boot",
        load=f"{_AT}.service:install",
        schema="afk.service.install.v1",
        example="afk service install --dry-run",
        options=(Option("--dry-run", "show what would be written; touch nothing"),),
    ),
    Command(
        ("service", "status"),
        "whether this checkout has a service, and how it is",
        load=f"{_AT}.service:status",
        schema="afk.service.status.v1",
        example="afk service status",
    ),
    Command(
        ("service", "remove"),
        "take the service of this checkout away; what runs is finished",
        load=f"{_AT}.service:remove",
        schema="afk.service.remove.v1",
        example="afk service remove",
    ),
    Command(
        ("pause",),
        "start nothing new in this checkout until `afk resume`; what runs goes on",
        load=f"{_AT}.control:pause",
        schema="afk.pause.v1",
        example="afk pause",
    ),
    Command(
        ("resume",),
        "pick new issues again after `afk pause`",
        load=f"{_AT}.control:resume",
        schema="afk.resume.v1",
        example="afk resume",
    ),
    Command(
        ("status",),
        "what is running in this checkout, and what came of the last run",
        load=f"{_AT}.status:status",
        schema="afk.status.v1",
        example="afk status --json",
    ),
    Command(
        ("queue", "list"),
        "every open issue, in order, with the reason why it waits",
        load=f"{_AT}.queue:queue_list",
        schema="afk.queue.list.v1",
        example="afk queue list",
    ),
    Command(
        ("issue", "create"),
        "file an issue in the local tracker",
        load=f"{_AT}.issues:create",
        schema="afk.issue.create.v1",
        example="afk issue create --title 'Say hello' --label ready-for-agent",
        options=(
            Option("--title", "one line that says what is wanted", LINE, required=True),
            _BODY,
            Option("--label", "a label; may be given several times", LINE, repeated=True),
            Option("--author", "who files it (default: the person at the keyboard)", LINE),
        ),
    ),
    Command(
        ("issue", "comment"),
        "add a comment to an issue",
        load=f"{_AT}.issues:comment",
        schema="afk.issue.comment.v1",
        example="afk issue comment 7 --body answer.md",
        args=(ISSUE,),
        options=(replace(_BODY, required=True),),
    ),
    Command(
        ("issue", "close"),
        "close an issue",
        load=f"{_AT}.issues:close",
        schema="afk.issue.close.v1",
        example="afk issue close 7 --reason not_planned",
        args=(ISSUE,),
        options=(Option("--reason", "completed (the default) or not_planned", REASON),),
    ),
    Command(
        ("issue", "show"),
        "one issue: its place in the queue, its claim, its attempts",
        load=f"{_AT}.issueshow:show",
        schema="afk.issue.show.v1",
        example="afk issue show 7",
        args=(ISSUE,),
    ),
    Command(
        ("history",),
        "the attempts at an issue, read from its thread",
        load=f"{_AT}.attempts:history",
        schema="afk.history.v1",
        example="afk history 7",
        args=(ISSUE,),
    ),
    Command(
        ("attempt", "show"),
        "one attempt: stages, branch, paths, validation, hooks",
        load=f"{_AT}.attempts:attempt_show",
        schema="afk.attempt.show.v1",
        example="afk attempt show wZ2R4-142-a1",
        args=(Arg(ATTEMPT, "the attempt's id", key="attempt"),),
    ),
    Command(
        ("checkout",),
        "put the live branch that an issue's last attempt left into a worktree of its own, for a person",
        load=f"{_AT}.checkout:checkout",
        schema="afk.checkout.v1",
        example="afk checkout 7",
        args=(ISSUE,),
    ),
    Command(
        ("requeue",),
        "put a parked issue back into the queue",
        load=f"{_AT}.handing:requeue",
        schema="afk.requeue.v1",
        example="afk requeue 7",
        args=(ISSUE,),
    ),
    Command(
        ("retake",),
        "take an issue back from the agents: none picks it, one at work on it is stopped and its branch kept",
        load=f"{_AT}.handing:retake",
        schema="afk.retake.v1",
        example="afk retake 7",
        args=(ISSUE,),
    ),
    Command(
        ("branch", "list"),
        "the live branches that attempts left, here and on the remote, and the command to look at each",
        load=f"{_AT}.branches:branch_list",
        schema="afk.branch.list.v1",
        example="afk branch list",
    ),
    Command(
        ("worktree", "list"),
        "the worktrees that attempts left here, and how long each is kept",
        load=f"{_AT}.worktrees:worktree_list",
        schema="afk.worktree.list.v1",
        example="afk worktree list",
    ),
    Command(
        ("worktree", "prune"),
        "remove the directories of attempts that are kept no longer; work that is nowhere else is saved first",
        load=f"{_AT}.reap:prune",
        schema="afk.worktree.prune.v1",
        example="afk worktree prune --dry-run",
        options=(Option("--dry-run", "only say what would go"),),
        exits=(0, 1),
    ),
    Command(
        ("reap",),
        "remove what attempts left and nobody needs any more, and say of each thing why it went or stayed",
        load=f"{_AT}.reap:reap",
        schema="afk.reap.v1",
        example="afk reap --dry-run",
        options=(Option("--dry-run", "only say what would go"),),
        exits=(0, 1),
    ),
    Command(
        ("envelope", "parse"),
        "read the envelopes out of a text",
        load=f"{_AT}.envelopes:envelope_parse",
        schema="afk.envelope.parse.v1",
        example="afk envelope parse comment.md --json",
        args=(INPUT,),
        exits=(0, 1),
    ),
    Command(
        ("envelope", "render"),
        "write an envelope from its JSON, as `afk envelope parse` gives it",
        load=f"{_AT}.envelopes:envelope_render",
        schema="afk.envelope.render.v1",
        example="afk envelope render envelope.json",
        args=(INPUT,),
    ),
    Command(
        ("hooks", "list"),
        "the hook points in order, and what would run at each",
        load=f"{_AT}.hooks:hooks_list",
        schema="afk.hooks.list.v1",
        example="afk hooks list",
    ),
    Command(
        ("hooks", "run"),
        "try the hooks of one point with a sample context",
        load=f"{_AT}.hooks:hooks_run",
        schema="afk.hooks.run.v1",
        example="afk hooks run pre_merge",
        args=(Arg(POINT, "a hook point; `afk hooks list` names them", key="point"),),
        options=(Option("--issue", "take the context from this issue", NUMBER),),
        exits=(0, 1),
    ),
    Command(
        ("config", "show"),
        "the configuration in effect, and where each value comes from",
        load=f"{_AT}.config:config_show",
        schema="afk.config.show.v1",
        example="afk config show",
    ),
    Command(
        ("config", "validate"),
        "everything that is wrong with the configuration, with line and key",
        load=f"{_AT}.config:config_validate",
        schema="afk.config.validate.v1",
        example="afk config validate",
        exits=(0, 1),
    ),
    Command(
        ("doctor",),
        "whether this machine and repository are fit for a run, and the cure where they are not",
        load=f"{_AT}.doctor:doctor",
        schema="afk.doctor.v1",
        example="afk doctor",
        options=(Option("--fresh", "ask the agents again whether they answer, which costs a short request each"),),
        exits=(0, 1, 3),
    ),
    Command(
        ("version",),
        "the version of afk and of every payload it can give",
        load=f"{_AT}.about:version",
        schema="afk.version.v1",
        example="afk version",
    ),
)
