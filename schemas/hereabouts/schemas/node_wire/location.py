"""`location.get`: parameters and payload in both spellings, error codes, and reading a payload one does not trust."""

import math
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from ..fixes import MAX_ACCURACY_M, Fix, Precision, Source
from .frames import NodeWireModel
from .limits import LOCATION_MAX_AGE_MS, LOCATION_TIMEOUT_MS, NODE_CLOCK_SKEW_MS, clamp_location_timeout_ms


class DesiredAccuracy(StrEnum):
    """A wish that decides when to stop waiting, not a gate: 3,000 m, 100 m, 25 m."""

    COARSE = "coarse"
    BALANCED = "balanced"
    PRECISE = "precise"


class LocationErrorCode(StrEnum):
    """The stable codes."""

    DISABLED = "LOCATION_DISABLED"
    """The selector is off."""
    PERMISSION_REQUIRED = "LOCATION_PERMISSION_REQUIRED"
    """The system's permission for the requested mode is missing."""
    BACKGROUND_UNAVAILABLE = "LOCATION_BACKGROUND_UNAVAILABLE"
    """In the background, but only While Using is allowed."""
    TIMEOUT = "LOCATION_TIMEOUT"
    """No fix in time."""
    UNAVAILABLE = "LOCATION_UNAVAILABLE"
    """System failure, or no provider."""


_CODE = re.compile(r"(?:Error: )?(LOCATION_[A-Z_]+)")


def location_error_code(code: str | None, message: str | None) -> LocationErrorCode | None:
    """The stable code, wherever a dialect hides it: in the code, or as the prefix of the message.

    iOS and macOS send code UNAVAILABLE, the Linux host INVALID_REQUEST with "Error: LOCATION_TIMEOUT: …", Windows
    no code at all. A code that is not one of ours gives None.
    """
    for text in (code, message):
        found = _CODE.match(text.lstrip()) if text else None
        if found and found[1] in _KNOWN_CODES:
            return LocationErrorCode(found[1])
    return None


_KNOWN_CODES = frozenset(code.value for code in LocationErrorCode)


