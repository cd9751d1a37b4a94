from __future__ import annotations

import pytest

from afk.config.yamldoc import MAX_VALUES, Fault, Tree, YamlError, compose, plain


def tree(text: str) -> Tree:
    return plain(compose(text))


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a:\n\t- b", 2, "a tab cannot indent YAML: use spaces"),
        ("a: 1\nb: c: d", 2, "quote the value"),
        ("a: [1,\n", 2, "while parsing a flow"),
        ("a: 1\nb: *c", 2, "found undefined alias"),
        ("a: 'x\n", 2, "end of stream"),
        ("a: 1\n--- \nb: 2", 2, "another document"),
        ("a: 1\n\nb: \x07", 3, "the character U+0007 cannot stand in YAML"),
        ("a: 1\nb: \ud800", 2, "the character U+D800"),
        ("a:\n " + "[" * 100_000, 2, "nested deeper than 50 levels"),
    ],
)
def test_a_text_that_is_no_yaml_is_refused_with_its_line(text: str, line: int, message: str) -> None:
    """S5."""
    with pytest.raises(YamlError) as caught:
        compose(text)
    assert caught.value.fault.line == line
    assert message in caught.value.fault.message


def test_every_value_knows_its_line() -> None:
    found = tree("a:\n  b: 1\n  c:\n    - x\n    - d: 2\n'e': {f: 3}\n")

    assert found.value == {"a": {"b": 1, "c": ["x", {"d": 2}]}, "e": {"f": 3}}
    assert found.lines == {
        "": 1, "a": 1, "a.b": 2, "a.c": 3, "a.c.0": 4, "a.c.1": 5, "a.c.1.d": 5, "e": 6, "e.f": 6,
    }  # fmt: skip


def test_kinds_are_those_of_yaml_except_that_dates_stay_text() -> None:
    found = tree("a: 12\nb: 1.5\nc: yes\nd: ~\ne: 2026-01-01\nf: '1'\ng: 2026-01-01 10:00:00\non: off\nh: .inf")

    assert found.value == {
        "a": 12, "b": 1.5, "c": True, "d": None, "e": "2026-01-01", "f": "1", "g": "2026-01-01 10:00:00", "on": False,
        "h": float("inf"),
    }  # fmt: skip
    assert found.faults == []


@pytest.mark.parametrize("text", ["", "# only words\n", "---\n", "\ufeff"])
def test_a_text_without_a_value_is_nothing(text: str) -> None:
    node = compose(text)
    assert plain(node).value is None


def test_a_doubled_key_is_a_fault_and_the_first_one_stands() -> None:
    found = tree("a: 1\nb:\n  c: 2\n  c: 3\na: 4")

    assert found.value == {"a": 1, "b": {"c": 2}}
    assert found.faults == [
        Fault("stands twice, first on line 3", 4, "b.c"),
        Fault("stands twice, first on line 1", 5, "a"),
    ]


def test_what_cannot_be_read_is_left_out_and_told() -> None:
    found = tree("a: !ours x\nb: [1, !!binary aGk=]\n<<: {c: 1}\n? [d]\n: 1\ne: " + "9" * 5000)

    assert found.value == {"b": [1]}
    assert [(fault.key, fault.line) for fault in found.faults] == [("a", 1), ("b.1", 2), ("", 3), ("", 4), ("e", 6)]


def test_aliases_are_followed() -> None:
    assert tree("a: &x {b: 1}\nc: *x").value == {"a": {"b": 1}, "c": {"b": 1}}


def test_aliases_that_grow_without_end_stop() -> None:
    bomb = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"l{level}: &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 10)
    )

    found = tree(bomb)

    assert found.value is None
    assert found.faults[-1].message == f"aliases (`*name`) unfold to more than {MAX_VALUES} values"
    assert len(found.lines) <= MAX_VALUES


def test_an_alias_inside_itself_stops() -> None:
    assert "unfold" in tree("a: &a [1, *a]").faults[-1].message
