"""A lane: the thread in which a slot works one attempt."""

from __future__ import annotations

import threading

from afk.attempt.pipeline import work_one_issue
from afk.attempt.session import Attempt
from afk.domain.outcome import Outcome
from afk.supervisor.signals import Bell

__all__ = ["Lane"]


class Lane:
    """One attempt at work in a thread of its own; the bell rings when it has ended."""

    def __init__(self, attempt: Attempt, bell: Bell) -> None:
        self.attempt = attempt
        self.result: Outcome | BaseException | None = None
        self.has_ended = False
        self._bell = bell
        self._thread = threading.Thread(target=self._body, name=f"slot-{attempt.id}", daemon=True)
        self._thread.start()

    @property
    def slot(self) -> int:
        return self.attempt.slot

    def _body(self) -> None:
        try:
            self.result = work_one_issue(self.attempt)
        except BaseException as error:  # noqa: BLE001 - a slot's edge: the loop decides what it means
            self.result = error
        self.has_ended = True
        self._bell.ring()
