"""Causes of failures that all services share, and the ends of limits."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.agents import codex, gemini
from afk.agents.failures import cause, told_reset
from afk.ports import EventKind

NOW = datetime(2026, 12, 1, 14, 0, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (429, "rate_limit_exceeded", "Rate limit reached", EventKind.TRANSIENT),
        (429, "insufficient_quota", "", EventKind.LIMIT),
        (429, None, "You exceeded your current quota, please", EventKind.LIMIT),
        (402, None, "", EventKind.LIMIT),
        (400, "invalid_request_error", "Your credit balance is too low to access the API", EventKind.LIMIT),
        (401, "invalid_request_error", "Incorrect API key provided", EventKind.REFUSED),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", EventKind.REFUSED),
        (404, "not_found_error", "model: nonsense", EventKind.REFUSED),
        (400, "context_length_exceeded", "", EventKind.UNFIT),
        (413, None, "", EventKind.UNFIT),
        (500, None, "You exceeded your current quota", EventKind.TRANSIENT),
        (529, "overloaded_error", "", EventKind.TRANSIENT),
        (None, "UNAVAILABLE", "", EventKind.TRANSIENT),
        (None, None, "see: you exceeded your current quota", None),
        (None, None, "429", None),
        (None, "429", "500", None),
        ("429", None, "", None),
        (True, None, "", None),
        (200, ["x"], "", None),
    ],
)
def test_fields_and_beginnings_of_sentences_name_the_cause(
    status: object, code: object, message: str, expected: EventKind | None
) -> None:
    """R53, R55: a bare number or a word in the middle names nothing."""
    assert cause(status=status, codes=(code,), message=message) == expected


@pytest.mark.parametrize(
    ("message", "after"),
    [
        ("You’ve hit your usage limit. Upgrade to Pro or try again in 2 days 3 hours 5 minutes.", (2, 3, 5)),
        ("Rate limit. Please retry in 34.0s.", (0, 0, 34 / 60)),
        ("You’ve hit your usage limit. Try again at 3:45 PM.", (0, 1, 45)),
        ("You’ve hit your usage limit. Try again at 1:30 AM.", (0, 11, 30)),
        ("You’ve hit your usage limit. Try again at Dec 3rd, 2026 2:00 PM.", (2, 0, 0)),
        ("You've hit your limit · resets 3pm (Europe/London)", (0, 2, 0)),
        ("Claude AI usage limit reached|1796137200", (0, 2, 0)),
        ("You will regain access on 2026-12-02 at 13:00 UTC.", (1, 0, 0)),
    ],
)
def test_the_end_of_a_limit_is_read_in_the_programs_own_shapes(message: str, after: tuple[float, ...]) -> None:
    """R54, S71"""
    days, hours, minutes = after
    assert told_reset(message, NOW) == NOW + timedelta(days=days, hours=hours, minutes=minutes)


@pytest.mark.parametrize(
    "message",
    [
        "try again later",
        "Try again at 1:30 PM",
        "Try again at 25:99 PM",
        "Try again at Feb 31st, 2027 1:00 PM",
        "resets 3pm (Mars/Olympus)",
        "regain access on 2020-01-01 at 00:00 UTC",
        "regain access on 2031-01-01 at 00:00 UTC",
        "try again in 0 minutes",
        "limit reached|0000000001",
        "",
    ],
)
def test_what_cannot_be_meant_is_no_time(message: str) -> None:
    """R54: a guess would be waited for."""
    assert told_reset(message, NOW) is None


@given(st.text(alphabet="try again in at resets 0123456789:.,dhmspPMA()/|DecZ", max_size=60))
def test_no_sentence_is_too_strange(message: str) -> None:
    told = told_reset(f"try again {message}", NOW)
    assert told is None or NOW < told < NOW + timedelta(days=40)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("unexpected status 404 Not Found: The model `x` does not exist, url: http://h/v1", EventKind.REFUSED),
        ("unexpected status 402 Payment Required: no, url: http://h/v1", EventKind.LIMIT),
        ("Codex ran out of room in the model's context window. Start a new thread", EventKind.UNFIT),
        ('{"error":{"code":"model_not_found","type":"invalid_request_error"}}', EventKind.REFUSED),
        ("something new about 429 and quota", None),
    ],
)
def test_codex_says_what_failed_in_sentences(message: str, expected: EventKind | None) -> None:
    line = json.dumps({"type": "turn.failed", "error": {"message": message}})
    kinds = [event.kind for event in codex.read(line)]
    assert kinds == [*filter(None, [expected]), EventKind.END_BAD]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Attempt 1 failed with status 503. Retrying with backoff... _ApiError: {}", EventKind.RETRYING),
        ("Attempt 1 failed. Retrying with backoff... Error: exception", EventKind.RETRYING),
        (
            'Error when talking to Gemini API Full report available at: /x _ApiError: {"error":{"code":401}}',
            EventKind.REFUSED,
        ),
        ("Please set an Auth method in your /root/.gemini/settings.json", EventKind.REFUSED),
        ("    at throwErrorIfNotOK (429)", None),
        ("I say: Attempt 1 failed with status 503. Retrying with backoff...", None),
        ("  status: 429", None),
        ("", None),
    ],
)
def test_geminis_standard_error_is_read_by_how_its_lines_begin(line: str, expected: EventKind | None) -> None:
    """R39, R53: its retries are told nowhere else."""
    assert [event.kind for event in gemini.complaint(line)] == [*filter(None, [expected])]
