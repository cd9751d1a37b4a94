"""File, then environment, then flags: the configuration of a checkout, and where each value came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from afk.config.keys import describe, env_name, flatten, holds_text, words
from afk.config.models import AgentConfig, Config
from afk.config.problems import Place, Places, Problem, did_you_mean, in_order, invalid, nearest
from afk.config.reading import Draft, build, draft_of
from afk.config.support import unsupported
from afk.config.yamldoc import YamlError, compose, plain
from afk.errors import ConfigError

__all__ = ["DEFAULT_FILE", "Loaded", "Source", "load"]

DEFAULT_FILE: Final = Path(".red") / "config.yaml"
MAX_FILE_BYTES: Final = 256 * 1024
RESERVED_ENV: Final = frozenset({"AFK_OUTPUT", "AFK_KEEPER"})  # the output format; the mark of a kept process tree
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


@dataclass(frozen=True, slots=True)
class Source:
    path: Path
    present: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """`origins` says for every effective key: a file's path, `default`, `env` or `flag`; `places` has the line too, for
    keys that were given. `problems` are the warnings as values, `warnings` the same as sentences. `again` reads anew
    what this was read from, with the same flags, and raises what `load` raises."""

    config: Config
    sources: tuple[Source, ...]
    origins: dict[str, str]
    places: Places
    problems: tuple[Problem, ...]
    again: Callable[[], Loaded] = field(repr=False, compare=False)

    @property
    def warnings(self) -> list[str]:
        return [str(problem) for problem in self.problems]

    def unsupported(self) -> list[Problem]:
        """What this version cannot honour, with file and line (S9)."""
        return unsupported(self.config, self.places)


def load(
    root: Path, *, explicit: Path | None = None, env: Mapping[str, str], overrides: Mapping[str, object] = _NOTHING
) -> Loaded:
    """The configuration of the checkout at `root`, or of the file `explicit`, which then must exist.

    Without a file everything has its default. `overrides` are flags by dotted key (`afk.workers`), None: not given.
    `~` and `$VAR` are expanded in `afk.local.path` (then absolute) and `$VAR` in `afk.github.api_url`.
    Raises: ConfigError with every problem of file, environment and flags.
    """
    path = explicit or root / DEFAULT_FILE
    draft, present = _draft_of_file(path, must_exist=explicit is not None)
    _overlay_env(draft, env)
    _overlay_flags(draft, overrides)
    config = _expanded(build(draft), draft, root, env)
    origins = {key: _origin(key, draft.places) for key in flatten(config.dump())}
    again = partial(load, root, explicit=explicit, env=env, overrides=overrides)
    return Loaded(config, (Source(path, present),), origins, draft.places, in_order(draft.problems), again)


def _origin(key: str, places: Places) -> str:
    return places[key].origin if key in places else "default"


def _draft_of_file(path: Path, *, must_exist: bool) -> tuple[Draft, bool]:
    try:
        if path.exists() and not path.is_file():
            raise _unusable(path, "is no regular file")
        data = path.read_bytes()
    except FileNotFoundError as error:
        if must_exist:
            raise _unusable(path, "does not exist") from error
        return Draft(str(path)), False
    except OSError as error:
        raise _unusable(path, f"cannot be read ({error.strerror})") from error
    return draft_of(_decoded(data, path), str(path)), True


def _decoded(data: bytes, path: Path) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise _unusable(path, f"is larger than {MAX_FILE_BYTES // 1024} kB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(path, "is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from error


def _unusable(path: Path, message: str, line: int | None = None) -> ConfigError:
    return invalid([Problem("error", str(path), "", line, message)])


def _overlay_env(draft: Draft, env: Mapping[str, str]) -> None:
    """An empty variable counts as not set; an unknown one is only worth a word when it looks like a known one."""
    keys = {env_name(key): key for key in _known_keys(draft)}
    for name, text in env.items():
        if not name.startswith("AFK_") or name in RESERVED_ENV or not text:
            continue
        if name in keys:
            _put_env(draft, keys[name], name, text)
        elif similar := nearest(name, keys, cutoff=0.85):
            draft.problems.append(Problem("warning", name, "", None, "sets nothing", did_you_mean(similar)))


def _known_keys(draft: Draft) -> Iterator[str]:
    yield from (row.key for row in describe())
    agents = draft.data.get("agents")
    for name in agents if isinstance(agents, dict) else ():
        yield from (f"afk.agents.{name}.{field}" for field in AgentConfig.model_fields)


def _put_env(draft: Draft, key: str, name: str, text: str) -> None:
    try:
        value = text if _taken_literally(key, text) else _yaml_value(draft, key, name, text)
    except YamlError as error:
        draft.problems.append(Problem("error", name, key, None, error.fault.message))
        return
    _put(draft, key, value, Place(name, None, "env"))


def _taken_literally(key: str, text: str) -> bool:
    one_command = words(key).startswith("command") and text.lstrip()[:1] not in ("[", "{")
    return one_command or holds_text(key)


def _yaml_value(draft: Draft, key: str, name: str, text: str) -> object:
    tree = plain(compose(text), key)
    for fault in tree.faults:
        raise YamlError(fault)
    return tree.value


def _overlay_flags(draft: Draft, overrides: Mapping[str, object]) -> None:
    for key, value in overrides.items():
        if value is not None:
            _put(draft, key, value, Place("command line", None, "flag"))


def _put(draft: Draft, key: str, value: object, place: Place) -> None:
    """What stood there and below is gone. A section that is no mapping is left alone: its own fault will be told."""
    *above, last = key.split(".")[1:]
    section: dict[str, Any] = draft.data
    for part in above:
        if section.get(part) is None:
            section[part] = {}
        if not isinstance(section[part], dict):
            return
        section = section[part]
    section[last] = value
    for known in [known for known in draft.places if known.startswith(f"{key}.")]:
        del draft.places[known]
    draft.places[key] = place


def _expanded(config: Config, draft: Draft, root: Path, env: Mapping[str, str]) -> Config:
    path, api_url = config.local.path, config.github.api_url
    if path is not None:
        home = re.sub(r"\A~(?=/|\Z)", "$HOME", path)
        path = str(root.absolute() / _substituted(home, "afk.local.path", draft, env))
    api_url = _substituted(api_url, "afk.github.api_url", draft, env)
    if not re.match(r"https?://[^\s/]", api_url):
        draft.add("error", "afk.github.api_url", "is no http(s) URL")
    if draft.broken:
        raise invalid(draft.problems)
    local = config.local.model_copy(update={"path": path})
    github = config.github.model_copy(update={"api_url": api_url})
    return config.model_copy(update={"local": local, "github": github})


def _substituted(text: str, key: str, draft: Draft, env: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if not env.get(name):
            draft.add("error", key, f"`${name}` is not set", "set the variable or write the value out")
        return env.get(name, "")

    return _VARIABLE.sub(value, text)
