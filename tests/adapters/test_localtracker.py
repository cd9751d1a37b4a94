from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.tracker_contract import Connect, TrackerContract

from afk.adapters import rename
from afk.adapters.localtracker import LocalTracker, init_folder
from afk.errors import InvalidInput, IssueNotFound, IssueUnreadable, TrackerError

BRIEF = "---\ntitle: Sort the list\nlabels: [ready-for-agent]\n---\n\nBody\n"


class TestLocalTracker(TrackerContract):
    @pytest.fixture
    def connect(self, tmp_path: Path) -> Connect:
        init_folder(tmp_path / "issues")
        return lambda login: LocalTracker(tmp_path / "issues", login)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / ".red" / "issues"
    init_folder(root)
    return root


@pytest.fixture
def tracker(root: Path) -> LocalTracker:
    return LocalTracker(root)


def write(root: Path, number: int | str, text: str | bytes = BRIEF) -> Path:
    path = root / str(number) / "issue.md"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def long_ago(path: Path) -> None:
    """As if no editor were at it: the tracker gives fresh files a moment to become whole."""
    for each in (path, path.parent):
        os.utime(each, (1, 1))


# ── Files of people ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_files_look_as_a_person_would_write_them(root: Path, tracker: LocalTracker) -> None:
    issue = tracker.create_issue(title="Sort: the list", body="Because.\n", labels=["ready-for-agent"])
    comment = tracker.comment(issue.number, "Done.")

    created, said = issue.created_at.isoformat(), comment.created_at.isoformat()
    assert (root / "1" / "issue.md").read_text() == (
        "---\n"
        "title: 'Sort: the list'\n"
        "state: open\n"
        "labels: [ready-for-agent]\n"
        "author: afk\n"
        f"created_at: {created}\n"
        "---\n\nBecause.\n\n"
    )
    assert (root / "1" / "comments" / "0001.md").read_text() == (
        f"---\nauthor: afk\ncreated_at: {said}\n---\n\nDone.\n"
    )


def test_what_a_person_leaves_out_has_a_default(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7, "---\ntitle: Only a title\n---\nBody")
    os.utime(path, (1_700_000_000, 1_700_000_000))

    issue = tracker.issue(7)

    assert (issue.title, issue.body, issue.state, issue.labels) == ("Only a title", "Body", "open", ())
    assert issue.author == pwd.getpwuid(path.stat().st_uid).pw_name
    assert issue.created_at.timestamp() == 1_700_000_000
    assert issue.url is None


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf---\ntitle: T\nlabels: [a, b]\n---\n\nBody\n",
        b"---\r\ntitle: T\r\nlabels: [a, b]\r\n---\r\n\r\nBody\r\n",
        b"---  \ntitle: T   # mine\nlabels:\n- a\n- b\n---\t\nBody",
        b"---\n{title: T, labels: [a, b]}\n---\nBody",
        b"---\ntitle: >-\n  T\nlabels: a, b\n---\nBody",
        b'---\n"title": "T"\nlabels: &l [a, b]\nagain: *l\n---\n\nBody',
    ],
    ids=["bom", "crlf", "block", "flow", "folded", "alias"],
)
def test_any_editors_way_of_writing_is_read_and_kept(root: Path, tracker: LocalTracker, text: bytes) -> None:
    path = write(root, 7, text)
    assert (tracker.issue(7).title, tracker.issue(7).labels, tracker.issue(7).body) == ("T", ("a", "b"), "Body")

    tracker.edit_labels(7, add=["c"])
    edited = tracker.issue(7)

    assert (edited.title, edited.labels, edited.body) == ("T", ("a", "b", "c"), "Body")
    after = path.read_bytes()
    assert after.startswith(text[:5])
    assert after[after.rindex(b"---") :] == text[text.rindex(b"---") :]
    assert (b"\r\n" in after) == (b"\r\n" in text)
    assert after.count(b"\n") - after.count(b"\r\n") == 0 or b"\r\n" not in text


