"""Submodules of a worktree, filled without a trace in the repository's own configuration (R12).

`git submodule init` would write into the configuration that the person's checkout shares, so each address is given to
`git submodule update` for the one call. A worktree's submodules live with it and go with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from afk.adapters.git import common_dir
from afk.adapters.gitrun import run, run_remote
from afk.errors import GitError

__all__ = ["Link", "fill", "links", "resolve_url"]

_UPDATE_S = 900.0  # each; a large history over a slow line
_DEEPEST = 8  # a submodule that contains itself must end somewhere
_LINK_MODE = "160000"


@dataclass(frozen=True, slots=True)
class Link:
    """A place in a tree where another repository belongs, and the commit of it."""

    path: str
    sha: str


def links(repo: Path, rev: str, *, inside: str = ".") -> list[Link]:
    """Of a commit's tree in the repository at `inside`; nested ones are left out, as they are in other repositories."""
    entries = run(repo, "-C", inside, "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", rev).stdout.split("\0")
    found = [entry.partition("\t") for entry in entries if entry.startswith(_LINK_MODE)]
    return [Link(path, meta.split()[2]) for meta, _, path in found]


def fill(worktree: Path, url: str, *, shared: bool) -> None:
    """Check out every submodule of HEAD, nested ones included; `url` is the repository's own, for relative addresses.

    `shared` takes objects that the person's checkout has already instead of fetching them again. Raises `GitError`
    and what `run_remote` raises.
    """
    if links(worktree, "HEAD"):
        _fill(worktree, ".", url, common_dir(worktree) / "modules" if shared else None, 1)


def _fill(worktree: Path, inside: str, url: str, store: Path | None, depth: int) -> None:
    if depth > _DEEPEST:
        raise GitError(f"submodules are nested more than {_DEEPEST} deep below {inside}", hint="git submodule status")
    for declared in _declared(worktree, inside):
        address = resolve_url(declared.url, url)
        kept = None if store is None else store / declared.name
        reference = ("--reference", str(kept)) if kept is not None and kept.is_dir() else ()
        run_remote(
            worktree,
            address,
            *("-C", inside, "-c", f"submodule.{declared.name}.url={address}"),
            *("submodule", "--quiet", "update", "--checkout", *reference, "--", declared.path),
            timeout_s=_UPDATE_S,
        )
        _fill(worktree, f"{inside}/{declared.path}", address, None if kept is None else kept / "modules", depth + 1)


@dataclass(frozen=True, slots=True)
class _Declared:
    name: str
    path: str
    url: str


def _declared(worktree: Path, inside: str) -> Iterator[_Declared]:
    """What `.gitmodules` says of the places that HEAD really has."""
    read = ("config", "--file", ".gitmodules", "--null", "--get-regexp", r"^submodule\.")
    asked = run(worktree, "-C", inside, *read, check=False)
    values = dict(entry.partition("\n")[::2] for entry in asked.stdout.split("\0") if entry)
    places = {link.path for link in links(worktree, "HEAD", inside=inside)}
    for key, path in values.items():
        if not key.endswith(".path") or path not in places:
            continue
        name = key.removeprefix("submodule.").removesuffix(".path")
        url = values.get(f"submodule.{name}.url", "")
        if not url or "=" in name:  # `-c KEY=VALUE` cannot carry such a name
            raise GitError(f"the submodule {name} has no address that can be used", hint="cat .gitmodules")
        yield _Declared(name, path, url)


def resolve_url(url: str, parent: str) -> str:
    """An address as `.gitmodules` has it, relative ones (`../lib.git`) seen from the repository `parent`.

    Source: git-submodule(1), `add`.
    """
    if not url.startswith(("./", "../")):
        return url
    base = parent.rstrip("/")
    separator = "/"
    while url.startswith(("./", "../")):
        if url.startswith("../"):
            separator = "/" if "/" in base else ":"  # HOST:REPOSITORY has no other parent than HOST:
            base = base.rpartition(separator)[0]
            url = url[3:]
        else:
            url = url[2:]
    return f"{base}{separator}{url}"
