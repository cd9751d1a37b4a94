"""What went wrong with an agent's service, in the words that all services share; and when a limit ends.

Read from structured fields and from sentences of the program itself or of its service, which stand at the beginning of
what its error channel says. What the model writes never comes here (R53, R55).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from afk.ports import EventKind

__all__ = ["cause", "told_reset"]

# Types, codes and states that services give their errors. A bare number is none of them.
_CODES = {
    **dict.fromkeys(
        (
            *("insufficient_quota", "usage_limit_reached", "usage_not_included", "billing_hard_limit_reached"),
            *("billing_not_active", "billing_error", "credit_balance_too_low", "quota_exceeded", "payment_required"),
        ),
        EventKind.LIMIT,
    ),
    **dict.fromkeys(
        (
            *("rate_limit_exceeded", "rate_limit_error", "rate_limit", "overloaded_error", "overloaded"),
            *("server_error", "api_error", "timeout_error", "connection_failed", "server_is_overloaded", "slow_down"),
            *("unavailable", "internal", "deadline_exceeded", "resource_exhausted", "aborted"),
        ),
        EventKind.TRANSIENT,
    ),
    **dict.fromkeys(
        (
            *("authentication_error", "authentication_failed", "invalid_api_key", "permission_error"),
            *("oauth_org_not_allowed", "model_not_found", "not_found_error", "unauthenticated", "permission_denied"),
            *("not_found", "account_deactivated", "unsupported_country_region_territory"),
        ),
        EventKind.REFUSED,
    ),
    **dict.fromkeys(
        (
            *("context_length_exceeded", "request_too_large", "prompt_too_long", "string_above_max_length"),
            *("invalid_request_error", "invalid_request", "invalid_argument", "invalid_prompt", "content_filter"),
            *("content_policy_violation", "cyber_policy", "failed_precondition"),
        ),
        EventKind.UNFIT,
    ),
}

_STATUSES = {
    402: EventKind.LIMIT,
    408: EventKind.TRANSIENT,
    409: EventKind.TRANSIENT,
    429: EventKind.TRANSIENT,
    401: EventKind.REFUSED,
    403: EventKind.REFUSED,
    404: EventKind.REFUSED,
    400: EventKind.UNFIT,
    413: EventKind.UNFIT,
    422: EventKind.UNFIT,
}

# A quota travels under the same status and type as a rate, and only the sentence tells them apart; so do bad keys and
# too long prompts under 400.
_SENTENCES = (
    (
        re.compile(
            r"(you exceeded your current quota|quota exceeded|the usage limit has been reached|usage limit reached"
            r"|you.ve hit your (usage |session |weekly |\w+ )?limit|you have reached your specified api usage limits"
            r"|claude (ai )?usage limit reached|(5-hour|weekly|session) limit reached|credit balance is too low"
            r"|your credit balance is too low|insufficient (credits|balance|quota)|you.re out of (extra usage|credits)"
            r"|you have exhausted your (capacity|daily quota|quota)|out of credits|billing (hard )?limit)",
            re.IGNORECASE,
        ),
        EventKind.LIMIT,
    ),
    (
        re.compile(
            r"(invalid api key|api key not valid|incorrect api key|not logged in|please run /login"
            r"|failed to authenticate|login required|your (access )?token (could not|has expired)"
            r"|oauth token (has )?(expired|revoked)"
            r"|missing bearer|the model .{1,80} does not exist|model not found|unknown model|invalid model)",
            re.IGNORECASE,
        ),
        EventKind.REFUSED,
    ),
    (
        re.compile(
            r"(prompt is too long|input is too long|context (length|window) exceeded|request too large"
            r"|your input exceeds the context window|the input token count .{0,40}exceeds"
            r"|codex ran out of room in the model.s context window)",
            re.IGNORECASE,
        ),
        EventKind.UNFIT,
    ),
)


def cause(*, status: object = None, codes: tuple[object, ...] = (), message: str = "") -> EventKind | None:
    """LIMIT, TRANSIENT, REFUSED, UNFIT, or None where nothing known is said.

    Strongest first: a code that names a quota, the beginning of `message`, the other codes, the HTTP status.
    """
    named = [_CODES[code.lower()] for code in codes if isinstance(code, str) and code.lower() in _CODES]
    if EventKind.LIMIT in named:
        return EventKind.LIMIT
    server_failed = isinstance(status, int) and status >= 500
    if not server_failed and (said := _by_sentence(message)):
        return said
    by_status = EventKind.TRANSIENT if server_failed and not isinstance(status, bool) else _by_status(status)
    # `invalid_request_error` is also how some services name a bad key: there the status is the better witness.
    if by_status is EventKind.REFUSED:
        return by_status
    return named[0] if named else by_status


def _by_sentence(message: str) -> EventKind | None:
    return next((kind for pattern, kind in _SENTENCES if pattern.match(message)), None)


def _by_status(status: object) -> EventKind | None:
    return _STATUSES.get(status) if isinstance(status, int) and not isinstance(status, bool) else None


# ── When a limit ends ───────────────────────────────────────────────────────────────────────────────────────────────

_WAIT_MAX = timedelta(days=32)  # a month's quota; a time further off is a misreading
_EPOCH = re.compile(r"limit reached\|(\d{10})\b")
_DATE = re.compile(r"\b(\d{4}-\d\d-\d\d)(?:T| at | )(\d\d:\d\d(?::\d\d)?) ?(Z|UTC)\b")
_SPAN = re.compile(
    r"(?:try again|retry|resets?) in ((?:\d+(?:\.\d+)? ?[dhms][a-z]*,?(?: and)? ?)+)",
    re.IGNORECASE,
)
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?) ?([dhms])", re.IGNORECASE)
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = re.compile(
    r"(?:[Tt]ry again at|[Rr]esets(?: at)?) "
    r"(?:(?P<month>[A-Z][a-z]{2})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:, (?P<year>\d{4}))?(?:,| at)? )?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[AaPp])\.?[Mm]\.?"
    r"(?: \((?P<zone>[A-Za-z]+(?:[/_+-][A-Za-z0-9_+-]+)*)\))?"
)


def told_reset(message: str, now: datetime) -> datetime | None:
    """When the limit that this sentence names is over; None where it does not say, or nothing that can be meant.

    `now` is aware; a time of day without a zone is read in its zone.
    """
    try:
        found = _reset(message, now)
    except (ValueError, OverflowError, LookupError, OSError):  # no such day, or no such zone on this machine
        return None
    return found if found is not None and now < found <= now + _WAIT_MAX else None


def _reset(message: str, now: datetime) -> datetime | None:
    if epoch := _EPOCH.search(message):
        return datetime.fromtimestamp(int(epoch[1]), UTC)
    if date := _DATE.search(message):
        return datetime.fromisoformat(f"{date[1]}T{date[2]}+00:00")
    if span := _SPAN.search(message):
        parts = _SPAN_PART.findall(span[1])
        return now + timedelta(seconds=sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))
    clock = _CLOCK.search(message)
    return _next_time(clock, now) if clock else None


def _next_time(clock: re.Match[str], now: datetime) -> datetime:
    """The next moment at which a clock in the told zone shows that; on the told day where there is one.

    Without a day, one that is not long past is past, not tomorrow's: the sentence may be read again much later.
    """
    here = now.astimezone(ZoneInfo(clock["zone"])) if clock["zone"] else now
    hour = int(clock["hour"]) % 12 + (12 if clock["half"].lower() == "p" else 0)
    meant = here.replace(hour=hour, minute=int(clock["minute"] or 0), second=0, microsecond=0)
    if clock["month"] is None:
        return meant if here - meant < timedelta(hours=12) else meant + timedelta(days=1)
    month = _MONTHS.index(clock["month"].lower()) + 1
    meant = meant.replace(year=int(clock["year"] or here.year), month=month, day=int(clock["day"]))
    return meant if clock["year"] or meant > here else meant.replace(year=here.year + 1)
