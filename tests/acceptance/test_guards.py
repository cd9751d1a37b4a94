"""What an agent's branch may not carry onto the trunk unasked."""

from __future__ import annotations

from drainkit import Place


def test_protected_paths_links_out_and_large_files_wait_for_a_person(place: Place) -> None:
    """R50: what steers CI, leads out of the tree or can never leave history again does not land by itself."""
    place.configure(landing={"max_file_mb": 0.001})
    place.file(1, body="agent: done .github/workflows/deploy.yml\n")
    place.file(2, body="agent: links_out ../../../etc/passwd\n")
    place.file(3, body="agent: links_out README.md\n")
    place.file(4, body=f"agent: done big.txt {'x' * 2000}\n")

    ran = place.run()

    assert ran.outcomes == {1: "hook-aborted", 2: "hook-aborted", 3: "done", 4: "hook-aborted"}
    for number, path in ((1, ".github/workflows/deploy.yml"), (2, "link-2"), (4, "big.txt")):
        [envelope] = place.envelopes(number)
        assert path in envelope
        assert place.labels(number) == {"ready-for-human", "blocked:policy"}
    assert place.landed() == ["merge: #3 Do it"]


def test_what_the_person_allows_lands(place: Place) -> None:
    place.configure(landing={"allow_paths": [".github/workflows/**"]})
    place.file(1, body="agent: done .github/workflows/deploy.yml\n")
    assert place.run().outcomes == {1: "done"}
