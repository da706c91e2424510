"""When a crashed service is started again."""

from dataclasses import dataclass

FIRST_S = 0.5
LONGEST_S = 15.0
STEADY_S = 60.0
"""A service that has lived this long is healthy: its next crash counts as a first one."""


@dataclass(slots=True)
class Backoff:
    """Doubles from FIRST_S to LONGEST_S while a service keeps crashing."""

    crashes: int = 0

    def after_crash(self, lived_s: float) -> float:
        """How many seconds to wait before the next start."""
        self.crashes = 1 if lived_s >= STEADY_S else self.crashes + 1
        return float(min(LONGEST_S, FIRST_S * 2 ** (self.crashes - 1)))
