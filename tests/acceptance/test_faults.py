"""A seeded sample of the kill matrix: deaths of several at once or of the whole machine.

`scripts/faults` has every one; a supervisor that dies alone is in `test_crashes.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deaths import EVERYTHING, PHASES, QUEUES, Death, deaths, steps, wrong_after

SEED = 41
HELD = [(phase, who) for phase in PHASES[1:5] for who in (("keeper",), ("supervisor", "keeper"), ("agent",))]


@pytest.mark.parametrize("queue", random.Random(SEED).sample(list(QUEUES), 4))
def test_the_books_balance_after_a_death_at_a_step(tmp_path: Path, queue: str) -> None:
    (tmp_path / "noted").mkdir()
    every = deaths(queue, 1, steps(tmp_path / "noted", queue))
    several = [death for death in every if death.moment != "during" and death.who != ("supervisor",)]
    death = random.Random(f"{SEED} {queue}").choice(several)
    assert wrong_after(tmp_path, death) == [], f"scripts/faults --only {death}"


@pytest.mark.parametrize(("phase", "who"), [*random.Random(SEED).sample(HELD, 2), ("committed", (EVERYTHING,))])
def test_the_books_balance_after_a_death_while_something_works(
    tmp_path: Path, phase: str, who: tuple[str, ...]
) -> None:
    death = Death("done", 2, "during", phase, who)
    assert wrong_after(tmp_path, death) == [], f"scripts/faults --only {death}"
