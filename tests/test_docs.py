"""The documentation against the program: what can be checked by machine does not grow old unnoticed."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from afk import config
from afk.domain.lifecycle import POLICY, HookPoint
from afk.surfaces.parser import parse
from afk.surfaces.table import COMMANDS, EXITS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Cells of every table row that begins with code."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_configuration_page_has_every_key_with_its_default() -> None:
    """`scripts/docs` mends a difference; a new key then wants its meaning in place of `?`."""
    pages = runpy.run_path(str(ROOT / "scripts" / "pages.py"))
    text = page("configuration.md")
    assert text == pages["refreshed"](text, pages["configuration_keys"]())
    assert "| ? |" not in text


def test_a_page_that_is_out_of_date_is_noticed() -> None:
    pages = runpy.run_path(str(ROOT / "scripts" / "pages.py"))
    old = "# Page\n\n| `afk.gone` | `1` | x | Old. |\n| `afk.label` | `wrong` | wrong | Kept. |\n"
    keys = [key for key in config.describe() if key.key in ("afk.label", "afk.remote")]
    assert pages["refreshed"](old, keys).splitlines() == [
        "# Page",
        "",
        "| `afk.label` | `ready-for-agent` | text | Kept. |",
        "| `afk.remote` | `origin` | a name in git | ? |",
    ]


def test_the_hooks_page_says_of_each_point_what_the_program_does() -> None:
    table = {cells[0].strip("`"): cells for cells in rows(page("hooks.md"))}
    assert list(table) == [point.value for point in HookPoint]
    for point in HookPoint:
        _, _, env, context, mutable, refused = table[point]
        policy = POLICY[point]
        assert [name.removeprefix("RED_AFK_") for name in words(env)] == list(policy.extra_env)
        assert {"stop": "abort", "go o": "continue"}[refused[:4]] == policy.on_failure
        assert words(context if mutable == "all three" else mutable) == list(policy.mutable)


@pytest.mark.parametrize("name", ["hooks.md"])
def test_examples_of_configuration_are_valid(name: str) -> None:
    for text in blocks(page(name), "yaml"):
        config.parse(text, source=name)


def test_our_own_configuration_can_be_used() -> None:
    path = ROOT / ".red" / "config.yaml"
    assert config.unsupported(config.parse(path.read_text(encoding="utf-8"), source=str(path))) == []


def test_the_machine_interface_names_every_payload_and_exit_code() -> None:
    text = page("machine-interface.md")
    assert [name for command in COMMANDS for name in command.schemas if f"`{name}`" not in text] == []
    listed = [int(code) for code in re.findall(r"^\| ([0-9]+) \|", text, re.MULTILINE)]
    assert listed == sorted(EXITS)


def test_the_machine_interface_gives_every_command_the_exits_of_the_table() -> None:
    told = {schema: cells[-1] for cells in rows(page("machine-interface.md")) for schema in words(cells[1])}
    for command in COMMANDS:
        assert told[command.schema] == ", ".join(str(code) for code in command.exits), command.words


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_examples_can_be_typed(path: Path) -> None:
    """Parsed strictly; nothing is run."""
    for block in blocks(path.read_text(encoding="utf-8"), "sh"):
        for line in block.splitlines():
            typed = shlex.split(line, comments=True)
            if typed[:1] == ["afk"]:
                parse(typed[1:], {})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_the_readme_can_be_followed() -> None:
    assert [name for name in re.findall(r"\bscripts/\w+", README) if not (ROOT / name).is_file()] == []
    paths = [" ".join(command.path) for command in COMMANDS]
    groups = {command.path[0] for command in COMMANDS if len(command.path) > 1}
    said = re.findall(r"`afk ([a-z][a-z ]*[a-z])", README)
    assert [
        typed for typed in said if typed not in groups and not f"{typed} ".startswith(tuple(f"{p} " for p in paths))
    ] == []
