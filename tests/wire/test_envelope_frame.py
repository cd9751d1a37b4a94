"""Reading threads: real envelopes among prose, forgeries and fragments."""

from __future__ import annotations

import time

import pytest
from envelopes import ENVELOPES, GOLDEN, HOSTS, SECRETS
from hostile import HOSTILE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from afk.domain.outcome import EnvelopeStatus
from afk.wire.envelope import EnvelopeError, Parsed, parse, parse_thread, render

TEXTS = {name: render(envelope, secrets=SECRETS, hosts=HOSTS) for name, envelope in GOLDEN.items()}
DONE, BLOCKED, LOST = TEXTS["done"], TEXTS["blocked"], TEXTS["no-sentinel"]


def codes(parsed: Parsed) -> list[str]:
    return [each.code for each in parsed.malformed]


def test_a_thread_is_read_in_order_with_the_place_of_each() -> None:
    thread = f"Hello.\n\n{LOST}\nThanks!\n{DONE}bye"
    parsed = parse_thread(thread)
    assert [found.envelope.status for found in parsed.envelopes] == ["no-sentinel", "done"]
    assert [thread[found.offset :].startswith("<details data-attempt") for found in parsed.envelopes] == [True, True]
    assert parsed.ignored == 3
    assert parsed.malformed == ()


def test_an_edited_comment_has_crlf_and_is_read_all_the_same() -> None:
    thread = f"x\n{DONE}\n{LOST}".replace("\n", "\r\n")
    parsed = parse_thread(thread)
    assert [found.envelope for found in parsed.envelopes] == [parse(DONE), parse(LOST)]
    assert thread[parsed.envelopes[1].offset :].startswith("<details data-attempt-status")


def test_a_final_line_end_may_be_trimmed() -> None:
    assert parse(BLOCKED.rstrip()) == parse(BLOCKED)
    assert parse(f"{BLOCKED}\n\n") == parse(BLOCKED)


def test_a_quoted_envelope_is_prose() -> None:
    """R66"""
    quoted = "".join(f"> {line}\n" for line in BLOCKED.split("\n"))
    assert parse_thread(quoted).envelopes == ()
    assert parse_thread("see `<details data-attempt-status=` for that") == Parsed((), (), 1)


def test_a_truncated_envelope_hides_nothing_that_follows() -> None:
    parsed = parse_thread(f"{LOST[:400]}\n{DONE}{BLOCKED[:-12]}\n{DONE}")
    assert [found.envelope.status for found in parsed.envelopes] == ["done", "done"]
    assert codes(parsed) == ["truncated", "truncated"]


def test_an_envelope_in_the_body_of_another_is_no_part_of_it() -> None:
    """Ours never holds one, so the outer is a forgery or a fragment; the inner stands by itself."""
    nested = BLOCKED.replace("Added the", f"{DONE}Added the")
    parsed = parse_thread(nested)
    assert [found.envelope.status for found in parsed.envelopes] == ["done"]
    assert codes(parsed) == ["truncated", "orphan-section"]


def test_what_looks_like_a_frame_in_a_fenced_log_is_output() -> None:
    """Another writer's log may hold the very lines that ours breaks."""
    parsed = parse_thread(LOST.replace("writing tests", "</details>\n<details data-section=x>\nwriting tests"))
    assert parsed.malformed == ()
    assert parsed.envelopes[0].envelope.log[:2] == ("</details>", "<details data-section=x>")


def test_a_section_of_a_later_version_is_handed_on() -> None:
    text = BLOCKED.replace(
        '<details data-section="diff">',
        '<details data-section="cost"><summary>cost</summary>\n\n$1\n\n</details>\n\n<details data-section="diff">',
    )
    assert parse_thread(text).envelopes[0].sections["cost"] == "$1"
    assert parse(text) == parse(BLOCKED)


