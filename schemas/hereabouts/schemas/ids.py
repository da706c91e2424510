"""Identifiers: UUIDv7 for what is created in time, so that its own text says when (RFC 9562, section 5.7)."""

import re
import secrets
from random import getrandbits

import uuid_utils

CORRELATION_ID_PATTERN = r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"

_CORRELATION_ID = re.compile(CORRELATION_ID_PATTERN[1:-1])


def new_correlation_id() -> str:
    """A UUIDv7 in its canonical text: 48 bits of time, 74 bits that nobody can guess."""
    return str(uuid_utils.uuid7())


def time_of(correlation_id: str) -> int:
    """The milliseconds since the epoch that a UUIDv7 carries.

    Raises:
        ValueError: the text is no UUIDv7.
    """
    if _CORRELATION_ID.fullmatch(correlation_id) is None:
        raise ValueError("not a UUIDv7")
    return int(correlation_id[:8] + correlation_id[9:13], 16)


def is_correlation_id(text: str) -> bool:
    """Whether a text from outside has the form of our correlation ids."""
    try:
        time_of(text)
    except (ValueError, TypeError):
        return False
    return True


def new_id(prefix: str) -> str:
    """A short readable id such as ``s_9f…``: 128 bits, URL-safe, for sessions, connections and instances."""
    return f"{prefix}_{secrets.token_hex(16)}"


def new_trace_id() -> str:
    """32 hex digits, never all zero (W3C Trace Context)."""
    # Needs to be unique, not unguessable: OpenTelemetry's own generator does the same, and no system call is made.
    return f"{getrandbits(128) or 1:032x}"


def new_span_id() -> str:
    """16 hex digits, never all zero (W3C Trace Context)."""
    return f"{getrandbits(64) or 1:016x}"
