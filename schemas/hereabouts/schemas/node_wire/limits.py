"""Limits, close codes and the clamp of the node dialect (OpenClaw Gateway protocol, versions 3 and 4)."""

from enum import IntEnum

PROTOCOL_VERSION = 4
"""What we speak."""

MIN_PROTOCOL_VERSION = 3
"""The oldest version we accept; older nodes know no signed challenge."""

MAX_PREAUTH_FRAME_BYTES = 64 * 1024
"""Before authentication a stranger may not make us hold more (closed with 1009)."""

MAX_NODE_FRAME_BYTES = 25 * 1024 * 1024
"""After it; announced as policy.maxPayload. Unmodified nodes size their frames by it."""

MAX_NODE_BUFFERED_BYTES = 50 * 1024 * 1024
"""What may wait for a slow node before it is cut (1008); announced as policy.maxBufferedBytes."""

TICK_INTERVAL_MS = 30_000
"""The server sends `tick` at least this often. WebSocket pings do not count: some clients cannot see them."""

TICK_TIMEOUT_FACTOR = 2
"""A client closes with 4000 after this many tick intervals of silence."""

CHALLENGE_TIMEOUT_MS = 2_000
"""Android gives up when the server's challenge is not there by then."""

SIGNATURE_SKEW_MS = 120_000
"""How far `signedAt` may be from the server's clock, either way."""

PAIRING_REQUEST_TTL_MS = 300_000
"""A pairing request is forgotten this long after the device's last try."""

RETRY_AFTER_MIN_MS = 100
RETRY_AFTER_MAX_MS = 60_000
"""`retryAfterMs` from a server is honoured within these: neither a busy loop nor a node lost for the day."""

LOCATION_TIMEOUT_MS = 10_000
"""What a node has for a fix when the caller says nothing."""

LOCATION_TIMEOUT_MIN_MS = 1_000
LOCATION_TIMEOUT_MAX_MS = 60_000
"""The bounds of `timeoutMs`: no receiver finds a position faster, and no agent waits longer."""

LOCATION_MAX_AGE_MS = 15_000
"""The default for `maxAgeMs`. It is always sent: without it Android returns any cached fix."""

NODE_CLOCK_SKEW_MS = 5_000
"""Allowed on top of `maxAgeMs`, since a node's clock and ours are not the same."""


class CloseCode(IntEnum):
    """The WebSocket close codes of the dialect."""

    NORMAL = 1000
    """Also what a frame that is no JSON gets during the handshake."""
    PROTOCOL_MISMATCH = 1002
    POLICY_VIOLATION = 1008
    """A refused handshake, or a consumer that fell too far behind."""
    FRAME_TOO_BIG = 1009
    RESTARTING = 1012
    STARTING = 1013
    """Come back after retryAfterMs."""
    TICK_TIMEOUT = 4000
    AUTH_CHANGED = 4001


def clamp_location_timeout_ms(timeout_ms: float | None) -> int:
    """The time for a fix in milliseconds: the default for none, and always within 1,000 to 60,000.

    A number that is not finite counts as none.
    """
    if timeout_ms is None or timeout_ms != timeout_ms or timeout_ms in (float("inf"), float("-inf")):
        return LOCATION_TIMEOUT_MS
    return int(min(max(timeout_ms, LOCATION_TIMEOUT_MIN_MS), LOCATION_TIMEOUT_MAX_MS))
