"""How far an attempt is: eight stages, read off what the agent does and never moved back.

Source: AFK wire formats, Stage Detection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Stage", "StageMemory", "advance", "later", "stage_of_command"]


class Stage(StrEnum):
    """In order. The agent is seen to pass the first five; `merge`, `push` and `close` are the orchestrator's own."""

    SETUP = "setup"
    EXPLORE = "explore"
    IMPL = "impl"
    TESTS = "tests"
    COMMIT = "commit"
    MERGE = "merge"
    PUSH = "push"
    CLOSE = "close"


_ORDER = {stage: place for place, stage in enumerate(Stage)}


@dataclass(frozen=True, slots=True)
class StageMemory:
    """What one attempt has shown so far; `stage` is None before the first line.

    `reads` counts files looked at, because one look is no exploration. `reads_text` lets plain text speak: only for a
    runner whose stream has no tool events.
    """

    stage: Stage | None = None
    reads: int = 0
    reads_text: bool = False


def later(current: Stage | None, told: Stage | None) -> Stage | None:
    """The further of two stages: a look back at a file after the commit is no step back."""
    if current is None or told is None:
        return told if current is None else current
    return told if _ORDER[told] > _ORDER[current] else current


def advance(memory: StageMemory, kind: str, text: str = "") -> StageMemory:
    """The memory after one event of the agent's stream; `kind` is the wire word of an `EventKind`, `text` its text.

    Whatever is said first makes `setup`.
    """
    match kind:
        case "shell":
            seen, told = _after_command(memory, text)
        case "read":
            seen, told = _after_reads(memory, 1), None
        case "edit":
            seen, told = memory, Stage.IMPL
        case "text" if memory.reads_text:
            seen, told = _after_line(memory, text)
        case _:
            seen, told = memory, None
    reached = later(seen.stage, told) or Stage.SETUP
    return seen if reached is seen.stage else replace(seen, stage=reached)


def stage_of_command(command: str) -> Stage | None:
    """The furthest stage that a shell command shows, itself or inside `bash -lc '…'`; None when it shows none."""
    return _furthest(_simple_commands(command))


# ── Reads and commands ──────────────────────────────────────────────────────────────────────────────────────────────

_READERS = frozenset({"cat", "head", "tail", "nl", "less", "more", "bat"})


def _after_reads(memory: StageMemory, count: int) -> StageMemory:
    if not count:
        return memory
    reads = memory.reads + count
    explores = Stage.EXPLORE if reads >= 2 else None
    return replace(memory, reads=reads, stage=later(memory.stage, explores))


def _after_command(memory: StageMemory, command: str) -> tuple[StageMemory, Stage | None]:
    simple = list(_simple_commands(command))
    reads = sum(words[0] in _READERS or words[:2] == ["sed", "-n"] for words in simple)
    return _after_reads(memory, reads), _furthest(simple)


def _furthest(simple: Iterator[list[str]] | Sequence[list[str]]) -> Stage | None:
    furthest: Stage | None = None
    for words in simple:
        furthest = later(furthest, _stage_of_words(words))
    return furthest


_EXPLORERS = frozenset({"find", "fd", "rg", "grep", "tree", "ls"})
_GIT_STAGES = {"ls-files": Stage.EXPLORE, "commit": Stage.COMMIT, "apply": Stage.IMPL}


def _stage_of_words(words: Sequence[str]) -> Stage | None:
    program, arguments = words[0], words[1:]
    if program == "git":
        return _GIT_STAGES.get(_first_word(arguments, with_value={"-C", "-c", "--git-dir", "--work-tree"}))
    if program in _EXPLORERS:
        return Stage.EXPLORE
    if program in ("apply_patch", "patch") or (program == "sed" and any(a.startswith("-i") for a in arguments)):
        return Stage.IMPL
    return Stage.TESTS if _runs_tests(program, arguments) else None


def _first_word(arguments: Sequence[str], *, with_value: set[str] | frozenset[str] = frozenset()) -> str:
    """The first argument that is no option and no option's value; empty when there is none."""
    return next(iter(_plain_words(arguments, with_value=with_value)), "")


def _plain_words(arguments: Sequence[str], *, with_value: set[str] | frozenset[str] = frozenset()) -> list[str]:
    words: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument in with_value:
            next(rest, None)
        elif not argument.startswith(("-", "+")):
            words.append(argument)
    return words


