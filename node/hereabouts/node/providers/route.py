"""A GPX file played back, as if the device moved along it."""

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import gpxpy
import gpxpy.gpx

from hereabouts.schemas.fixes import Fix, Source
from hereabouts.schemas.node_wire import DesiredAccuracy

from ..errors import SettingsError
from .fixed import epoch_ms

WALKING_MPS = 1.4
"""Speed along a file without times (metres per second): what people walk."""

ROUTE_ACCURACY_M = 8.0
"""What a phone's receiver has under an open sky."""

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius (IUGG)."""


@dataclass(frozen=True, slots=True, repr=False)
class RoutePoint:
    """A point of the file: degrees, metres, and seconds since 1970 where it has a time."""

    latitude: float
    longitude: float
    altitude_m: float | None = None
    time_s: float | None = None


def read_gpx(file: Path) -> list[RoutePoint]:
    """The points of a GPX file: its tracks, else its routes, else its waypoints.

    Raises:
        SettingsError: it cannot be read, or has no points. gpxpy's own errors quote coordinates, so they are not shown.
    """
    try:
        document = gpxpy.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {file}: {error.strerror}") from None
    except (gpxpy.gpx.GPXException, ValueError):
        raise SettingsError(f"{file} is not a valid GPX file") from None
    found: list[gpxpy.gpx.GPXTrackPoint | gpxpy.gpx.GPXRoutePoint | gpxpy.gpx.GPXWaypoint] = []
    found.extend(point for track in document.tracks for segment in track.segments for point in segment.points)
    if not found:
        found.extend(point for route in document.routes for point in route.points)
    if not found:
        found.extend(document.waypoints)
    points = [
        RoutePoint(p.latitude, p.longitude, p.elevation, None if p.time is None else p.time.timestamp()) for p in found
    ]
    if not points:
        raise SettingsError(f"{file} has no points")
    if not all(math.isfinite(p.latitude) and abs(p.latitude) <= 90 and abs(p.longitude) <= 180 for p in points):
        raise SettingsError(f"{file} has a point that is not on earth")
    return points


class RouteProvider:
    """Moves along the points since it was made: by their times, or at a constant speed where they have none.

    Args:
        points: at least one.
        speed_mps: metres per second; given, it wins over the file's times.
        factor: how many times faster than real time.
        loop: start again at the end; else stay there.
        clock: epoch milliseconds for timestamps.
        elapsed_clock: monotonic seconds for the movement.
    """

    def __init__(
        self,
        points: Sequence[RoutePoint],
        *,
        speed_mps: float | None = None,
        factor: float = 1.0,
        loop: bool = True,
        clock: Callable[[], int] = epoch_ms,
        elapsed_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not points:
            raise SettingsError("provider: a route needs a point")
        self._points = list(points)
        self._offsets_s = _schedule(self._points, speed_mps)
        self._factor = factor
        self._loop = loop
        self._clock = clock
        self._elapsed_clock = elapsed_clock
        self._started_s = elapsed_clock()

    async def fix(self, desired_accuracy: DesiredAccuracy, max_age_ms: int) -> Fix:
        """Where the device is on the way at this moment."""
        at_s = (self._elapsed_clock() - self._started_s) * self._factor
        duration_s = self._offsets_s[-1]
        if at_s >= duration_s:
            at_s = at_s % duration_s if self._loop and duration_s > 0 else duration_s
        return self._at(at_s)

    async def aclose(self) -> None:
        """Nothing to let go of."""

    def _at(self, at_s: float) -> Fix:
        after = min(bisect_right(self._offsets_s, at_s), len(self._points) - 1)
        before = max(0, after - 1)
        a, b = self._points[before], self._points[after]
        leg_s = self._offsets_s[after] - self._offsets_s[before]
        share = min(1.0, (at_s - self._offsets_s[before]) / leg_s) if leg_s > 0 else 1.0
        moving = leg_s > 0 and at_s < self._offsets_s[-1]
        length_m = _distance_m(a, b)
        east = _wrap(b.longitude - a.longitude)
        both = a.altitude_m is not None and b.altitude_m is not None
        return Fix(
            latitude=a.latitude + (b.latitude - a.latitude) * share,
            longitude=_wrap(a.longitude + east * share),
            accuracy=ROUTE_ACCURACY_M,
            timestamp_ms=self._clock(),
            age_ms=0,
            source=Source.GPS,
            altitude=a.altitude_m + (b.altitude_m - a.altitude_m) * share  # type: ignore[operator]
            if both
            else b.altitude_m,
            speed=length_m / leg_s * self._factor if moving else 0.0,
            heading=_heading(a, b) if moving and length_m > 0 else None,
        )


def _schedule(points: Sequence[RoutePoint], speed_mps: float | None) -> list[float]:
    """Seconds from the start at which each point is reached; never falling."""
    times = [point.time_s for point in points]
    if speed_mps is None and all(t is not None for t in times):
        stamps = [t for t in times if t is not None]
        if all(a <= b for a, b in pairwise(stamps)) and stamps[-1] > stamps[0]:
            return [stamp - stamps[0] for stamp in stamps]
    speed = speed_mps or WALKING_MPS
    offsets = [0.0]
    for a, b in pairwise(points):
        offsets.append(offsets[-1] + _distance_m(a, b) / speed)
    return offsets


def _distance_m(a: RoutePoint, b: RoutePoint) -> float:
    la, lb = math.radians(a.latitude), math.radians(b.latitude)
    dlat, dlon = lb - la, math.radians(b.longitude - a.longitude)
    h = math.sin(dlat / 2) ** 2 + math.cos(la) * math.cos(lb) * math.sin(dlon / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(h)))


def _heading(a: RoutePoint, b: RoutePoint) -> float:
    """Initial bearing in degrees from north, clockwise, below 360."""
    la, lb, dlon = math.radians(a.latitude), math.radians(b.latitude), math.radians(b.longitude - a.longitude)
    y = math.sin(dlon) * math.cos(lb)
    x = math.cos(la) * math.sin(lb) - math.sin(la) * math.cos(lb) * math.cos(dlon)
    return math.degrees(math.atan2(y, x)) % 360 % 360


def _wrap(degrees: float) -> float:
    """Into [-180, 180): the short way round the date line."""
    return (degrees + 180) % 360 - 180
