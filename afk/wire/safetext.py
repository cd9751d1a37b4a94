"""Foreign text made harmless: no secret leaves with it, and it moves nothing where it is shown.

An agent's notes, a log, an issue's title end up in comments and commit messages, where a server acts on what it finds:
it notifies whoever is named with an `@`, links and closes what stands behind a `#`, and takes HTML at its word. Each
function here may be applied twice with the result of once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "MASK",
    "SHORTEST_SECRET",
    "TITLE_MAX",
    "TOKEN",
    "clean",
    "defuse",
    "defuse_code",
    "defuse_line",
    "fence_for",
    "mask",
    "one_line",
    "title",
]

MASK = "***"
SHORTEST_SECRET = 8  # shorter values (`true`, `1`) stand in too many honest texts
TITLE_MAX = 200

_BREAK = "\u200b"  # zero-width space: nothing to see, and no server reads across it


# ── Secrets ─────────────────────────────────────────────────────────────────────────────────────────────────────────

# Each shape has a prefix of its own: a bare run of hex or base64 may be a commit, a hash or a fixture, and stays.
TOKEN = re.compile(
    r"""
    (?<![A-Za-z0-9_+])(?:
        gh[pousr]_[A-Za-z0-9_]{20,}(?:\.[A-Za-z0-9_-]{10,})*               # GitHub
      | gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{18,}[A-Za-z0-9_-]   # GitLab
      | sk-ant-[A-Za-z0-9_-]{20,}                                          # Anthropic
        # OpenAI and those who copied it; upper case and a digit tell a key from `sk-learn-for-everyone`
      | sk-(?=[A-Za-z0-9_-]{0,60}?[0-9])(?=[A-Za-z0-9_-]{0,60}?[A-Z])[A-Za-z0-9_-]{20,}
      | sk-(?:or-v1-)?[0-9a-f]{32,}
      | AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])                             # Google
      | ya29\.[A-Za-z0-9_-]{20,}
      | GOCSPX-[A-Za-z0-9_-]{20,}
      | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9_/+=])             # AWS
      | xox[abeoprs]-[A-Za-z0-9-]{10,}                                     # Slack
      | xapp-[0-9]-[A-Za-z0-9-]{20,}
      | pypi-AgE[A-Za-z0-9_-]{50,}                                         # PyPI
      | (?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}                           # Stripe
      | whsec_[A-Za-z0-9+/]{32,}=*
      | (?<!-)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}    # a signed JSON web token
    )
    # No word holds these, so they are known even where something is glued to them (`curl -ughp_…`).
    | gh[pousr]_[A-Za-z0-9]{36,} | github_pat_[A-Za-z0-9_]{20,} | glpat-[A-Za-z0-9_-]{20,} | npm_[A-Za-z0-9]{36,}
    """,
    re.VERBOSE,
)
# What is secret because of the words before it; only the group after them goes.
_NAMED = re.compile(
    r"""
    ( (?i:\b(?:proxy-)?authorization["']?[ \t]{0,8}[:=][ \t]{0,8}["']?(?:basic|bearer|token)[ \t]{1,8})
    | (?i:\b(?:private-token|x-api-key|x-goog-api-key)["']?[ \t]{0,8}[:=][ \t]{0,8}["']?)
    | (?i:\baws_secret_access_key["']?[ \t]{0,8}[:=][ \t]{0,8}["']?)
    | :_(?:authToken|auth|password)[ \t]{0,8}=[ \t]{0,8}["']?
    | hooks\.slack\.com/(?:services|workflows|triggers)/
    )
    [A-Za-z0-9._~+/=-]{8,}
    """,
    re.VERBOSE,
)
# `https://TOKEN@host` is how tools pass a token; in `ssh://git@host` it is only a login name.
_LOGIN = re.compile(
    r"((?i:https?)://)[^\s/?#\"'<>]+@|([A-Za-z][A-Za-z0-9+.-]{0,30}://)[^\s/?#@:\"'<>]*:[^\s/?#\"'<>]+@"
)
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\s{0,8}[A-Za-z0-9+/=]{16,})*+)"  # its end was cut off
)
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_LINE = re.compile(r"[ \t]*[A-Za-z0-9+/=]{16,}[ \t\r]*\Z")


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`***` for what has the shape of a well-known token, key or login, and for each of `secrets` wherever it stands.

    Secrets under 8 characters are not looked for. Of a secret over several lines each long line is masked by itself,
    because logs lose their head. Commits, UUIDs and hashes stay readable.
    """
    values = sorted(set(_values(secrets)), key=lambda value: (-len(value), value))
    # What is left after a pass may be one of the secrets: one that was masked in part when it was stored.
    while (masked := _mask_once(text, values)) != text:
        text = masked
    return text


def _values(secrets: Iterable[str]) -> Iterator[str]:
    for secret in secrets:
        for value in (secret, secret.strip(), *(line.strip() for line in secret.split("\n"))):
            if len(value) >= SHORTEST_SECRET:
                yield value


def _mask_once(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    if "PRIVATE KEY" in text:
        text = _mask_key_tails(_KEY_BLOCK.sub(MASK, text))
    text = _LOGIN.sub(lambda found: f"{found[1] or found[2]}{MASK}@", text)
    return TOKEN.sub(MASK, _NAMED.sub(rf"\1{MASK}", text))


def _mask_key_tails(text: str) -> str:
    """A key whose beginning was cut off: the lines of base64 in front of its last line go with it."""
    parts: list[str] = []
    start = 0
    for end in _KEY_END.finditer(text):
        lines = text[start : end.start()].split("\n")
        keep = len(lines) - 1
        while keep and _KEY_LINE.match(lines[keep - 1]):
            keep -= 1
        parts += ["\n".join([*lines[:keep], lines[-1]]), MASK]
        start = end.end()
    return "".join([*parts, text[start:]])


# ── Bytes that are no text ──────────────────────────────────────────────────────────────────────────────────────────

_LINE_BREAK = re.compile("\r\n?|[\u2028\u2029]")
_ANSI = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"  # colours and the cursor
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"  # titles, links, devices
    "|\x1b[ -/]*[0-~]?"
)
# Control characters, and the marks that turn the direction of writing and make a line read otherwise than it is.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that can be encoded, shown and split at LF alone: CRLF, CR and Unicode's line separators become LF.

    ANSI sequences, control characters but tab and LF, and bidirectional marks are removed, lone surrogates replaced.
    """
    text = _ANSI.sub("", _LINE_BREAK.sub("\n", text))
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


# ── What a server acts on ───────────────────────────────────────────────────────────────────────────────────────────

# The server resolves entities before it looks for mentions: `&#64;team` and `GH&#45;1` are as good as the plain text.
_ENTITY = re.compile(r"&(?=#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};|(?:commat|num|sol|colon|period|lowbar);)")
_SIGN = re.compile(r"([@#])(?=[^\W_])")
_GH = re.compile(r"(?<![^\W_])(gh-)(?=[0-9])", re.IGNORECASE)
_OUR_TAGS = re.compile(r"<(?=[ \t]*/?[ \t]*(?:details|summary)|[ \t]*!--)", re.IGNORECASE)
# Any other tag: an open table or a half-written attribute swallows what follows. `<https://…>` is only a link.
_TAG = re.compile(r"<(?=[A-Za-z/!?])(?![A-Za-z][A-Za-z0-9+.-]{1,31}:)")
_LONG_FENCE = re.compile(r"(`{80})`+|(~{80})~+")
_FENCE_LINE = re.compile(r"^( {0,3})(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)


def defuse(text: str, hosts: Sequence[str] = ()) -> str:
    """Text for a raw section of a comment: cleaned, and nothing in it is a tag, a mention or a reference any more.

    The `<` of `<details`, `<summary` and `<!--` becomes `&lt;`, that of any other tag gets a zero-width space behind
    it, like each `@` and `#` before a letter or digit, `GH-1`, and issue addresses on `hosts` (`github.com`). A code
    fence left open is closed, or it would swallow what follows the section.
    """
    text = _LONG_FENCE.sub(r"\1\2", clean(text))
    return _with_fence_closed(_without_tags(_without_references(text, hosts)))


def defuse_line(text: str, limit: int, hosts: Sequence[str] = ()) -> str:
    """As `defuse`, for a single line: white space folded, at most `limit` characters, cut with `…`."""
    return one_line(_without_tags(_without_references(_folded(text), hosts)), limit)


def defuse_code(text: str, hosts: Sequence[str] = ()) -> str:
    """As `defuse`, for text shown inside a fence, where an entity would be read letter by letter."""
    return _OUR_TAGS.sub(f"<{_BREAK}", _without_references(clean(text), hosts))


def title(text: str) -> str:
    """One line of at most 200 characters for the title of a commit, which no server acts on (R83).

    An issue called `[skip ci]` must not switch off the checks of the commit that lands it.
    """
    return defuse_line(_SKIP_CI.sub(f"[{_BREAK}", _folded(text)), TITLE_MAX)


_SKIP_CI = re.compile(r"\[(?=(?:skip|no)[ -]?(?:ci|actions)\]|(?:ci|actions)[ -]?skip\])", re.IGNORECASE)


def _without_tags(text: str) -> str:
    return _TAG.sub(f"<{_BREAK}", _OUR_TAGS.sub("&lt;", text))


def _without_references(text: str, hosts: Sequence[str]) -> str:
    text = _ENTITY.sub(f"&{_BREAK}", text)
    for host in hosts:
        text = _issue_address(host).sub(rf"\g<0>{_BREAK}", text)
    return _GH.sub(rf"\1{_BREAK}", _SIGN.sub(rf"\1{_BREAK}", text))


def _issue_address(host: str) -> re.Pattern[str]:
    """The part of an issue's address before its number, on GitHub, Gitea and GitLab."""
    return re.compile(
        rf"(?<![\w-]){re.escape(host)}(?::[0-9]{{1,5}})?(?:/[^\s/{_BREAK}]{{0,100}}){{1,8}}?"
        r"/(?:issues|pulls?|discussions|merge_requests|work_items)/(?=[0-9%])",
        re.IGNORECASE,
    )


def _with_fence_closed(text: str) -> str:
    """A fence that stands in a list or a quotation ends with it; only one at the margin reaches to the end."""
    opened = ""
    for indent, fence, rest in _FENCE_LINE.findall(text):
        if not opened:
            opened = fence if not indent and not (fence[0] == "`" and "`" in rest) else ""
        elif fence.startswith(opened) and not rest.strip(" \t"):
            opened = ""
    return f"{text}\n{opened}" if opened else text


def fence_for(text: str) -> str:
    """A line of backticks, three at least, that no run of backticks in `text` can close (R65)."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


def one_line(text: str, limit: int) -> str:
    """At most `limit` characters (at least one) on one line: cleaned, white space folded, cut with `…`."""
    folded = _folded(text)
    return folded if len(folded) <= limit else folded[: limit - 1].rstrip() + "…"


def _folded(text: str) -> str:
    return " ".join(clean(text).split())
