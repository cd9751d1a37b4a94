"""`afk config`, `afk hooks` and `afk envelope` as processes."""

from __future__ import annotations

import json
from pathlib import Path

import gitkit
import pytest
from demokit import Demo
from drainkit import Place, ended

from afk.domain.lifecycle import HookPoint
from afk.errors import InvalidInput
from afk.surfaces.commands.envelopes import envelope_render
from afk.surfaces.context import Arguments, CommandContext
from afk.surfaces.emit import Emitter

# ── config ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_in_effect_is_shown_with_where_it_comes_from(place: Place) -> None:
    place.environ["AFK_CLAIM_LEASE_S"] = "600"
    path = str(place.clone / ".red/config.yaml")
    seen = place.afk("config", "show").payload
    assert seen["sources"] == [{"path": path, "present": True}]
    assert seen["effective"]["afk"]["claim"] == {"lease_s": 600, "renew_s": 120}
    origins = seen["origins"]
    assert (origins["afk.claim.lease_s"], origins["afk.poll_s"], origins["afk.label"]) == ("env", path, "default")
    assert (seen["unknown_keys"], seen["warnings"]) == ([], [])
    assert "afk.claim.lease_s" in ended(place.start("config", "show")).stdout


def test_without_a_file_everything_has_its_default(place: Place) -> None:
    (place.clone / ".red/config.yaml").unlink()
    seen = place.afk("config", "show").payload
    assert seen["sources"][0]["present"] is False
    assert set(seen["origins"].values()) == {"default"}


def test_a_configuration_that_cannot_be_used_has_nothing_in_effect(place: Place) -> None:
    place.write_config("afk: [\n")
    ran = place.afk("config", "show")
    assert (ran.code, ran.stdout, ran.error["hint"]) == (4, "", "afk config validate")


def test_every_mistake_is_told_at_once_with_line_and_key(place: Place) -> None:
    place.write_config("afk:\n  poll_s: fast\n  labell: x\n  landing: {mode: pr}\n")
    ran = place.afk("config", "validate")
    assert ran.code == 1
    assert ran.payload["valid"] is False
    problems = {problem["key"]: problem for problem in ran.payload["problems"]}
    assert problems["afk.poll_s"]["message"].startswith("line 2: ")
    assert problems["afk.labell"]["message"].startswith("line 3: ")
    assert "afk.label" in problems["afk.labell"]["fix"] + problems["afk.labell"]["message"]
    assert {problem["path"] for problem in problems.values()} == {str(place.clone / ".red/config.yaml")}


def test_what_this_version_cannot_do_is_invalid(place: Place) -> None:
    """S9."""
    place.configure(landing={"mode": "pr"})
    ran = place.afk("config", "validate")
    assert (ran.code, [problem["key"] for problem in ran.payload["problems"]]) == (1, ["afk.landing.mode"])
    assert "afk.landing.mode" in ended(place.start("config", "validate")).stdout


def test_a_retired_key_is_only_a_warning(place: Place) -> None:
    """L55."""
    place.configure(timeout_s=5)
    ran = place.afk("config", "validate")
    assert (ran.code, ran.payload["valid"]) == (0, True)
    assert [problem["severity"] for problem in ran.payload["problems"]] == ["warning"]


def test_another_file_may_be_named_and_must_be_there(place: Place, tmp_path: Path) -> None:
    """S1, S2."""
    other = tmp_path / "other.yaml"
    ran = place.afk("config", "validate", "--config", str(other))
    assert (ran.code, ran.payload["valid"]) == (1, False)
    other.write_text("afk: {label: there}\n")
    assert place.afk("config", "show", "--config", str(other)).payload["effective"]["afk"]["label"] == "there"


# ── hooks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_hooks_are_listed_in_the_order_in_which_they_would_run(place: Place) -> None:
    gitkit.write(place.clone, {"Cargo.toml": ""})
    place.write_config("afk:\n  hooks:\n    pre_worktree:\n      - ./one.sh\n      - run: two\n        timeout_s: 5\n")
    seen = place.afk("hooks", "list").payload
    assert seen["lifecycles"] == [point.value for point in HookPoint]
    builtin, one, two = seen["hooks"]
    assert (builtin["source"], builtin["name"], builtin["order"]) == ("builtin", "cargo", 1)
    assert one == {
        "lifecycle": "pre_worktree",
        "order": 2,
        "source": "user",
        "name": None,
        "command": "./one.sh",
        "timeout_ms": 300_000,
        "on_failure": "abort",
        "defined_at": f"{place.clone}/.red/config.yaml:4",
    }
    assert (two["order"], two["timeout_ms"], two["defined_at"][-2:]) == (3, 5000, ":5")
    text = ended(place.start("hooks", "list")).stdout
    assert all(point in text for point in HookPoint)


def test_a_try_runs_the_hooks_of_one_point_for_real(place: Place) -> None:
    answer = json.dumps({"env": {"COLOR": "red"}, "branch": "ignored"})
    place.configure(hooks={"pre_worktree": [f"echo said >&2; echo '{answer}'", "env > seen; cat > context"]})
    ran = place.afk("hooks", "run", "pre_worktree")
    assert (ran.code, ran.payload["aborted"]) == (0, False)
    assert [run["exit_code"] for run in ran.payload["runs"]] == [0, 0]
    assert ran.payload["context"]["env"] == {}
    assert ran.payload["context_after"]["env"] == {"COLOR": "red"}
    assert ran.payload["context_after"]["branch"] == ran.payload["context"]["branch"]
    assert any("said" in line for line in ran.payload["log"])
    seen = (place.clone / "seen").read_text().splitlines()
    assert {"RED_AFK_HOOK=pre_worktree", "RED_AFK_ISSUE=1", "RED_AFK_SLOT=1", "RED_AFK_WORKER_ID=wTEST"} <= set(seen)
    assert json.loads((place.clone / "context").read_text())["env"] == {"COLOR": "red"}
    assert not (place.clone / ".red/tmp").exists()


