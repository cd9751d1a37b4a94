"""Names of an attempt: the numbers decide, the title only decorates."""

from __future__ import annotations

import random
import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from afk.domain.attempt import AttemptId, branch_name, draw_worker_id, slugify

NUMBERS = st.integers(1, 10**18 - 1)
WORKERS = st.text(st.sampled_from("ABCXYZ0189"), min_size=4, max_size=4).map("w".__add__)
ATTEMPTS = st.builds(AttemptId, WORKERS, NUMBERS, NUMBERS)

NOT_IDS = [
    "",
    "wZ2R4-142",
    "wZ2R4-0-a1",
    "wZ2R4-142-a0",
    "wZ2R4-0142-a1",
    "wz2r4-142-a1",
    "wZ2R42-142-a1",
    " wZ2R4-142-a1",
    "wZ2R4-142-a1\n",
    "wZ2R4-142-a1/..",
    "wZ2R4-١٤٢-a1",
    "wZ2R4-" + "9" * 5000 + "-a1",
    "custody",
]


# ── Attempt ids ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_is_written_one_way_everywhere() -> None:
    attempt = AttemptId("wZ2R4", 142, 1)
    assert str(attempt) == "wZ2R4-142-a1"
    assert attempt.directory == "142-a1"


@given(ATTEMPTS)
def test_an_attempt_is_read_back_from_its_id_and_from_its_place_on_disk(attempt: AttemptId) -> None:
    assert AttemptId.parse(str(attempt)) == attempt
    assert AttemptId.of_directory(attempt.worker, attempt.directory) == attempt


@given(ATTEMPTS, ATTEMPTS)
def test_different_attempts_have_different_names(one: AttemptId, other: AttemptId) -> None:
    """S18"""
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize("text", NOT_IDS)
def test_what_is_no_attempt_id_is_refused(text: str) -> None:
    """A claim's message names an attempt, and anybody can push a claim."""
    assert AttemptId.parse(text) is None


@pytest.mark.parametrize(
    ("worker", "directory"),
    [("wZ2R4", "worktree"), ("wZ2R4", "142"), ("someone", "142-a1"), ("wZ2R4-142", "a1"), ("", "wZ2R4-142-a1")],
)
def test_a_directory_that_afk_did_not_name_is_no_attempt(worker: str, directory: str) -> None:
    assert AttemptId.of_directory(worker, directory) is None


# ── Worker ids ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers())
def test_a_drawn_worker_id_is_one_that_can_be_read(seed: int) -> None:
    worker = draw_worker_id(random.Random(seed))
    assert AttemptId.of_directory(worker, "142-a1") == AttemptId(worker, 142, 1)


def test_worker_ids_are_drawn_anew_each_time() -> None:
    assert len({draw_worker_id() for _ in range(50)}) > 45


# ── Slugs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("wire OAuth callback", "wire-oauth-callback"),
        ("  Fix:  the `foo()` -- bug!  ", "fix-the-foo-bug"),
        ("Überprüfe die Größe", "uberprufe-die-groe"),
        ("ﬁx №5", "fix-no5"),
        ("日本語", "issue"),
        ("日本語 fix", "fix"),
        ("🚀🚀", "issue"),
        ("../../etc/passwd", "etc-passwd"),
        ("--upload-pack=evil", "upload-pack-evil"),
        ("", "issue"),
        ("\0\n\ud800", "issue"),
        ("x" * 300, "x" * 40),
        ("a" * 39 + " and more", "a" * 39),
        ("!" + "b" * 50, "b" * 39),
    ],
)
def test_a_title_is_folded_to_a_slug(title: str, slug: str) -> None:
    """R11"""
    assert slugify(title) == slug


@given(st.text(max_size=80))
@example("é" * 80)
def test_any_title_gives_a_short_clean_slug_and_the_same_each_time(title: str) -> None:
    """R10 R11 S17: bytes are characters here, so no cut falls inside one."""
    slug = slugify(title)
    assert slug == slugify(title) == slugify(slug)
    assert 1 <= len(slug.encode()) <= 40
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert not slug.startswith("-") and not slug.endswith("-")


# ── Branches ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_titles_that_fold_to_one_slug_still_have_branches_of_their_own() -> None:
    """S18: the number is the identity."""
    assert branch_name("wZ2R4", 1, "Ärger!") == "afk/wZ2R4/1-arger"
    assert branch_name("wZ2R4", 2, "arger") == "afk/wZ2R4/2-arger"


@pytest.mark.parametrize("title", ["x" * 5000, "fix.lock", "a..b @{0} ~^:?*[ \\", "日本語", "-"])
def test_git_takes_every_branch_as_a_name(title: str) -> None:
    """R10: with the largest number that is read, the whole ref stays far below what a file system takes."""
    branch = branch_name("wZ2R4", 10**18 - 1, title)
    assert len(f"refs/heads/{branch}.lock") < 100
    subprocess.run(["git", "check-ref-format", "--branch", branch], check=True, stdout=subprocess.DEVNULL)
