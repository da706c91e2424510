"""What gpsd says, line by line, without a socket: the JSON protocol of gpsd_json(5), major version 3.

Accuracy. Our accuracy is a 95 % radius. gpsd scales its own estimates to 95 % (`GPSD_CONFIDENCE` in its source), but
some drivers hand on a receiver's own number, and nothing in the report tells which: `eph` is taken at its word. Without
`eph` the radius is hypot(epx, epy). Each is a 95 % interval along one axis; for independent normal errors that circle
holds 95 % (one axis alone) to 98 % (both alike). A report
with neither is not used, and a radius is never made up.
"""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hereabouts.schemas.fixes import Fix, Source, is_plausible

from ..errors import NodeFault

WATCH = b'?WATCH={"enable":true,"json":true}\n'
PROTOCOL_MAJOR = 3

LIVE_MS = 2_000
"""How old a report may be when it arrives and still count as found now: a receiver sends the position of a full
second after computing it, at 4,800 baud most of a second later, and gpsd reports when the cycle is complete."""


class NotGpsd(NodeFault):
    """Bytes that are not gpsd's. The text repeats none of them."""

    def __init__(self) -> None:
        super().__init__("not a report of gpsd")


@dataclass(frozen=True, slots=True)
class Version:
    """The greeting."""

    major: int


@dataclass(frozen=True, slots=True)
class Devices:
    """The receivers that gpsd has, by their paths."""

    paths: frozenset[str]


@dataclass(frozen=True, slots=True)
class Device:
    """A receiver that came, or went when it is no longer active."""

    path: str
    active: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """gpsd's ERROR; its text is not kept, since it may quote anything."""


@dataclass(frozen=True, slots=True, repr=False)
class Tpv:
    """A time-position-velocity report with a position, a time and an error estimate.

    Degrees (WGS 84), metres, metres per second, milliseconds since 1970. `repr` shows no number.
    """

    latitude: float
    longitude: float
    accuracy_m: float
    timestamp_ms: int
    altitude_m: float | None = None
    altitude_accuracy_m: float | None = None
    speed_mps: float | None = None
    heading_deg: float | None = None

    def __repr__(self) -> str:
        return "Tpv(…)"


Report = Version | Devices | Device | Refusal | Tpv


def parse(line: bytes) -> Report | None:
    """One line of gpsd; None for what says nothing of a position (SKY, WATCH, a report without a fix, …).

    Raises:
        NotGpsd: not a JSON object with a class.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise NotGpsd from None
    if not isinstance(found, dict) or not isinstance(found.get("class"), str):
        raise NotGpsd
    match found["class"]:
        case "VERSION":
            major = found.get("proto_major")
            return Version(major if isinstance(major, int) else 0)
        case "DEVICES":
            listed = found.get("devices")
            paths = [each.get("path") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
            return Devices(frozenset(path for path in paths if isinstance(path, str)))
        case "DEVICE":
            path = found.get("path")
            # A receiver that was pulled out or closed has `"activated":0`; a living one a time or nothing.
            return Device(path, found.get("activated") != 0) if isinstance(path, str) else None
        case "ERROR":
            return Refusal()
        case "TPV":
            return _tpv(found)
    return None


def fix_of(report: Tpv, now_ms: int, max_age_ms: int, *, after_asking: bool) -> Fix | None:
    """The fix of a report, or None if it is too old or cannot be true.

    A report that arrived after the question and is at most LIVE_MS old is of age 0: there is none newer. `now_ms` is
    the machine's clock at this moment, as milliseconds since 1970.
    """
    age_ms = max(0, now_ms - report.timestamp_ms)
    if after_asking and age_ms <= LIVE_MS:
        age_ms = 0
    if age_ms > max_age_ms:
        return None
    fix = Fix(
        latitude=report.latitude,
        longitude=report.longitude,
        accuracy=report.accuracy_m,
        timestamp_ms=report.timestamp_ms,
        age_ms=age_ms,
        source=Source.GPS,
        altitude=report.altitude_m,
        altitude_accuracy=report.altitude_accuracy_m,
        speed=report.speed_mps,
        heading=report.heading_deg,
    )
    # The skew counts unclamped: a receiver far ahead of this machine's clock has a wrong date.
    skewed = fix.model_copy(update={"age_ms": now_ms - report.timestamp_ms})
    return fix if is_plausible(skewed) else None


def _tpv(found: dict[str, Any]) -> Tpv | None:
    mode = found.get("mode")
    latitude, longitude = _number(found, "lat"), _number(found, "lon")
    accuracy_m, timestamp_ms = _radius_m(found), _time_ms(found.get("time"))
    if mode not in (2, 3) or latitude is None or longitude is None or accuracy_m is None or timestamp_ms is None:
        return None
    altitude_m = altitude_accuracy_m = None
    if mode == 3:
        # Above the ellipsoid, as WGS 84 has it; above sea level where the receiver knows no more; `alt` is gpsd < 3.20.
        altitude_m = next((n for key in ("altHAE", "altMSL", "alt") if (n := _number(found, key)) is not None), None)
        altitude_accuracy_m = _at_least_0(found, "epv") if altitude_m is not None else None
    track = _number(found, "track")
    return Tpv(
        latitude=latitude,
        longitude=longitude,
        accuracy_m=accuracy_m,
        timestamp_ms=timestamp_ms,
        altitude_m=altitude_m,
        altitude_accuracy_m=altitude_accuracy_m,
        speed_mps=_at_least_0(found, "speed"),
        heading_deg=track % 360 % 360 if track is not None else None,
    )


def _radius_m(found: dict[str, Any]) -> float | None:
    eph = _at_least_0(found, "eph")
    if eph is not None:
        return eph
    epx, epy = _at_least_0(found, "epx"), _at_least_0(found, "epy")
    return math.hypot(epx, epy) if epx is not None and epy is not None else None


def _number(found: dict[str, Any], key: str) -> float | None:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _at_least_0(found: dict[str, Any], key: str) -> float | None:
    number = _number(found, key)
    return number if number is not None and number >= 0 else None


def _time_ms(value: Any) -> int | None:
    """ISO 8601 in UTC, as gpsd writes it, in milliseconds since 1970."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
