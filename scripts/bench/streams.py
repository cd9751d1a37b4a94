"""Lines a second from a file to stage, evidence and usage, for streams of codex and claude; and one line of 10 MB.

The lines are captured ones, with outputs of tools and contents of files as long as on real work: about 2.7 kB in the
mean.
Baseline: `json.loads` alone over the same lines, already in memory. Bound: 40,000 lines/s for each kind, or a third of
the baseline on a slow or busy machine; a line of 10 MB adds less than 10 MB to the peak. Exit 1 beyond.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from afk.adapters.follow import LineFollower
from afk.agents import agent_for
from afk.agents.reading import Reading
from afk.config import Config

STREAMS = Path(__file__).parents[2] / "tests" / "fixtures" / "streams"
LINES = 40_000
OUTPUT = {"codex": 15_000, "claude": 6_500}  # characters of a tool's output; a written file is a third of it
ROUNDS = 3
FLOOR = 40_000  # lines a second
SHARE = 1 / 3  # of the baseline
LONG_MB = 10


def main(arguments: list[str]) -> int:
    if arguments:  # a process of its own for each peak of memory
        print(peak_mb(arguments[0], Path(arguments[1])))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        slow = [kind for kind in ("codex", "claude") if not is_fast(kind, Path(folder) / kind)]
        big = [kind for kind in ("codex", "claude") if not is_small(kind, Path(folder) / f"{kind}.long")]
    return 1 if slow or big else 0


def is_fast(kind: str, file: Path) -> bool:
    """Rounds alternate, so that a busy neighbour slows both; the best of each counts."""
    lines = typical(kind)
    file.write_text("".join(lines), encoding="utf-8")
    baseline = ours = 0.0
    for _ in range(ROUNDS):
        baseline = max(baseline, rate(lambda: load(lines)))
        ours = max(ours, rate(lambda: follow(kind, file)))
    mean = sum(map(len, lines)) / len(lines)
    print(f"baseline, json.loads of {kind} (mean {mean:.0f} characters): {baseline:,.0f} lines/s")
    print(f"file to stage, {kind}: {ours:,.0f} lines/s; ratio {ours / baseline:.2f} (bound: {FLOOR:,} or {SHARE:.2f})")
    return ours >= FLOOR or ours / baseline >= SHARE


def load(lines: list[str]) -> None:
    for line in lines:
        json.loads(line)


def typical(kind: str) -> list[str]:
    """The events of a run that succeeds, over and over; its commit, after which less is to do, comes at the end."""
    captured = (STREAMS / kind / "success.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    captured = [longer(line, OUTPUT[kind]) for line in captured]
    commit = next(place for place, line in enumerate(captured) if "git add -A" in line)
    first, middle, last = captured[:1], captured[1:commit], captured[commit:]
    return [*first, *middle * (LINES // len(middle)), *last]


def longer(line: str, size: int) -> str:
    """The same event, where it holds a tool's output or a file's content with a longer one."""
    event = json.loads(line)
    item, message = event.get("item", {}), event.get("message", {})
    if item.get("aggregated_output"):
        item["aggregated_output"] = "a line of output\n" * (size // 17)
    for part in message.get("content", []):
        if part["type"] == "tool_result":
            part["content"] = "a line of output\n" * (size // 17)
        elif "content" in part.get("input", {}):
            part["input"]["content"] = "a line of a file\n" * (size // 3 // 17)
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"


def rate(work: object) -> float:
    """In seconds of the processor: a neighbour's work does not count."""
    began = time.process_time()
    work()  # type: ignore[operator]
    return LINES / (time.process_time() - began)


def follow(kind: str, file: Path) -> Reading:
    reading, follower = Reading(agent_for(Config(), kind), now=lambda: datetime.now(UTC)), LineFollower(file)
    while True:
        for line in follower.read():
            reading.out(line.text)
        if not follower.has_more:
            break
    for line in follower.finish():
        reading.out(line.text)
    reading.finish()
    assert reading.stage == "commit", reading.stage
    assert reading.evidence.sentinel == "DONE"
    return reading


def is_small(kind: str, file: Path) -> bool:
    captured = (STREAMS / kind / "success.jsonl").read_text(encoding="utf-8")
    file.write_text(captured, encoding="utf-8")
    plain = measured(kind, file)
    file.write_text(long_line(kind) + captured, encoding="utf-8")
    flooded = measured(kind, file)
    print(f"baseline, peak RSS over {kind} without it: {plain:.1f} MB")
    print(f"with a line of {LONG_MB} MB: {flooded:.1f} MB; {flooded - plain:+.1f} MB (bound: +{LONG_MB} MB)")
    return flooded - plain < LONG_MB


def long_line(kind: str) -> str:
    text = "x" * (LONG_MB * 1024 * 1024)
    item = {"type": "command_execution", "aggregated_output": text}
    content = [{"type": "tool_result", "content": text}]
    event = {
        "codex": {"type": "item.completed", "item": item},
        "claude": {"type": "user", "message": {"content": content}},
    }
    return json.dumps(event[kind]) + "\n"


def measured(kind: str, file: Path) -> float:
    ran = subprocess.run([sys.executable, __file__, kind, str(file)], capture_output=True, text=True, check=True)
    return float(ran.stdout)


def peak_mb(kind: str, file: Path) -> float:
    """By the kernel's own mark: what `getrusage` gives still holds the peak of whoever started us."""
    follow(kind, file)
    [mark] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(mark.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
