"""One timer for all open calls: a heap of wishes and a single handle of the event loop."""

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush


def monotonic_ms() -> float:
    """The loop's clock, read now: `loop.time()` of uvloop is that of the turn's begin, and a turn may take a while."""
    return time.monotonic() * 1000


class Timers:
    """Wakes keys at times of `monotonic_ms`. A later wish for a key replaces its earlier one."""

    def __init__(self, on_due: Callable[[str], None]) -> None:
        self._on_due = on_due
        self._heap: list[tuple[float, str]] = []
        self._wished: dict[str, float] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._handle_ms = float("inf")

    def set(self, key: str, at_ms: float) -> None:
        """Wake this key then."""
        self._wished[key] = at_ms
        heappush(self._heap, (at_ms, key))
        if at_ms < self._handle_ms:
            self._arm()

    def drop(self, key: str) -> None:
        """Forget this key. Its entries in the heap are passed over when they come up."""
        self._wished.pop(key, None)
        if not self._wished:
            self.close()

    def close(self) -> None:
        """Forget all keys."""
        self._wished.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._handle_ms = None, float("inf")

    def _arm(self) -> None:
        while self._heap and self._wished.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self._handle_ms = None, float("inf")
        if self._heap:
            self._handle_ms = self._heap[0][0]
            self._handle = asyncio.get_running_loop().call_at(self._handle_ms / 1000, self._fire)

    def _fire(self) -> None:
        self._handle, self._handle_ms = None, float("inf")
        now = monotonic_ms()
        due = []
        while self._heap and self._heap[0][0] <= now + RESOLUTION_MS:
            at_ms, key = heappop(self._heap)
            if self._wished.get(key) == at_ms:
                del self._wished[key]
                due.append(key)
        for key in due:
            self._on_due(key)
        self._arm()


RESOLUTION_MS = 1.0
"""A loop may wake this much early; waking again for it would be for nothing."""