def test_a_rewrite_keeps_what_it_does_not_understand(root: Path, tracker: LocalTracker) -> None:
    front = "title: T\nestimate: 007\ndue: 2026-01-01\nmine: {deep: [1, 'x', yes], when: !ours '12:30'}\nlabels: [a]\n"
    body = b"\n\n  two blank lines above\t\r\nmixed \xff bytes \x00\n\n\n"
    path = write(root, 7, b"---\n" + front.encode() + b"---\n" + body)

    tracker.edit_labels(7, add=["b"], remove=["a"])

    after = path.read_bytes()
    assert after.endswith(b"---\n" + body)
    for line in front.splitlines()[:-1]:
        assert line.encode() in after


def test_a_rewrite_pins_author_and_time_of_the_persons_file(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7)
    os.chown(path, 65534, -1) if os.geteuid() == 0 else None
    os.utime(path, (1_700_000_000, 1_700_000_000))
    before = tracker.issue(7)

    tracker.edit_labels(7, add=["running"])
    after = tracker.issue(7)

    assert (after.author, after.created_at) == (before.author, before.created_at)


def test_a_rewrite_keeps_the_files_mode(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7)
    path.chmod(0o640)

    tracker.close_issue(7)

    assert path.stat().st_mode & 0o777 == 0o640


def test_an_edit_that_changes_nothing_writes_nothing(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7)
    before = path.stat()

    tracker.edit_labels(7, add=["Ready-For-Agent"], remove=["running"])

    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_state_is_read_in_any_case_and_a_reopened_issue_has_no_reason(root: Path, tracker: LocalTracker) -> None:
    write(root, 7, "---\ntitle: T\nstate: OPEN\nclosed_reason: completed\n---\n")

    assert (tracker.issue(7).state, tracker.issue(7).closed_reason) == ("open", None)


def test_a_comment_by_hand_needs_no_front_matter(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7)
    comments = path.parent / "comments"
    comments.mkdir()
    (comments / "0001.md").write_text("Just words.\n")
    (comments / "2.md").write_text("---\n\nA rule above.")
    tracker.comment(7, "third")

    thread = tracker.thread(7)

    assert [comment.body for comment in thread] == ["Just words.\n", "---\n\nA rule above.", "third"]
    assert [comment.id for comment in thread] == ["0001", "2", "0003"]
    assert thread[0].author == pwd.getpwuid(os.geteuid()).pw_name
    assert not thread[0].by_us


def test_comments_are_ordered_by_number_past_four_digits(root: Path, tracker: LocalTracker) -> None:
    comments = write(root, 7).parent / "comments"
    comments.mkdir()
    for name in ("10000", "9999", "0002"):
        (comments / f"{name}.md").write_text(name)

    assert tracker.comment(7, "next").id == "10001"
    assert [comment.id for comment in tracker.thread(7)] == ["0002", "9999", "10000", "10001"]


# ── Broken files ────────────────────────────────────────────────────────────────────────────────────────────────────


BROKEN = {
    "empty": (b"", "is empty"),
    "no front matter": (b"# Title\n", "line 1: does not begin with front matter"),
    "unclosed": (b"---\ntitle: T\n", "no closing `---`"),
    "no title": (b"---\nlabels: []\n---\n", "`title` is missing"),
    "blank title": (b"---\ntitle: '  '\n---\n", "`title` is missing"),
    "colon in a title": (b"---\ntitle: Fix: this\n---\n", "line 2: a `: ` that YAML cannot place"),
    "a list": (b"---\n- title\n---\n", "line 2: the front matter is no mapping"),
    "doubled": (b"---\ntitle: a\nstate: open\ntitle: b\n---\n", "line 4: `title` stands twice"),
    "state": (b"---\ntitle: a\nstate: opne\n---\n", "`state` is neither"),
    "labels": (b"---\ntitle: a\nlabels:\n- blocked: spec\n---\n", "line 4: a label is no text"),
    "title is a list": (b"---\ntitle: [x] y\n---\n", "line 2"),
    "tab": (b"---\ntitle: a\nlabels:\n\t- x\n---\n", "line 4: a tab cannot indent YAML"),
    "latin-1": (b"---\ntitle: caf\xe9\n---\n", "line 2: is not UTF-8 text"),
    "utf-16": ("---\ntitle: a\n---\n".encode("utf-16"), "does not begin with front matter"),
    "nul": (b"---\ntitle: a\x00b\n---\n", "line 2: the character U+0000 cannot stand in YAML"),
    "nested": (b"---\ntitle: a\nx: " + b"[" * 5000 + b"\n---\n", "nested deeper"),
    "endless": (b"---\ntitle: a\n" + b"#" * 70_000 + b"\n---\n", "no closing `---` within 64 kB"),
    "huge": (b"---\ntitle: a\n---\n" + b"x" * (8 * 1024 * 1024), "is larger than 8 MiB"),
}


