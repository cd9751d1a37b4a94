"""Secrets out of values, addresses, prose and command lines, before anything leaves the program.

The plain rules are those of AFDATA v1: a field whose name says secret, the credentials inside an address, the value of
a secret flag. What `afk` itself speaks with (`surface_rules`) also reads prose, where git and HTTP servers put tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from afk.wire.json_value import JsonValue
from afk.wire.safetext import TOKEN

__all__ = [
    "MARKER",
    "PLAIN",
    "Policy",
    "Rules",
    "mask_text",
    "redact",
    "redact_argv",
    "redact_url",
    "redact_urls_in_text",
    "surface_rules",
]

MARKER = "***"
SHORTEST_SECRET = 8  # shorter values (`true`, `1`) stand in too many honest texts


class Policy(StrEnum):
    """Which part of an event is looked at; text, argv and single addresses have no `trace`, so TRACE_ONLY means ALL."""

    ALL = "All"
    TRACE_ONLY = "TraceOnly"
    OFF = "Off"


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as secret beside the `_secret` and `_url` endings.

    `secret_names` and `url_names` match whole names, to the letter. `thorough` goes beyond the protocol: every text is
    read as prose (`mask_text`), a list under `argv` as a command line, and a name such as `GITHUB_TOKEN` is secret.
    `known` are secrets by their value, masked wherever they stand.
    """

    policy: Policy = Policy.ALL
    secret_names: frozenset[str] = frozenset()
    url_names: frozenset[str] = frozenset()
    thorough: bool = False
    known: tuple[str, ...] = ()

    def is_secret(self, name: str) -> bool:
        if name.endswith(("_secret", "_SECRET")) or name in self.secret_names:
            return True
        return self.thorough and bool(_SECRET_NAME.search(name))

    def is_url(self, name: str) -> bool:
        return name.endswith(("_url", "_URL")) or name in self.url_names


PLAIN = Rules()


def surface_rules(env: Mapping[str, str]) -> Rules:
    """The rules for everything that `afk` shows or sends, with the secrets of this environment masked by value."""
    secrets = {value for name, value in env.items() if len(value) >= SHORTEST_SECRET and _SECRET_NAME.search(name)}
    return Rules(thorough=True, known=tuple(sorted(secrets, key=len, reverse=True)))


def redact(value: JsonValue, rules: Rules = PLAIN) -> JsonValue:
    """A copy without secrets. None stays None: a secret that is not set is no secret.

    Source: AFDATA v1, decision record ("normal recursive AFDATA redaction"); fixtures `redact*.json`.
    """
    if rules.policy is Policy.OFF:
        return value
    if rules.policy is Policy.TRACE_ONLY:
        if not isinstance(value, dict) or "trace" not in value:
            return value
        return value | {"trace": redact(value["trace"], replace(rules, policy=Policy.ALL))}
    return _redact(value, rules)


def redact_url(text: str, rules: Rules = PLAIN) -> str:
    """Masks inside one address with a scheme; any other text comes back as it is."""
    if rules.policy is Policy.OFF or not _SINGLE_URL.match(text):
        return text
    return _mask_url(text, rules)


def redact_urls_in_text(text: str, rules: Rules = PLAIN) -> str:
    """Masks inside every address in prose; the words around them are never touched."""
    if rules.policy is Policy.OFF or "://" not in text:
        return text
    return _URL_IN_TEXT.sub(lambda found: found[1] + _mask_span(found[2], rules), text)


def redact_argv(args: Sequence[str], rules: Rules = PLAIN) -> list[str]:
    """Masks `--x-secret=V` and `--x-secret V`; a secret flag without a value stays readable, other words unread."""
    if rules.policy is Policy.OFF:
        return list(args)
    masked: list[str] = []
    value_is_secret = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        secret = _is_secret_flag(name, rules)
        if value_is_secret and not arg.startswith("-"):
            masked.append(MARKER)
        else:
            masked.append(f"{name}={MARKER}" if secret and equals else arg)
        value_is_secret = secret and not equals
    return masked


def mask_text(text: str, rules: Rules) -> str:
    """Prose as it may be shown: no known secret, no credentials in addresses, no token of a well-known shape, no
    authorization header. Only `rules.policy` off leaves it as it is."""
    if rules.policy is Policy.OFF:
        return text
    for secret in rules.known:
        text = text.replace(secret, MARKER)
    text = redact_urls_in_text(text, replace(rules, thorough=True))
    text = _HEADER.sub(rf"\1{MARKER}", text)
    return TOKEN.sub(MARKER, text)


def _redact(value: JsonValue, rules: Rules) -> JsonValue:
    if isinstance(value, dict):
        return {name: _redact_field(name, item, rules) for name, item in value.items()}
    if isinstance(value, list):
        return [_redact(item, rules) for item in value]
    if isinstance(value, str) and rules.thorough:
        return mask_text(value, rules)
    return value


def _redact_field(name: str, value: JsonValue, rules: Rules) -> JsonValue:
    if rules.is_secret(name):
        return None if value is None else MARKER
    if rules.is_url(name):
        return _redact_urls(value, rules)
    if rules.thorough and name == "argv" and isinstance(value, list):
        words = redact_argv([item if isinstance(item, str) else str(item) for item in value], rules)
        return [mask_text(word, rules) for word in words]
    return _redact(value, rules)


