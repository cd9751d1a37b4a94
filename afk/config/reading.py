"""A configuration's text -> `Config`, or every fault in it at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import ValidationError

from afk.config.keys import nearest_key, words
from afk.config.models import FROM_PEOPLE, RESERVED_BUILTINS, RUNNER_KINDS, Config
from afk.config.problems import Place, Problem, did_you_mean, invalid, nearest, place_of
from afk.config.yamldoc import Fault, YamlError, compose, plain
from afk.domain.queue import is_ours

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["RETIRED", "Draft", "build", "draft_of", "parse"]

# Keys that earlier programs of this family had: they are ignored with a warning that says what does their work (L55).
RETIRED: Final = {
    "afk.max_iterations": "use `afk run -n N`",
    "afk.timeout_s": "use `afk.bounds.wall_clock_s`",
}


@dataclass(slots=True)
class Draft:
    """The mapping under `afk:` before it is checked: values, where each came from, and what was wrong so far."""

    source: str
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, severity: str, key: str, message: str, fix: str = "") -> None:
        place = place_of(key, self.places, self.source)
        self.problems.append(Problem(severity, place.path, key, place.line, message, fix))

    def fault(self, fault: Fault, path: str) -> None:
        """A fault that YAML itself has, in a file or in a variable."""
        self.problems.append(Problem("error", path, fault.key, fault.line, fault.message))

    @property
    def broken(self) -> bool:
        return any(problem.severity == "error" for problem in self.problems)


def parse(text: str, *, source: str) -> Config:
    """The configuration in this text, defaults filled in; `source` names it in errors. An empty text is all defaults.

    `~` and `$VAR` are left as they are. Raises: ConfigError with every problem.
    """
    return build(draft_of(text, source))


def draft_of(text: str, source: str) -> Draft:
    """Only the key `afk` is looked at: the rest of the file belongs to other tools."""
    draft = Draft(source)
    try:
        section = _afk_node(compose(text))
    except YamlError as error:
        draft.fault(error.fault, source)
        return draft
    tree = plain(section, "afk")
    draft.places = {key: Place(source, line, source) for key, line in tree.lines.items()}
    for fault in tree.faults:
        draft.fault(fault, source)
    if isinstance(tree.value, dict):
        draft.data = {name: value for name, value in tree.value.items() if not _is_dotted(name, draft)}
    elif tree.value is not None:
        draft.add("error", "afk", "expected a mapping of settings")
    return draft


def _is_dotted(name: str, draft: Draft) -> bool:
    """A dotted name looks like the key that is meant, so it gets an answer of its own."""
    if "." in name:
        draft.add("error", f"afk.{name}", "is one key with a dot in it", "write it as nested keys")
    return "." in name


def _afk_node(document: yaml.Node | None) -> yaml.Node | None:
    if document is None:
        return None
    if not isinstance(document, yaml.MappingNode):
        raise YamlError(Fault("expected a mapping with the key `afk`", document.start_mark.line + 1))
    found = [(name, value) for name, value in document.value if name.value == "afk"]
    if len(found) > 1:
        first, second = (name.start_mark.line + 1 for name, _ in found[:2])
        raise YamlError(Fault(f"stands twice, first on line {first}", second, "afk"))
    return found[0][1] if found else None


def build(draft: Draft) -> Config:
    """The checked configuration; warnings are added to the draft's problems.

    Raises: ConfigError with every problem, warnings included.
    """
    _retire(draft)
    config = _validated(draft)
    if config is not None:
        _check_sense(config, draft)
    if config is None or draft.broken:
        raise invalid(draft.problems)
    _warn_of_reserved(config, draft)
    return _with_hook_lines(config, draft)


def _retire(draft: Draft) -> None:
    for key, instead in RETIRED.items():
        if draft.data.pop(key.removeprefix("afk."), None) is not None:
            draft.add("warning", key, "is retired and has no effect", instead)


def _validated(draft: Draft) -> Config | None:
    try:
        return Config.model_validate(draft.data, context=FROM_PEOPLE)
    except ValidationError as error:
        for finding in error.errors(include_url=False):
            key = ".".join(["afk", *(str(part) for part in finding["loc"] if part != "[key]")])
            draft.add("error", key, *_in_words(finding, key))
        return None


def _in_words(finding: ErrorDetails, key: str) -> tuple[str, str]:
    """Message and fix."""
    match finding["type"]:
        case "extra_forbidden":
            return "unknown key", did_you_mean(nearest_key(key))
        case "unknown_name":
            context = finding["ctx"]
            return f"unknown {context['what']}", did_you_mean(nearest(str(finding["input"]), context["names"]))
        case "refused":
            return finding["msg"], ""
        case "missing":
            return "is required", ""
    expected, given = words(key), finding["input"]
    if finding["type"] == "literal_error" and isinstance(given, str):
        return f"expected {expected}", did_you_mean(nearest(given, expected.replace(" or ", " | ").split(" | ")))
    in_quotes = isinstance(given, int | float) and expected.startswith("text")
    return f"expected {expected}, found {_kind(given)}", "put it in quotes" if in_quotes else ""


def _kind(value: object) -> str:
    """Never a text's own characters: they may be a secret in the wrong place."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)[:20]
        case str():
            return "text"
        case dict():
            return "a mapping"
    return "a list"


def _check_sense(config: Config, draft: Draft) -> None:
    """What each value alone cannot show."""
    for name, agent in config.agents.items():
        if agent.kind is None and name not in RUNNER_KINDS:
            fix = f"add `kind:` and one of {', '.join(RUNNER_KINDS)}"
            draft.add("error", f"afk.agents.{name}", "needs a kind, for its name is none", fix)
    for key, name in config.runners().items():
        _check_runner(config, key, name, draft)
    if is_ours(config.label):
        draft.add(
            "error", "afk.label", f"`{config.label}` is a label that afk sets and takes away itself", "name another"
        )
    # Writes to the tracker need a claim renewed within a third of its lease: a slower beat would refuse them all.
    if config.claim.renew_s * 3 > config.claim.lease_s:
        draft.add("error", "afk.claim.renew_s", "must be at most a third of `afk.claim.lease_s`")


def _check_runner(config: Config, key: str, name: str, draft: Draft) -> None:
    if name not in config.agents and name not in RUNNER_KINDS:
        draft.add("error", key, "names no runner", did_you_mean(nearest(name, [*config.agents, *RUNNER_KINDS])))
        return
    agent = config.agents.get(name)
    kind = (agent.kind if agent else None) or name
    if kind == "command" and not (agent and agent.argv):
        draft.add("error", key, f"runner `{name}` has no program", f"set `afk.agents.{name}.argv`")


def _warn_of_reserved(config: Config, draft: Draft) -> None:
    for name in RESERVED_BUILTINS:
        if config.hook_defaults.get(name) is False:
            key = f"afk.hooks.defaults.{name}"
            draft.add("warning", key, "has no effect: comment and gate cannot be switched off", "remove it")


def _with_hook_lines(config: Config, draft: Draft) -> Config:
    hooks = {
        point: tuple(
            command.model_copy(update={"line": place_of(f"afk.hooks.{point}.{index}", draft.places, "").line})
            for index, command in enumerate(commands)
        )
        for point, commands in config.hooks.items()
    }
    return config.model_copy(update={"hooks": hooks})
