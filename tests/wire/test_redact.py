"""Secrets: the protocol's fixtures, and what afk's own surfaces add to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afk.wire.redact import (
    PLAIN,
    Policy,
    Rules,
    mask_text,
    redact,
    redact_argv,
    redact_url,
    redact_urls_in_text,
    surface_rules,
)

FIXTURES = Path(__file__).parent.parent / "fixtures" / "afdata"
SURFACE = surface_rules({})
GITHUB = "ghp_" + "a1B2" * 9


def cases(name: str) -> list[dict]:
    return json.loads((FIXTURES / name).read_text(encoding="utf-8"))


def rules_of(case: dict) -> Rules:
    options = case.get("options", {})
    return Rules(
        policy=Policy(options.get("policy", "All")),
        secret_names=frozenset(options.get("secret_names", ())),
        url_names=frozenset(options.get("url_names", ())),
    )


@pytest.mark.parametrize("case", cases("redact.json") + cases("redaction_options.json"), ids=lambda case: case["name"])
def test_values_are_redacted_as_the_fixture_says(case: dict) -> None:
    before = json.dumps(case["input"])
    assert redact(case["input"], rules_of(case)) == case["expected"]
    assert json.dumps(case["input"]) == before


@pytest.mark.parametrize("case", cases("redaction_options.json"), ids=lambda case: case["name"])
def test_redacted_values_are_written_as_the_fixture_says(case: dict) -> None:
    from afk.wire.afdata_render import to_plain, to_yaml

    shown = redact(case["input"], rules_of(case))
    assert to_yaml(shown) == case.get("expected_yaml", to_yaml(shown))
    assert to_plain(shown) == case.get("expected_plain", to_plain(shown))


@pytest.mark.parametrize("case", cases("redact_argv.json"), ids=lambda case: case["name"])
def test_command_lines_are_redacted_as_the_fixture_says(case: dict) -> None:
    assert redact_argv(case["input"], rules_of(case)) == case["expected"]


@pytest.mark.parametrize("case", cases("redact_urls_in_text.json"), ids=lambda case: case["name"])
def test_prose_is_redacted_as_the_fixture_says(case: dict) -> None:
    assert redact_urls_in_text(case["input"], rules_of(case)) == case["expected"]


def test_one_address_is_masked_and_prose_with_one_is_not_an_address() -> None:
    assert redact_url("https://u:pw@h/?a_secret=1#b_secret=2") == "https://u:***@h/?a_secret=***#b_secret=***"
    assert redact_url("see https://u:pw@h/") == "see https://u:pw@h/"
    assert redact_url("https://u:pw@h/", Rules(policy=Policy.OFF)) == "https://u:pw@h/"


def test_an_encoded_parameter_name_is_still_secret() -> None:
    assert redact_url("https://h/?token%5fsecret=x&a+b=y") == "https://h/?token%5fsecret=***&a+b=y"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"fatal: https://{GITHUB}@github.com/o/r: 403", "fatal: https://***@github.com/o/r: 403"),
        ("https://anyone@h/", "https://***@h/"),
        ("https://tok:x-oauth-basic@h/", "https://***:***@h/"),
        ("https://tok:@h/", "https://***:***@h/"),
        (f"ssh://{GITHUB}@h/", "ssh://***@h/"),
        ("https://x-access-token:abc@h/", "https://x-access-token:***@h/"),
        ("https://h/?next=https://u:pw@other/", "https://h/?next=https://u:***@other/"),
        ("https://h/?access_token=abc&page=2", "https://h/?access_token=***&page=2"),
        (f"remote said {GITHUB}.", "remote said ***."),
        (f"github_pat_{'a1' * 20}", "***"),
        ("key sk-ant-api03-AbCdEfGhIjKlMnOpQrSt was refused", "key *** was refused"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ('"authorization": "basic dXNlcjpwdw=="', '"authorization": "basic ***"'),
    ],
)
def test_prose_on_a_surface_holds_no_credential(text: str, expected: str) -> None:
    assert mask_text(text, SURFACE) == expected
    assert redact({"message": text}, SURFACE) == {"message": expected}


@pytest.mark.parametrize(
    "text",
    [
        "ssh://git@github.com/o/r.git",
        "git@github.com:o/r.git",
        "https://h:8080/@scope/pkg?page=2",
        "afk/wZ2R4/12-sk-learn-in-the-cloud-2-and-more",
        "the bearer of this letter",
        "a sha 01defdca82c8393694f50907aa7aea29131f73bc",
        "file:///srv/git/origin.git",
    ],
)
def test_honest_text_is_left_alone(text: str) -> None:
    assert mask_text(text, SURFACE) == text


def test_fields_named_like_credentials_are_masked_on_a_surface_only() -> None:
    value = {"env": {"GITHUB_TOKEN": "x", "ANTHROPIC_API_KEY": "y", "PATH": "/bin"}, "tokens_in": 3, "token": None}
    assert redact(value, PLAIN) == value
    assert redact(value, SURFACE) == {
        "env": {"GITHUB_TOKEN": "***", "ANTHROPIC_API_KEY": "***", "PATH": "/bin"},
        "tokens_in": 3,
        "token": None,
    }


def test_a_command_line_in_a_payload_is_read_as_one() -> None:
    shown = redact({"argv": ["agent", "--api-key", "x", "--token=y", "-p", GITHUB]}, SURFACE)
    assert shown == {"argv": ["agent", "--api-key", "***", "--token=***", "-p", "***"]}


def test_secrets_of_the_environment_are_masked_wherever_they_stand() -> None:
    rules = surface_rules({"GH_TOKEN": "canary-in-the-env", "DB_PASSWORD": "short", "HOME": "/home/someone"})
    shown = redact(
        {"a": ["x canary-in-the-env y"], "repo_url": "https://h/canary-in-the-env", "b": "/home/someone"}, rules
    )
    assert shown == {"a": ["x *** y"], "repo_url": "https://h/***", "b": "/home/someone"}
    assert rules.known == ("canary-in-the-env",)


def test_a_longer_secret_that_holds_a_shorter_one_is_masked_whole() -> None:
    rules = surface_rules({"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefgh-ijklmnop"})
    assert mask_text("abcdefgh-ijklmnop", rules) == "***"


def test_a_long_line_without_an_address_costs_linear_time() -> None:
    """R36: a flood is read once, not once for every position."""
    assert redact_urls_in_text("a" * 1_000_000 + " ://") == "a" * 1_000_000 + " ://"
    assert mask_text("1.-+" * 250_000 + "://", SURFACE).endswith("://")
