"""A short soak; `scripts/soak` has the long one."""

from __future__ import annotations

from pathlib import Path

from soak import soak


def test_the_books_balance_when_anything_may_die_at_any_time(tmp_path: Path) -> None:
    told = soak(tmp_path, seed=5, issues=6, workers=3, every_s=1.5, deaths=6)
    assert told.wrong == [], str(told)
    assert told.killed
