from __future__ import annotations

import os
from pathlib import Path

import pytest

from afk.config import Config, HookCommand, Loaded, Problem, Source, describe, load
from afk.config.keys import env_name, flatten
from afk.errors import ConfigError


def write(root: Path, text: str | bytes) -> Path:
    path = root / ".red" / "config.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def problems(root: Path, **given: object) -> list[Problem]:
    with pytest.raises(ConfigError) as caught:
        load(root, **{"env": {}, **given})  # type: ignore[arg-type]
    return [problem for problem in caught.value.problems if isinstance(problem, Problem)]


# ── The file ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_checkout_without_a_file_has_the_defaults(tmp_path: Path) -> None:
    loaded = load(tmp_path, env={})

    assert loaded.config == Config()
    assert loaded.sources == (Source(tmp_path / ".red" / "config.yaml", False),)
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == []


def test_an_explicit_file_wins_over_the_default_one(tmp_path: Path) -> None:
    """S1."""
    write(tmp_path, "afk: {poll_s: 5}")
    other = tmp_path / "other.yaml"
    other.write_text("afk: {poll_s: 7}")

    loaded = load(tmp_path, explicit=other, env={})

    assert loaded.config.poll_s == 7
    assert loaded.sources == (Source(other, True),)
    assert loaded.origins["afk.poll_s"] == str(other)


def test_an_explicit_file_must_exist(tmp_path: Path) -> None:
    """S2."""
    write(tmp_path, "")
    missing = tmp_path / "missing.yaml"

    assert problems(tmp_path, explicit=missing) == [Problem("error", str(missing), "", None, "does not exist")]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".red" / "config.yaml").mkdir(parents=True)
    assert problems(tmp_path)[0].message == "is no regular file"

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert problems(tmp_path, explicit=pipe)[0].message == "is no regular file"


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfafk:\r\n  workers: 3\r\n", b"afk:\n  workers: 3", b"afk:\r  workers: 3\r"]
)
def test_bom_and_any_line_ends_are_read(tmp_path: Path, data: bytes) -> None:
    write(tmp_path, data)

    assert load(tmp_path, env={}).config.workers == 3


def test_another_encoding_is_refused_with_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, b"afk:\n  # caf\xe9\n")
    assert problems(tmp_path) == [Problem("error", str(path), "", 2, "is not UTF-8 text")]

    write(tmp_path, "afk: {}".encode("utf-16"))
    assert problems(tmp_path)[0].message == "is not UTF-8 text"


def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, b"#" * (256 * 1024 + 1))

    assert problems(tmp_path)[0].message == "is larger than 256 kB"


def test_a_retired_key_warns_with_what_does_its_work(tmp_path: Path) -> None:
    """L55."""
    path = write(tmp_path, "afk:\n  timeout_s: 5\n  max_iterations: 3\n")

    loaded = load(tmp_path, env={})

    assert loaded.config == Config()
    assert loaded.warnings == [
        f"{path}:2: afk.timeout_s: is retired and has no effect; use `afk.bounds.wall_clock_s`",
        f"{path}:3: afk.max_iterations: is retired and has no effect; use `afk run -n N`",
    ]


def test_switching_off_the_comment_or_the_gate_warns(tmp_path: Path) -> None:
    write(
        tmp_path, "afk:\n  hooks:\n    defaults:\n      envelope: false\n      validation: true\n      cargo: false\n"
    )

    (found,) = load(tmp_path, env={}).problems

    assert (found.severity, found.key, found.line) == ("warning", "afk.hooks.defaults.envelope", 4)


# ── Environment and flags ───────────────────────────────────────────────────────────────────────────────────────────


