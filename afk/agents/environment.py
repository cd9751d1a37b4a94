"""What the agent and the checks may inherit from our environment, and which values must never be shown.

An allow-list, so that a name nobody thought of is absent. Some names are denied whatever the configuration allows: the
tracker's token and git's credentials, because publishing is the orchestrator's, and our own settings, so that an `afk`
that the agent runs is not reconfigured by us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["agent_environment", "check_environment", "is_denied", "secret_values"]

_ALLOWED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TZ|LANG|LANGUAGE|LC_[A-Z]+|TERM|COLORTERM|NO_COLOR|XDG_[A-Z]+_(HOME|DIR)"
    r"|(HTTP|HTTPS|ALL|NO)_PROXY|(http|https|all|no)_proxy"
    r"|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|JAVA_HOME|CARGO_HOME|RUSTUP_HOME|GOPATH|GOROOT|NVM_DIR|PNPM_HOME|PYENV_ROOT"
)
# Who commits, where git's settings lie, how far up it looks for a repository: no credential, and without them commits
# would have another author, or land in the wrong place.
_GIT_HARMLESS = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|GIT_CEILING_DIRECTORIES"
)
_DENIED = re.compile(
    r"(GH|GITHUB|GITLAB|GITEA|FORGEJO|BITBUCKET)_([A-Z0-9]+_)*(TOKEN|PAT|PASSWORD|SECRET|KEY)"
    r"|(RED_)?AFK_.*|GIT_.*|SSH_AUTH_SOCK|SSH_AGENT_PID|SSH_ASKPASS(_REQUIRE)?",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"(.*_)?(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PAT|APIKEY|(API|ACCESS|PRIVATE|SECRET|SIGNING|AUTH)_KEY(_ID)?"
    r"|CREDENTIALS?)(_[A-Z0-9]+)?",
    re.IGNORECASE,
)
_SECRET_MIN = 6  # shorter values (`true`, `1`) are no secrets, and masking them would eat ordinary words

_NO_CREDENTIALS = ("credential.helper", "")  # the empty value resets the list of helpers


def is_denied(name: str) -> bool:
    """Whether no configuration can give this name to an agent or a check."""
    return _DENIED.fullmatch(name) is not None and _GIT_HARMLESS.fullmatch(name) is None


def _is_allowed(name: str) -> bool:
    return (_ALLOWED.fullmatch(name) or _GIT_HARMLESS.fullmatch(name)) is not None


def agent_environment(
    environ: Mapping[str, str],
    worktree: Path,
    *,
    allow: Sequence[str] = (),
    seat: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    committer: tuple[str, str] | None = None,
) -> dict[str, str]:
    """The whole environment of an agent: the built-in list, the names in `allow`, its slot's `seat`, `extra` over all.

    Git in it asks nobody, finds no stored credential, commits as `committer` (name, address) unless variables say
    otherwise, and takes `worktree` for safe whoever owns it (R19). A denied
    name is left out of what is inherited and of `extra`; `doctor` prints the names of what is left, never the values
    (R75, S72, L52).
    """
    inherited = {name: value for name, value in environ.items() if _is_allowed(name) or name in allow}
    return _permitted(inherited) | dict(seat or {}) | _permitted(extra or {}) | _git_settings(worktree, committer)


def _permitted(given: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in given.items() if not is_denied(name)}


def _git_settings(worktree: Path, committer: tuple[str, str] | None) -> dict[str, str]:
    """Git's configuration by environment, which outranks every file, and which gemini leaves to its tools."""
    settings = [_NO_CREDENTIALS, ("safe.directory", str(worktree))]
    if committer is not None:
        settings += [("user.name", committer[0]), ("user.email", committer[1])]
    keys = {f"GIT_CONFIG_KEY_{n}": key for n, (key, _) in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{n}": value for n, (_, value) in enumerate(settings)}
    return {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_COUNT": str(len(settings)), **keys, **values}


def check_environment(
    environ: Mapping[str, str], worktree: Path, *, seat: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of setup commands and checks: the agent's without what only the agent may have (L35)."""
    return agent_environment(environ, worktree, seat=seat)


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """Values of names that hold secrets, longest first, to be masked in whatever leaves the machine (R74).

    These are more names than the denied ones: an agent's own key is given to the agent and shown to nobody.
    """
    values = {value for name, value in environ.items() if _SECRET.fullmatch(name) and len(value) >= _SECRET_MIN}
    return sorted(values, key=lambda value: (-len(value), value))
