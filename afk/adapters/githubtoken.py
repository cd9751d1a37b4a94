"""The token for a GitHub server, found when it is needed and written nowhere; also as a credential helper for git.

    python -I -m afk.adapters.githubtoken HOST get     answers git on its standard output

A token goes to the host it was made for and to no other: the address of the server stands in a file of the repository.
Names and their hosts are those of the `gh` program. Sources: gh help environment; gitcredentials(7), "CUSTOM HELPERS".
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from afk.errors import TrackerDenied

__all__ = ["find_token", "helper_for", "web_host"]

_GH_S = 10.0
_PUBLIC = ("GH_TOKEN", "GITHUB_TOKEN")
_ENTERPRISE = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")


def web_host(api_url: str) -> str:
    """The host that people and git know, port included: `github.com` for `https://api.github.com`."""
    host = urlsplit(api_url).netloc.rpartition("@")[2].lower()
    return host.removeprefix("api.") if host == "api.github.com" or host.endswith(".ghe.com") else host


def find_token(host: str, environ: Mapping[str, str]) -> str:
    """From the environment, else from `gh`. Raises `TrackerDenied`, which says which names would be read."""
    names = _names_for(host, environ)
    for name in names:
        if environ.get(name):
            return environ[name]
    token = _from_gh(host, environ)
    if token:
        return token
    raise TrackerDenied(
        f"no token for {host}: neither {' nor '.join(names)} is set, and `gh auth token` has none",
        hint=f"gh auth login --hostname {host}",
    )


def _names_for(host: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    is_public = host == "github.com" or host.endswith((".github.com", ".ghe.com"))
    # A job of GitHub Actions has its token in GITHUB_TOKEN on every kind of server, and says which server that is.
    own = urlsplit(environ.get("GITHUB_SERVER_URL", "")).netloc.lower()
    if is_public:
        return _PUBLIC
    return (*_ENTERPRISE, "GITHUB_TOKEN") if own == host else _ENTERPRISE


def _from_gh(host: str, environ: Mapping[str, str]) -> str:
    try:
        asked = subprocess.run(
            ["gh", "auth", "token", "--hostname", host],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GH_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def helper_for(host: str) -> str:
    """What git is told as `credential.helper`: a command of ours that finds the token when git needs it (R61)."""
    return f"!{_quoted(sys.executable)} -I -m afk.adapters.githubtoken {_quoted(host)}"


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _main(host: str, action: str) -> int:
    asked = dict(line.rstrip("\n").partition("=")[::2] for line in sys.stdin)
    if action != "get" or asked.get("host", "").lower() != host:
        return 0
    try:
        token = find_token(host, os.environ)
    except TrackerDenied:
        return 0  # git then says that it could not read a password
    print(f"username=x-access-token\npassword={token}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:3]))
