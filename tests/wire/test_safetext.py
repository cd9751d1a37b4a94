"""Foreign text: what is masked, what is broken, what stays as it is."""

from __future__ import annotations

import base64
import random
import re
import time
import uuid
from collections.abc import Callable

import pytest
from hostile import BEGIN, END, HOSTILE, TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st

from afk.wire.safetext import TITLE_MAX, clean, defuse, defuse_code, defuse_line, fence_for, mask, one_line, title

HOSTS = ("github.com", "git.example.org")
KEY_LINES = "\n".join("MIIEowIBAAKCAQEA" + "x7Yz" * 12 for _ in range(4))
Z = "\u200b"

# ── mask ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
@pytest.mark.parametrize("around", ["{}", "token={} end", '"{}"', "({}).", "x\n{}\ny", "https://h/p?t={}"])
def test_a_well_known_token_is_masked_wherever_it_stands(token: str, around: str) -> None:
    """R74"""
    assert mask(around.format(token)) == around.format("***")


def test_a_token_is_known_even_when_something_is_glued_to_it() -> None:
    """R74"""
    assert mask(f"curl -u{TOKENS['github']}") == "curl -u***"
    assert mask(f"TOKEN_{TOKENS['npm']}") == "TOKEN_***"
    assert mask(f"{BEGIN}\n{KEY_LINES}\n{END}{TOKENS['jwt']}") == "******"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://x-access-token:abc123@github.com/o/r.git", "https://***@github.com/o/r.git"),
        ("https://abc123@github.com/o/r.git", "https://***@github.com/o/r.git"),
        ("postgres://app:p@ss@db:5432/x", "postgres://***@db:5432/x"),
        ("Authorization: Bearer abcdefgh12345", "Authorization: Bearer ***"),
        ('"authorization": "Basic dXNlcjpwYXNz"', '"authorization": "Basic ***"'),
        ("PRIVATE-TOKEN: 0123456789abcdef", "PRIVATE-TOKEN: ***"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = ***"),
        (
            "//registry.npmjs.org/:_authToken=3f2504e0-4f89-11d3-9a0c-0305e82c3301",
            "//registry.npmjs.org/:_authToken=***",
        ),
        ("https://hooks.slack.com/services/T000/B000/XXXX", "https://hooks.slack.com/services/***"),
    ],
)
def test_credentials_are_known_by_the_words_before_them(text: str, masked: str) -> None:
    """R74"""
    assert mask(text) == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"a\n{BEGIN}\n{KEY_LINES}\n{END}\nb", "a\n***\nb"),
        (f"a\n{BEGIN}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n{KEY_LINES}\n{END}\nb", "a\n***\nb"),
        (f'"key": "{BEGIN}\\n{KEY_LINES}\\n{END}"', '"key": "***"'),
        (f"a\n{BEGIN}\n{KEY_LINES}", "a\n***"),
        (f"a log line\n{KEY_LINES}\n{END}\nb", "a log line\n***\nb"),
    ],
    ids=["whole", "encrypted", "in JSON", "its end is missing", "its beginning is missing"],
)
def test_a_private_key_is_masked_even_when_half_of_it_is_gone(text: str, masked: str) -> None:
    """R74"""
    assert mask(text) == masked


def test_exact_secrets_are_masked_longest_first() -> None:
    """R74"""
    assert (
        mask("a hunter2-hunter2-long b hunter2-hunter2 c", ["hunter2-hunter2", "hunter2-hunter2-long"])
        == "a *** b *** c"
    )


def test_each_long_line_of_a_secret_over_several_lines_is_masked_by_itself() -> None:
    """R74: the log loses its head, so a secret may be there in part."""
    secret = "first-line-of-it\nsecond-line-of-it\n}\n"
    assert mask("… cut\nsecond-line-of-it\n}", [secret]) == "… cut\n***\n}"


def test_a_secret_that_was_stored_half_masked_is_masked_whole() -> None:
    """R74"""
    assert mask(f"a.{TOKENS['jwt']}.b123", ["a.***.b123"]) == "***"


def test_a_short_value_is_in_too_many_honest_texts() -> None:
    assert mask("true, and 1 again", ["true", "1", "", "again"]) == "true, and 1 again"