class LocationParams(NodeWireModel):
    """Parameters as either dialect sends them; a field that cannot be read counts as not given."""

    timeout_ms: int = LOCATION_TIMEOUT_MS
    max_age_ms: int = LOCATION_MAX_AGE_MS
    desired_accuracy: DesiredAccuracy = DesiredAccuracy.BALANCED

    @model_validator(mode="before")
    @classmethod
    def _either_spelling(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return {}
        timeout = _number(_first(data, "timeoutMs", "timeout_ms", "locationTimeout"))
        max_age = _number(_first(data, "maxAgeMs", "max_age_ms", "maxAge"))
        accuracy = _first(data, "desiredAccuracy", "desired_accuracy", "accuracy")
        known = isinstance(accuracy, str) and accuracy in {each.value for each in DesiredAccuracy}
        return {
            "timeout_ms": clamp_location_timeout_ms(timeout),
            "max_age_ms": LOCATION_MAX_AGE_MS if max_age is None else int(min(max(max_age, 0), _MAX_AGE_CAP_MS)),
            "desired_accuracy": accuracy if known else DesiredAccuracy.BALANCED,
        }


_MAX_AGE_CAP_MS = 366 * 24 * 3_600_000


def location_params(
    *,
    timeout_ms: float | None = None,
    max_age_ms: int = LOCATION_MAX_AGE_MS,
    desired_accuracy: DesiredAccuracy = DesiredAccuracy.BALANCED,
) -> dict[str, Any]:
    """Parameters in both spellings, so that a node of either dialect understands them. Times in milliseconds."""
    timeout = clamp_location_timeout_ms(timeout_ms)
    return {
        "timeoutMs": timeout,
        "maxAgeMs": max_age_ms,
        "desiredAccuracy": desired_accuracy.value,
        "locationTimeout": timeout,
        "maxAge": max_age_ms,
        "accuracy": desired_accuracy.value,
    }


class LocationPayload(NodeWireModel):
    """What our own node sends; `repr` shows no number. Metres, metres per second, degrees, ISO 8601 UTC."""

    lat: float = Field(ge=-90, le=90, repr=False)
    lon: float = Field(ge=-180, le=180, repr=False)
    accuracy_meters: float = Field(ge=0, repr=False)
    altitude_meters: float | None = Field(default=None, repr=False)
    speed_mps: float | None = Field(default=None, ge=0, repr=False)
    heading_deg: float | None = Field(default=None, ge=0, le=360, repr=False)
    timestamp: str
    is_precise: bool
    source: Source = Source.UNKNOWN


class InvalidLocationPayload(ValueError):
    """A node's payload that is no position. The text names the field and the fault, never a value."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"location payload: {field} {problem}")


def parse_location_payload(payload: Any, now_ms: int) -> Fix:
    """A validated fix from a payload in either spelling; `age_ms` is measured on the clock of `now_ms`.

    Latitude, longitude, accuracy and timestamp must be there, finite and in range. Of the optional numbers those
    out of range count as not measured: Core Location says a negative speed or course for "unknown".

    Raises:
        InvalidLocationPayload: what is wrong, without the numbers.
    """
    if not isinstance(payload, dict):
        raise InvalidLocationPayload("payload", "is not an object")
    timestamp_ms = _timestamp_ms(payload.get("timestamp"))
    source = payload.get("source")
    return Fix(
        latitude=_required(payload, -90, 90, "lat", "latitude"),
        longitude=_required(payload, -180, 180, "lon", "longitude"),
        accuracy=_required(payload, 0, MAX_ACCURACY_M, "accuracyMeters", "accuracy"),
        timestamp_ms=timestamp_ms,
        age_ms=now_ms - timestamp_ms,
        precision=Precision.APPROXIMATE if payload.get("isPrecise") is False else Precision.PRECISE,
        source=Source(source) if isinstance(source, str) and source in _NODE_SOURCES else Source.UNKNOWN,
        altitude=_optional(payload, -20_000, 1_000_000, "altitudeMeters", "altitude"),
        speed=_optional(payload, 0, 100_000, "speedMps", "speed"),
        heading=_optional(payload, 0, 360, "headingDeg", "heading"),
    )


def is_too_old(fix: Fix, max_age_ms: int) -> bool:
    """Whether a node's fix is older than the caller wants, with the allowance for clocks that differ."""
    return fix.age_ms > max_age_ms + NODE_CLOCK_SKEW_MS


_NODE_SOURCES = frozenset({"gps", "wifi", "cell", "unknown"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_EPOCH_MS = 8_640_000_000_000_000
"""The end of ECMAScript's time."""


def _first(payload: dict[str, Any], *names: str) -> Any:
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def _number(value: Any) -> float | None:
    """A finite number, or None. Booleans are none, and neither is an integer too large for a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _required(payload: dict[str, Any], low: float, high: float, *names: str) -> float:
    raw = _first(payload, *names)
    if raw is None:
        raise InvalidLocationPayload(names[0], "is missing")
    number = _number(raw)
    if number is None:
        raise InvalidLocationPayload(names[0], "is not a finite number")
    if not low <= number <= high:
        raise InvalidLocationPayload(names[0], "is out of range")
    return number


def _optional(payload: dict[str, Any], low: float, high: float, *names: str) -> float | None:
    number = _number(_first(payload, *names))
    return number if number is not None and low <= number <= high else None


def _timestamp_ms(value: Any) -> int:
    if value is None:
        raise InvalidLocationPayload("timestamp", "is missing")
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidLocationPayload("timestamp", "is not ISO 8601") from None
        if moment.tzinfo is None:
            raise InvalidLocationPayload("timestamp", "has no time zone")
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    number = _number(value)
    if number is None:
        raise InvalidLocationPayload("timestamp", "is not a finite number")
    if not 0 <= number <= _MAX_EPOCH_MS:
        raise InvalidLocationPayload("timestamp", "is out of range")
    return int(number)