# ── Test runners ────────────────────────────────────────────────────────────────────────────────────────────────────

_RUNNERS = re.compile(
    r"pytest|py\.test|unittest|tox|nox|ctest|rspec|phpunit|pest|jest|vitest|mocha|ava|bats|ginkgo|gotestsum"
)
_SUBCOMMANDS = {
    "cargo": {"test", "t", "nextest"},
    "go": {"test"},
    "dotnet": {"test"},
    "mix": {"test"},
    "rake": {"test", "spec"},
    "rails": {"test"},
    "swift": {"test"},
    "deno": {"test"},
    "dart": {"test"},
    "flutter": {"test"},
    "stack": {"test"},
    "cabal": {"test"},
    "sbt": {"test"},
    "lein": {"test"},
    "bazel": {"test"},
    "hatch": {"test"},
    "composer": {"test"},
    "playwright": {"test"},
}
_NODE_MANAGERS = frozenset({"pnpm", "npm", "yarn", "bun"})
_NODE_OTHER = re.compile(r"install|i|ci|add|remove|rm|uninstall|update|up|create|init|link|why|info|view|publish")
_NODE_VALUES = frozenset({"-C", "--dir", "--cwd", "--prefix", "--filter", "-F", "-w", "--workspace"})
_MAVEN_GOAL = re.compile(r"(integration-)?test|verify|surefire:test|failsafe:\S+")
_GRADLE_TASK = re.compile(r"(.*:)?(check|[A-Za-z]*[tT]est)")
_MAKE_TARGET = re.compile(r"(unit-?|integration-?)?tests?|check|test[-_:].+")


def _runs_tests(program: str, arguments: Sequence[str]) -> bool:
    if _RUNNERS.fullmatch(program):
        return True
    if program in _SUBCOMMANDS:
        return _first_word(arguments, with_value={"-C"}) in _SUBCOMMANDS[program]
    if program in _NODE_MANAGERS:
        return _node_tests(_plain_words(arguments, with_value=_NODE_VALUES))
    if program in ("mvn", "mvnw"):
        return any(_MAVEN_GOAL.fullmatch(word) for word in arguments)
    if program in ("gradle", "gradlew"):
        return any(_GRADLE_TASK.fullmatch(word) for word in arguments)
    if program in ("make", "gmake", "just"):
        return any(_MAKE_TARGET.fullmatch(word) for word in _plain_words(arguments, with_value={"-C", "-f"}))
    if program == "node":
        return "--test" in arguments
    return program.startswith("python") and _first_word(arguments) == "manage.py" and "test" in arguments


def _node_tests(words: Sequence[str]) -> bool:
    if not words or _NODE_OTHER.fullmatch(words[0]):
        return False
    return words[0] in ("t", "tst") or any(word == "test" or word.startswith("test:") for word in words)


# ── Splitting like a shell ──────────────────────────────────────────────────────────────────────────────────────────

_COMMAND_MAX = 16_384  # characters
_NESTING_MAX = 4
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
# Words after which another command begins; their own options, durations and assignments are stepped over.
_PREFIXES = re.compile(
    r"sudo|env|time|nice|nohup|timeout|exec|command|stdbuf|xvfb-run|npx|bunx|if|then|elif|else|while|until|do|!|\{"
)
_RUN_PREFIXES = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("rye", "run"), ("hatch", "run")}
    | {("bundle", "exec"), ("pnpm", "exec"), ("npm", "exec"), ("yarn", "exec"), ("pnpm", "dlx"), ("composer", "exec")}
)
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*)\n.*?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_DURATION = re.compile(r"[0-9.]+[smhd]?")
_OPERATOR = re.compile(r"[;&|()<>\n]+")
_OPERATORS = frozenset(";&|()<>\n")
_REDIRECTION = re.compile(r"&?[<>][<>&|]*")


def _simple_commands(script: str, depth: int = 0) -> Iterator[list[str]]:
    """Every command as words, its program's bare name first; a script whose quotes do not close has none."""
    if depth > _NESTING_MAX:
        return
    for words in _split(script):
        command = _without_prefixes(words)
        if not command:
            continue
        inner = _inner_script(command)
        if inner is None:
            yield command
        else:
            yield from _simple_commands(inner, depth + 1)


