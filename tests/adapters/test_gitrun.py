from __future__ import annotations

import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import gitkit
import pytest

from afk.adapters import git, gitrun
from afk.adapters.process import identity_of
from afk.errors import (
    DiskFull,
    GitError,
    GitTimeout,
    NotARepository,
    RemoteDenied,
    RemoteMissing,
    RemoteUnreachable,
)


def test_an_answer_keeps_bytes_that_are_no_text(clone: Path) -> None:
    name = b"caf\xe9"
    Path(os.fsdecode(bytes(clone) + b"/" + name)).touch()
    assert os.fsencode(git.run(clone, "ls-files", "--others", "-z").stdout) == name + b"\0"


def test_a_failure_carries_gits_words_and_a_command_to_type(clone: Path) -> None:
    with pytest.raises(GitError, match="unknown revision") as caught:
        git.run(clone, "log", "no-such-thing")
    assert caught.value.hint == f"git -C {clone} status"
    assert caught.value.details == {"returncode": 128}
    assert git.run(clone, "log", "no-such-thing", check=False).returncode == 128


def test_another_users_repository_is_refused_with_the_command_that_trusts_it(clone: Path) -> None:
    """R19: git's own words, without the three lines that say how."""
    with pytest.raises(GitError, match="dubious ownership") as caught:
        git.run(clone, "status", env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    assert caught.value.hint == f"git config --global --add safe.directory {clone}"
    assert "\n" not in caught.value.message


def test_a_directory_that_is_no_checkout_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotARepository, match=str(tmp_path)):
        git.run(tmp_path, "status")
    with pytest.raises(NotARepository, match="not a directory"):
        git.run(tmp_path / "nowhere", "status")


def test_a_machine_without_git_is_told_so(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(GitError, match="could not start git") as caught:
        git.run(clone, "status")
    assert caught.value.hint == "git --version"


def test_what_cannot_be_a_command_line_leaves_ctrl_c_as_it_was(clone: Path) -> None:
    with pytest.raises(ValueError, match="null byte"):
        git.rev_parse(clone, "a\0b")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ── Nobody is at the keyboard ───────────────────────────────────────────────────────────────────────────────────────


def test_a_git_that_hangs_is_ended_with_everything_it_started(clone: Path, tmp_path: Path) -> None:
    """R18: whatever git waits for, it does not wait for ever, and no child of it goes on."""
    child = tmp_path / "child"
    gitkit.git(clone, "config", "alias.hang", f"!sleep 600 & echo $! >{child}; wait")
    with pytest.raises(GitTimeout, match=r"git hang .* did not end within"):
        git.run(clone, "hang", timeout_s=0.5)
    gitkit.wait_until(lambda: _is_gone(int(child.read_text())), "the end of git's child")


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_grandchild_that_holds_the_output_open_holds_nobody_up(clone: Path, tmp_path: Path) -> None:
    """R27: an ssh master or a credential daemon outlives git with git's own output in its hands."""
    child = tmp_path / "child"
    gitkit.git(clone, "config", "alias.leave", f"!sleep 600 & echo $! >{child}; echo said")
    try:
        assert git.run(clone, "leave", timeout_s=30).stdout == "said\n"
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)


def test_git_leads_its_own_session_and_reads_nothing(clone: Path) -> None:
    """R28: a Ctrl-C in the terminal does not reach git, and stdin is at its end."""
    gitkit.git(clone, "config", "alias.who", "!cut -d' ' -f6 /proc/$$/stat; wc -c")
    session, size = git.run(clone, "who").stdout.split()
    assert int(session) != os.getsid(0)
    assert size == "0"


SIGNED = '#!/bin/sh\ntest -t 0 && echo tty >>"{log}"\nexec sleep 600\n'


