"""The command as a process: what is on stdout, what on stderr, and which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from afk import __version__
from afk.surfaces.parser import CliCode
from afk.wire.afdata import check_event, check_stream
from afk.wire.afdata_names import naming_problems

ODD = Path(__file__).parent / "odd_afk.py"
# No AFK_OUTPUT, no secrets: only what a process needs.
CLEAN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}

pytestmark = pytest.mark.acceptance


def run(
    *words: str | bytes, program: str = "-m", env: dict[str, str] | None = None, **options
) -> subprocess.CompletedProcess:
    """`afk WORDS`, or `odd_afk WORDS` with `program="odd"`; output as bytes."""
    start = [sys.executable, "-m", "afk"] if program == "-m" else [sys.executable, str(ODD)]
    if not {"stdout", "stderr"} & options.keys():
        options["capture_output"] = True
    return subprocess.run([*start, *words], env=CLEAN | (env or {}), timeout=30, check=False, **options)


def odd(*words: str | bytes, **options) -> subprocess.CompletedProcess:
    return run(*words, program="odd", **options)


def events(data: bytes) -> list[dict]:
    found = [json.loads(line) for line in data.decode("ascii").splitlines()]
    for event in found:
        check_event(event)
    return found


def only_event(data: bytes) -> dict:
    (event,) = events(data)
    return event


def error_of(ended: subprocess.CompletedProcess, *, exit_code: int) -> dict:
    """The one error of a command that has no result."""
    assert ended.returncode == exit_code
    assert ended.stdout == b""
    assert b"Traceback" not in ended.stderr
    return events(ended.stderr)[-1]["error"]


# Results


def test_version_is_one_event_with_the_schemas_of_every_command() -> None:
    ended = run("version", "--json")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.count(b"\n") == 1
    event = only_event(ended.stdout)
    payload = event["result"]
    assert list(payload) == ["schema", "name", "version", "schemas"]
    assert (payload["schema"], payload["name"], payload["version"]) == ("afk.version.v1", "afk", __version__)
    assert payload["schemas"]["queue.list"] == payload["schemas"]["run"] == 1
    assert naming_problems(event) == []


def test_version_for_people_is_one_line() -> None:
    for words in (["version"], ["--version"]):
        assert run(*words).stdout == f"afk {__version__}\n".encode()


@pytest.mark.parametrize(
    ("form", "beginning"), [("yaml", b"---\nkind: "), ("plain", b"kind=result "), ("json", b'{"kind"')]
)
def test_output_chooses_the_format_and_the_environment_the_default(form: str, beginning: bytes) -> None:
    """S79."""
    asked = run("version", "--output", form)
    assert asked.stdout.startswith(beginning)
    assert run("version", env={"AFK_OUTPUT": form}).stdout.startswith(beginning)
    assert run("version", "--output=text", env={"AFK_OUTPUT": form}).stdout.startswith(b"afk ")


def test_help_is_text_for_people_and_a_payload_for_programs() -> None:
    for words in (["--help"], ["run", "-h"], ["issue", "--help"], ["issue", "create", "--help"]):
        ended = run(*words)
        assert ended.returncode == 0
        assert ended.stdout.startswith(b"usage: afk")
    payload = only_event(run("issue", "create", "--help", "--json").stdout)["result"]
    assert payload["schema"] == "afk.help.v1"
    assert payload["command"] == "afk issue create"
    assert {key: value for key, value in payload["options"][0].items() if key != "help"} == {
        "name": "--title",
        "usage": "--title TEXT",
        "value": "TEXT",
        "required": True,
        "repeated": False,
    }


def test_a_verdict_is_a_result_with_its_own_exit_code() -> None:
    """S81."""
    ended = odd("verdict", "--json")
    assert ended.returncode == 1
    assert only_event(ended.stdout)["result"] == {"schema": "afk.odd.v1", "valid": False}
    assert odd("verdict").returncode == 1


def test_diagnostics_are_said_only_when_they_were_asked_for() -> None:
    quiet = odd("talk", "--json")
    assert [event["kind"] for event in events(quiet.stderr)] == ["progress"]
    assert events(quiet.stderr)[0]["progress"]["step"] == 2
    asked = odd("talk", "--json", "--log", "odd,other")
    assert [event["kind"] for event in events(asked.stderr)] == ["log", "progress"]
    assert events(asked.stderr)[0]["log"] == {
        "schema": "afk.log.v1",
        "category": "odd",
        "message": "a log",
        "at": "/tmp",
    }
    assert [event["kind"] for event in events(odd("talk", "--json", "--verbose").stderr)] == [
        "log",
        "progress",
        "progress",
    ]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_to_keeps_every_kind_on_one_stream_in_order(stream: str) -> None:
    ended = odd("talk", "--json", "--verbose", "--output-to", stream)
    full, empty = (ended.stdout, ended.stderr) if stream == "stdout" else (ended.stderr, ended.stdout)
    assert empty == b""
    found = events(full)
    check_stream(found)
    assert [event["kind"] for event in found] == ["log", "progress", "progress", "result"]


def test_what_is_said_always_is_an_event_even_beside_text() -> None:
    ended = odd("talk")
    assert ended.stdout == b"said: yes\n"
    assert only_event(ended.stderr)["progress"]["step"] == 2


# A wrong command line

SECRET = "canary-on-the-command-line"
WRONG = [
    (CliCode.UNKNOWN_ARGUMENT, ["run", f"--bogus={SECRET}"], "afk run --help"),
    (CliCode.UNKNOWN_ARGUMENT, [f"--{SECRET}.", "run"], "afk --help"),
    (CliCode.UNKNOWN_COMMAND, [SECRET], "afk --help"),
    (CliCode.UNKNOWN_COMMAND, ["issue", SECRET], "afk issue --help"),
    (CliCode.MISSING_VALUE, ["issue", "create"], "afk issue create --help"),
    (CliCode.INVALID_VALUE, ["issue", "show", SECRET], "afk issue show --help"),
    (CliCode.DUPLICATE, ["run", "--base", SECRET, "--base", SECRET], "afk run --help"),
    (CliCode.UNEXPECTED_POSITIONAL, ["status", SECRET], "afk status --help"),
    (CliCode.UNREGISTERED_COMBINATION, ["run", "--once", "-n", "3"], "afk run --help"),
    (CliCode.INVALID_UTF8, ["run", "--base", b"\xff" + SECRET.encode()], "afk --help"),
]


@pytest.mark.parametrize(("code", "words", "hint"), WRONG, ids=[str(code) for code, _, _ in WRONG])
def test_a_wrong_command_line_is_told_by_code_and_without_what_was_typed(
    code: CliCode, words: list[str | bytes], hint: str
) -> None:
    error = error_of(run(*words, "--json"), exit_code=2)
    assert (error["code"], error["hint"], error["retryable"]) == (code, hint, False)
    assert SECRET not in json.dumps(error)
    told = run(*words)
    assert (told.returncode, told.stdout) == (2, b"")
    assert told.stderr.decode() == f"error[{code}]: {error['message']}\nhint: {error['hint']}\n"


def test_a_secret_that_looks_like_an_option_is_masked_too() -> None:
    error = error_of(run("status", "--hunter-two", "--json", env={"DB_PASSWORD": "hunter-two"}), exit_code=2)
    assert error["message"] == "unknown argument --***"


def test_the_hint_of_a_wrong_command_line_works_as_it_stands() -> None:
    hint = error_of(run("issue", "create", "--json"), exit_code=2)["hint"]
    assert run(*hint.split()[1:]).returncode == 0


@pytest.mark.parametrize(
    ("words", "machine"),
    [
        (["--json", "nonsense"], True),
        (["nonsense", "--output", "plain"], True),
        (["nonsense", "--output=never-heard-of"], True),
        (["nonsense", "--", "--json"], False),
        (["nonsense", "--output", "text"], False),
        (["nonsense"], False),
    ],
)
def test_a_program_gets_an_event_when_it_asked_anywhere_before_the_dashes(words: list[str], machine: bool) -> None:
    ended = run(*words)
    assert ended.returncode == 2
    assert ended.stderr.startswith(b"error[cli_") is not machine


def test_a_wrong_default_format_is_a_wrong_command_line() -> None:
    assert b"error[cli_invalid_argument_value]: AFK_OUTPUT" in run("version", env={"AFK_OUTPUT": "xml"}).stderr
    assert run("version", "--json", env={"AFK_OUTPUT": "xml"}).returncode == 0


def test_an_argument_is_utf8_whatever_the_locale(tmp_path: Path) -> None:
    (tmp_path / "ä.txt").write_text("found", encoding="utf-8")
    for locale in ("C", "POSIX", "C.UTF-8"):
        env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        ended = odd("read", "ä.txt".encode(), "-C", str(tmp_path), "--json", env=env)
        assert only_event(ended.stdout)["result"]["text"] == "found"
        assert run("nönsense".encode(), env=env).returncode == 2


# Errors


def test_an_error_carries_its_code_hint_and_fields_and_no_credential() -> None:
    error = error_of(odd("refuse", "--json"), exit_code=4)
    assert error == {
        "code": "git_failed",
        "message": "git push https://u:***@h/ was refused",
        "hint": "git push",
        "retryable": False,
        "ref": "refs/heads/x",
    }
    assert odd("refuse").stderr == b"error[git_failed]: git push https://u:***@h/ was refused\nhint: git push\n"


@pytest.mark.parametrize("command", ["crash", "nan", "wrong-exit"])
def test_a_bug_is_an_internal_error_without_traceback(command: str) -> None:
    """S80: one actionable line."""
    ended = odd(command, "--json")
    error = error_of(ended, exit_code=4)
    assert (error["code"], error["retryable"]) == ("internal_error", False)
    assert b"canary" not in ended.stderr
    assert len(events(ended.stderr)) == 1
    assert odd(command).stderr.startswith(b"error[internal_error]: ")


def test_details_that_cannot_be_told_do_not_hide_the_error() -> None:
    assert error_of(odd("bad-details", "--json"), exit_code=4) == {
        "code": "invalid_input",
        "message": "it cannot be used",
        "retryable": False,
    }


def test_verbose_shows_where_the_bug_is() -> None:
    log, error = events(odd("crash", "--json", "--verbose").stderr)
    assert "Traceback" in log["log"]["message"]
    assert "odd_afk.py" in log["log"]["message"]
    assert error["error"]["code"] == "internal_error"


def test_a_full_disk_is_named_as_such() -> None:
    """R20."""
    error = error_of(odd("full", "--json"), exit_code=4)
    assert (error["code"], error["retryable"]) == ("disk_full", True)


def test_eight_threads_racing_for_the_end_give_one_event() -> None:
    ended = odd("race", "--json")
    assert ended.returncode == 0
    assert only_event(ended.stdout)["result"]["number"] in range(8)
    assert ended.stderr == b""


def test_hostile_values_break_no_line_and_steer_no_terminal() -> None:
    shown = only_event(odd("hostile", "--json").stdout)["result"]
    assert shown["title"] == "a\x1b[2Jb\u2028c\u202ed"
    assert shown["file_path"] == "/tmp/\\xff"
    text = odd("hostile", env={"LC_ALL": "C"}).stdout.decode("utf-8")
    assert text.splitlines()[0] == "title: a\\u001b[2Jb\\u2028c\\u202ed"


def test_a_secret_of_the_environment_is_masked_in_every_format() -> None:
    for form in ("text", "json", "yaml", "plain"):
        ended = odd("hostile", "--output", form, env={"GH_TOKEN": "canary-in-env"})
        assert ended.returncode == 0
        assert b"canary" not in ended.stdout


# Input


def test_input_comes_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "in.md").write_text("from a file", encoding="utf-8")
    for words, expected in ((["in.md"], "from a file"), (["-"], "from stdin"), ([], "from stdin")):
        ended = odd("read", *words, "--json", "-C", str(tmp_path), input=b"from stdin")
        assert only_event(ended.stdout)["result"]["text"] == expected
        assert only_event(ended.stdout)["result"]["cwd_path"] == str(tmp_path)


def test_input_that_cannot_be_read_is_named_by_its_argument(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_bytes(b"ok\xff")
    missing = error_of(odd("read", SECRET, "--json", "-C", str(tmp_path)), exit_code=4)
    broken = error_of(odd("read", "bad.md", "--json", "-C", str(tmp_path)), exit_code=4)
    assert missing["code"] == broken["code"] == "invalid_input"
    assert missing["message"] == "FILE cannot be read: No such file or directory"
    assert "byte 2" in broken["message"]


def test_a_directory_that_is_not_there_is_an_error_and_no_crash(tmp_path: Path) -> None:
    error = error_of(odd("read", "-C", str(tmp_path / SECRET), "--json"), exit_code=4)
    assert error["code"] == "invalid_input"
    assert SECRET not in error["message"]


def test_a_directory_deleted_under_us_stops_only_those_who_need_it(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    script = f'mkdir "{gone}" && cd "{gone}" && rmdir "{gone}" && exec "$0" "{ODD}" "$@"'
    for words, exit_code in ((["version", "--json"], 0), (["read", "x", "--json"], 4)):
        ended = subprocess.run(
            ["sh", "-c", script, sys.executable, *words],
            env=CLEAN | {"PYTHONPATH": str(ODD.parent.parent.parent)},
            capture_output=True,
            check=False,
        )
        assert ended.returncode == exit_code
        assert b"Traceback" not in ended.stderr


# The other end


def closed_reader() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_went_away_ends_it_silently_with_141(form: str) -> None:
    writing = closed_reader()
    ended = odd("large", "--output", form, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_a_lost_log_does_not_stop_the_work() -> None:
    """S76."""
    writing = closed_reader()
    ended = odd("talk", "--json", "--verbose", stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    assert ended.returncode == 0
    assert only_event(ended.stdout)["result"]["said"] is True


def test_an_error_nobody_can_read_ends_with_141() -> None:
    writing = closed_reader()
    ended = odd("refuse", "--json", stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    assert (ended.returncode, ended.stdout) == (141, b"")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_result_that_does_not_fit_on_the_disk_is_an_error(form: str) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = run("version", "--output", form, stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 4
    assert b"output_failed" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert form == "text" or only_event(ended.stderr)["error"]["retryable"] is True


def test_a_full_disk_behind_stderr_keeps_the_exit_code() -> None:
    with Path("/dev/full").open("wb") as full:
        assert odd("refuse", "--json", stdout=subprocess.PIPE, stderr=full).returncode == 4
        assert run("nonsense", stdout=subprocess.PIPE, stderr=full).returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_at_the_start_are_replaced(closed: str, tmp_path: Path) -> None:
    script = f'exec "$0" "{ODD}" read --json {closed}'
    ended = subprocess.run(
        ["sh", "-c", script, sys.executable],
        env=CLEAN,
        capture_output=True,
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (ended.stdout == b"") is (">&- " in f"{closed} ".replace("2>&- ", ""))


def test_what_replaces_a_closed_stream_is_there_for_children_too() -> None:
    script = f'exec "$0" "{ODD}" child --json --output-to stderr >&-'
    ended = subprocess.run(["sh", "-c", script, sys.executable], env=CLEAN, capture_output=True, check=False)
    assert only_event(ended.stderr)["result"]["exit_code"] == 0


@pytest.mark.parametrize("words", [["--json"], []])
def test_an_interrupt_is_told_and_ends_with_130(words: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ODD), "wait", *words], env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert b'"waiting"' in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    if words:
        assert only_event(err)["error"]["code"] == "cancelled"
    else:
        assert err == b"error[cancelled]: interrupted before the command was done\n"


# What it costs

LIGHT = [["version"], ["--help"], ["run", "--help", "--json"], ["nonsense", "--json"], ["run", "--nonsense"]]
HEAVY = ("yaml", "pydantic", "git", "psutil", "github", "argparse", "subprocess", "asyncio", "urllib.request")


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_light_commands_import_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys; sys.argv[1:] = " + repr(words) + "\n"
        "from afk.__main__ import main\n"
        "main()\n"
        f"sys.stderr.write('heavy:' + ','.join(m for m in {HEAVY!r} if m in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", program], env=CLEAN, capture_output=True, check=False)
    assert ended.stderr.endswith(b"heavy:")