def _split(script: str) -> Iterator[list[str]]:
    words: list[str] = []
    skipped = ""  # why the next word does not count: the target of a redirection, or the rest of a comment
    for token in _tokens(script):
        if skipped == "comment" and "\n" not in token:
            continue
        if token[:1] in _OPERATORS and _REDIRECTION.fullmatch(token):
            skipped = "target"
        elif token[:1] in _OPERATORS and _OPERATOR.fullmatch(token):
            yield words
            words, skipped = [], ""
        elif skipped == "target":
            skipped = ""
        elif token.startswith("#"):
            skipped = "comment"
        else:
            words.append(token)
    yield words


_TOKEN = re.compile(
    r"""(?P<operator>[;&|()<>\n]++)
    | (?P<word>(?:[^ \t\r\n'"\\;&|()<>]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\\.)++)
    | (?P<blank>[ \t\r]++)
    | (?P<broken>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"""'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|\\(.)""", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\])')


def _tokens(script: str) -> list[str]:
    """As `shlex` splits it, twenty times as fast: words without their quotes, and operators."""
    joined = _HERE_DOCUMENT.sub(r"\3", script[:_COMMAND_MAX].replace("\\\n", " "))
    tokens: list[str] = []
    for found in _TOKEN.finditer(joined):
        match found.lastgroup:
            case "word":
                tokens.append(_unquoted(found[0]))
            case "operator":
                tokens.append(found[0])
            case "broken":  # a quotation that does not end: nothing certain can be said about it
                return []
    return tokens


def _unquoted(word: str) -> str:
    if "'" not in word and '"' not in word and "\\" not in word:
        return word
    return _QUOTED.sub(_content, word)


def _content(quoted: re.Match[str]) -> str:
    single, double, escaped = quoted.groups()
    if double is not None:
        return _ESCAPED_IN_QUOTES.sub(r"\1", double)
    return str(single if single is not None else escaped)


def _without_prefixes(words: Sequence[str]) -> list[str]:
    """The command proper: assignments, wrappers (`timeout 60`, `uv run`, `python -m`) and the program's folder gone."""
    rest, wrapped = list(words), False
    while rest:
        program = rest[0].rpartition("/")[2]
        if _ASSIGNMENT.fullmatch(rest[0]) or (wrapped and (rest[0].startswith("-") or _DURATION.fullmatch(rest[0]))):
            rest = rest[1:]
        elif _PREFIXES.fullmatch(program):
            rest, wrapped = rest[1:], True
        elif (program, *rest[1:2]) in _RUN_PREFIXES:
            rest, wrapped = rest[2:], True
        elif program.startswith("python") and "-m" in rest[1:]:
            rest = rest[rest.index("-m") + 1 :]
        else:
            return [program, *rest[1:]]
    return []


def _inner_script(command: Sequence[str]) -> str | None:
    """The script of `bash -lc '…'`; None when the command is no shell with one."""
    if command[0] not in _SHELLS:
        return None
    for place, argument in enumerate(command[1:], start=1):
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", argument):
            return _first_word(command[place + 1 :]) or None
        if not argument.startswith("-"):
            return None
    return None


# ── Plain text ──────────────────────────────────────────────────────────────────────────────────────────────────────

_LINE_MAX = 2_000
_TRACED = re.compile(r"(?:\$|\++) (?P<command>\S.*)")  # a shown prompt, or `set -x`
_LINE_STAGES = (
    (re.compile(r"\[\S+(?: \(root-commit\)| HEAD)? [0-9a-f]{7,40}\] .*"), Stage.COMMIT),  # git's own receipt
    (re.compile(r"=+ test session starts =+|Ran \d+ tests? in [\d.]+s|running \d+ tests?"), Stage.TESTS),
    (re.compile(r"(?:wrote|created|edited|updated|Applied edit to) [\w./-]*[./][\w./-]+"), Stage.IMPL),
)


def _after_line(memory: StageMemory, line: str) -> tuple[StageMemory, Stage | None]:
    """Only whole lines that a program prints by itself count; prose about tests and commits does not."""
    line = line.strip()[:_LINE_MAX]
    if traced := _TRACED.fullmatch(line):
        return _after_command(memory, traced["command"])
    return memory, next((stage for pattern, stage in _LINE_STAGES if pattern.fullmatch(line)), None)
