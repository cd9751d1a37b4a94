from __future__ import annotations

import json

import pytest

from afk.config import RETIRED, Config, HookCommand, Problem, describe, parse, unsupported
from afk.config.keys import env_name, words
from afk.config.models import RESERVED_BUILTINS
from afk.domain.lifecycle import HookPoint
from afk.domain.outcome import OUTCOMES
from afk.errors import ConfigError


def read(text: str) -> Config:
    return parse(text, source="c.yaml")


def problems(text: str) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        read(text)
    found = [problem for problem in caught.value.problems if isinstance(problem, Problem)]
    assert len(found) == len(caught.value.problems)
    return found


def problem(text: str) -> Problem:
    (only,) = problems(text)
    return only


# ── Defaults and shapes ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text", ["", "# nothing yet\n", "afk:\n", "afk: {}\n", "---\n", "other: 1\n", "\ufeffafk:\r\n"]
)
def test_without_settings_everything_has_its_default(text: str) -> None:
    """S7."""
    assert read(text) == Config()


def test_the_defaults_are_those_of_the_reference() -> None:
    config = Config()

    assert (config.tracker, config.runner, config.label, config.remote, config.base) == (
        "local", "claude", "ready-for-agent", "origin", None,
    )  # fmt: skip
    assert (config.local.path, config.local.login) == (None, "afk")
    assert (config.github.repo, config.github.api_url) == (None, "https://api.github.com")
    assert (config.workers, config.poll_s, config.fallback_runner, config.alternate) == (1, 30, None, ())
    assert (config.agent.env_allow, config.agent.home, config.agent.sandbox) == ((), "shared", "none")
    assert (config.agent.grace_s, config.agent.kill_s) == (30, 10)
    assert config.bounds.model_dump() == {
        "silence_flag_s": 600, "silence_kill_s": 1800, "wall_clock_s": 2700,
        "tokens": "unlimited", "cost_usd": "unlimited", "peak_rss_mb": "unlimited", "run_cost_usd": "unlimited",
    }  # fmt: skip
    assert config.validation.model_dump() == {
        "checks": (), "discover": True, "allow_unvalidated": False, "timeout_s": 1800,
    }  # fmt: skip
    assert config.landing.model_dump() == {
        "mode": "merge", "rounds": 3, "resolve_conflicts": True, "mend_checks": True, "salvage": True,
        "batch": 1, "max_file_mb": 10,
        "allow_paths": (), "submodules": "none", "lfs": "skip", "sign": "keep",
    }  # fmt: skip
    assert (config.recovery.per_issue, config.recovery.backoff_s, config.recovery.backoff_max_s) == (6, 60, 3600)
    assert config.circuit.model_dump() == {"fast_death_s": 30, "count": 5, "window_s": 90, "cooldown_s": 900}
    assert (config.claim.lease_s, config.claim.renew_s) == (900, 120)
    assert config.retention.model_dump() == {
        "parked_posted_days": 1, "parked_unposted_days": 7, "attempts": 5, "attempt_days": 14, "branch_days": 7,
    }  # fmt: skip
    assert config.trust.model_dump() == {"allow": (), "require_write_access": True, "discussion": "framed"}
    assert (config.setup, config.memory.command, config.hooks) == ((), None, {})
    assert config.hook_defaults == {"cargo": True, "gradle": True}


def test_tries_cover_exactly_the_outcomes_that_may_be_tried_again() -> None:
    assert set(Config().recovery.tries) == {row.tries_key for row in OUTCOMES.values() if row.tries_key}


def test_the_rest_of_the_file_belongs_to_other_tools() -> None:
    text = "red: {whatever: [1], whatever: !x 2}\nafk: {workers: 1}\nmore: *nothing\n".replace("*nothing", "x")

    assert read(text).workers == 1


