"""Tracker on Markdown files, `.red/issues/{N}/issue.md` and `comments/0001.md`: the embedded default.

People change the same files with any editor, other checkouts with their own `afk`. So: a comment is made complete and
then linked to the next free name; `issue.md` is exchanged with what is there, and what came out is looked at; a new
issue is a directory renamed into place. No reader ever sees half of anything that was written here.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar
from uuid import uuid4

from afk.adapters.files import FileLock, disk_errors, write_atomic
from afk.adapters.issuefile import BrokenFile, Field, IssueFile, edit, fold, read_comment, read_issue, render
from afk.adapters.rename import rename_new
from afk.adapters.sharedfiles import (
    LOOK_S,
    MAX_FILE_BYTES,
    NUMBERED,
    SETTLE_S,
    File,
    inside,
    link_next,
    read,
    rewrite,
    sync,
    write_new,
)
from afk.domain.issue import Comment, Issue
from afk.errors import InvalidInput, IssueNotFound, IssueUnreadable, LockHeld, TrackerError

__all__ = ["LocalTracker", "init_folder"]

LOCK_TIMEOUT_S: Final = 10.0
MAX_LINE_CHARS: Final = 1000
T = TypeVar("T")
_NUMBER = re.compile(r"[1-9][0-9]{0,9}\Z")


def init_folder(root: Path) -> None:
    """Make the tracker's folder; one that is there is left as it is."""
    root.mkdir(parents=True, exist_ok=True)


