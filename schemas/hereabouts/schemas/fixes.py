"""A position fix as it travels between edge and brain, and the rules for what counts as one."""

import math
from enum import StrEnum

from .base import Degrees, EpochMs, Metres, Milliseconds, Model


class Precision(StrEnum):
    """How exact the person, the tenant and the caller let it be; the lowest counts."""

    PRECISE = "precise"
    APPROXIMATE = "approximate"


class Source(StrEnum):
    """What found the position, as far as the client says."""

    BROWSER = "browser"
    GPS = "gps"
    WIFI = "wifi"
    CELL = "cell"
    UNKNOWN = "unknown"


class Fix(Model):
    """One position: WGS 84 degrees, metres, and its age when the edge received it.

    `repr` and `str` never show where.
    """

    latitude: Degrees
    longitude: Degrees
    accuracy: Metres
    timestamp_ms: EpochMs
    age_ms: Milliseconds
    precision: Precision = Precision.PRECISE
    source: Source = Source.UNKNOWN
    altitude: Metres | None = None
    altitude_accuracy: Metres | None = None
    speed: float | None = None
    heading: Degrees | None = None

    def __repr__(self) -> str:
        return f"Fix(precision={self.precision.value}, source={self.source.value}, …)"

    __str__ = __repr__


MAX_ACCURACY_M = 20_037_508.0
"""Half of the earth's circumference: a larger radius says nothing."""

MAX_CLOCK_SKEW_MS = 120_000
"""How far ahead a fix's own clock may be before it cannot be true."""

MAX_FIX_AGE_MS = 366 * 24 * 3_600_000
"""A fix from further back is a clock that was never set."""


def is_plausible(fix: Fix) -> bool:
    """Whether a fix can be true at all: finite, in range, not (0, 0), of this time."""
    numbers = (fix.latitude, fix.longitude, fix.accuracy)
    return (
        all(math.isfinite(n) for n in numbers)
        and -90 <= fix.latitude <= 90
        and -180 <= fix.longitude <= 180
        and 0 <= fix.accuracy <= MAX_ACCURACY_M
        and not (fix.latitude == 0 and fix.longitude == 0)
        and -MAX_CLOCK_SKEW_MS <= fix.age_ms <= MAX_FIX_AGE_MS
    )


def distance_m(a: Fix, b: Fix) -> float:
    """Great-circle distance in metres (haversine on a sphere of 6,371,008.8 m)."""
    la, lb = math.radians(a.latitude), math.radians(b.latitude)
    dlat, dlon = lb - la, math.radians(b.longitude - a.longitude)
    h = math.sin(dlat / 2) ** 2 + math.cos(la) * math.cos(lb) * math.sin(dlon / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(min(1.0, math.sqrt(h)))
