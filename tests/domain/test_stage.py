"""Stages: read off what the agent does, split like a shell would, never moved back."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afk.domain import stage as stage_module
from afk.domain.stage import Stage, StageMemory, advance, later, stage_of_command
from afk.ports import EventKind


def after(*events: tuple[str, str], reads_text: bool = False) -> Stage | None:
    memory = StageMemory(reads_text=reads_text)
    for kind, text in events:
        memory = advance(memory, kind, text)
    return memory.stage


@pytest.mark.parametrize(
    ("command", "stage"),
    [
        ("git ls-files", Stage.EXPLORE),
        ("/bin/bash -lc 'git ls-files'", Stage.EXPLORE),
        ("find . -name '*.py' | head", Stage.EXPLORE),
        ("git -C sub -c core.pager=cat ls-files", Stage.EXPLORE),
        ("apply_patch <<'EOF'\n*** Begin Patch\nEOF", Stage.IMPL),
        ("sed -i s/a/b/ x.py", Stage.IMPL),
        ("git commit -m 'feat: x; y && z'", Stage.COMMIT),
        ("git add -A && git -c user.name=agent commit -q -m 'feat: add hello' && git log -1", Stage.COMMIT),
        ("bash -lc \"sh -c 'git commit -am x'\"", Stage.COMMIT),
        ("pytest", Stage.TESTS),
        ("cd pkg; FOO=1 BAR='a b' timeout -k 5 60s uv run pytest -q 2>&1 | tail -5", Stage.TESTS),
        ("python3 -m unittest -q", Stage.TESTS),
        (".venv/bin/python -W error -m pytest tests/x.py", Stage.TESTS),
        ("if ! pytest; then echo red; fi", Stage.TESTS),
        ("echo $(cargo test)", Stage.TESTS),
        ("pnpm test", Stage.TESTS),
        ("pnpm --filter app -C packages/app run test:unit", Stage.TESTS),
        ("npm t", Stage.TESTS),
        ("yarn workspace app test", Stage.TESTS),
        ("bun test", Stage.TESTS),
        ("npx vitest run", Stage.TESTS),
        ("tox -e py311", Stage.TESTS),
        ("nox", Stage.TESTS),
        ("cargo +nightly test --all", Stage.TESTS),
        ("go test ./...", Stage.TESTS),
        ("mvn -q -pl core verify", Stage.TESTS),
        ("./gradlew :app:testDebugUnitTest", Stage.TESTS),
        ("make -C sub test", Stage.TESTS),
        ("ctest --output-on-failure", Stage.TESTS),
        ("dotnet test", Stage.TESTS),
        ("bundle exec rspec", Stage.TESTS),
        ("vendor/bin/phpunit", Stage.TESTS),
        ("mix test", Stage.TESTS),
    ],
)
def test_a_command_shows_its_stage(command: str, stage: Stage) -> None:
    assert stage_of_command(command) == stage


@pytest.mark.parametrize(
    "command",
    [
        "",
        "echo pytest",
        "echo 'git commit -m x'",
        "echo git commit",
        "cat > README <<'EOF'\npytest -q\ngit commit\nEOF\ntrue",
        "true # first that; pytest",
        "true > pytest",
        "npm install test",
        "pip install pytest",
        "cargo build",
        "make all",
        "git log --grep commit",
        "echo 'never closed && pytest",
        "bash script.sh -c pytest",
    ],
)
def test_words_about_a_stage_are_no_stage(command: str) -> None:
    assert stage_of_command(command) is None


def test_shells_inside_shells_are_followed_only_so_far() -> None:
    """A tower of `bash -c` must cost neither the stack nor the time of the one who reads it."""

    def tower(height: int) -> str:
        return "pytest" if height == 0 else f"bash -c {shlex.quote(tower(height - 1))}"

    assert stage_of_command(tower(4)) == Stage.TESTS
    assert stage_of_command(tower(5)) is None


def test_the_first_line_is_setup_whatever_it_says() -> None:
    assert after() is None
    assert after(("noise", "")) == Stage.SETUP
    assert after(("text", "I will run pytest and git commit")) == Stage.SETUP


def test_one_look_is_setup_and_a_second_is_exploring() -> None:
    assert after(("read", "a")) == Stage.SETUP
    assert after(("read", "a"), ("read", "b")) == Stage.EXPLORE
    assert after(("shell", "cat a"), ("shell", "sed -n 1,5p b")) == Stage.EXPLORE
    assert after(("shell", "cat a")) == Stage.SETUP


def test_a_stage_never_moves_back() -> None:
    events = [("edit", "x"), ("shell", "pytest"), ("shell", "git commit"), ("read", "a"), ("edit", "y")]
    assert after(*events) == Stage.COMMIT
    assert later(Stage.CLOSE, Stage.SETUP) == Stage.CLOSE
    assert later(None, None) is None


def test_prose_is_no_evidence_even_where_text_may_speak() -> None:
    prose = ["next I run pytest", "then git commit -m x", "I edited everything", "`$ pytest`", "$1 pytest"]
    assert after(*(("text", line) for line in prose), reads_text=True) == Stage.SETUP


@pytest.mark.parametrize(
    ("line", "stage"),
    [
        ("$ git ls-files", Stage.EXPLORE),
        ("+ pytest -q", Stage.TESTS),
        ("wrote src/oauth.py", Stage.IMPL),
        ("Ran 12 tests in 0.003s", Stage.TESTS),
        ("===== test session starts =====", Stage.TESTS),
        ("[afk/w0001/1-x 1a2b3c4] feat: add hello", Stage.COMMIT),
        ("[main (root-commit) 1a2b3c4] first", Stage.COMMIT),
        ("[detached HEAD 1a2b3c4] oops", Stage.COMMIT),
    ],
)
def test_what_programs_print_counts_only_for_a_runner_without_tool_events(line: str, stage: Stage) -> None:
    assert after(("text", line), reads_text=True) == stage
    assert after(("text", line)) == Stage.SETUP


def test_tool_output_is_never_read_for_a_stage() -> None:
    assert after(("tool_output", "$ pytest"), reads_text=True) == Stage.SETUP


def test_every_kind_that_moves_a_stage_is_an_event_of_the_port() -> None:
    """The words are shared with `ports.EventKind`, which this layer cannot import."""
    assert {"shell", "read", "edit", "text"} <= set(EventKind)


@given(st.text(max_size=300))
def test_no_command_is_too_strange(command: str) -> None:
    assert stage_of_command(command) in (None, *Stage)


@given(st.text(alphabet="ab$'\"\\ \t\n;&|()<>#=-", max_size=30))
def test_words_are_split_as_a_shell_splits_them(script: str) -> None:
    lexer = shlex.shlex(script.replace("\\\n", " "), posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        expected = list(lexer)
    except ValueError:  # a quotation that does not end
        expected = []
    if "<<" not in script:  # here documents are taken out first
        assert stage_module._tokens(script) == expected


@given(st.lists(st.tuples(st.sampled_from(list(EventKind)), st.text(max_size=40)), max_size=20))
def test_stages_only_rise(events: list[tuple[str, str]]) -> None:
    memory, order = StageMemory(reads_text=True), list(Stage)
    for kind, text in events:
        before, memory = memory.stage, advance(memory, kind, text)
        assert memory.stage is not None
        assert before is None or order.index(memory.stage) >= order.index(before)