def _changed(old: str, new: str, text: str = TEXTS["blocked-validation"]) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (_changed("<summary>worker", "<b>worker"), "bad-opening"),
        (_changed('status="blocked"', 'status="fine"'), "unknown-status"),
        (_changed("status: blocked", "status: done"), "status-mismatch"),
        (_changed("2m5s", "2m65s"), "bad-summary"),
        (_changed("attempt: 1", "attempt: ١"), "bad-summary"),
        (_changed("+42 -10 ·", "merged ·"), "bad-summary"),
        (_changed("diff: merged", "diff: +1 -1", DONE), "bad-summary"),
        (_changed("files=3", "files=many"), "bad-diff"),
        (_changed("+42 -10 files", "+1 -10 files"), "bad-diff"),
        (_changed("feedback-failed", "feedback-lost"), "bad-outcome"),
        (_changed("no-sentinel · killed by", "· killed by", LOST), "bad-outcome"),
        (_changed("not before 2026-05", "not before 2026-15", LOST), "bad-outcome"),
        (_changed(" exit=2", ""), "bad-hooks"),
        (_changed("````\nwriting", "writing", LOST), "bad-log"),
        (_changed("fast deaths: 5", "fast deaths: five", TEXTS["discarded"]), "bad-notes"),
        (_changed('</details>\n\n<details data-section="diff">', '<details data-section="diff">'), "unclosed-section"),
        (
            _changed('</details>\n\n<details data-section="diff">', '</details>\n\nx\n<details data-section="diff">'),
            "stray-text",
        ),
        (_changed('data-section="hooks"><summary>hooks', 'data-section="notes"><summary>notes'), "duplicate-section"),
        (_changed("</details>\n\n</details>\n", "</details>\n"), "truncated"),
        (BLOCKED.partition("\n\n")[2], "orphan-section"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(text: str, code: str) -> None:
    parsed = parse_thread(f"prose\n{text}")
    assert parsed.envelopes == ()
    assert codes(parsed) == [code]
    assert 6 <= parsed.malformed[0].offset <= len(text) + 6
    with pytest.raises(EnvelopeError) as raised:
        parse(text)
    assert raised.value.code == code
    assert raised.value.offset == parsed.malformed[0].offset - 6


@pytest.mark.parametrize("text", ["", "hello", f"{DONE}{DONE}", f"hello\n{DONE}", f"{DONE}hello", f"\n{DONE}"])
def test_a_text_that_is_not_exactly_one_envelope_is_none(text: str) -> None:
    with pytest.raises(EnvelopeError) as raised:
        parse(text)
    assert raised.value.code == "not-one-envelope"


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("broken", ["dropped", "doubled", "cut"])
def test_a_golden_file_with_a_broken_line_is_read_or_named(name: str, broken: str) -> None:
    lines = TEXTS[name].split("\n")[:-1]
    for index, line in enumerate(lines):
        instead = {"dropped": [], "doubled": [line, line], "cut": [line[: len(line) // 2]]}[broken]
        parsed = parse_thread("\n".join([*lines[:index], *instead, *lines[index + 1 :]]))
        assert parsed.envelopes or parsed.malformed


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ENVELOPES, HOSTILE, st.integers(0, 2000))
def test_any_thread_is_survived_and_what_is_whole_is_found(envelope: object, prose: str, cut: int) -> None:
    whole = render(envelope, secrets=SECRETS, hosts=HOSTS)  # type: ignore[arg-type]
    parsed = parse_thread(f"{prose}\n{whole}{prose}\n{whole[:cut]}\n{whole}")
    found = [each.envelope for each in parsed.envelopes]
    assert found.count(parse(whole)) >= 2


@given(st.text(alphabet='<>/details="summary -`\r\n', max_size=200) | HOSTILE)
def test_no_text_is_too_strange(text: str) -> None:
    parse_thread('<details data-attempt-status="done"><summary>' + text)
    parse_thread(text)


UNITS = (
    '<details data-attempt-status="done"><summary>',
    '<details data-section="log"><summary>log</summary>\n```\n',
    DONE.partition("\n")[0] + "\n",
    DONE.partition("\n")[0] + '\n<details data-section="log"><summary>log</summary>\n```\n',
    "</details>\n",
    " · ",
    "\n",
    "\r",
    "`",
)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    "head", ["", DONE.partition("\n")[0] + '\n<details data-section="log"><summary>log</summary>\n```\n']
)
def test_a_long_thread_takes_no_time_to_speak_of(head: str, unit: str) -> None:
    """Ten times the text takes about ten times as long."""

    def took_s(size: int) -> float:
        began = time.process_time()
        parse_thread(head + unit * (size // len(unit)))
        return time.process_time() - began

    assert took_s(300_000) < 60 * took_s(30_000) + 0.2


def test_statuses_are_words_of_the_wire() -> None:
    assert all(f'data-attempt-status="{status}"' in "".join(TEXTS.values()) for status in EnvelopeStatus)
