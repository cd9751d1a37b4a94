"""The terminal-event envelope: the one structured comment that an attempt leaves on its issue.

    Envelope ── normalise ──▶ Envelope ── render ──▶ comment ── parse_thread ──▶ Envelope
    (what happened)           (harmless, short)                                 (the same again)

`envelope_model` has the values, `envelope_sections` the body of each section and which status shows it,
`envelope_frame` what stands around them, `envelope_normal` and `envelope_fit` what is done to foreign text before it
leaves.

Source: AFK wire formats, Terminal-Event Envelope.
"""

from __future__ import annotations

from collections.abc import Sequence

from afk.domain.outcome import EnvelopeStatus
from afk.wire import envelope_frame as frame
from afk.wire.envelope_fit import BOUND
from afk.wire.envelope_model import (
    CheckLine,
    DiffStat,
    Discarded,
    Envelope,
    EnvelopeError,
    Found,
    Hook,
    Malformed,
    Parsed,
)
from afk.wire.envelope_normal import LOG_LINES, normalised

__all__ = [
    "BOUND",
    "LOG_LINES",
    "CheckLine",
    "DiffStat",
    "Discarded",
    "Envelope",
    "EnvelopeError",
    "EnvelopeStatus",
    "Found",
    "Hook",
    "Malformed",
    "Parsed",
    "is_envelope",
    "normalise",
    "parse",
    "parse_thread",
    "render",
]


def render(envelope: Envelope, *, secrets: Sequence[str] = (), hosts: Sequence[str] = ()) -> str:
    """The comment, ending in LF, at most 60,000 characters; the same values give the same bytes.

    `secrets` are masked wherever they stand, `hosts` are those on which an issue's address would be a reference.
    """
    return frame.write(normalised(envelope, secrets, hosts))


def normalise(envelope: Envelope, *, secrets: Sequence[str] = (), hosts: Sequence[str] = ()) -> Envelope:
    """The envelope as its reader will see it: masked, defused, cut, and without what its status does not show.

    `parse(render(x)) == normalise(x)` for every x, and normalising twice changes nothing more.
    """
    return normalised(envelope, secrets, hosts)


def parse_thread(text: str) -> Parsed:
    """Every envelope in a comment or a thread, and what began like one and cannot be read; it never raises.

    What is read is whatever stands there: whether its author is to be believed is for the caller.
    """
    return frame.read_thread(text)


def parse(text: str) -> Envelope:
    """The envelope that the whole text is. Raises: EnvelopeError."""
    parsed = frame.read_thread(text)
    for broken in parsed.malformed:
        raise EnvelopeError(broken.code, broken.offset, broken.message)
    if len(parsed.envelopes) != 1 or parsed.ignored or not is_envelope(text):
        raise EnvelopeError("not-one-envelope", 0, "the text is not exactly one envelope")
    return parsed.envelopes[0].envelope


def is_envelope(body: str) -> bool:
    """Whether a comment is one of ours by its first bytes; prose around an envelope makes it a quotation."""
    return body.startswith(frame.OPENING)