@pytest.mark.parametrize(("text", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_told_with_its_path_and_the_rest_works(
    root: Path, tracker: LocalTracker, text: bytes, why: str
) -> None:
    """S36: a listing leaves it out and says so, a look by number fails."""
    write(root, 1)
    path = write(root, 2, text)
    write(root, 3)
    long_ago(path)

    assert [issue.number for issue in tracker.open_issues()] == [1, 3]
    (problem,) = tracker.problems()
    assert problem.startswith(f"{path}: ") and why in problem
    with pytest.raises(IssueUnreadable) as caught:
        tracker.issue(2)
    assert str(path) in caught.value.message and not caught.value.retryable


def test_a_broken_file_is_not_rewritten(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 2, b"---\ntitle: Fix: this\n---\nprecious\n")
    long_ago(path)

    with pytest.raises(IssueUnreadable):
        tracker.edit_labels(2, add=["x"])
    with pytest.raises(IssueUnreadable):
        tracker.close_issue(2)

    assert path.read_bytes() == b"---\ntitle: Fix: this\n---\nprecious\n"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["issue.md"]


def test_an_issue_with_a_broken_file_still_takes_its_envelope(root: Path, tracker: LocalTracker) -> None:
    long_ago(write(root, 2, b"oops"))

    tracker.comment(2, "the report")

    assert [comment.body for comment in tracker.thread(2)] == ["the report"]


def test_broken_optional_values_are_told_and_the_issue_stays_visible(root: Path, tracker: LocalTracker) -> None:
    """S35."""
    path = write(root, 2, "---\ntitle: T\nauthor: [a]\ncreated_at: yesterday\nlabels:\n---\n")

    (issue,) = tracker.open_issues()

    assert issue.author == pwd.getpwuid(path.stat().st_uid).pw_name
    assert issue.created_at.timestamp() == pytest.approx(path.stat().st_mtime)
    assert tracker.problems() == [
        f"{path}: line 3: `author` is no text",
        f"{path}: line 4: `created_at` is no date and time",
    ]


def test_a_broken_comment_is_told_and_the_others_are_read(root: Path, tracker: LocalTracker) -> None:
    comments = write(root, 7).parent / "comments"
    comments.mkdir()
    (comments / "0001.md").write_text("one")
    (comments / "0002.md").write_text("---\nauthor: [\n---\ntwo")
    (comments / "notes.md").write_text("not a comment")

    assert [comment.body for comment in tracker.thread(7)] == ["one"]
    told = sorted(tracker.problems())
    assert told[0].startswith(f"{comments / '0002.md'}: line 3")
    assert told[1] == f"{comments / 'notes.md'}: the name is no comment number"


def test_directories_that_are_no_numbers_are_told_and_files_are_not(root: Path, tracker: LocalTracker) -> None:
    for name in ("007", "7a", "0", "-1", "1e3", "٣", "99999999999"):
        write(root, name)
    (root / "README.md").write_text("not an issue")
    (root / ".git").mkdir()
    write(root, 7)

    assert [issue.number for issue in tracker.open_issues()] == [7]
    assert len(tracker.problems()) == 7
    assert f"{root / '007'}: the name is no issue number, so it is not read" in tracker.problems()


def test_a_missing_folder_is_an_error_never_an_empty_queue(tmp_path: Path) -> None:
    """L06."""
    tracker = LocalTracker(tmp_path / "gone")
    for ask in (tracker.open_issues, lambda: tracker.issue(1), lambda: tracker.create_issue(title="t", body="")):
        with pytest.raises(TrackerError, match="there is no issue folder") as caught:
            ask()
        assert type(caught.value) is TrackerError
    assert not (tmp_path / "gone").exists()


def test_an_issue_without_its_file_is_unreadable_not_unknown(root: Path, tracker: LocalTracker) -> None:
    (root / "7").mkdir()
    os.utime(root / "7", (1, 1))

    with pytest.raises(IssueUnreadable, match=r"issue\.md"):
        tracker.issue(7)
    with pytest.raises(IssueNotFound):
        tracker.issue(8)


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(root: Path, tracker: LocalTracker) -> None:
    (root / "7").mkdir()
    os.mkfifo(root / "7" / "issue.md")
    os.utime(root / "7", (1, 1))
    os.utime(root / "7" / "issue.md", (1, 1))

    with pytest.raises(IssueUnreadable, match="no regular file"):
        tracker.issue(7)


# ── Links ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_links_that_lead_out_of_the_folder_are_not_followed(root: Path, tracker: LocalTracker, tmp_path: Path) -> None:
    """S28."""
    outside = tmp_path / "outside"
    secret = write(tmp_path, "outside", "---\ntitle: Secret\n---\nkey")
    (root / "1").symlink_to(outside)
    (root / "2").mkdir()
    (root / "2" / "issue.md").symlink_to(secret)
    write(root, 3)
    (root / "3" / "comments").symlink_to(outside)
    write(root, 4)
    (root / "4" / "comments").mkdir()
    (root / "4" / "comments" / "0001.md").symlink_to(secret)
    (root / "5").mkdir()
    (root / "5" / "issue.md").symlink_to("issue.md")
    for number in (2, 5):
        os.utime(root / str(number), (1, 1))

    assert [issue.number for issue in tracker.open_issues()] == [3, 4]
    assert len([line for line in tracker.problems() if "leads out of the issue folder" in line]) == 2
    for write_through in (tracker.thread, lambda number: tracker.comment(number, "x")):
        with pytest.raises(IssueUnreadable, match="leads out"):
            write_through(3)
    assert tracker.thread(4) == []
    assert secret.read_text() == "---\ntitle: Secret\n---\nkey"
    assert [entry.name for entry in outside.iterdir()] == ["issue.md"]


def test_a_linked_folder_is_the_folder(root: Path, tmp_path: Path) -> None:
    (tmp_path / "shared").symlink_to(root)
    number = LocalTracker(tmp_path / "shared").create_issue(title="t", body="").number

    assert LocalTracker(root).issue(number).title == "t"


def test_a_link_inside_the_folder_is_edited_at_its_target(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7)
    path.rename(root / "brief.md")
    path.symlink_to("../brief.md")

    tracker.edit_labels(7, add=["running"])

    assert path.is_symlink() and "running" in (root / "brief.md").read_text()


# ── What is written ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body", ["\n\nx\n\n", "\r\n", "x\r", "x\r\n", "a\x00b\x1b[31m", "\ufeffx", "-" * 200_000, "---"]
)
def test_every_byte_of_a_body_survives(root: Path, tracker: LocalTracker, body: str) -> None:
    number = tracker.create_issue(title="t", body=body).number
    tracker.comment(number, body)
    tracker.edit_labels(number, add=["x"])

    assert tracker.issue(number).body == body
    assert tracker.thread(number)[0].body == body


def test_control_characters_of_a_title_do_not_reach_the_file(root: Path, tracker: LocalTracker) -> None:
    number = tracker.create_issue(title="a\x00b\x1b[31mc\x85d\ud800", body="").number

    assert tracker.issue(number).title == "a b [31mc d?"


def test_what_could_not_be_read_again_is_not_written(root: Path, tracker: LocalTracker) -> None:
    for refused in (
        lambda: tracker.create_issue(title="x" * 1001, body=""),
        lambda: tracker.create_issue(title="x", body="x" * (8 * 1024 * 1024)),
        lambda: tracker.create_issue(title="x", body="", labels=["\n"]),
    ):
        with pytest.raises(InvalidInput):
            refused()
    assert tracker.open_issues() == []
    assert [entry.name for entry in root.iterdir() if not entry.name.startswith(".")] == []


def test_numbers_go_on_after_the_highest_and_are_never_given_twice(root: Path, tracker: LocalTracker) -> None:
    """A claim, a branch or a trailer of a removed issue must not fit the next one."""
    write(root, 41)
    assert tracker.create_issue(title="t", body="").number == 42
    shutil.rmtree(root / "42")

    assert tracker.create_issue(title="t", body="").number == 43


def test_a_number_a_person_took_a_moment_ago_is_left_to_them(root: Path) -> None:
    (root / "5").mkdir()
    (root / "new").mkdir()

    assert not rename.rename_new(root / "new", root / "5")
    assert rename.rename_new(root / "new", root / "6")
    assert (root / "5").is_dir() and (root / "6").is_dir() and not (root / "new").exists()


def test_nothing_is_left_beside_what_was_written(root: Path, tracker: LocalTracker) -> None:
    number = tracker.create_issue(title="t", body="").number
    tracker.comment(number, "x")
    tracker.edit_labels(number, add=["a"])
    tracker.close_issue(number)

    files = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    assert files == [".last", ".lock", "1", "1/comments", "1/comments/0001.md", "1/issue.md"]


def test_a_branch_link_says_how_to_check_it_out(tracker: LocalTracker) -> None:
    assert tracker.branch_link("afk/wZ2R4/7-sort", 7) == "`afk/wZ2R4/7-sort`: `afk checkout 7`"


def test_the_folder_is_made_once_and_kept(tmp_path: Path) -> None:
    init_folder(tmp_path / "a" / "issues")
    LocalTracker(tmp_path / "a" / "issues").create_issue(title="t", body="")
    init_folder(tmp_path / "a" / "issues")

    assert len(LocalTracker(tmp_path / "a" / "issues").open_issues()) == 1


# ── Many at once ────────────────────────────────────────────────────────────────────────────────────────────────────

WRITER = """
    import sys
    from pathlib import Path
    from afk.adapters.localtracker import LocalTracker

    root, who, many = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    tracker = LocalTracker(root, who)
    print("ready", flush=True)
    sys.stdin.readline()
    for index in range(many):
        tracker.comment(1, f"{who} {index}\\n" * 500)
        tracker.edit_labels(1, add=[f"{who}-{index}"])
        tracker.create_issue(title=f"{who} {index}", body="")
"""


def test_many_processes_lose_nothing_and_show_no_half_of_it(root: Path, tracker: LocalTracker) -> None:
    tracker.create_issue(title="t", body="")
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(root)]
    writers = [
        subprocess.Popen([*command, who, "12"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for who in ("ada", "bob", "cyd")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    while any(writer.poll() is None for writer in writers):
        tracker.open_issues()
        for comment in tracker.thread(1):
            assert len(comment.body.splitlines()) == 500
        assert tracker.problems() == []
    assert [writer.communicate()[0] and writer.returncode for writer in writers] == ["", "", ""]
    assert [writer.returncode for writer in writers] == [0, 0, 0]

    wanted = {f"{who}-{index}" for who in ("ada", "bob", "cyd") for index in range(12)}
    assert set(tracker.issue(1).labels) == wanted
    assert len({comment.body for comment in tracker.thread(1)}) == 36
    assert [int(comment.id) for comment in tracker.thread(1)] == list(range(1, 37))
    assert [issue.number for issue in tracker.open_issues()] == list(range(1, 38))


class Labeller:
    """Edits labels of issue 7 without a pause, until it is left."""

    def __init__(self, tracker: LocalTracker) -> None:
        self._tracker = tracker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._rounds = threading.Semaphore(0)
        self.failure: Exception | None = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._tracker.edit_labels(7, add=["running"], remove=["ready-for-agent"])
                self._tracker.edit_labels(7, add=["ready-for-agent"], remove=["running"])
                self._rounds.release()
        except Exception as error:  # noqa: BLE001 - handed to the test
            self.failure = error
            self._rounds.release(1000)

    def wait_rounds(self, many: int) -> None:
        """Until so many rounds have ended from now on, the one under way included; or until one failed."""
        while self._rounds.acquire(blocking=False):
            pass
        for _ in range(many):
            assert self.failure or self._rounds.acquire(timeout=30)

    def __enter__(self) -> Labeller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure


def save_by_rename(path: Path, text: str) -> None:
    new = path.with_name(".issue.md.swp")
    new.write_text(text)
    new.replace(path)


def save_in_place(path: Path, text: str) -> None:
    path.write_text(text)


@pytest.mark.parametrize("save", [save_by_rename, save_in_place])
def test_a_persons_save_is_never_lost_to_a_label_edit(
    root: Path, tracker: LocalTracker, save: Callable[[Path, str], None]
) -> None:
    save_and_look(root, tracker, save)


def test_a_save_in_place_is_not_lost_where_the_system_cannot_exchange_files(
    root: Path, tracker: LocalTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rename, "_renameat2", lambda *_: False)
    save_and_look(root, tracker, save_in_place)
    (root / "new").mkdir()
    assert not rename.rename_new(root / "new", root / "7")
    assert rename.rename_new(root / "new", root / "8")


def save_and_look(root: Path, tracker: LocalTracker, save: Callable[[Path, str], None]) -> None:
    """Save one text after the other beside label edits, and look that each is there some edits later."""
    path = write(root, 7)

    with Labeller(tracker) as labeller:
        for index in range(40):
            text = f"---\ntitle: Save {index}\nlabels: [ready-for-agent, mine]\n---\n\n{'word ' * 50}\n{index}\n"
            save(path, text)
            labeller.wait_rounds(2)
            issue = tracker.issue(7)
            assert (issue.title, issue.body.splitlines()[-1]) == (f"Save {index}", str(index))
            assert issue.has_label("mine")

    assert sorted(entry.name for entry in path.parent.iterdir()) == ["issue.md"]


def test_a_save_that_is_broken_is_left_as_the_person_left_it(root: Path, tracker: LocalTracker) -> None:
    """It came out of the exchange, so it goes back in."""
    path = write(root, 7)
    broken = "---\ntitle: Fix: this\n---\nprecious\n"
    with pytest.raises(IssueUnreadable), Labeller(tracker) as labeller:
        labeller.wait_rounds(1)
        save_by_rename(path, broken)
        labeller.wait_rounds(3)  # the one under way, then one that meets the broken file

    assert path.read_text() == broken
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["issue.md"]


def test_a_file_that_its_editor_is_still_writing_is_waited_for(root: Path, tracker: LocalTracker) -> None:
    path = write(root, 7, "")
    with ThreadedSave(path) as save:
        save.begin.set()
        assert tracker.issue(7).title == "Sort the list"


class ThreadedSave:
    """The second half of an editor's save, once `begin` is set."""

    def __init__(self, path: Path) -> None:
        self.begin = threading.Event()
        self._thread = threading.Thread(target=lambda: self.begin.wait(30) and path.write_text(BRIEF))

    def __enter__(self) -> ThreadedSave:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def test_a_lock_that_is_held_too_long_is_an_error_to_retry(
    root: Path, tracker: LocalTracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from afk.adapters import localtracker
    from afk.adapters.files import FileLock

    write(root, 7)
    monkeypatch.setattr(localtracker, "LOCK_TIMEOUT_S", 0.05)
    with FileLock(root / ".lock"), pytest.raises(TrackerError, match="is held by pid") as caught:
        tracker.edit_labels(7, add=["x"])
    assert caught.value.retryable
    tracker.edit_labels(7, add=["x"])
    assert tracker.issue(7).has_label("x")


# ── A full disk ─────────────────────────────────────────────────────────────────────────────────────────────────────

FULL = """
    import sys
    from pathlib import Path
    from afk.adapters.localtracker import LocalTracker
    from afk.errors import DiskFull

    root = Path(sys.argv[1])
    tracker = LocalTracker(root)
    tracker.create_issue(title="t", body="precious" * 100)
    tracker.comment(1, "kept")
    before = sorted(path for path in root.rglob("*"))
    with (root / ".ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(b"x" * 4096)
        except OSError:
            pass
    for write in (
        lambda: tracker.comment(1, "x" * 9000),
        lambda: tracker.edit_labels(1, add=["x"]),
        lambda: tracker.create_issue(title="u", body="x" * 9000),
    ):
        try:
            write()
        except DiskFull as error:
            print(error.code, error.retryable)
    (root / ".ballast").unlink()
    assert sorted(path for path in root.rglob("*")) == before
    assert tracker.issue(1).body == "precious" * 100
    assert [comment.body for comment in tracker.thread(1)] == ["kept"]
    tracker.edit_labels(1, add=["x"])
    print(tracker.issue(1).labels)
"""


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    """R20."""
    script = tmp_path / "full.py"
    script.write_text(textwrap.dedent(FULL))
    (tmp_path / "disk").mkdir()
    inside = 'mount -t tmpfs -o size=96k tmpfs "$1" && exec "$2" "$3" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, "sh"]
    if subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespaces here")
    done = subprocess.run(
        [*command, str(tmp_path / "disk"), sys.executable, str(script)], capture_output=True, text=True, check=False
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["disk_full True"] * 3 + ["('x',)"]
