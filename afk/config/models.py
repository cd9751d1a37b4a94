"""Every key of `afk:` in `.red/config.yaml`, its type and its default, as frozen models.

Units are in the names: `_s` seconds, `_mb` MiB, `_days` days, `_usd` US dollars. None in a limit means `unlimited`; a
key that is left blank has its default when it holds other keys or a list. The descriptions of the types are what a
person reads in an error and in `afk config show`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from afk.domain.lifecycle import HookPoint

__all__ = [
    "FROM_PEOPLE",
    "RESERVED_BUILTINS",
    "RUNNER_KINDS",
    "SWITCHABLE_BUILTINS",
    "AgentConfig",
    "Check",
    "Config",
    "HookCommand",
]

UNLIMITED: Final = "unlimited"
RUNNER_KINDS: Final = ("claude", "codex", "opencode", "gemini", "command")
SWITCHABLE_BUILTINS: Final = ("cargo", "gradle")
RESERVED_BUILTINS: Final = ("heartbeat", "envelope", "validation")  # nothing switches off the comment or the gate
FROM_PEOPLE: Final = "from people"  # validation context: what follows was written by hand, not dumped by us

_HOOK_TIMEOUT_S = 300.0
_CHECK_TIMEOUT_S = 1800.0
_TRIES: Final = {
    "crashed": 2,
    "merge-conflict": 3,
    "policy": 1,
    "quota": 3,
    "runner-transient": 3,
    "stalled": 3,
    "wall-clock-capped": 3,
}


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{why}", {"why": message})


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _not_blank(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise _refuse("must not be blank")
    return value


def _one_line(value: str) -> str:
    if value.strip() != value or not value.isprintable():
        raise _refuse("must be one line without blanks around it")
    return value


def _name_for_git(value: str) -> str:
    # It becomes an argument of git: a leading dash would be read as an option there.
    if value.startswith("-") or re.search(r"[\s~^:?*\[\\\x00-\x1f\x7f]|\.\.", value):
        raise _refuse("is no name that git accepts")
    return value


def _limit(value: object) -> object:
    if value is None:
        raise _refuse(f"is blank: write a number, or `{UNLIMITED}` for no limit")
    return None if value == UNLIMITED else value


def _short(value: float) -> int | float:
    """2700 rather than 2700.0, as a person would write it."""
    return int(value) if float(value).is_integer() else value


def _spell_limit(value: float | None) -> int | float | str:
    return UNLIMITED if value is None else _short(value)


def _one_of(names: tuple[str, ...], what: str) -> AfterValidator:
    """A mapping's key from a closed list; the list travels in the error for the nearest-name hint."""

    def check(name: str) -> str:
        if name not in names:
            raise PydanticCustomError("unknown_name", "unknown {what}", {"what": what, "names": list(names)})
        return name

    return AfterValidator(check)


Text = Annotated[str, AfterValidator(_not_blank), Field(description="text")]
Line = Annotated[Text, AfterValidator(_one_line)]
GitName = Annotated[Line, AfterValidator(_name_for_git), Field(description="a name in git")]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="variable name")]
Repo = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$", description="owner/name")]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)]
Lines = Annotated[tuple[Line, ...], BeforeValidator(_as_tuple)]
Count = Annotated[int, Field(ge=1, description="whole number from 1")]

_POSITIVE = Field(gt=0, allow_inf_nan=False)
Seconds = Annotated[float, _POSITIVE, PlainSerializer(_short), Field(description="seconds above 0")]
Wait = Annotated[float, Field(ge=0, allow_inf_nan=False), PlainSerializer(_short), Field(description="seconds from 0")]
Days = Annotated[float, _POSITIVE, PlainSerializer(_short), Field(description="days above 0")]
Megabytes = Annotated[float, _POSITIVE, PlainSerializer(_short), Field(description="MiB above 0")]


def _limit_schema(words: str) -> WithJsonSchema:
    return WithJsonSchema({"description": f"{words} above 0 or {UNLIMITED}"})


SecondsLimit = Annotated[
    Annotated[float, _POSITIVE] | None, BeforeValidator(_limit), PlainSerializer(_spell_limit), _limit_schema("seconds")
]
NumberLimit = Annotated[
    Annotated[float, _POSITIVE] | None, BeforeValidator(_limit), PlainSerializer(_spell_limit), _limit_schema("number")
]
CountLimit = Annotated[
    Annotated[int, Field(gt=0)] | None,
    BeforeValidator(_limit),
    PlainSerializer(_spell_limit),
    _limit_schema("whole number"),
]


