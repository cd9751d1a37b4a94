"""The strict reading of a command line, without a process."""

from __future__ import annotations

import pytest

from afk.errors import UsageError
from afk.surfaces.emit import EVERYTHING, Mode, Route
from afk.surfaces.parser import CliCode, Wish, output_wish, parse


def refused(*words: str, env: dict[str, str] | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse(words, env or {})
    assert caught.value.exit_code == 2
    return caught.value


def test_every_value_of_a_command_is_there_given_or_not() -> None:
    values = parse(["run", "--issues", "5,3,9", "--base=main", "--dry-run"], {}).values
    assert values == {
        "dry_run": True,
        "once": False,
        "n": None,
        "workers": None,
        "prd": None,
        "issues": (5, 3, 9),
        "base": "main",
        "runner": None,
        "fallback_runner": None,
        "alternate": None,
        "request": None,
        "strict": False,
        "watch": False,
        "detach": False,
    }


def test_repeated_options_are_kept_in_order() -> None:
    words = ["issue", "create", "--title", "T", "--label", "b", "--label=a"]
    assert parse(words, {}).values["label"] == ("b", "a")
    assert parse(words[:4], {}).values["label"] == ()


def test_short_options_take_their_value_attached_or_apart() -> None:
    assert parse(["run", "-n5"], {}).values["n"] == parse(["run", "-n", "5"], {}).values["n"] == 5


def test_options_of_every_command_may_stand_anywhere() -> None:
    for words in (["--json", "-C", "/x", "issue", "show", "7"], ["issue", "--json", "show", "-C/x", "7"]):
        invocation = parse(words, {})
        assert (invocation.path, invocation.wish.mode, invocation.directory) == (("issue", "show"), Mode.JSON, "/x")
        assert invocation.values == {"issue": 7}


def test_after_the_dashes_everything_is_an_argument() -> None:
    assert parse(["envelope", "parse", "--", "--json"], {}).values == {"file": "--json"}
    assert parse(["envelope", "parse", "-"], {}).values == {"file": "-"}


def test_a_value_that_looks_like_an_option_needs_an_equals_sign() -> None:
    assert refused("issue", "create", "--title", "--x").cli_code == CliCode.MISSING_VALUE
    assert parse(["issue", "create", "--title=--x"], {}).values["title"] == "--x"


def test_help_needs_nothing_else_to_be_right() -> None:
    assert parse(["issue", "create", "--help"], {}).help is True
    assert parse(["issue", "-h"], {}).command is None
    assert parse(["--help"], {}).path == ()


def test_verbose_is_every_category_and_log_the_named_ones() -> None:
    assert parse(["status", "--verbose"], {}).categories == EVERYTHING
    assert parse(["status", "--log", "a,b", "--log", "c"], {}).categories == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (CliCode.UNKNOWN_ARGUMENT, ["run", "--iss", "3"]),  # no abbreviations
        (CliCode.UNKNOWN_ARGUMENT, ["--once", "run"]),
        (CliCode.UNKNOWN_ARGUMENT, ["run", "-x"]),
        (CliCode.UNKNOWN_ARGUMENT, ["run", "--"[:2] + "-"]),
        (CliCode.UNKNOWN_COMMAND, []),
        (CliCode.UNKNOWN_COMMAND, ["issue"]),
        (CliCode.UNKNOWN_COMMAND, ["-"]),
        (CliCode.UNKNOWN_COMMAND, ["Run"]),
        (CliCode.MISSING_VALUE, ["run", "--base"]),
        (CliCode.MISSING_VALUE, ["run", "--base", "--once"]),
        (CliCode.MISSING_VALUE, ["run", "-n", "-5"]),
        (CliCode.MISSING_VALUE, ["issue", "show"]),
        (CliCode.MISSING_VALUE, ["issue", "comment", "7"]),
        (CliCode.INVALID_VALUE, ["run", "-n", "0"]),
        (CliCode.INVALID_VALUE, ["run", "-n", "+5"]),
        (CliCode.INVALID_VALUE, ["run", "-n", "５"]),
        (CliCode.INVALID_VALUE, ["run", "-n", "99999999999999999999"]),
        (CliCode.INVALID_VALUE, ["run", "--issues", "5,,3"]),
        (CliCode.INVALID_VALUE, ["run", "--issues", "5,5"]),
        (CliCode.INVALID_VALUE, ["run", "--base", "a b"]),
        (CliCode.INVALID_VALUE, ["run", "--base="]),
        (CliCode.INVALID_VALUE, ["run", "--once=yes"]),
        (CliCode.INVALID_VALUE, ["issue", "create", "--title", " "]),
        (CliCode.INVALID_VALUE, ["issue", "create", "--title", "a\nb"]),
        (CliCode.INVALID_VALUE, ["issue", "close", "7", "--reason", "tired"]),
        (CliCode.INVALID_VALUE, ["attempt", "show", "142"]),
        (CliCode.INVALID_VALUE, ["hooks", "run", "pre_lunch"]),
        (CliCode.INVALID_VALUE, ["status", "--output", "xml"]),
        (CliCode.DUPLICATE, ["status", "--json", "--json"]),
        (CliCode.DUPLICATE, ["run", "-n", "1", "-n2"]),
        (CliCode.UNEXPECTED_POSITIONAL, ["issue", "show", "7", "8"]),
        (CliCode.UNREGISTERED_COMBINATION, ["run", "--prd", "1", "--issues", "2"]),
        (CliCode.UNREGISTERED_COMBINATION, ["status", "--json", "--output", "json"]),
        (CliCode.UNREGISTERED_COMBINATION, ["status", "--version"]),
        (CliCode.INVALID_UTF8, ["run", "\udcff"]),
    ],
)
def test_each_fault_has_its_code(code: CliCode, words: list[str]) -> None:
    assert refused(*words).cli_code == code


def test_a_slip_is_answered_with_what_was_probably_meant() -> None:
    assert "did you mean afk status?" in refused("statsu").message
    assert "did you mean --issues?" in refused("run", "--isues", "3").message


def test_what_does_not_look_like_a_name_is_not_repeated() -> None:
    assert refused("run", "--pass:hunter2").message == "unknown argument"


@pytest.mark.parametrize(
    ("words", "env", "wish"),
    [
        (["status", "--output-to", "stdout"], {}, Wish(Mode.TEXT, Route.STDOUT)),
        (["status"], {"AFK_OUTPUT": "yaml"}, Wish(Mode.YAML)),
        (["status", "--json"], {"AFK_OUTPUT": "yaml"}, Wish(Mode.JSON)),
        (["status", "--output", "text"], {"AFK_OUTPUT": "yaml"}, Wish(Mode.TEXT)),
        (["status"], {"AFK_OUTPUT": ""}, Wish(Mode.TEXT)),
    ],
)
def test_a_right_and_a_wrong_line_are_answered_alike(words: list[str], env: dict[str, str], wish: Wish) -> None:
    assert parse(words, env).wish == wish
    assert output_wish([*words, "--nonsense"], env) == wish
