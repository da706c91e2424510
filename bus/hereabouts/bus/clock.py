"""Redis's clock, estimated from its own answers: every process on a bus measures deadlines on the same one."""

import time
from collections import deque

_SAMPLES = 8
"""The best of the last eight heartbeats: one slow answer does not move the clock."""

_STEP_MS = 50.0
"""A new answer that contradicts the estimate by more than this (and its own uncertainty) means that a clock was set."""


class Clock:
    """Pure: local monotonic milliseconds go in with each answer; the estimate comes out."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES)
        self._offset_ms = time.time() * 1000 - local_ms()

    def observe(self, redis_ms: float, asked_ms: float, answered_ms: float) -> None:
        """One TIME reply: Redis's milliseconds, and the local ones before and after."""
        uncertainty = (answered_ms - asked_ms) / 2
        offset = redis_ms - (asked_ms + answered_ms) / 2
        if self._samples and abs(offset - self._offset_ms) > uncertainty + min(self._samples)[0] + _STEP_MS:
            self._samples.clear()
        self._samples.append((uncertainty, offset))
        self._offset_ms = min(self._samples)[1]

    def observe_entry(self, entry_ms: int, now_local_ms: float) -> None:
        """An entry that was just read: Redis's clock cannot be behind what it stamped."""
        self._offset_ms = max(self._offset_ms, entry_ms - now_local_ms)

    def at(self, now_local_ms: float) -> int:
        """Redis's milliseconds since the epoch at a local time."""
        return int(now_local_ms + self._offset_ms)

    def now_ms(self) -> int:
        """Redis's milliseconds since the epoch, now."""
        return self.at(local_ms())


def local_ms() -> float:
    """Local milliseconds that never go back."""
    return time.monotonic() * 1000


def time_reply_ms(reply: list[bytes]) -> float:
    """Milliseconds of a TIME reply (seconds and microseconds)."""
    return int(reply[0]) * 1000 + int(reply[1]) / 1000