def test_a_signer_that_asks_for_a_passphrase_ends_with_the_time_limit(clone: Path, tmp_path: Path) -> None:
    """R18: signing that cannot work unattended is an error within the time limit, not a night without progress."""
    signer = tmp_path / "signer"
    signer.write_text(SIGNED.format(log=tmp_path / "log"))
    signer.chmod(0o755)
    gitkit.git(clone, "config", "gpg.program", str(signer))
    gitkit.git(clone, "config", "commit.gpgSign", "true")
    assert git.signs_commits(clone)
    with pytest.raises(GitTimeout):
        git.run(clone, "commit", "--allow-empty", "-m", "x", timeout_s=0.5)
    assert not (tmp_path / "log").exists()
    assert git.commit_tree(clone, git.empty_tree(clone), [], "unsigned by default")


ASKER = '#!/bin/sh\necho asked >>"$(dirname "$0")/asked"\necho secret\n'


def test_nobody_is_asked_for_a_password(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = tmp_path / "askpass"
    asker.write_text(ASKER)
    asker.chmod(0o755)
    monkeypatch.setenv("GIT_ASKPASS", str(asker))
    monkeypatch.setenv("SSH_ASKPASS", str(asker))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("DISPLAY", ":9")
    gitkit.git(clone, "config", "core.askPass", str(asker))
    with answering(401) as url, pytest.raises(RemoteDenied, match="could not read Username"):
        git.ls_remote(clone, url)
    assert not (tmp_path / "asked").exists()


def test_ssh_runs_in_batch_mode_unless_the_person_chose_a_command(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    for name in ("ssh", "myssh"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >>{log}\nexit 255\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def command_used() -> str:
        with pytest.raises(GitError):
            git.ls_remote(clone, "ssh://git@host.invalid/x.git")
        return log.read_text().splitlines()[-1]

    assert command_used().startswith("ssh -o BatchMode=yes ")
    gitkit.git(clone, "config", "core.sshCommand", str(tmp_path / "myssh"))
    assert command_used().startswith("myssh ")
    assert "BatchMode" not in command_used()
    monkeypatch.setenv("GIT_SSH_COMMAND", f"{tmp_path}/ssh -v")
    assert command_used().startswith("ssh -v ")


# ── Whose repository, whose configuration ───────────────────────────────────────────────────────────────────────────


def test_the_variables_of_a_calling_git_hook_mislead_nobody(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`afk` run inside a hook or an alias is told of another repository, index and author date."""
    other = tmp_path / "other"
    gitkit.git(tmp_path, "init", "-q", str(other))
    there = gitkit.commit(other, "another history", {"a": "1"})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    monkeypatch.setenv("GIT_COMMON_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other / ".git" / "objects"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    assert git.toplevel(clone) == clone
    assert git.rev_parse(clone, "HEAD") == git.run(clone, "rev-parse", "HEAD").stdout.strip() != there
    (clone / "new").touch()
    made = git.commit_all(clone, "new")
    assert made
    assert git.touched_files(clone, "HEAD^", "HEAD") == ["new"]
    assert not git.run(clone, "show", "-s", "--format=%as", made).stdout.startswith("2001")


def test_a_persons_configuration_from_the_environment_still_counts(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"COUNT": "1", "KEY_0": "user.name", "VALUE_0": "From Outside"}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    assert git.identity(clone) == ("From Outside", "person@example.invalid")


def test_no_hook_of_the_repository_or_of_a_checkout_runs(clone: Path, tmp_path: Path) -> None:
    """Also not when `core.hooksPath` points into a checkout, where an agent writes."""
    log = tmp_path / "log"
    gitkit.git(clone, "config", "core.hooksPath", "hooks")
    names = ("post-checkout", "pre-commit", "commit-msg", "post-commit", "pre-push", "reference-transaction")
    for name in (*names, "post-merge", "pre-merge-commit", "fsmonitor"):
        gitkit.write(clone, {f"hooks/{name}": f"#!/bin/sh\necho {name} >>{log}\n"})
        (clone / "hooks" / name).chmod(0o755)
    gitkit.git(clone, "config", "core.fsmonitor", "hooks/fsmonitor")
    base = git.rev_parse(clone, "HEAD")
    assert base
    made = git.commit_all(clone, "hooks")
    assert made
    git.run(clone, "checkout", "-q", "--detach", base)
    side = gitkit_commit_without_hooks(clone)
    git.merge_into_worktree(clone, made, "merge")
    url = git.remote_url(clone, "origin")
    assert git.push(clone, url, [git.RefUpdate("refs/heads/x", side, None)]).status is git.PushStatus.OK
    git.fetch(clone, url, "+refs/heads/x:refs/heads/y")
    git.dirty_paths(clone)
    assert not log.exists()


def gitkit_commit_without_hooks(repo: Path) -> str:
    gitkit.write(repo, {"side": "side\n"})
    made = git.commit_all(repo, "side")
    assert made
    return made


def test_settings_that_change_what_git_prints_change_nothing(clone: Path, git_env: Path) -> None:
    for key, value in {
        "color.ui": "always",
        "core.pager": "false",
        "diff.noprefix": "true",
        "diff.renames": "copies",
        "status.short": "true",
        "status.showUntrackedFiles": "no",
        "push.followTags": "true",
        "fetch.prune": "true",
        "i18n.logOutputEncoding": "latin1",
    }.items():
        gitkit.git(clone, "config", key, value)
    gitkit.write(clone, {"ä": "x\n"})
    assert git.dirty_paths(clone) == ["ä"]
    made = git.commit_all(clone, "Grüße")
    assert made
    assert git.commit_message(clone, made) == "Grüße"
    assert git.touched_files(clone, "HEAD^", "HEAD") == ["ä"]
    assert git.diffstat(clone, "HEAD^", "HEAD") == git.DiffStat(1, 0, 1)


def test_reading_a_signed_commit_starts_no_verifier(clone: Path, tmp_path: Path) -> None:
    """What a verifier prints would stand in the message, and it may take its time."""
    verifier = tmp_path / "verifier"
    verifier.write_text(f"#!/bin/sh\ntouch '{tmp_path}/started'\necho '[GNUPG:] GOODSIG 1 x'\n")
    verifier.chmod(0o755)
    gitkit.git(clone, "config", "log.showSignature", "true")
    gitkit.git(clone, "config", "gpg.program", str(verifier))
    head, _, message = gitkit.git(clone, "cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    raw = f"{head}\n{signature}\n\n{message}"
    signed = gitkit.git(clone, "hash-object", "-t", "commit", "-w", "--stdin", input=raw)
    assert git.commit_message(clone, signed) == "the beginning"
    assert git.commits_with_trailer(clone, signed, "x", "y") == []
    assert not (tmp_path / "started").exists()


def test_words_come_without_colour(clone: Path, origin: Path) -> None:
    for key in ("color.ui", "color.push", "color.transport", "color.remote", "color.advice"):
        gitkit.git(clone, "config", key, "always")
    gitkit.hook(origin, "pre-receive", "echo 'error: no' >&2; exit 1")
    report = git.push(clone, gitkit.url(origin), [git.RefUpdate("refs/heads/x", gitkit.sha(clone), None)])
    assert "remote: error: no\n" in report.text
    assert "\x1b" not in report.text


# ── What a remote may answer ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def answering(status: int) -> Iterator[str]:
    """An HTTP server on loopback that gives every request the same status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/owner/name.git"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (401, RemoteDenied, "denied"),
        (403, RemoteDenied, "denied"),
        (404, RemoteMissing, "missing"),
        (429, RemoteUnreachable, "unreachable"),
        (500, RemoteUnreachable, "unreachable"),
        (503, RemoteUnreachable, "unreachable"),
    ],
)
def test_an_http_remote_that_refuses_is_told_by_its_reason(
    clone: Path, status: int, kind: type[GitError], reason: str
) -> None:
    with answering(status) as url, pytest.raises(kind) as caught:
        git.ls_remote(clone, url)
    assert caught.value.details == {"reason": reason}
    assert caught.value.hint == f"git ls-remote {url}"
    assert caught.value.retryable is (kind is RemoteUnreachable)


def test_a_remote_that_is_not_there_is_told_from_one_that_does_not_answer(clone: Path, tmp_path: Path) -> None:
    with pytest.raises(RemoteMissing, match="does not appear to be a git repository"):
        git.ls_remote(clone, gitkit.url(tmp_path / "nowhere.git"))
    port = gitkit.free_port()
    for url in (f"git://127.0.0.1:{port}/x.git", f"http://127.0.0.1:{port}/x.git"):
        with pytest.raises(RemoteUnreachable):
            git.ls_remote(clone, url)


def test_a_daemon_that_does_not_know_the_repository_says_so(clone: Path, git_daemon: str) -> None:
    with pytest.raises(RemoteMissing):
        git.ls_remote(clone, git_daemon.replace("origin", "nowhere"))


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.", RemoteDenied),
        ("Host key verification failed.\nfatal: Could not read from remote repository.", RemoteDenied),
        ("ERROR: Repository not found.\nfatal: Could not read from remote repository.", RemoteMissing),
        ("ssh: connect to host h port 22: No route to host\nfatal: Could not read from remote", RemoteUnreachable),
        ("ssh: Could not resolve hostname h: Temporary failure in name resolution", RemoteUnreachable),
        ("Connection closed by 192.0.2.1 port 22", RemoteUnreachable),
        ("fatal: the remote end hung up unexpectedly", RemoteUnreachable),
        ("fatal: No space left on device", DiskFull),
        ("remote: fatal: No space left on device", GitError),
        ("fatal: bad object", GitError),
    ],
)
def test_what_ssh_servers_say_is_classified(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, kind: type[Exception]
) -> None:
    program = tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{words}\nEND\nexit 255\n")
    program.chmod(0o755)
    failed = git.GitResult(128, "", words)
    assert type(gitrun.classified(clone, "ssh://h/x", ("ls-remote",), failed)) is kind
    if kind in (RemoteDenied, RemoteMissing, RemoteUnreachable):
        monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
        with pytest.raises(kind):
            git.ls_remote(clone, "ssh://h/x")


