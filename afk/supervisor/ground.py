"""Whether everything a run stands on is there: what `afk doctor` shows and `afk run` asks before it claims anything.

Each check is one function from the ground to a finding. None changes anything, here or on the remote.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from afk.adapters import git, lfs, submodules
from afk.adapters.gitrun import run_remote
from afk.agents import agent_argv, agent_for
from afk.attempt.session import Project
from afk.domain.issue import Issue
from afk.errors import AfkError, ConfigError, GitError

__all__ = [
    "CHECKS",
    "FREE_FLOOR_BYTES",
    "Asks",
    "Category",
    "CheckStatus",
    "DoctorCheck",
    "fail",
    "ground_checks",
    "skipped_checks",
    "warn",
]

FREE_FLOOR_BYTES = 512 * 1024**2  # below it nothing is started: a full disk tears what agents and tools write
_FREE_LOW_BYTES = 2 * 1024**3
_PROBE_TIMEOUT_S = 10.0


class CheckStatus(StrEnum):
    """`error`: the check itself could not be carried out; `skipped`: it has no meaning here."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"
    ERROR = "error"


class Category(StrEnum):
    MACHINE = "machine"
    CONFIG = "config"
    GIT = "git"
    TRACKER = "tracker"
    AGENT = "agent"
    VALIDATION = "validation"
    HOOKS = "hooks"


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` is a command to type or a key to set; None when there is nothing to mend. `passes`: it may go by itself."""

    status: CheckStatus
    summary: str
    fix: str | None = None
    passes: bool = False


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One line of `afk doctor`. `passes`: what failed may go by itself, as a remote that does not answer."""

    id: str
    category: Category
    status: CheckStatus
    summary: str
    fix: str | None
    duration_ms: int
    passes: bool = False


def passed(summary: str) -> Finding:
    return Finding(CheckStatus.PASS, summary)


def warn(summary: str, fix: str) -> Finding:
    return Finding(CheckStatus.WARN, summary, fix)


def fail(summary: str, fix: str) -> Finding:
    return Finding(CheckStatus.FAIL, summary, fix)


def fail_by(error: AfkError, fix: str) -> Finding:
    """What an error says; its own hint is the better cure."""
    return Finding(CheckStatus.FAIL, error.message, error.hint or fix, passes=error.retryable)


def skipped(summary: str) -> Finding:
    return Finding(CheckStatus.SKIPPED, summary)


class Asks(StrEnum):
    """Whether runners are asked a question, which may cost money."""

    NOTHING = "nothing"
    ONCE = "once"  # unless a good answer is remembered
    AGAIN = "again"


class Ground:
    """What several checks look at; each is asked for once, and its failure is kept for the others."""

    def __init__(
        self, project: Project, base: str | None = None, runner: str | None = None, asks: Asks = Asks.NOTHING
    ) -> None:
        self.project = project
        self.asks = asks
        self._base = base
        self._runner = runner

    @property
    def runners(self) -> dict[str, str]:
        """The runners that may be started, by what names each."""
        flag = {"afk.runner": self._runner} if self._runner else {}
        return self.project.config.runners() | flag

    @property
    def root(self) -> Path:
        return self.project.root

    @cached_property
    def heads(self) -> dict[str, str] | AfkError:
        """The remote's branches, or why they could not be read."""
        try:
            return git.ls_remote(self.root, self.project.url, "refs/heads/*")
        except AfkError as error:
            return error

    @property
    def base(self) -> str:
        """Where work would land. Raises what `Project.default_base` raises."""
        return self._base or self.project.default_base

    @cached_property
    def issues(self) -> list[Issue] | AfkError:
        """All open issues, or why they could not be listed."""
        try:
            return self.project.tracker.open_issues()
        except AfkError as error:
            return error

    def ask_git(self, *args: str) -> git.GitResult:
        """A question that git answers by its exit code as well."""
        return git.run(self.root, *args, timeout_s=_PROBE_TIMEOUT_S, check=False)


Check = Callable[[Ground], Finding]


# ── Machine ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_system(ground: Ground) -> Finding:
    if sys.platform == "linux" and Path("/proc/self/stat").exists():
        return passed("Linux with /proc")
    return fail(f"afk run needs Linux with /proc, this is {sys.platform}", "run afk on Linux, or under WSL 2")


def check_git_version(ground: Ground) -> Finding:
    return passed(f"git {'.'.join(map(str, git.require_version()))}")


def check_disk(ground: Ground) -> Finding:
    free = shutil.disk_usage(ground.root).free
    text = f"{free / 1024**3:.1f} GiB free for {ground.root}"
    if free < FREE_FLOOR_BYTES:
        return fail(f"{text}; at least {FREE_FLOOR_BYTES // 1024**2} MiB are needed", f"df -h {ground.root}")
    return passed(text) if free >= _FREE_LOW_BYTES else warn(text, f"df -h {ground.root}")


def check_writable(ground: Ground) -> Finding:
    folder = ground.root / ".red"
    place = folder if folder.is_dir() else ground.root
    if os.access(place, os.W_OK | os.X_OK):
        return passed(f"{place} can be written")
    return fail(f"{place} cannot be written by this user", f"ls -ld {place}")


# ── Configuration ───────────────────────────────────────────────────────────────────────────────────────────────────


def check_config(ground: Ground) -> Finding:
    """What cannot be done as configured fails; what merely reads oddly warns."""
    loaded = ground.project.loaded
    problems = loaded.unsupported()
    if problems:
        return fail("; ".join(f"{each.key}: {each.message}" for each in problems), "afk config validate")
    if loaded.warnings:
        return warn("; ".join(loaded.warnings), "afk config validate")
    present = [str(source.path) for source in loaded.sources if source.present]
    return passed(f"read from {present[0]}") if present else warn("there is none, defaults are used", "afk init")


# ── Git ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_remote(ground: Ground) -> Finding:
    heads = ground.heads
    if isinstance(heads, AfkError):
        return fail_by(heads, "")
    if not heads:
        return fail(f"the remote {_shown_url(ground)} has no branch yet", f"git push {_remote(ground)} HEAD")
    return passed(f"{_remote(ground)} answers: {_shown_url(ground)}")


def check_base(ground: Ground) -> Finding:
    heads, remote = ground.heads, _remote(ground)
    if isinstance(heads, AfkError) or not heads:
        return skipped("the remote has not shown its branches")
    try:
        base = ground.base
    except GitError as error:
        fix = "name the branch as afk.base in .red/config.yaml"
        return Finding(CheckStatus.FAIL, error.message, fix, passes=error.retryable)
    if f"refs/heads/{base}" in heads:
        return passed(f"work starts from {base} and lands on it")
    return fail(f"the remote has no branch {base}", f"git push {remote} HEAD:refs/heads/{base}")


def check_names(ground: Ground) -> Finding:
    """A branch called `afk` leaves no room for `afk/…`: to git a name is a file or a folder, never both."""
    heads, remote = ground.heads, _remote(ground)
    if isinstance(heads, AfkError):
        return skipped("the remote has not shown its branches")
    if _IN_THE_WAY in heads:
        return fail(
            "the remote has a branch afk, so none can be called afk/…",
            f"git fetch {remote} afk && git push {remote} FETCH_HEAD:refs/heads/another-name :refs/heads/afk",
        )
    if git.rev_parse(ground.root, _IN_THE_WAY) is not None:
        return fail("there is a branch afk here, so none can be called afk/…", "git branch -m afk another-name")
    return passed("the branches afk/… can be made")


_IN_THE_WAY = "refs/heads/afk"


def check_index(ground: Ground) -> Finding:
    """afk never writes it, but whoever cannot read it knows nothing of the checkout."""
    asked = ground.ask_git("ls-files", "--error-unmatch", "--", ".red/config.yaml")
    if asked.returncode in (0, 1):
        return passed("git can read the checkout's index")
    rebuild = 'mv "$(git rev-parse --git-path index)" index.broken && git reset'
    return fail(f"git cannot read the checkout's index: {asked.stderr.strip()}", rebuild)


def check_submodules(ground: Ground) -> Finding:
    """A worktree of ours has them only when the configuration says so (R12)."""
    found = submodules.links(ground.root, "HEAD") if git.rev_parse(ground.root, "HEAD") is not None else []
    if not found:
        return passed("the checkout has no submodules")
    wanted, paths = ground.project.config.landing.submodules, ", ".join(link.path for link in found)
    if wanted == "none":
        fix = "set afk.landing.submodules: init in .red/config.yaml"
        return warn(f"agents and checks find these submodules empty: {paths}", fix)
    return passed(f"worktrees get their submodules ({wanted}): {paths}")


def check_lfs(ground: Ground) -> Finding:
    """Files that are pointers in a worktree of ours unless their content is asked for (R13)."""
    files = lfs.tracked(ground.root) if git.rev_parse(ground.root, "HEAD") is not None else []
    if not files:
        return passed("the checkout has no LFS files")
    if ground.project.config.landing.lfs == "skip":
        fix = "set afk.landing.lfs: pull in .red/config.yaml"
        return warn(f"agents and checks find pointers in place of {_count(files, 'LFS file')}", fix)
    if ground.ask_git("lfs", "version").returncode != 0:
        return fail("git lfs is not installed, and afk.landing.lfs is pull", "apt-get install git-lfs")
    return passed(f"worktrees get {_count(files, 'LFS file')}")


def check_push(ground: Ground) -> Finding:
    """Asks the remote whether this user may write, with nobody at the keyboard; a dry run sends nothing."""
    if isinstance(ground.heads, AfkError):
        return skipped("the remote has not answered")
    if git.rev_parse(ground.root, "HEAD") is None:
        return skipped("there is no commit to try with")
    url = git.push_url(ground.root, _remote(ground))
    run_remote(ground.root, url, "push", "--dry-run", "--no-verify", "--", url, "HEAD:refs/afk/probe")
    return passed("pushing needs nobody at the keyboard")


def check_committer(ground: Ground) -> Finding:
    who = ground.ask_git("var", "GIT_COMMITTER_IDENT")
    if who.returncode == 0:
        return passed(f"commits are made as {who.stdout.rpartition('>')[0]}>")
    return fail("git does not know who commits", 'git config user.name "NAME" && git config user.email "ADDRESS"')


def check_signing(ground: Ground) -> Finding:
    """Signs into a scratch object store: whether a key asks for a passphrase shows only when it is used (R18)."""
    if not git.signs_commits(ground.root) or ground.project.config.landing.sign == "off":
        return passed("commits are not signed")
    try:
        _sign_something(ground.root)
    except GitError as error:  # a prompt that nobody answers runs into git's time limit
        fix = "unlock the key for this session, or set afk.landing.sign: off"
        return fail(f"commits cannot be signed with nobody at the keyboard: {error.message}", fix)
    return passed("commits are signed without a passphrase")


def _sign_something(repo: Path) -> None:
    objects = git.common_dir(repo) / "objects"
    with tempfile.TemporaryDirectory(prefix="afk-doctor-") as scratch:
        env = {"GIT_OBJECT_DIRECTORY": scratch, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
        tree = git.run(repo, "hash-object", "-t", "tree", "-w", "--stdin", env=env).stdout.strip()
        git.commit_tree(repo, tree, [], "afk doctor", env=env, sign=True)


def _count(things: Sized, name: str) -> str:
    """`no hook`, `1 hook`, `2 hooks`."""
    return f"{len(things) or 'no'} {name}{'s' * (len(things) > 1)}"


def _remote(ground: Ground) -> str:
    return ground.project.config.remote


def _shown_url(ground: Ground) -> str:
    return ground.project.mask(ground.project.url)


# ── Tracker ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_tracker(ground: Ground) -> Finding:
    issues = ground.issues
    if isinstance(issues, AfkError):
        return fail_by(issues, "afk queue list")
    problems = ground.project.tracker.problems()
    if problems:
        return warn(f"{_count(problems, 'issue')} cannot be read: {problems[0]}", "afk queue list")
    return passed(_count(issues, "open issue"))


def check_label(ground: Ground) -> Finding:
    label, issues = ground.project.config.label, ground.issues
    if isinstance(issues, AfkError):
        return skipped("the tracker has not answered")
    ready = [issue for issue in issues if issue.has_label(label)]
    if ready:
        return passed(f"{_count(ready, 'open issue')} with the label {label}")
    return warn(f"no open issue has the label {label}", f'afk issue create --title "TITLE" --label {label}')


def check_issues_ignored(ground: Ground) -> Finding:
    """The local tracker's files are either the project's (tracked) or nobody's business (ignored)."""
    config = ground.project.config
    if config.tracker != "local" or config.local.path:
        return skipped("issues are not kept in this checkout")
    if ground.ask_git("ls-files", "--", ".red/issues").stdout:
        return passed(".red/issues is tracked by git")
    if ground.ask_git("check-ignore", "--quiet", ".red/issues/x").returncode == 0:
        return passed(".red/issues is ignored by git")
    fix = 'echo /.red/issues/ >> "$(git rev-parse --git-path info/exclude)"'
    return warn(".red/issues is neither tracked nor ignored by git", fix)


# ── Agent, checks, hooks ────────────────────────────────────────────────────────────────────────────────────────────


def check_agent(ground: Ground) -> Finding:
    """Whether each configured program is there. It is not started: what it costs is known to its owner alone."""
    config, found = ground.project.config, list[str]()
    for key, name in ground.runners.items():
        try:
            agent, program = agent_for(config, name), agent_argv(config, name)[0]
        except ConfigError as error:
            return fail(f"{key} is {name}: {error.message}", error.hint or "afk config show")
        if not _is_program(program, ground):
            fix = f"install it, or name another program in afk.agents.{name}.argv"
            return fail(f"the agent's program {program} was not found", fix)
        ceilings = [key for key in ("cost_usd", "run_cost_usd") if getattr(config.bounds, key) is not None]
        if ceilings and agent.profile.tells_cost is False:
            told = f"afk.bounds.{ceilings[0]} cannot be kept: the runner {name} does not tell what it costs"
            return fail(told, "set afk.bounds.tokens in its place")
        found.append(program)
    return passed(f"found {', '.join(dict.fromkeys(found))}")


def check_answers(ground: Ground) -> Finding:
    """Asks each known agent one question, with nobody at the keyboard; what another program costs nobody knows."""
    if ground.asks is Asks.NOTHING:
        return skipped("only afk doctor asks")
    from afk.supervisor import probe

    config, told = ground.project.config, list[str]()
    for name in dict.fromkeys(ground.runners.values()):
        if config.runner_config(name).kind == "command" or not _is_program(agent_argv(config, name)[0], ground):
            continue
        answer = probe.ask(ground.project, name, fresh=ground.asks is Asks.AGAIN)
        who = f"{name} ({answer.version})" if answer.version else name
        if answer.why:
            words, _, cure = ground.project.mask(answer.why).partition("; next: ")
            return fail(f"{who} cannot work unattended: {words}", cure or f"start {name} by hand and see what it asks")
        told.append(f"{who} answered on {answer.asked_at:%Y-%m-%d}")
    return passed(", ".join(told)) if told else skipped("no runner is a known agent that is there")


def _is_program(name: str, ground: Ground) -> bool:
    place = str(ground.root / name) if "/" in name else name
    return shutil.which(place, path=ground.project.environ.get("PATH", os.defpath)) is not None


def check_checks(ground: Ground) -> Finding:
    validation = ground.project.config.validation
    if validation.checks:
        names = ", ".join(check.name for check in validation.checks)
        return passed(f"{_count(validation.checks, 'check')}: {names}")
    if validation.allow_unvalidated:
        return warn("no check is declared and unvalidated work may land", "declare afk.validation.checks")
    return fail("no check is declared, so nothing could land", "declare afk.validation.checks in .red/config.yaml")


def check_hooks(ground: Ground) -> Finding:
    """Looks at the first word of each hook; what a shell may make of an involved line is not guessed at."""
    commands = [hook.run for hooks in ground.project.config.hooks.values() for hook in hooks]
    faults = [fault for command in commands if (fault := _hook_fault(command, ground))]
    return fail("; ".join(faults), "afk hooks list") if faults else passed(_count(commands, "hook"))


def _hook_fault(command: str, ground: Ground) -> str:
    """Empty when nothing is known to be wrong."""
    try:
        word = next((word for word in shlex.split(command, comments=True) if "=" not in word), "")
    except ValueError:
        return ""  # not our grammar; the shell will say
    if "/" in word and not set(word) & set("$`*?~{("):
        script = ground.root / word
        if not script.is_file():
            return f"{word} does not exist"
        return "" if os.access(script, os.X_OK) else f"{word} is not executable (chmod +x {word})"
    return "" if "/" in word or not word or _shell_knows(word, ground) else f"{word} is not a command here"


def _shell_knows(word: str, ground: Ground) -> bool:
    """Programs, builtins and functions alike; a word that is more than a name is taken on trust."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", word):
        return True
    probe = subprocess.run(
        ["sh", "-c", 'command -v -- "$1"', "sh", word],
        cwd=ground.root,
        env=dict(ground.project.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_PROBE_TIMEOUT_S,
        check=False,
    )
    return probe.returncode == 0


CHECKS: tuple[tuple[str, Category, Check], ...] = (
    ("system", Category.MACHINE, check_system),
    ("git-version", Category.MACHINE, check_git_version),
    ("disk", Category.MACHINE, check_disk),
    ("writable", Category.MACHINE, check_writable),
    ("config", Category.CONFIG, check_config),
    ("remote", Category.GIT, check_remote),
    ("base", Category.GIT, check_base),
    ("names", Category.GIT, check_names),
    ("index", Category.GIT, check_index),
    ("submodules", Category.GIT, check_submodules),
    ("lfs", Category.GIT, check_lfs),
    ("push", Category.GIT, check_push),
    ("committer", Category.GIT, check_committer),
    ("signing", Category.GIT, check_signing),
    ("tracker", Category.TRACKER, check_tracker),
    ("label", Category.TRACKER, check_label),
    ("issues-ignored", Category.TRACKER, check_issues_ignored),
    ("agent", Category.AGENT, check_agent),
    ("answers", Category.AGENT, check_answers),
    ("checks", Category.VALIDATION, check_checks),
    ("hooks", Category.HOOKS, check_hooks),
)


def ground_checks(
    project: Project, *, base: str | None = None, runner: str | None = None, asks: Asks = Asks.NOTHING
) -> list[DoctorCheck]:
    """Every check once, causes before their effects; `base` and `runner` stand in for the configured ones."""
    ground = Ground(project, base, runner, asks)
    return [_carry_out(id, category, check, ground) for id, category, check in CHECKS]


def skipped_checks(done: Iterable[str], why: str) -> list[DoctorCheck]:
    """What is left to say when the project could not be opened; `done` are ids that have been answered otherwise."""
    answered = set(done)
    return [
        DoctorCheck(id, category, CheckStatus.SKIPPED, why, None, 0) for id, category, _ in CHECKS if id not in answered
    ]


def _carry_out(id: str, category: Category, check: Check, ground: Ground) -> DoctorCheck:
    started = time.monotonic()
    try:
        finding = check(ground)
    except AfkError as error:
        finding = fail_by(error, "afk doctor")
    except Exception as error:  # noqa: BLE001 - a fault of one check must not hide what the others found
        finding = Finding(CheckStatus.ERROR, f"could not be checked: {type(error).__name__}: {error}")
    spent_ms = round((time.monotonic() - started) * 1000)
    return DoctorCheck(id, category, finding.status, finding.summary, finding.fix, spent_ms, finding.passes)