def test_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    path = write(tmp_path, "afk: {poll_s: 1, label: file, remote: file, claim: {lease_s: 600}}")

    loaded = load(
        tmp_path,
        env={"AFK_LABEL": "env", "AFK_REMOTE": "env", "AFK_CLAIM_RENEW_S": "60"},
        overrides={"afk.remote": "flag", "afk.base": None},
    )

    config = loaded.config
    assert (config.poll_s, config.label, config.remote, config.base) == (1, "env", "flag", None)
    assert (config.claim.lease_s, config.claim.renew_s) == (600, 60)
    given = {key: origin for key, origin in loaded.origins.items() if origin != "default"}
    assert given == {
        "afk.poll_s": str(path),
        "afk.label": "env",
        "afk.remote": "flag",
        "afk.claim.lease_s": str(path),
        "afk.claim.renew_s": "env",
    }
    assert set(loaded.origins) == set(flatten(config.dump()))


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("AFK_WORKERS", "2", "afk.workers", 2),
        ("AFK_LABEL", "5", "afk.label", "5"),
        ("AFK_LABEL", "a: [b", "afk.label", "a: [b"),
        ("AFK_BASE", "release", "afk.base", "release"),
        ("AFK_LANDING_SIGN", "off", "afk.landing.sign", "off"),
        ("AFK_LANDING_SALVAGE", "false", "afk.landing.salvage", False),
        ("AFK_BOUNDS_COST_USD", "unlimited", "afk.bounds.cost_usd", "unlimited"),
        ("AFK_BOUNDS_COST_USD", "2.5", "afk.bounds.cost_usd", 2.5),
        ("AFK_SETUP", "[uv sync, 'x: y']", "afk.setup", ["uv sync", "x: y"]),
        ("AFK_RECOVERY_TRIES_WALL_CLOCK_CAPPED", "7", "afk.recovery.tries.wall-clock-capped", 7),
        ("AFK_AGENTS_COMMAND_ARGV", "[x, '1']", "afk.agents.command.argv", ["x", "1"]),
        ("AFK_AGENTS_MY_OWN_MODEL", "m", "afk.agents.my-own.model", "m"),
        ("AFK_HOOKS_DEFAULTS_CARGO", "false", "afk.hooks.defaults.cargo", False),
        ("AFK_VALIDATION_CHECKS", "[{name: a, run: b}]", "afk.validation.checks",
         [{"name": "a", "run": "b", "timeout_s": 1800, "when": []}]),
    ],
)  # fmt: skip
def test_a_variable_has_the_type_of_its_key(tmp_path: Path, name: str, text: str, key: str, value: object) -> None:
    write(tmp_path, "afk: {agents: {my-own: {kind: command}}}")

    loaded = load(tmp_path, env={name: text})

    assert flatten(loaded.config.dump())[key] == value
    assert loaded.origins[key] == "env"


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("./guard.sh --say 'a: b' # c", [("./guard.sh --say 'a: b' # c", 300)]),
        ("[a, {run: b, timeout_s: 5}]", [("a", 300), ("b", 5)]),
        ("{run: b, timeout_s: 5}", [("b", 5)]),
    ],
)
def test_a_hook_may_come_from_the_environment(tmp_path: Path, text: str, commands: list[tuple[str, float]]) -> None:
    write(tmp_path, "afk: {hooks: {pre_merge: [file, more], post_merge: file}}")

    hooks = load(tmp_path, env={"AFK_HOOKS_PRE_MERGE": text}).config.hooks

    assert hooks["pre_merge"] == tuple(HookCommand(run=run, timeout_s=limit) for run, limit in commands)
    assert hooks["post_merge"][0].line == 1


def test_every_key_can_be_set_by_its_variable(tmp_path: Path) -> None:
    """With its own default: what is set is what was there, and every origin says so."""
    env = {env_name(row.key): _as_text(row.default) for row in describe() if row.default not in (None, [])}

    loaded = load(tmp_path, env=env)

    assert loaded.config == Config()
    assert {key for key, origin in loaded.origins.items() if origin == "env"} == {
        row.key for row in describe() if row.default not in (None, [])
    }


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(
    ("env", "path", "key"),
    [
        ({"AFK_WORKERS": "x"}, "AFK_WORKERS", "afk.workers"),
        ({"AFK_SETUP": "[a"}, "AFK_SETUP", "afk.setup"),
        ({"AFK_SETUP": "[1]"}, "AFK_SETUP", "afk.setup.0"),
        ({"AFK_TRACKER": "gitlab"}, "AFK_TRACKER", "afk.tracker"),
        ({"AFK_POLL_S": "!x 3"}, "AFK_POLL_S", "afk.poll_s"),
    ],
)
def test_a_wrong_variable_is_named(tmp_path: Path, env: dict[str, str], path: str, key: str) -> None:
    write(tmp_path, "afk:\n  setup: [fine]\n  workers: 1\n")
    (found,) = problems(tmp_path, env=env)

    assert (found.severity, found.path, found.key, found.line) == ("error", path, key, None)


