"""A position that someone typed: a machine that does not move, or a test."""

import math
import time
from collections.abc import Callable

from hereabouts.schemas.fixes import MAX_ACCURACY_M, Fix, Source
from hereabouts.schemas.node_wire import DesiredAccuracy

from ..errors import SettingsError

FIXED_ACCURACY_M = 10.0
"""Four decimals, as people type them, are 11 m."""


def epoch_ms() -> int:
    """Milliseconds since 1970 by the machine's clock."""
    return time.time_ns() // 1_000_000


class FixedProvider:
    """Always the same place, always now."""

    def __init__(
        self,
        latitude: float,
        longitude: float,
        accuracy_m: float = FIXED_ACCURACY_M,
        clock: Callable[[], int] = epoch_ms,
    ) -> None:
        if not (
            math.isfinite(latitude)
            and -90 <= latitude <= 90
            and math.isfinite(longitude)
            and -180 <= longitude <= 180
            and 0 <= accuracy_m <= MAX_ACCURACY_M
        ):
            raise SettingsError("provider: fixed needs a latitude within ±90, a longitude within ±180, an accuracy ≥ 0")
        self._place = (latitude, longitude, accuracy_m)
        self._clock = clock

    async def fix(self, desired_accuracy: DesiredAccuracy, max_age_ms: int) -> Fix:
        """The place, with the time of asking."""
        latitude, longitude, accuracy_m = self._place
        return Fix(
            latitude=latitude,
            longitude=longitude,
            accuracy=accuracy_m,
            timestamp_ms=self._clock(),
            age_ms=0,
            source=Source.UNKNOWN,
        )

    async def aclose(self) -> None:
        """Nothing to let go of."""
