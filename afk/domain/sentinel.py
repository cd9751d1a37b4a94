"""The agent's last word: which lines of its text count as one, and which only quote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

__all__ = ["Sentinel", "SentinelReader", "is_sentinel_line"]


class Sentinel(StrEnum):
    """What an agent may end with, as `<promise>DONE</promise>` on a line of its own."""

    DONE = "DONE"
    BLOCKED = "BLOCKED"


_LINES = {f"<promise>{word}</promise>": word for word in Sentinel}
_FENCE = re.compile(r"(?P<mark>`{3,}|~{3,})(?P<info>.*)", re.DOTALL)


def is_sentinel_line(line: str) -> bool:
    """Whether this line alone, outside every fence, would end an attempt."""
    return line.strip() in _LINES


class SentinelReader:
    """Follows the assistant's text and keeps the last sentinel that counts (L27, R43).

    A sentinel is a whole trimmed line outside code fences. Feed it nothing but the assistant's own words: tool output
    and files never count. `prompt` is what the agent was given: where the text repeats it from its first line on, the
    repeated lines are an echo, count for nothing and open no fence.
    """

    def __init__(self, prompt: str = "") -> None:
        self._last: Sentinel | None = None
        self._fence = ""  # the mark that opened the fence we are in
        self._prompt = _meaningful(prompt.split("\n"))
        self._echoed = 0  # how many lines of the prompt have just been repeated
        self.count = 0  # how many lines have counted

    @property
    def sentinel(self) -> Sentinel | None:
        """The last one so far; None: the agent has not ended its work."""
        return self._last

    def feed(self, text: str) -> Sentinel | None:
        """Reads whole lines (one, or a message of many) and answers as `sentinel` does."""
        for line in _meaningful(text.split("\n")):
            if not self._is_echo(line):
                self._read(line)
        return self._last

    def begin_message(self) -> None:
        """What follows is a message of its own: a fence that the last one left open quotes nothing in it."""
        self._fence, self._echoed = "", 0

    def _is_echo(self, line: str) -> bool:
        expected = self._prompt[self._echoed : self._echoed + 1]
        if [line] != expected and self._prompt[:1] == [line]:
            self._echoed = 1
            return True
        self._echoed = self._echoed + 1 if [line] == expected else 0
        return self._echoed > 0

    def _read(self, line: str) -> None:
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
        elif opened := _FENCE.fullmatch(line):
            # A run of backticks with more of them behind it is inline code, not a fence.
            self._fence = "" if "`" in opened["info"] and opened["mark"][0] == "`" else opened["mark"]
        elif line in _LINES:
            self._last = _LINES[line]
            self.count += 1


def _meaningful(lines: Iterable[str]) -> list[str]:
    return [stripped for line in lines if (stripped := line.strip())]


def _closes(line: str, fence: str) -> bool:
    return len(line) >= len(fence) and not line.strip(fence[0])