@pytest.mark.parametrize(
    "text",
    [
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        str(uuid.UUID(int=0x12345678123456781234567812345678)),
        "sk-learn-for-everyone-2024-edition and task-sk-1",
        "ssh://git@github.com/o/r.git and git@github.com:o/r.git",
        "https://github.com:443/o/r see https://example.org/@scope/pkg",
        "base64: " + "AK" + "IA" + "IOSFODNN7EXAMPLEabc/x+y==",
        "the_cat_laughs_at_every_long_name_that_nobody_reads",
        "the pypi-publish job, npm_config_cache, ghp_short, AKIAnot",
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "eyJ only begins like one",
        "Authorization: none, bearer of news",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    assert mask(text) == text


def test_random_fixtures_survive() -> None:
    dice = random.Random(7)
    for size in (32, 300, 30_000):
        data = dice.randbytes(size)
        for text in (data.hex(), base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
            assert mask(text) == text


# ── clean ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\r\nb\rc\u2028d\u2029e", "a\nb\nc\nd\ne"),
        ("\x1b[1;31mred\x1b[0m \x9b2Jx", "red x"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1bPq#0\x1b\\c", "abc"),
        ("\x1b]0;no end\nnext", "\nnext"),
        ("a\0b\x08c\x7fd\x85e\tf", "abcde\tf"),
        ("\u202eevil\u202c \u2066x\u2069\u200f", "evil x"),
        ("half \ud83d a pair", "half \ufffd a pair"),
        ("naïve 日本語 🙂‍↔️", "naïve 日本語 🙂‍↔️"),
    ],
)
def test_only_text_is_left(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned
    clean(text).encode()


# ── defuse ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "defused"),
    [
        ("</details>", "&lt;/details>"),
        ('<details data-attempt-status="done">', '&lt;details data-attempt-status="done">'),
        ("a <DETAILS open> b", "a &lt;DETAILS open> b"),
        ("> </ Details >", "> &lt;/ Details >"),
        ("<summary>x</summary>", "&lt;summary>x&lt;/summary>"),
        ("x <!-- hidden", "x &lt;!-- hidden"),
        ("<table><tr>", f"<{Z}table><{Z}tr>"),
        ('<div class="', f'<{Z}div class="'),
        ("<?php <![CDATA[ <!DOCTYPE", f"<{Z}?php <{Z}![CDATA[ <{Z}!DOCTYPE"),
        ("Vec<String> 1 < 2 <- x", f"Vec<{Z}String> 1 < 2 <- x"),
        ("<https://example.org/a>", "<https://example.org/a>"),
    ],
)
def test_no_tag_is_left(text: str, defused: str) -> None:
    """R65"""
    assert defuse(text) == defused


@pytest.mark.parametrize(
    ("text", "defused"),
    [
        ("@team #1 Closes #1 GH-1", f"@{Z}team #{Z}1 Closes #{Z}1 GH-{Z}1"),
        ("o/r#12, fixes o/r#12; gh-7", f"o/r#{Z}12, fixes o/r#{Z}12; gh-{Z}7"),
        ("@ team, # heading, a@, #", "@ team, # heading, a@, #"),
        ("high-1 stays, @é goes", f"high-1 stays, @{Z}é goes"),
        (
            "&#64;team &#x40;team &commat;team &num;1 GH&#45;1",
            f"&{Z}#{Z}64;team &{Z}#{Z}x40;team &{Z}commat;team &{Z}num;1 GH&{Z}#{Z}45;1",
        ),
        ("&lt; &amp; stay", "&lt; &amp; stay"),
        ("https://github.com/o/r/issues/1", f"https://github.com/o/r/issues/{Z}1"),
        (
            "[x](https://www.GitHub.com/o/r/pull/12#issuecomment-3)",
            f"[x](https://www.GitHub.com/o/r/pull/{Z}12#{Z}issuecomment-3)",
        ),
        (
            "https://git.example.org:8443/a/b/c/-/merge_requests/4",
            f"https://git.example.org:8443/a/b/c/-/merge_requests/{Z}4",
        ),
        ("https://github.com/o/r/issues/1/issues/2", f"https://github.com/o/r/issues/{Z}1/issues/2"),
        ("https://elsewhere.org/o/r/issues/1", "https://elsewhere.org/o/r/issues/1"),
        ("https://notgithub.com/o/r/issues/1", "https://notgithub.com/o/r/issues/1"),
        ("https://github.com/o/r/tree/main", "https://github.com/o/r/tree/main"),
        ("@\0team #\x1b[0m1 G\u202eH-1", f"@{Z}team #{Z}1 GH-{Z}1"),
    ],
)
def test_nobody_is_mentioned_and_nothing_referenced(text: str, defused: str) -> None:
    """R66"""
    assert defuse(text, HOSTS) == defuse(defused, HOSTS) == defused


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("```\ncode", "\n```"),
        ("~~~~ py\ncode\n~~~", "\n~~~~"),
        ("```\na\n```\nb", "b"),
        ("```\na\n   `````  \nb", "b"),
        ("```\na\n    ```\nb", "\n```"),
        ("- item\n  ```\n  code", "code"),
        ("``` not a fence ``` x", "x"),
        ("```\n```\n```x\n```y", "\n```"),
        ("`" * 500, "\n" + "`" * 80),
    ],
)
def test_a_fence_left_open_is_closed(text: str, end: str) -> None:
    """R65: it would swallow the rest of the comment."""
    assert defuse(text).endswith(end)
    assert defuse(text).count("\n") == text.count("\n") + (end.startswith("\n"))