def _redact_urls(value: JsonValue, rules: Rules) -> JsonValue:
    """Everything below a name that says `url` is one."""
    if isinstance(value, str):
        return _redact_url_field(value, rules)
    if isinstance(value, list):
        return [_redact_urls(item, rules) for item in value]
    if isinstance(value, dict):
        return {
            name: _redact_field(name, item, rules) if rules.is_secret(name) else _redact_urls(item, rules)
            for name, item in value.items()
        }
    return value


def _redact_url_field(text: str, rules: Rules) -> str:
    """An address that cannot be taken apart, but looks as if it held a credential, is masked whole."""
    if rules.thorough:
        text = mask_text(text, rules)
    trimmed = text.strip(_SPACES)
    if _SINGLE_URL.match(trimmed):  # spaces around an address are dropped, as the fixtures have it
        return _mask_url(trimmed, rules)
    if "@" in text or "://" in text or any(space in text for space in _SPACES):
        return MARKER
    return text


def _mask_span(span: str, rules: Rules) -> str:
    url = span.rstrip(_CLOSING)
    if url.endswith("://"):
        return span
    return _mask_url(url, rules) + span[len(url) :]


def _mask_url(url: str, rules: Rules) -> str:
    """Only secret spans change; every other byte of the address is kept."""
    if rules.thorough:
        url = _mask_inner_credentials(url)
    scheme, _, rest = url.partition("://")
    authority = _AUTHORITY.match(rest)[0]  # type: ignore[index]  # an empty authority matches too
    before_fragment, hash_sign, fragment = rest[len(authority) :].partition("#")
    path, question_mark, query = before_fragment.partition("?")
    return (
        f"{scheme}://{_mask_userinfo(authority)}{path}"
        f"{question_mark}{_mask_query(query, rules)}{hash_sign}{_mask_query(fragment, rules)}"
    )


def _mask_userinfo(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    return f"{user}:{MARKER}{at}{host}" if at and colon else authority


def _mask_query(query: str, rules: Rules) -> str:
    """Also used for a fragment: that is where an OAuth answer carries its token."""
    return "&".join(_mask_parameter(parameter, rules) for parameter in query.split("&"))


def _mask_parameter(parameter: str, rules: Rules) -> str:
    raw_name, equals, _ = parameter.partition("=")
    return f"{raw_name}={MARKER}" if equals and rules.is_secret(_form_decoded(raw_name)) else parameter


def _form_decoded(name: str) -> str:
    if "%" not in name and "+" not in name:
        return name
    from urllib.parse import unquote_plus  # 5 ms, and hardly ever needed

    return unquote_plus(name)


def _mask_inner_credentials(text: str) -> str:
    """User names that are tokens, and credentials of an address that sits inside another one's path or query."""
    return _USERINFO.sub(lambda found: found[1] + _masked_login(found[1], found[2], found[3]) + "@", text)


def _masked_login(scheme: str, user: str, password: str | None) -> str:
    if password is None:
        # `https://TOKEN@host` is how tools pass a token; in `ssh://git@host` it is only a login name.
        return MARKER if scheme.lower().startswith("http") or _looks_like_token(user) else user
    # Hosts take a token as the user name when the password is empty or this placeholder.
    is_token = password in (":", ":x-oauth-basic") or _looks_like_token(user)
    return f"{MARKER if is_token else user}:{MARKER}"


def _looks_like_token(user: str) -> bool:
    return bool(TOKEN.fullmatch(user)) or bool(_OPAQUE.fullmatch(user))


def _is_secret_flag(name: str, rules: Rules) -> bool:
    """`--api-key` and `--api_key` are the field `api_key`; only long flags have a name."""
    if not name.startswith("--"):
        return False
    return rules.is_secret(name[2:]) or rules.is_secret(name[2:].replace("-", "_"))


# What a reader takes for a space ends an address. The set is written out because `str.isspace` counts U+001C to U+001F,
# which the protocol keeps inside the address; cutting there would leave the rest of a secret readable.
_SPACES = (
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_DELIMITERS = "\"'<>`，。；！？）》】」』"
_CLOSING = ".,;!)]}，。；！）》】"
_SINGLE_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^ \t\n\r\f\v]*\Z")
# An address begins at the first letter of its run: in `2https://h` that is the `h`, in `word.https://h` the `w`.
_URL_IN_TEXT = re.compile(
    rf"(?<![A-Za-z0-9+.-])([0-9+.-]*)([A-Za-z][A-Za-z0-9+.-]*://[^{re.escape(_SPACES + _DELIMITERS)}]+)"
)
_AUTHORITY = re.compile(r"[^/?#]*")
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#@:]+)(:[^\s/?#@]*)?@")
_SECRET_NAME = re.compile(
    r"(?i)(?:\A|[_-])(?:token|passwd|password|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?"
    r"|authorization)\Z"
)
_OPAQUE = re.compile(r"(?=[^0-9]*[0-9])[A-Za-z0-9_-]{20,}")
_HEADER = re.compile(
    r"(?i)\b((?:authorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer|token)|bearer)\s+)[A-Za-z0-9._~+/=-]{8,}"
)
