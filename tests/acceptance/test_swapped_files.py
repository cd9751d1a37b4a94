"""An agent may do what it likes to the files beside its worktree: nothing waits for ever, and nothing else is read."""

from __future__ import annotations

from pathlib import Path

from drainkit import Place


def test_pipes_and_links_in_the_place_of_our_files_hang_and_leak_nothing(place: Place, tmp_path: Path) -> None:
    secret, victim = tmp_path / "secret", tmp_path / "victim"
    secret.write_text("<agent-notes>\nthe secret\n</agent-notes>\n")
    victim.write_text("untouched\n")
    place.configure(recovery={"tries": {"crashed": 1}})
    place.file(7, body=f"agent: swaps_files {secret} {victim}\n")

    ran = place.run()

    assert ran.code == 0, ran.stderr
    [envelope] = place.envelopes(7)
    assert "the secret" not in envelope
    assert victim.read_text() == "untouched\n"
    assert place.claims() == {}


def test_a_handoff_that_leads_elsewhere_is_no_handoff(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("<agent-notes>\nthe secret\n</agent-notes>\n")
    argv = ["/bin/sh", "-c", f"ln -sf {secret} ../handoff.md; echo '<promise>BLOCKED</promise>'"]
    place.configure(agents={"command": {"argv": argv}})
    place.file(7)

    assert place.run().outcomes == {7: "blocked"}

    assert "the secret" not in place.envelopes(7)[0]