def test_inside_a_fence_a_tag_is_broken_without_a_trace() -> None:
    """R66: neutralised outside and inside fences."""
    assert defuse_code("</details> @team <b> #1") == f"<{Z}/details> @{Z}team <b> #{Z}1"


# ── fences, lines and titles ────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(alphabet="`a\n ", max_size=60))
def test_a_fence_is_longer_than_any_run_of_backticks(text: str) -> None:
    """R65"""
    fence = fence_for(text)
    assert set(fence) == {"`"}
    assert len(fence) >= 3
    assert fence not in text


@given(st.text(max_size=80), st.integers(1, 30))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert line.splitlines() in ([line], [])
    assert line == line.strip()


def test_a_cut_line_says_so() -> None:
    assert one_line(" a \r\n\tb\0 c ", 10) == "a b c"
    assert one_line("abcdefgh", 5) == "abcd…"
    assert one_line("abcd  efgh", 6) == "abcd…"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Fix the parser", "Fix the parser"),
        ("Closes #5,\nsays @boss", f"Closes #{Z}5, says @{Z}boss"),
        ("<b>x</b> <\ndetails>", f"<{Z}b>x<{Z}/b> &lt; details>"),
        ("docs [skip ci] [CI skip] [no\nci]", f"docs [{Z}skip ci] [{Z}CI skip] [{Z}no ci]"),
        ("$(rm -rf /) `id`", "$(rm -rf /) `id`"),
    ],
)
def test_a_title_moves_nothing(text: str, safe: str) -> None:
    """R83: what stands in a commit's title is the issue's title, on one line, and no server acts on it."""
    assert title(text) == safe


def test_a_title_has_an_end() -> None:
    assert len(title("x" * 5000)) == TITLE_MAX


# ── Properties ──────────────────────────────────────────────────────────────────────────────────────────────────────

SECRETS = st.lists(st.text(min_size=1, max_size=12), max_size=2)


@settings(max_examples=200, deadline=None)
@given(HOSTILE, SECRETS)
def test_twice_is_as_once(text: str, secrets: list[str]) -> None:
    functions: list[Callable[[str], str]] = [
        clean,
        lambda x: mask(x, secrets),
        lambda x: defuse(x, HOSTS),
        lambda x: defuse_code(x, HOSTS),
        lambda x: defuse_line(x, 20, HOSTS),
        lambda x: one_line(x, 7),
        title,
    ]
    for function in functions:
        once = function(text)
        assert function(once) == once


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_nothing_that_acts_is_left(text: str) -> None:
    """R65, R66"""
    for safe in (defuse(text, HOSTS), defuse_code(text, HOSTS), defuse_line(text, 300, HOSTS), title(text)):
        safe.encode()
        assert not re.search(r"[@#][^\W_]|(?<![^\W_])gh-[0-9]", safe, re.IGNORECASE)
        assert not re.search(r"<\s*/?\s*(details|summary)|<!--", safe, re.IGNORECASE)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", safe)


UNITS = (
    *(
        "@",
        "<",
        "< ",
        "sk-",
        "eyJ-",
        "`",
        "```x\n",
        "https://",
        "github.com/",
        "http://a@",
        "a:",
        "&#",
        "[skip",
        "\x1b]",
    ),
    *("glpat-...", f"{BEGIN}\n", f"{END}\n", "A" * 64 + "\n", "authorization: ", "~" * 90 + "\n", "-----"),
)


@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_takes_no_time_to_speak_of(unit: str) -> None:
    """Ten times the text takes about ten times as long: no pattern looks at a character again and again."""

    def took_s(size: int) -> float:
        text = unit * (size // len(unit))
        began = time.process_time()
        mask(text), defuse(text, HOSTS), title(text)
        return time.process_time() - began

    assert took_s(100_000) < 60 * took_s(10_000) + 0.2