@pytest.mark.parametrize("text", ["[]", "afk", "- afk: {}"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    """S6."""
    assert problem(text) == Problem("error", "c.yaml", "", 1, "expected a mapping with the key `afk`")


@pytest.mark.parametrize("value", ["[1]", "3", "text"])
def test_a_section_that_is_no_mapping_is_refused(value: str) -> None:
    assert problem(f"\nafk: {value}\n") == Problem("error", "c.yaml", "afk", 2, "expected a mapping of settings")


def test_broken_yaml_is_refused_with_its_line() -> None:
    """S5."""
    assert problem("afk:\n  workers: [1\n  label: x\n").line == 3
    assert problem("afk:\n\tworkers: 1\n") == Problem("error", "c.yaml", "", 2, "a tab cannot indent YAML: use spaces")


@pytest.mark.parametrize("section", ["hooks", "claim", "setup", "agents", "bounds", "validation", "recovery"])
def test_a_section_whose_lines_are_all_commented_out_is_all_defaults(section: str) -> None:
    assert read(f"afk:\n  {section}:\n    # nothing\n") == Config()


def test_a_doubled_key_is_an_error() -> None:
    found = problem("afk:\n  workers: 1\n  workers: 1\n")

    assert (found.key, found.line, found.message) == ("afk.workers", 3, "stands twice, first on line 2")
    assert problem("afk: {}\nafk: {}\n").message == "stands twice, first on line 1"


def test_aliases_may_repeat_a_value_but_not_explode() -> None:
    config = read("x: &limit 60\nafk: {poll_s: *limit, circuit: {window_s: *limit}}\n")
    assert (config.poll_s, config.circuit.window_s) == (60, 60)

    levels = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert "unfold" in problems(f"afk:\n  l0: &l0 [x]\n{levels}")[0].message


# ── Faults ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "key", "meant"),
    [
        ("worker: 1", "afk.worker", "afk.workers"),
        ("Workers: 1", "afk.Workers", "afk.workers"),
        ("claim: {lease: 1}", "afk.claim.lease", "afk.claim.lease_s"),
        ("lease_s: 1", "afk.lease_s", "afk.claim.lease_s"),
        ("validation: {checks: [{name: a, run: b, timeout: 1}]}", "afk.validation.checks.0.timeout",
         "afk.validation.checks.0.timeout_s"),
        ("agents: {mine: {kind: command, args: [x]}}", "afk.agents.mine.args", "afk.agents.mine.argv"),
        ("hooks: {pre_merg: x}", "afk.hooks.pre_merg", "pre_merge"),
        ("hooks: {on_error: x}", "afk.hooks.on_error", None),
        ("hooks: {pre_merge: {run: x, timeout: 3}}", "afk.hooks.pre_merge.0.timeout",
         "afk.hooks.pre_merge.0.timeout_s"),
        ("hooks: {defaults: {crgo: true}}", "afk.hooks.defaults.crgo", "cargo"),
        ("recovery: {tries: {crash: 1}}", "afk.recovery.tries.crash", "crashed"),
        ("hook_defaults: {cargo: false}", "afk.hook_defaults", "afk.hooks.defaults"),
        ("nonsense: 1", "afk.nonsense", None),
    ],
)  # fmt: skip
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(line: str, key: str, meant: str | None) -> None:
    """S8, as ruled: unknown keys are errors."""
    found = problem(f"afk:\n  {line}\n")

    assert (found.severity, found.path, found.line, found.key) == ("error", "c.yaml", 2, key)
    assert found.message.startswith("unknown ")
    assert found.fix == (f"did you mean `{meant}`?" if meant else "")


@pytest.mark.parametrize(
    ("line", "key", "message"),
    [
        ("workers: '2'", "afk.workers", "expected whole number from 1, found text"),
        ("workers: true", "afk.workers", "expected whole number from 1, found true"),
        ("workers: 1.0", "afk.workers", "expected whole number from 1, found 1.0"),
        ("workers: 0", "afk.workers", "expected whole number from 1, found 0"),
        ("poll_s: -1", "afk.poll_s", "expected seconds above 0, found -1"),
        ("poll_s: .inf", "afk.poll_s", "expected seconds above 0, found inf"),
        ("poll_s: .nan", "afk.poll_s", "expected seconds above 0, found nan"),
        ("poll_s: unlimited", "afk.poll_s", "expected seconds above 0, found text"),
        ("label: 5", "afk.label", "expected text, found 5"),
        ("label: ''", "afk.label", "must not be blank"),
        ("label: ' x'", "afk.label", "must be one line without blanks around it"),
        ('label: "a\\nb"', "afk.label", "must be one line without blanks around it"),
        ("base: [main]", "afk.base", "expected a name in git or null, found a list"),
        ("base: --upload-pack=x", "afk.base", "is no name that git accepts"),
        ("remote: a..b", "afk.remote", "is no name that git accepts"),
        ("setup: uv sync", "afk.setup", "expected list of text, found text"),
        ("setup: [1]", "afk.setup.0", "expected text, found 1"),
        ("claim: 5", "afk.claim", "expected {lease_s, renew_s}, found 5"),
        ("landing: {salvage: 'yes'}", "afk.landing.salvage", "expected true | false, found text"),
        ("landing: {mode: mrge}", "afk.landing.mode", "expected merge | pr"),
        ("landing: {mode: 1}", "afk.landing.mode", "expected merge | pr, found 1"),
        ("github: {repo: nope}", "afk.github.repo", "expected owner/name or null, found text"),
        ("agent: {env_allow: [A-B]}", "afk.agent.env_allow.0", "expected variable name, found text"),
        ("hooks: {pre_merge: 5}", "afk.hooks.pre_merge",
         "expected command, {run, timeout_s}, or a list of these, found 5"),
        ("hooks: {pre_merge: [x, 5]}", "afk.hooks.pre_merge.1", "expected {run, timeout_s}, found 5"),
        ("hooks: {pre_merge: {timeout_s: 5}}", "afk.hooks.pre_merge.0.run", "is required"),
        ("hooks: {pre_merge: {run: x, timeout_s: 0}}", "afk.hooks.pre_merge.0.timeout_s",
         "expected seconds above 0, found 0"),
        ("hooks: {pre_merge: {run: x, line: 3}}", "afk.hooks.pre_merge.0", "knows `run` and `timeout_s`, not `line`"),
        ("hooks: {defaults: {cargo: 0}}", "afk.hooks.defaults.cargo", "expected true | false, found 0"),
        ("validation: {checks: [{name: a}]}", "afk.validation.checks.0.run", "is required"),
        ("validation: {checks: [{name: a, run: x}, {name: a, run: y}]}", "afk.validation.checks",
         "more than one check is called `a`"),
        ("agents: {a b: {kind: command}}", "afk.agents.a b",
         "is no name for an agent: letters, digits, `-` and `_`"),
        ("recovery: {tries: {quota: 0}}", "afk.recovery.tries.quota", "expected whole number from 1, found 0"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_with_line_and_key(line: str, key: str, message: str) -> None:
    found = problem(f"afk:\n  {line}\n")

    assert (found.line, found.key, found.message) == (2, key, message)


@pytest.mark.parametrize("key", ["claim.lease_s", "hooks.defaults"])
def test_a_dotted_name_is_no_nested_key(key: str) -> None:
    found = problem(f"afk:\n  {key}: {{}}\n")

    assert (found.line, found.key, found.fix) == (2, f"afk.{key}", "write it as nested keys")


def test_a_word_that_is_not_on_the_list_gets_the_nearest_one() -> None:
    """S9."""
    assert problem("afk: {tracker: githib}").fix == "did you mean `github`?"
    assert problem("afk: {agents: {x: {kind: comand}}}").fix == "did you mean `command`?"


def test_a_fault_never_repeats_a_persons_text() -> None:
    text = "afk: {workers: hunter2, tracker: hunter2, setup: hunter2, base: --hunter2, github: {repo: hunter2}}"

    assert "hunter2" not in " ".join(map(str, problems(text)))


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    found = problems(
        "afk:\n  workers: x\n  claim: {lese_s: 5}\n  max_iterations: 3\n"
        "  hooks:\n    pre_merge: 5\n    nope: x\n  poll_s: 0\n"
    )

    assert [(each.line, each.key, each.severity) for each in found] == [
        (2, "afk.workers", "error"),
        (3, "afk.claim.lese_s", "error"),
        (4, "afk.max_iterations", "warning"),
        (6, "afk.hooks.pre_merge", "error"),
        (7, "afk.hooks.nope", "error"),
        (8, "afk.poll_s", "error"),
    ]


def test_the_error_is_one_line_with_a_next_step() -> None:
    """S80."""
    with pytest.raises(ConfigError) as caught:
        read("afk:\n  worker: 2\n  poll_s: 0\n")

    assert caught.value.message == "c.yaml:2: afk.worker: unknown key; did you mean `afk.workers`? (and 1 more)"
    assert caught.value.hint == "afk config validate"
    assert caught.value.code == "config_invalid"


# ── Limits ──────────────────────────────────────────────────────────────────────────────────────────────────────────

LIMITS = ["silence_flag_s", "silence_kill_s", "wall_clock_s", "tokens", "cost_usd", "peak_rss_mb", "run_cost_usd"]


@pytest.mark.parametrize("name", LIMITS)
def test_no_limit_is_a_word(name: str) -> None:
    """L21."""
    assert getattr(read(f"afk: {{bounds: {{{name}: unlimited}}}}").bounds, name) is None
    assert getattr(read(f"afk: {{bounds: {{{name}: 7}}}}").bounds, name) == 7
    for value in ("0", "-1", "~", "true", "none", ".inf"):
        assert problem(f"afk: {{bounds: {{{name}: {value}}}}}").key == f"afk.bounds.{name}"
    assert "`unlimited`" in problem(f"afk: {{bounds: {{{name}: }}}}").message


def test_a_wait_may_be_nothing() -> None:
    assert read("afk: {recovery: {backoff_s: 0}}").recovery.backoff_s == 0


def test_a_claim_is_renewed_at_least_three_times_a_lease() -> None:
    assert read("afk: {claim: {lease_s: 3, renew_s: 1}}").claim.renew_s == 1
    assert problem("afk:\n  claim:\n    renew_s: 301\n").line == 3


# ── Single sections ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_hooks_are_one_command_or_several_and_know_their_line() -> None:
    config = read(
        "afk:\n"
        "  hooks:\n"
        "    pre_merge: ./scripts/guard.sh\n"
        "    post_pick:\n"
        "      - ./scripts/reorder.py\n"
        "      - run: ./scripts/announce.sh\n"
        "        timeout_s: 20\n"
        "    post_merge: {run: x}\n"
        "    on_idle: []\n"
        "    defaults:\n"
        "      cargo: false\n"
    )

    assert config.hooks == {
        "pre_merge": (HookCommand(run="./scripts/guard.sh", timeout_s=300, line=3),),
        "post_pick": (
            HookCommand(run="./scripts/reorder.py", timeout_s=300, line=5),
            HookCommand(run="./scripts/announce.sh", timeout_s=20, line=6),
        ),
        "post_merge": (HookCommand(run="x", timeout_s=300, line=8),),
        "on_idle": (),
    }
    assert config.hooks[HookPoint.PRE_MERGE][0].line == 3
    assert config.hook_defaults == {"cargo": False, "gradle": True}


@pytest.mark.parametrize("point", HookPoint)
def test_all_twelve_points_take_hooks(point: HookPoint) -> None:
    assert len(HookPoint) == 12
    assert read(f"afk: {{hooks: {{{point}: x}}}}").hooks[point][0].run == "x"


def test_a_check_has_the_timeout_of_all_unless_its_own() -> None:
    own = "{name: c, run: d, timeout_s: 5, when: ['*.py']}"
    checks = read(f"afk: {{validation: {{timeout_s: 60, checks: [{{name: a, run: b}}, {own}]}}}}").validation.checks

    assert [(check.name, check.run, check.timeout_s, check.when) for check in checks] == [
        ("a", "b", 60, ()),
        ("c", "d", 5, ("*.py",)),
    ]
    assert read("afk: {validation: {checks: [{name: a, run: b}]}}").validation.checks[0].timeout_s == 1800
    found = problem("afk: {validation: {timeout_s: 0, checks: [{name: a, run: b, timeout_s: 1}]}}")
    assert found.key == "afk.validation.timeout_s"


def test_tries_that_are_not_given_keep_theirs() -> None:
    tries = read("afk: {recovery: {tries: {quota: 9}}}").recovery.tries

    assert tries == Config().recovery.tries | {"quota": 9}


def test_signing_off_is_the_word_whatever_yaml_makes_of_it() -> None:
    assert read("afk: {landing: {sign: off}}").landing.sign == "off"
    assert read("afk: {landing: {sign: 'off'}}").landing.sign == "off"
    assert problem("afk: {landing: {sign: on}}").key == "afk.landing.sign"


def test_an_agents_program_is_kept_verbatim() -> None:
    """S13."""
    argv = ["./agent", "--flag=$HOME", "~", "a b", "{x}"]
    config = read(f"afk: {{runner: mine, agents: {{mine: {{kind: command, argv: {json.dumps(argv)}}}}}}}")

    assert config.agents["mine"].argv == tuple(argv)
    assert config.runner_config("mine").kind == "command"
    assert config.runner_config("codex").kind == "codex"
    assert set(config.agents) == {"command", "claude", "mine"}


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("runner: cluade", "afk.runner", "names no runner"),
        ("fallback_runner: x", "afk.fallback_runner", "names no runner"),
        ("alternate: [claude, x]", "afk.alternate.1", "names no runner"),
        ("runner: command", "afk.runner", "runner `command` has no program"),
        ("agents: {x: {argv: [y]}}", "afk.agents.x", "needs a kind, for its name is none"),
    ],
)
def test_a_runner_must_be_one_that_can_be_started(text: str, key: str, message: str) -> None:
    """L55: refused, never silently replaced."""
    found = problem(f"afk:\n  {text}\n")

    assert (found.line, found.key, found.message) == (2, key, message)
    with pytest.raises(KeyError):
        Config().runner_config("x")


# ── Warnings ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", RETIRED)
def test_a_retired_key_has_no_effect(key: str) -> None:
    """L55: it warns (see the test of `load`); nothing else changes."""
    assert read(f"afk: {{{key.removeprefix('afk.')}: 5}}") == Config()
    assert key not in {row.key for row in describe()}


@pytest.mark.parametrize("name", RESERVED_BUILTINS)
def test_neither_comment_nor_gate_can_be_switched_off(name: str) -> None:
    assert read(f"afk: {{hooks: {{defaults: {{{name}: false}}}}}}").hooks == {}


# ── What this version cannot do ─────────────────────────────────────────────────────────────────────────────────────

OURS = "runner: command, agents: {command: {argv: [x]}}"


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("landing: {mode: pr}", "afk.landing.mode"),
        ("landing: {batch: 2}", "afk.landing.batch"),
        ("agent: {sandbox: bwrap}", "afk.agent.sandbox"),
        ("agent: {home: isolated}", "afk.agent.home"),
    ],
)
def test_what_is_not_there_yet_is_refused_by_name(setting: str, key: str) -> None:
    """S9."""
    (found,) = unsupported(read(f"afk: {{{OURS}, {setting}}}"))

    assert (found.severity, found.key) == ("error", key)
    assert found.message.endswith("is not in this version") and found.fix.startswith("use ")