def test_a_remote_that_accepts_and_says_nothing_is_unreachable(clone: Path, tmp_path: Path) -> None:
    program = tmp_path / "silent"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    gitkit.git(clone, "config", "core.sshCommand", str(program))
    with pytest.raises(RemoteUnreachable, match="did not end within") as caught:
        gitrun.run_remote(clone, "ssh://h/x", "ls-remote", "--", "ssh://h/x", timeout_s=0.3)
    assert caught.value.details == {"reason": "timeout"}


def test_no_error_shows_a_credential(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R74: neither from the address, nor from git's words, nor from our environment."""
    token = "ghp_" + "a1B2" * 9
    monkeypatch.setenv("FORGE_TOKEN", "correct-horse-battery")
    with answering(404) as url:
        address = url.replace("http://", f"http://x-access-token:{token}@").replace("owner", "correct-horse-battery")
        with pytest.raises(RemoteMissing) as caught:
            git.ls_remote(clone, address)
        report = git.push(clone, address, [git.RefUpdate("refs/heads/x", gitkit.sha(clone), None)])
    shown = f"{caught.value.message} {caught.value.hint} {report.text}"
    assert token not in shown
    assert "correct-horse-battery" not in shown
    assert "127.0.0.1" in shown


def test_a_remote_that_never_stops_talking_costs_bounded_memory(clone: Path) -> None:
    """L14: only the end of what was said is kept, because there stands what went wrong."""
    gitkit.git(clone, "config", "alias.flood", "!yes | head -c 3000000 >&2; echo the end >&2; false")
    with pytest.raises(GitError) as caught:
        git.run(clone, "flood")
    assert len(caught.value.message) < 3000
    assert caught.value.message.endswith("the end")


def test_a_worktree_that_another_git_is_just_making_is_waited_for(
    clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every git that looks at all worktrees dies of one whose files are not all there yet."""
    half = clone / ".git" / "worktrees" / "half made"
    half.mkdir(parents=True)
    (half / "gitdir").write_text("/nowhere/.git\n")
    (half / "commondir").touch()
    with pytest.raises(GitError, match="commondir"):
        git.run(clone, "worktree", "list", again=False)
    log = _log_each_git(tmp_path, monkeypatch)
    with ThreadPoolExecutor() as pool:
        looking = pool.submit(git.worktree_list, clone)
        gitkit.wait_until(lambda: log.exists() and log.read_text().count("called") > 1, "the second look")
        (half / "commondir").write_text("../..\n")
        assert len(looking.result()) == 2


def test_a_fetch_waits_for_the_head_of_a_worktree_that_is_just_being_made(
    origin: Path, clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until `git worktree add` knows what it checks out, the new HEAD is all zeros, and every fetch calls it broken."""
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    head = clone / ".git/worktrees/tree/HEAD"
    made = head.read_text()
    head.write_text("0" * 40 + "\n")
    other = gitkit.clone(gitkit.url(origin), tmp_path / "other")
    theirs = gitkit.commit(other, "theirs")
    gitkit.git(other, "push", "-q")
    log = _log_each_git(tmp_path, monkeypatch)
    with ThreadPoolExecutor() as pool:
        fetching = pool.submit(git.fetch_into, clone, gitkit.url(origin), "refs/heads/main", "refs/afk/fetched")
        gitkit.wait_until(lambda: log.exists() and log.read_text().count(" fetch ") > 1, "the second try")
        head.write_text(made)
        assert fetching.result() == theirs


def _log_each_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git in the PATH that writes `called` and its arguments to the file that is returned."""
    program, log = tmp_path / "bin" / "git", tmp_path / "log"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho called "$@" >>"{log}"\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return log


# ── Light commands stay light ───────────────────────────────────────────────────────────────────────────────────────


def test_finding_the_checkout_imports_no_heavy_library(clone: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from afk.adapters import git, worktrees\n"
        "git.toplevel(Path(sys.argv[1])); git.remote_url(Path(sys.argv[1]), 'origin')\n"
        "print(sorted({'git', 'github', 'pydantic', 'psutil', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(clone)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_interrupt_ends_the_git_that_was_running(clone: Path, tmp_path: Path) -> None:
    """R25: when the waiting is broken off, git does not go on behind our back."""
    child = tmp_path / "child"
    gitkit.git(clone, "config", "alias.hang", f"!echo $$ >{child}; exec sleep 600")
    script = (
        "import sys; from pathlib import Path; from afk.adapters import git\n"
        "try: git.run(Path(sys.argv[1]), 'hang')\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    caller = gitkit.python(script, str(clone))
    gitkit.wait_until(lambda: child.exists() and child.read_text().strip(), "git's child")
    pid = int(child.read_text())
    assert identity_of(pid)
    caller.send_signal(signal.SIGINT)
    assert caller.communicate()[0] == "interrupted\n"
    gitkit.wait_until(lambda: _is_gone(pid), "the end of git's child")


def test_a_worktree_below_tmp_is_the_one_that_was_made_there_or_none(clone: Path, tmp_path: Path) -> None:
    """S28: a link, another repository's `.git`, a pipe or a repository of its own in that place is not worked in."""
    here = clone / ".red/tmp/workers/wAAAA/7-a1/worktree"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(here))
    assert git.rev_parse(here, "HEAD") == gitkit.sha(clone)
    pointer = (here / ".git").read_text()

    def is_refused() -> bool:
        with pytest.raises(NotARepository):
            git.run(here, "status")
        with pytest.raises(NotARepository):
            git.rev_parse(here, "HEAD")
        return True

    other = tmp_path / "other"
    gitkit.git(clone, "worktree", "add", "-q", "--detach", str(other))
    for text in (f"gitdir: {clone}/.git\n", (other / ".git").read_text(), "gitdir: \n", ""):
        (here / ".git").write_text(text)
        assert is_refused(), text
    (here / ".git").unlink()
    os.mkfifo(here / ".git")
    assert is_refused()
    (here / ".git").unlink()
    gitkit.git(here, "init", "-q", ".")
    assert is_refused()
    shutil.rmtree(here)
    here.symlink_to(clone)
    assert is_refused()
    here.unlink()
    here.mkdir()
    (here / ".git").write_text(pointer)
    assert git.rev_parse(here, "HEAD") == gitkit.sha(clone)
