"""Following a file that grows: lines of any length, in bounded memory, from any offset."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from afk.adapters.follow import Line, LineFollower, tail_lines


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_an_absent_file_has_no_lines_yet(tmp_path: Path) -> None:
    follower = LineFollower(tmp_path / "out")
    assert (follower.read(), follower.has_more) == ([], False)
    append(tmp_path / "out", b"here\n")
    assert follower.read() == [Line("here")]
    assert list(LineFollower(tmp_path / "never").finish()) == []


def test_a_partial_line_waits_for_its_end(tmp_path: Path) -> None:
    """S62."""
    out = tmp_path / "out"
    follower = LineFollower(out)
    append(out, b"one\ntw")
    assert follower.read() == [Line("one")]
    append(out, b"o\r\n\nthr")
    assert follower.read() == [Line("two"), Line("")]
    assert follower.read() == []
    append(out, b"ee")
    assert list(follower.finish()) == [Line("three")]
    assert list(follower.finish()) == []


def test_a_character_split_between_two_reads_is_one_character(tmp_path: Path) -> None:
    out = tmp_path / "out"
    follower = LineFollower(out)
    euro = "€".encode()
    append(out, b"5 " + euro[:1])
    assert follower.read() == []
    append(out, euro[1:] + b"\n")
    assert follower.read() == [Line("5 €")]


def test_what_is_not_utf8_is_replaced_and_the_run_goes_on(tmp_path: Path) -> None:
    append(tmp_path / "out", b"caf\xe9\nfine\n")
    assert LineFollower(tmp_path / "out").read() == [Line("caf\ufffd"), Line("fine")]


def test_a_line_over_the_cap_keeps_its_head_and_tells_how_much_was_cut(tmp_path: Path) -> None:
    """R36: no 64 KiB limit, an explicit overflow, and the next line is read as ever."""
    append(tmp_path / "out", b"x" * 10_000_000 + b"\nnext\n" + b"y" * 300_000 + b"\n")
    follower = LineFollower(tmp_path / "out", cap_bytes=1000)
    lines = list(follower.finish())
    assert lines == [Line("x" * 1000, 9_999_000), Line("next"), Line("y" * 1000, 299_000)]


def test_a_long_line_below_the_cap_is_whole(tmp_path: Path) -> None:
    """R36."""
    append(tmp_path / "out", b"z" * 900_000 + b"\n")
    assert list(LineFollower(tmp_path / "out").finish()) == [Line("z" * 900_000)]


def test_one_read_is_bounded_and_says_that_there_is_more(tmp_path: Path) -> None:
    append(tmp_path / "out", b"0123456789abcde\n" * 100_000)
    follower = LineFollower(tmp_path / "out")
    seen, calls = 0, 0
    while lines := follower.read():
        assert len(lines) * 16 <= 256 * 1024
        seen, calls = seen + len(lines), calls + 1
        assert follower.has_more == (seen < 100_000)
    assert (seen, calls) == (100_000, 7)


def test_a_follower_goes_on_where_another_one_stopped(tmp_path: Path) -> None:
    """A supervisor that died in the middle of a line: its successor reads that line from the start."""
    out = tmp_path / "out"
    append(out, b"one\ntwo\nthr")
    first = LineFollower(out)
    assert first.read() == [Line("one"), Line("two")]
    assert (first.offset, first.bytes_read) == (8, 11)
    append(out, b"ee\nfour")
    second = LineFollower(out, offset=first.offset)
    assert list(second.finish()) == [Line("three"), Line("four")]
    assert second.offset == out.stat().st_size


def test_a_growing_line_is_visible_as_bytes_read(tmp_path: Path) -> None:
    """Silence is measured on bytes, not on lines."""
    out = tmp_path / "out"
    append(out, b"x" * 100)
    follower = LineFollower(out)
    assert (follower.read(), follower.bytes_read, follower.offset) == ([], 100, 0)


def test_a_flood_and_a_huge_line_are_followed_in_little_memory(tmp_path: Path) -> None:
    """R41: 100 MB of lines, one of them 10 MB long; the reader's own growth stays below 16 MB."""
    out = tmp_path / "out"
    with out.open("wb") as file:
        for _ in range(90):
            file.write((b"l" * 99 + b"\n") * 10_000)
        file.write(b"h" * 10_000_000 + b"\n")
    code = """
        import re, sys
        from pathlib import Path
        from afk.adapters.follow import LineFollower
        def peak_kb():
            return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
        before = peak_kb()
        lines = sum(1 for _ in LineFollower(Path(sys.argv[1])).finish())
        print(lines, peak_kb() - before)
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(code), str(out)], capture_output=True, text=True, check=True
    )
    lines, growth_kb = map(int, done.stdout.split())
    assert lines == 900_001
    assert growth_kb < 16 * 1024


def test_tail_gives_the_last_lines_and_the_unterminated_one(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert tail_lines(path, 3, 1000) == []
    path.write_bytes(b"")
    assert tail_lines(path, 3, 1000) == []
    path.write_bytes(b"one\r\ntwo\nthr\xff")
    assert tail_lines(path, 2, 1000) == ["two", "thr\ufffd"]
    assert tail_lines(path, 9, 1000) == ["one", "two", "thr\ufffd"]
    path.write_bytes(b"one\n\n")
    assert tail_lines(path, 2, 1000) == ["one", ""]


def test_tail_reads_no_more_than_its_cap_and_begins_with_a_whole_line(tmp_path: Path) -> None:
    """R41."""
    path = tmp_path / "out"
    path.write_bytes(b"aaaa\nbbbb\ncccc\n")
    assert tail_lines(path, 9, 15) == ["aaaa", "bbbb", "cccc"]
    assert tail_lines(path, 9, 14) == ["bbbb", "cccc"]
    assert tail_lines(path, 9, 10) == ["bbbb", "cccc"]
    assert tail_lines(path, 9, 9) == ["cccc"]


def test_tail_of_one_endless_line_is_its_end(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"x" * 1000 + b"the end\n")
    assert tail_lines(path, 5, 8) == ["the end"]