class Section(BaseModel):
    """Frozen; strict (a number is never text, true never 1); an unknown key is an error."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _blank_is_default(cls, data: Any) -> Any:
        """`hooks:` above lines that are all commented out is no error."""
        return {k: v for k, v in data.items() if v is not None or not cls._holds_more(k)} if _is_map(data) else data

    @classmethod
    def _holds_more(cls, key: str) -> bool:
        for name, field in cls.model_fields.items():
            if key == (field.alias or name):
                return isinstance(field.get_default(call_default_factory=True), tuple | dict | BaseModel)
        return False


def _is_map(data: object) -> bool:
    return isinstance(data, dict)


class Local(Section):
    path: Text | None = None  # None: `.red/issues` of this checkout; `~` and `$VAR` are expanded
    login: Line = "afk"


class Github(Section):
    repo: Repo | None = None  # None: from the remote
    api_url: Line = "https://api.github.com"  # `$VAR` is expanded


class AgentConfig(Section):
    """One entry under `agents`; without a `kind` its own name is the kind."""

    kind: Literal["claude", "codex", "opencode", "gemini", "command"] | None = None
    argv: Texts = ()  # kind `command`: the program, verbatim; the prompt comes on stdin
    model: Line | None = None
    effort: Line | None = None
    extra_args: Texts = ()


class AgentsShared(Section):
    """`agent`: what holds for every agent, whatever its kind."""

    env_allow: Annotated[tuple[EnvName, ...], BeforeValidator(_as_tuple)] = ()
    home: Literal["shared", "isolated"] = "shared"
    sandbox: Literal["none", "bwrap", "docker", "podman"] = "none"
    grace_s: Seconds = 30  # after the sentinel, before TERM
    kill_s: Seconds = 10  # after TERM, before KILL


class Bounds(Section):
    """Per attempt, `run_cost_usd` per run; None = unlimited."""

    silence_flag_s: SecondsLimit = 600
    silence_kill_s: SecondsLimit = 1800
    wall_clock_s: SecondsLimit = 2700  # of the agent's runs, added up over the attempt
    tokens: CountLimit = None
    cost_usd: NumberLimit = None
    peak_rss_mb: NumberLimit = None
    run_cost_usd: NumberLimit = None


class Check(Section):
    """One command that must exit 0; with `when`, only if a changed path matches one of the globs."""

    name: Line
    run: Text
    timeout_s: Seconds = _CHECK_TIMEOUT_S
    when: Texts = ()


def _distinct(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    doubled = [name for name, times in Counter(check.name for check in checks).items() if times > 1]
    if doubled:
        raise _refuse(f"more than one check is called `{doubled[0]}`")
    return checks


class Validation(Section):
    checks: Annotated[tuple[Check, ...], BeforeValidator(_as_tuple), AfterValidator(_distinct)] = ()
    discover: bool = True
    allow_unvalidated: bool = False
    timeout_s: Seconds = _CHECK_TIMEOUT_S

    @model_validator(mode="before")
    @classmethod
    def _checks_inherit_the_timeout(cls, data: Any) -> Any:
        if not (_is_map(data) and "timeout_s" in data and isinstance(data.get("checks"), list | tuple)):
            return data
        inherited = {"timeout_s": data["timeout_s"]}
        return data | {"checks": [inherited | check if _is_map(check) else check for check in data["checks"]]}


class Landing(Section):
    mode: Literal["merge", "pr"] = "merge"
    rounds: Count = 3
    resolve_conflicts: bool = True
    mend_checks: bool = True
    salvage: bool = True
    batch: Count = 1
    max_file_mb: Megabytes = 10
    allow_paths: Texts = ()
    submodules: Literal["none", "init", "shared"] = "none"
    lfs: Literal["skip", "pull"] = "skip"
    # YAML 1.1 reads a bare `off` as false.
    sign: Annotated[Literal["keep", "off"], BeforeValidator(lambda value: "off" if value is False else value)] = "keep"


class Recovery(Section):
    """`tries`: attempts in all that a recovery key allows, the first included; a key that is left out keeps its own."""

    tries: Annotated[
        dict[Annotated[str, _one_of(tuple(_TRIES), "recovery key")], Count],
        BeforeValidator(lambda value: _TRIES | value if _is_map(value) else value),
    ] = Field(default_factory=lambda: dict(_TRIES))
    per_issue: Count = 6
    backoff_s: Wait = 60
    backoff_max_s: Seconds = 3600


class Circuit(Section):
    fast_death_s: Seconds = 30
    count: Count = 5
    window_s: Seconds = 90
    cooldown_s: Seconds = 900


class Claim(Section):
    lease_s: Seconds = 900
    renew_s: Seconds = 120


class Retention(Section):
    parked_posted_days: Days = 1
    parked_unposted_days: Days = 7
    attempts: Count = 5
    attempt_days: Days = 14
    branch_days: Days = 7


class Trust(Section):
    allow: Lines = ()
    require_write_access: bool = True
    discussion: Literal["framed", "none"] = "framed"


class Memory(Section):
    command: Text | None = None


class HookCommand(Section):
    """One command of a hook point, for `sh -c`; `line` is where the file declares it (None: not from a file)."""

    run: Text
    timeout_s: Seconds = _HOOK_TIMEOUT_S
    line: SkipJsonSchema[int | None] = None

    @model_validator(mode="before")
    @classmethod
    def _line_is_not_theirs(cls, data: Any, info: ValidationInfo) -> Any:
        if info.context == FROM_PEOPLE and _is_map(data) and "line" in data:
            raise _refuse("knows `run` and `timeout_s`, not `line`")
        return data


def _commands(value: Any) -> Any:
    """One string, one mapping, or a list of either."""
    if isinstance(value, str | dict):
        value = [value]
    return tuple({"run": item} if isinstance(item, str) else item for item in value) if _is_list(value) else value


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


HookPointName = Annotated[str, _one_of(tuple(HookPoint), "hook point")]
HookCommands = Annotated[
    tuple[HookCommand, ...],
    BeforeValidator(_commands),
    Field(description="command, {run, timeout_s}, or a list of these"),
]
BuiltinName = Annotated[str, _one_of((*SWITCHABLE_BUILTINS, *RESERVED_BUILTINS), "built-in")]


def _name_of_agent(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise _refuse("is no name for an agent: letters, digits, `-` and `_`")
    return name


AgentName = Annotated[str, AfterValidator(_name_of_agent)]


def _with_standard_agents(value: Any) -> Any:
    return {"command": {}, "claude": {}} | {k: v or {} for k, v in value.items()} if _is_map(value) else value


def _with_standard_builtins(value: Any) -> Any:
    return dict.fromkeys(SWITCHABLE_BUILTINS, True) | value if _is_map(value) else value


class Config(Section):
    """The mapping under `afk:`. A dump validates back to an equal configuration."""

    tracker: Literal["local", "github"] = "local"
    local: Local = Local()
    github: Github = Github()
    label: Line = "ready-for-agent"
    remote: GitName = "origin"
    base: GitName | None = None  # None: the remote's default branch
    workers: Count = 1
    poll_s: Seconds = 30
    runner: Line = "claude"
    fallback_runner: Line | None = None
    alternate: Lines = ()
    agents: Annotated[dict[AgentName, AgentConfig], BeforeValidator(_with_standard_agents)] = Field(
        default_factory=lambda: {"command": AgentConfig(), "claude": AgentConfig()}
    )
    agent: AgentsShared = AgentsShared()
    bounds: Bounds = Bounds()
    setup: Texts = ()
    validation: Validation = Validation()
    landing: Landing = Landing()
    recovery: Recovery = Recovery()
    circuit: Circuit = Circuit()
    claim: Claim = Claim()
    retention: Retention = Retention()
    trust: Trust = Trust()
    memory: Memory = Memory()
    hooks: dict[HookPointName, HookCommands] = Field(default_factory=dict)
    # In the file these stand inside `hooks`, as `defaults`; the alias is a spelling that no mapping key there can have.
    hook_defaults: Annotated[dict[BuiltinName, bool], BeforeValidator(_with_standard_builtins)] = Field(
        default_factory=lambda: dict.fromkeys(SWITCHABLE_BUILTINS, True), alias="hooks.defaults"
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults_are_no_hook(cls, data: Any) -> Any:
        hooks = data.get("hooks") if _is_map(data) else None
        if not (isinstance(hooks, dict) and "defaults" in hooks):
            return data
        points = {point: commands for point, commands in hooks.items() if point != "defaults"}
        return data | {"hooks": points, "hooks.defaults": hooks["defaults"]}

    def dump(self) -> dict[str, Any]:
        """Plain JSON values in the shape of the file, every key present: what an attempt keeps of its configuration."""
        data = self.model_dump(mode="json", by_alias=True)
        data["hooks"]["defaults"] = data.pop("hooks.defaults")
        return data

    def runners(self) -> dict[str, str]:
        """The runners that may be started, by the dotted key that names each."""
        fallback = {"afk.fallback_runner": self.fallback_runner} if self.fallback_runner else {}
        rotation = {f"afk.alternate.{index}": name for index, name in enumerate(self.alternate)}
        return {"afk.runner": self.runner} | fallback | rotation

    def runner_config(self, name: str) -> AgentConfig:
        """The entry of a runner by name, its `kind` filled in; a kind's own name needs no entry.

        Raises: KeyError for a name that is neither under `agents` nor a kind.
        """
        entry = self.agents.get(name, AgentConfig())
        kind = entry.kind or name
        if kind not in RUNNER_KINDS:
            raise KeyError(name)
        return entry.model_copy(update={"kind": kind})
