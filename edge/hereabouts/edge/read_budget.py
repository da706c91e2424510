"""What one socket may send: enough for any honest client, too little to take the event loop from the others.

Pure: seconds of one monotonic clock are passed in. What is taken beyond the budget is owed, and the socket is not read
until the time has paid for it.
"""

FRAMES_PER_S = 200.0
"""Frames that nobody asked for (state, pings, registrations): an honest page sends a few a second at its busiest."""

BURST_FRAMES = 400.0
"""Two seconds' worth at once: a page that registers its tools one by one, or catches up after a stall."""

BYTES_PER_S = 1024.0 * 1024
"""Content of the same: sixteen of the largest browser frames a second."""

BURST_BYTES = 4.0 * 1024 * 1024
"""One of the largest device frames and as much again, without delay."""

FRAMES_PER_ASK = 8
"""What an ask entitles its client to on top: every state once, the result and the late decision."""

MAX_EXPECTED_FRAMES = 8_000.0
"""Frames owed to asks at a time (a thousand asks): one that is never answered must not add up for ever."""

MAX_EXPECTED_BYTES = 64.0 * 1024 * 1024
"""The same for content: a thousand of the largest browser results."""


class ReadBudget:
    """A token bucket of frames and one of bytes, and what asks have granted beside them, which is used first."""

    def __init__(self, now_s: float) -> None:
        self._at_s = now_s
        self._frames = BURST_FRAMES
        self._bytes = BURST_BYTES
        self._expected_frames = 0.0
        self._expected_bytes = 0.0

    def expect(self, result_bytes: int) -> None:
        """The client is asked, so its frames are wanted."""
        self._expected_frames = min(MAX_EXPECTED_FRAMES, self._expected_frames + FRAMES_PER_ASK)
        self._expected_bytes = min(MAX_EXPECTED_BYTES, self._expected_bytes + result_bytes)

    def take(self, frames: int, size: int, now_s: float) -> float:
        """Count what was read.

        Returns:
            Seconds for which the socket is not to be read; 0.0 within the budget.
        """
        passed_s = max(0.0, now_s - self._at_s)
        self._at_s = now_s
        self._frames = min(BURST_FRAMES, self._frames + passed_s * FRAMES_PER_S)
        self._bytes = min(BURST_BYTES, self._bytes + passed_s * BYTES_PER_S)
        wanted_frames = min(self._expected_frames, frames)
        wanted_bytes = min(self._expected_bytes, size)
        self._expected_frames -= wanted_frames
        self._expected_bytes -= wanted_bytes
        self._frames -= frames - wanted_frames
        self._bytes -= size - wanted_bytes
        return max(0.0, -self._frames / FRAMES_PER_S, -self._bytes / BYTES_PER_S)
