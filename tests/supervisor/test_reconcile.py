"""Whether issues that are worked are still ours to work: asked only when something is."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from afk.attempt.session import Project
from afk.supervisor import boot
from afk.supervisor.queueing import Queue


class Unasked:
    """A tracker of which nothing may be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked")


def test_with_nothing_at_work_nothing_is_asked(clone: Path) -> None:
    """S49"""
    project = replace(Project.open(clone, environ=os.environ), tracker=Unasked())
    boot.make_ground(project)
    Queue(project, boot.supervisor_log(project), say=lambda text: None).note_withdrawn([])