def test_a_hook_that_refuses_is_a_verdict(place: Place) -> None:
    place.configure(hooks={"pre_merge": ["echo not today >&2; exit 3", "touch never"]})
    ran = place.afk("hooks", "run", "pre_merge")
    assert (ran.code, ran.payload["aborted"]) == (1, True)
    assert [run["exit_code"] for run in ran.payload["runs"]] == [3]
    assert "not today" in ran.payload["reason"]
    assert not (place.clone / "never").exists()


def test_a_real_issue_may_stand_in_for_the_sample(place: Place) -> None:
    place.file(4, "Four", body="The body.\n")
    place.configure(hooks={"post_merge": "cat > context"})
    assert place.afk("hooks", "run", "post_merge", "--issue", "4").code == 0
    context = json.loads((place.clone / "context").read_text())
    assert (context["issue"]["number"], context["issue"]["title"]) == (4, "Four")
    assert place.afk("hooks", "run", "post_merge", "--issue", "5").error["code"] == "issue_not_found"


@pytest.mark.parametrize("point", list(HookPoint))
def test_the_sample_of_every_point_has_what_the_point_promises(place: Place, point: HookPoint) -> None:
    from afk.attempt.session import Project
    from afk.domain.lifecycle import POLICY
    from afk.surfaces.commands import hooks

    project = Project.open(place.clone, environ={})
    issue = hooks._sample_issue(project)
    context = hooks._sample_context(point, project, issue)
    assert set(POLICY[point].mutable) <= set(context)
    assert set(POLICY[point].extra_env) <= set(hooks._sample_values(point, project, issue))


def test_a_point_that_does_not_exist_is_a_wrong_command_line(place: Place) -> None:
    ran = place.afk("hooks", "run", "pre_lunch")
    assert (ran.code, ran.stdout, ran.error["code"]) == (2, "", "cli_invalid_argument_value")


# ── envelope ────────────────────────────────────────────────────────────────────────────────────────────────────────


def comment(demo: Demo, number: int) -> str:
    """The envelope of this issue as it stands in the tracker, without its front matter."""
    text = (demo.checkout / f".red/issues/{number}/comments/0001.md").read_text(encoding="utf-8")
    return text[text.index("<details") :].rstrip("\n") + "\n"


def test_an_envelope_is_read_out_of_prose(demo: Demo) -> None:
    text = f"Before.\n\n{comment(demo, 7)}\nAfter.\n"
    seen = demo.payload("envelope", "parse", stdin=text)
    [found] = seen["envelopes"]
    assert (found["status"], found["attempt"], found["offset"]) == ("blocked", 1, len("Before.\n\n"))
    assert found["sections"]["outcome"].startswith("hook-aborted")
    assert found["hooks"][0]["exit_code"] == 1
    assert (seen["malformed"], seen["ignored"]) == ([], 2)


def test_what_began_like_an_envelope_and_is_none_is_a_negative_verdict(demo: Demo) -> None:
    seen = demo.payload("envelope", "parse", "-", stdin=comment(demo, 7)[:200], code=1)
    assert [fault["code"] for fault in seen["malformed"]] == ["truncated"]
    assert demo.afk("envelope", "parse", stdin="<details data-attempt-status=x").returncode == 1


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6, 7])
def test_rendering_what_was_parsed_gives_the_same_bytes(demo: Demo, number: int) -> None:
    text = comment(demo, number)
    parsed = demo.afk("envelope", "parse", "--json", stdin=text).stdout
    assert demo.payload("envelope", "render", stdin=parsed)["text"] == text
    assert demo.afk("envelope", "render", stdin=parsed).stdout == text


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        '{"status": "fine"}',
        '{"envelopes": []}',
        '{"status":"blocked","worker_id":"w","attempt":"1","duration_s":1,"diff":{"kind":"stat","added":1,"removed":1}}',
        '{"status":"done","worker_id":"w","attempt":1,"duration_s":1,"diff":{"kind":"stat","added":1,"removed":1}}',
        '{"status":"blocked","worker_id":"w","attempt":1,"duration_s":1,"diff":{"kind":"stat"},"sections":{"diff":"x"}}',
        '{"status":"blocked","worker_id":"w","attempt":1,"duration_s":1,"diff":7}',
        '{"status":"done","worker_id":"w","attempt":1,"duration_s":1,"diff":{"kind":"merged"},"hooks":[7]}',
    ],
)
def test_what_describes_no_envelope_is_refused(tmp_path: Path, text: str) -> None:
    context = CommandContext(tmp_path, {}, Emitter(), read_stdin=text.encode)
    with pytest.raises(InvalidInput, match="FILE"):
        envelope_render(context, Arguments({"file": None}))


def test_every_command_of_the_table_is_there() -> None:
    """The table names functions by text; a name that is wrong would only show when somebody types the command."""
    from afk.surfaces.cli import load
    from afk.surfaces.table import COMMANDS

    assert all(callable(load(command.load)) and callable(load(command.text)) for command in COMMANDS)
