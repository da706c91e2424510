"""When to try again, and when not to: decisions without a clock."""

import random
from collections.abc import Callable

from hereabouts.schemas import node_wire as wire

FIRST_DELAY_MS = 1_000
MAX_DELAY_MS = 30_000
"""As the reference client: from 1 s, doubling, to 30 s."""

PAIRING_MAX_DELAY_MS = 5_000
"""While an operator may be about to approve: people look at the screen they just clicked on."""

STABLE_MS = 10_000
"""Two nodes that run with one identity end each other's connection at once: they must slow down, not fight."""

FINAL = frozenset(
    {
        wire.DetailCode.PROTOCOL_MISMATCH,
        wire.DetailCode.AUTH_TOKEN_MISSING,
        wire.DetailCode.AUTH_TOKEN_MISMATCH,
        wire.DetailCode.DEVICE_IDENTITY_REQUIRED,
        wire.DetailCode.DEVICE_AUTH_INVALID,
        wire.DetailCode.DEVICE_AUTH_DEVICE_ID_MISMATCH,
        wire.DetailCode.DEVICE_AUTH_PUBLIC_KEY_INVALID,
        wire.DetailCode.DEVICE_AUTH_SIGNATURE_INVALID,
    }
)
"""Refusals that the same settings would meet again."""


def is_final(error: wire.Error) -> bool:
    """Whether trying again with the same settings is pointless."""
    return error.detail_code in FINAL and error.retryable is not True


def is_pairing(error: wire.Error) -> bool:
    """Whether the gateway waits for an operator to let this device in."""
    return error.detail_code == wire.DetailCode.PAIRING_REQUIRED


def pairing_request_id(error: wire.Error) -> str | None:
    """The id that an operator approves."""
    request_id = error.details.get("requestId") if isinstance(error.details, dict) else None
    return request_id if isinstance(request_id, str) else None


class Backoff:
    """Delays in milliseconds between tries, doubling and jittered so that a restarted gateway is not stampeded."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self._tries = 0

    def stood(self, lasted_ms: float) -> None:
        """A connection was let in and lasted so long; if that was a while, the next delay is the first again."""
        if lasted_ms >= STABLE_MS:
            self._tries = 0

    def next_ms(self, error: wire.Error | None = None) -> float:
        """The delay before the next try. A `retryAfterMs` from the gateway is the least that it will be."""
        cap = PAIRING_MAX_DELAY_MS if error is not None and is_pairing(error) else MAX_DELAY_MS
        delay = float(min(cap, FIRST_DELAY_MS << min(self._tries, 16)))
        self._tries += 1
        jittered = delay * (0.5 + 0.5 * self._jitter())
        if error is None or error.retry_after_ms is None:
            return jittered
        asked = min(max(error.retry_after_ms, wire.RETRY_AFTER_MIN_MS), wire.RETRY_AFTER_MAX_MS)
        return asked * (1 + 0.1 * self._jitter())