def test_a_wrong_flag_is_named(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, overrides={"afk.poll_s": 0})

    assert (found.path, found.key) == ("command line", "afk.poll_s")


def test_faults_of_file_and_environment_are_told_together(tmp_path: Path) -> None:
    path = write(tmp_path, "afk:\n  claim: 5\n  poll_s: 0\n")

    found = problems(tmp_path, env={"AFK_CLAIM_LEASE_S": "9", "AFK_WORKERS": "0"})

    assert sorted((each.path, each.key) for each in found) == sorted(
        [(str(path), "afk.claim"), (str(path), "afk.poll_s"), ("AFK_WORKERS", "afk.workers")]
    )


def test_unknown_variables_are_ignored_but_a_slip_of_the_pen_warns(tmp_path: Path) -> None:
    env = {
        "AFK_WORKRES": "3", "AFK_OUTPUT": "json", "AFK_KEEPER": "x", "AFK_SOMETHING_ELSE": "1", "RED_AFK_WORKERS": "5",
        "AFK_POLL_S": "",
    }  # fmt: skip
    loaded = load(tmp_path, env=env)

    assert loaded.config == Config()
    assert loaded.warnings == ["AFK_WORKRES: sets nothing; did you mean `AFK_WORKERS`?"]


# ── `~` and `$VAR` ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("~/issues", "/home/ada/issues"),
        ("~", "/home/ada"),
        ("$SHARE/issues", "/mnt/share/issues"),
        ("${SHARE}x", "/mnt/sharex"),
        ("a~b", "ROOT/a~b"),
        ("../issues", "ROOT/../issues"),
        ("/abs/$$", "/abs/$$"),
    ],
)
def test_the_trackers_path_is_expanded_and_absolute(tmp_path: Path, written: str, path: str) -> None:
    """S11, S12."""
    write(tmp_path, f"afk: {{local: {{path: '{written}'}}}}")

    loaded = load(tmp_path, env={"HOME": "/home/ada", "SHARE": "/mnt/share"})

    assert loaded.config.local.path == path.replace("ROOT", str(tmp_path))


def test_the_api_address_may_name_a_variable(tmp_path: Path) -> None:
    write(tmp_path, "afk: {github: {api_url: 'http://127.0.0.1:$PORT'}}")

    assert load(tmp_path, env={"PORT": "99"}).config.github.api_url == "http://127.0.0.1:99"


@pytest.mark.parametrize("key", ["local: {path: $NOPE/x}", "github: {api_url: 'https://$NOPE'}"])
def test_a_variable_that_is_not_set_is_an_error(tmp_path: Path, key: str) -> None:
    path = write(tmp_path, f"afk:\n  {key}\n")

    for env in ({}, {"NOPE": ""}):
        found = problems(tmp_path, env=env)[0]
        assert (found.path, found.line, found.message) == (str(path), 2, "`$NOPE` is not set")


def test_an_api_address_is_http(tmp_path: Path) -> None:
    write(tmp_path, "afk: {github: {api_url: 'file:///etc'}}")

    assert problems(tmp_path)[0].message == "is no http(s) URL"


def test_no_other_key_is_expanded(tmp_path: Path) -> None:
    """`$VAR` in a command is the shell's."""
    write(tmp_path, "afk: {setup: ['echo $HOME ~'], label: $HOME}")

    config = load(tmp_path, env={"HOME": "/home/ada"}).config

    assert (config.setup, config.label) == (("echo $HOME ~",), "$HOME")


# ── What this version cannot do ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_there_yet_is_refused_at_its_line(tmp_path: Path) -> None:
    """S9."""
    path = write(tmp_path, "afk:\n  landing:\n    mode: pr\n")

    loaded: Loaded = load(tmp_path, env={"AFK_LANDING_BATCH": "2"})

    assert [(each.path, each.key, each.line) for each in loaded.unsupported()] == [
        (str(path), "afk.landing.mode", 3),
        ("AFK_LANDING_BATCH", "afk.landing.batch", None),
    ]
