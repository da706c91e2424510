"""What a page answered to `location_get`, in neutral words. Strict: a client's own words never become a reason."""

import math

from pydantic import TypeAdapter, ValidationError

from hereabouts.edge.dialect import Outcome
from hereabouts.edge.open_ask import outcome_of
from hereabouts.schemas.browser_wire import LocationGranted, LocationResult
from hereabouts.schemas.fixes import Fix, Precision, Source, is_plausible
from hereabouts.schemas.grid import APPROXIMATE_ACCURACY_M, approximate
from hereabouts.schemas.outcomes import Reason, Status

_RESULT: TypeAdapter[LocationResult] = TypeAdapter(LocationResult)

MAX_NUMBER = 1e15
"""A time or age beyond this is no number that a clock shows."""


def read_location(result: object, *, sharing: str, precision: Precision, prompted: bool) -> Outcome:
    """The outcome for a page's result.

    Args:
        result: as it came; anything.
        sharing: the person's switch as last reported; "off" overrules a position that was under way.
        precision: the person's choice as last reported; the lower of it and the result's counts.
        prompted: whether the page said that the person was being asked in this call.
    """
    try:
        answer = _RESULT.validate_python(result)
    except ValidationError:
        return outcome_of(Reason.CLIENT_ERROR)
    if not isinstance(answer, LocationGranted):
        decided_now = prompted and answer.reason in (Reason.DENIED, Reason.DISMISSED)
        during_call = decided_now if answer.status is Status.DECLINED else True
        return Outcome(status=answer.status, reason=answer.reason, during_call=during_call)
    if sharing == "off":
        return Outcome(status=Status.DECLINED, reason=Reason.SHARING_OFF, during_call=False)
    fix = _fix(answer, precision)
    if fix is None:
        return outcome_of(Reason.IMPLAUSIBLE)
    return Outcome(status=Status.GRANTED, fix=fix)


def _fix(answer: LocationGranted, chosen: Precision) -> Fix | None:
    needed = (answer.latitude, answer.longitude, answer.accuracy, answer.timestamp, answer.age_ms)
    if not all(math.isfinite(n) and abs(n) < MAX_NUMBER for n in needed):
        return None
    fix = Fix(
        latitude=answer.latitude,
        longitude=answer.longitude,
        accuracy=answer.accuracy,
        timestamp_ms=int(answer.timestamp),
        age_ms=int(answer.age_ms),
        precision=answer.precision,
        source=Source.BROWSER,
        altitude=_between(-MAX_NUMBER, answer.altitude, MAX_NUMBER),
        altitude_accuracy=_between(0, answer.altitude_accuracy, MAX_NUMBER),
        speed=_between(0, answer.speed, MAX_NUMBER),
        heading=_between(0, answer.heading, 360),
    )
    if not is_plausible(fix):
        return None
    if Precision.APPROXIMATE not in (chosen, fix.precision):
        return fix
    # The page does this itself; done again here, since a changed choice may cross a result on the wire.
    latitude, longitude = approximate(fix.latitude, fix.longitude)
    return Fix(
        latitude=latitude,
        longitude=longitude,
        accuracy=max(float(APPROXIMATE_ACCURACY_M), fix.accuracy),
        timestamp_ms=fix.timestamp_ms,
        age_ms=fix.age_ms,
        precision=Precision.APPROXIMATE,
        source=fix.source,
    )


def _between(least: float, value: float | None, most: float) -> float | None:
    """An extra that makes no sense is left out; the position stands without it."""
    return value if value is not None and least <= value <= most else None