class LocalTracker:
    """One folder, shared by everybody who can see it; the folder must exist (`init_folder`).

    Whoever can write in the folder is trusted like whoever can push: the files carry the names that people put into
    them, there is no login behind them, and a person who can edit an issue here could as well edit the repository.
    """

    def __init__(self, root: Path, login: str = "afk") -> None:
        self._root = root
        self._login = login
        self._left_out: list[str] = []
        self._comments_left_out: dict[int, list[str]] = {}

    @property
    def login(self) -> str:
        return self._login

    # ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def open_issues(self) -> list[Issue]:
        """By number. A broken file is left out and told by `problems`; a folder that cannot be read raises."""
        issues: list[Issue] = []
        left_out: list[str] = []
        with self._errors("list the issues"):
            for number in self._numbers(left_out):
                try:
                    issue, remarks = self._settled(number)
                except IssueNotFound:  # removed since the folder was listed
                    continue
                except IssueUnreadable as error:
                    left_out.append(error.message)
                    continue
                left_out += remarks
                issues.append(issue)
        self._left_out = left_out
        return [issue for issue in issues if issue.is_open]

    def problems(self) -> list[str]:
        """What the last `open_issues` and the last `thread` of each issue left out, one sentence each, with path."""
        return [*self._left_out, *(line for lines in self._comments_left_out.values() for line in lines)]

    def issue(self, number: int) -> Issue:
        with self._errors(f"read issue {number}"):
            return self._settled(number)[0]

    def thread(self, number: int) -> list[Comment]:
        """By number; `id` is the file's name without `.md`. A broken comment is left out and told by `problems`."""
        comments: list[Comment] = []
        left_out: list[str] = []
        with self._errors(f"read the comments of issue {number}"):
            for path in self._comment_files(number, left_out):
                try:
                    comments.append(self._comment(path, left_out))
                except BrokenFile as error:
                    left_out.append(f"{path}: {error}")
        self._comments_left_out[number] = left_out
        return comments

    def can_write(self, login: str) -> bool:
        """Always True: whoever wrote a file here has write access to the folder (see the class)."""
        return True

    def branch_link(self, branch: str, number: int) -> str:
        return f"`{branch}`: `afk checkout {number}`"

    # ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def create_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        """Takes the number after the highest that is there or was ever given, so that no branch or claim fits it.

        A title is one line: line breaks become blanks. Raises: InvalidInput for a blank or endless text.
        """
        fields: dict[str, Field] = {
            "title": _one_line(title, "title"),
            "state": "open",
            "labels": [_one_line(label, "label") for label in labels],
            **self._signature(),
        }
        content = _bounded(render(fields, body))
        with self._errors("create an issue"), self._lock():
            number = self._place_issue(content)
        return self.issue(number)

    def comment(self, number: int, body: str) -> Comment:
        """On the disk, file and name, when it returns. Raises: InvalidInput for a body that is too large."""
        content = _bounded(render(self._signature(), body))
        with self._errors(f"comment on issue {number}"):
            return self._comment(link_next(self._comments_folder(number), content), [])

    def edit_labels(self, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        """A label that is there in another spelling keeps it; what is in both lists is there afterwards."""
        wanted = {name.casefold(): name for name in (_one_line(label, "label") for label in add)}
        gone = {fold(name).casefold() for name in remove} - set(wanted)

        def labels_of(issue: IssueFile) -> Mapping[str, Field]:
            kept = [label for label in issue.labels if label.casefold() not in gone]
            held = {label.casefold() for label in kept}
            labels = (*kept, *(name for folded, name in wanted.items() if folded not in held))
            return {} if labels == issue.labels else {"labels": labels}

        with self._errors(f"edit the labels of issue {number}"):
            self._edit(number, labels_of)

    def close_issue(self, number: int, *, reason: str = "completed") -> Issue:
        """An issue that is closed keeps the reason it has."""

        def closed(issue: IssueFile) -> Mapping[str, Field]:
            return {} if issue.state == "closed" else {"state": "closed", "closed_reason": fold(reason)}

        with self._errors(f"close issue {number}"):
            self._edit(number, closed)
        return self.issue(number)

    def _signature(self) -> dict[str, Field]:
        return {"author": self._login, "created_at": datetime.now().astimezone()}

    # ── Files ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _folder(self) -> Path:
        try:
            folder = self._root.resolve(strict=True)
        except FileNotFoundError as error:
            raise TrackerError(f"there is no issue folder {self._root}", hint="afk init") from error
        if not folder.is_dir():
            raise TrackerError(f"{self._root} is no folder", hint="afk config show")
        return folder

    def _numbers(self, left_out: list[str]) -> list[int]:
        numbers: list[int] = []
        for path in sorted(self._folder().iterdir()):
            if path.name.startswith(".") or not path.is_dir():
                continue
            if _NUMBER.match(path.name):
                numbers.append(int(path.name))
            else:
                left_out.append(f"{path}: the name is no issue number, so it is not read")
        return sorted(numbers)

    def _issue_folder(self, number: int) -> Path:
        folder = self._folder() / str(number)
        if number < 1 or not folder.is_dir():
            raise IssueNotFound(f"there is no issue {number} in {self._root}", hint="afk queue list")
        return self._inside(folder)

    def _inside(self, folder: Path) -> Path:
        try:
            return inside(folder, self._root)
        except BrokenFile as error:
            raise IssueUnreadable(f"{folder}: {error}") from error

    def _settled(self, number: int) -> tuple[Issue, list[str]]:
        return self._patiently(number, lambda folder: self._snapshot(number, folder))

    def _patiently(self, number: int, attempt: Callable[[Path], T]) -> T:
        """A broken file that was touched this moment is tried again: its editor may not be done with it.

        Raises: IssueUnreadable with the path.
        """
        give_up = time.monotonic() + SETTLE_S
        while True:
            folder = self._issue_folder(number)
            try:
                return attempt(folder)
            except BrokenFile as error:
                if not _just_touched(folder) or time.monotonic() > give_up:
                    raise IssueUnreadable(f"{folder / 'issue.md'}: {error}", hint="mend the file") from error
            time.sleep(LOOK_S)

    def _snapshot(self, number: int, folder: Path) -> tuple[Issue, list[str]]:
        path = folder / "issue.md"
        file = read(inside(path, self._root))
        found = read_issue(file.data)
        issue = Issue(
            number=number,
            title=found.title,
            body=found.body,
            state=found.state,
            labels=found.labels,
            author=found.author or file.owner,
            created_at=found.created_at or file.written_at,
            updated_at=_changed_at(folder),
            closed_reason=found.closed_reason if found.state == "closed" else None,
            assignees=found.assignees,
        )
        return issue, [f"{path}: {remark}" for remark in found.remarks]

    def _comment_files(self, number: int, left_out: list[str]) -> list[Path]:
        folder = self._issue_folder(number) / "comments"
        if not folder.is_symlink() and not folder.exists():
            return []
        names = [path.name for path in self._inside(folder).iterdir() if not path.name.startswith(".")]
        left_out += [f"{folder / name}: the name is no comment number" for name in names if not NUMBERED.match(name)]
        return [folder / name for name in sorted(filter(NUMBERED.match, names), key=_comment_order)]

    def _comment(self, path: Path, left_out: list[str]) -> Comment:
        file = read(inside(path, self._root))
        found = read_comment(file.data)
        left_out += [f"{path}: {remark}" for remark in found.remarks]
        author = found.author or file.owner
        return Comment(
            id=path.stem,
            author=author,
            created_at=found.created_at or file.written_at,
            body=found.body,
            by_us=author == self._login,
            can_write=self.can_write(author),
        )

    def _comments_folder(self, number: int) -> Path:
        folder = self._issue_folder(number) / "comments"
        if not folder.is_symlink() and not folder.exists():
            folder.mkdir(exist_ok=True)
            sync(folder.parent)
        return self._inside(folder)

    def _place_issue(self, content: bytes) -> int:
        folder = self._folder()
        new = folder / f".new-{uuid4().hex}"
        try:
            (new / "comments").mkdir(parents=True)
            write_new(new / "issue.md", content)
            sync(new)
            number = self._next_number(folder)
            while not rename_new(new, folder / str(number)):  # a person made that directory since we looked
                number += 1
        finally:
            shutil.rmtree(new, ignore_errors=True)
        sync(folder)
        write_atomic(folder / ".last", f"{number}\n", durable=True)
        return number

    def _next_number(self, folder: Path) -> int:
        try:
            last = int((folder / ".last").read_text())
        except (FileNotFoundError, ValueError):
            last = 0
        return max(last, 0, *self._numbers([])) + 1

    def _edit(self, number: int, decide: Callable[[IssueFile], Mapping[str, Field]]) -> None:
        """Set what `decide` answers for the file as it is when the new one takes its place."""

        def change(file: File) -> bytes:
            changes = decide(read_issue(file.data))
            # Our copy is new and belongs to us: what the old one said by its owner and its time is written down.
            said: dict[str, Field] = {"author": file.owner, "created_at": file.written_at}
            return edit(file.data, changes, absent=said) if changes else file.data

        with self._lock():
            self._patiently(number, lambda folder: rewrite(inside(folder / "issue.md", self._root), change))

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Against other writers of this program on this machine; people's editors know nothing of it."""
        with FileLock(self._folder() / ".lock", timeout_s=LOCK_TIMEOUT_S):
            yield

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raises `TrackerError` for what the system refuses, `DiskFull` for a full disk."""
        try:
            with disk_errors(self._root):
                yield
        except LockHeld as error:
            raise TrackerError(f"cannot {what}: {error.message}", details=error.details) from error
        except OSError as error:
            raise TrackerError(f"cannot {what} in {self._root}: {error.strerror or error}") from error


def _one_line(text: str, what: str) -> str:
    folded = fold(text)
    if not folded:
        raise InvalidInput(f"a {what} cannot be blank")
    if len(folded) > MAX_LINE_CHARS:
        raise InvalidInput(f"a {what} has at most {MAX_LINE_CHARS} characters")
    return folded


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"{len(content)} bytes are too many for one file of the issue folder")
    return content


def _comment_order(name: str) -> tuple[int, str]:
    return int(name.removesuffix(".md")), name


def _changed_at(folder: Path) -> datetime:
    """The last change of the issue or of its comments, by the kernel's word: no editor can set a ctime back."""
    comments = folder / "comments"
    paths = [folder / "issue.md", comments]
    with suppress(OSError):
        paths += comments.iterdir()
    times = [0.0]
    for path in paths:
        with suppress(OSError):
            times.append(path.stat().st_ctime)
    return datetime.fromtimestamp(max(times)).astimezone()


def _just_touched(folder: Path) -> bool:
    touched = [0.0]
    for path in (folder, folder / "issue.md"):
        with suppress(OSError):
            touched.append(path.stat().st_mtime)
    return max(touched) > time.time() - SETTLE_S