# ── Snapshots and the reference ─────────────────────────────────────────────────────────────────────────────────────

EVERYTHING = """
afk:
  local: {path: /srv/issues, login: bot}
  bounds: {wall_clock_s: unlimited, tokens: 5, cost_usd: 1.5}
  runner: mine
  agents: {mine: {kind: command, argv: [a, b]}}
  validation: {timeout_s: 7.5, checks: [{name: a, run: b, when: [c]}]}
  recovery: {tries: {policy: 4}}
  landing: {sign: off}
  hooks: {pre_merge: [x, {run: y, timeout_s: 3}], defaults: {gradle: false, envelope: true}}
"""


@pytest.mark.parametrize("text", ["", EVERYTHING])
def test_a_snapshot_reads_back_as_the_same_configuration(text: str) -> None:
    config = read(text)
    dump = json.loads(json.dumps(config.dump()))

    assert Config.model_validate(dump) == config
    assert dump["bounds"]["peak_rss_mb"] == "unlimited"
    assert dump["hooks"]["defaults"] == config.hook_defaults


def test_a_configuration_does_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Config().workers = 2  # type: ignore[misc]


def test_the_reference_has_every_key_with_default_and_type() -> None:
    rows = {row.key: row for row in describe()}

    assert rows["afk.claim.lease_s"] == ("afk.claim.lease_s", 900, "seconds above 0")
    assert rows["afk.bounds.tokens"] == ("afk.bounds.tokens", "unlimited", "whole number above 0 or unlimited")
    assert rows["afk.landing.mode"][1:] == ("merge", "merge | pr")
    assert rows["afk.recovery.tries.wall-clock-capped"][1:] == (3, "whole number from 1")
    assert {f"afk.hooks.{point}" for point in HookPoint} <= set(rows)
    assert all(row.type == words(row.key) != "" for row in rows.values())
    json.dumps(list(rows.values()))


def test_every_key_has_a_variable_of_its_own() -> None:
    names = [env_name(row.key) for row in describe()]

    assert len(set(names)) == len(names)
    assert env_name("afk.workers") == "AFK_WORKERS"
    assert not {"AFK_OUTPUT", "AFK_KEEPER"} & set(names)


def test_how_many_work_at_once_is_one_number_and_no_map() -> None:
    """S14: there is no concurrency by state or label; a map where the number stands is refused, not half understood."""
    with pytest.raises(ConfigError) as refused:
        read("afk: {workers: {ready-for-agent: 2}}")
    assert [problem.key for problem in refused.value.problems] == ["afk.workers"]


@pytest.mark.parametrize("label", ["running", "Ready-For-Human", "runner-error", "blocked:spec"])
def test_the_queue_label_is_none_that_afk_sets_itself(label: str) -> None:
    found = problem(f"afk:\n  label: {label}\n")
    assert (found.key, found.line) == ("afk.label", 2)
    assert f"`{label}` is a label that afk sets" in found.message
