"""One effective deadline for each call, resolved once, here. Every later hop only carries what is left of it."""

import math
from dataclasses import dataclass
from typing import Any

from hereabouts.schemas.errors import InvalidRequest
from hereabouts.schemas.limits import CLIENT_BUDGET_MS, MAX_TIMEOUT_MS, MIN_TIMEOUT_MS, TOOL_BUDGET_MS
from hereabouts.schemas.tools import LOCATION_GET


@dataclass(frozen=True, slots=True)
class Budget:
    """What a call may take from request to answer, and whether the caller had wished for more."""

    budget_ms: int
    capped: bool = False


def default_budget_ms(tool: str) -> int:
    """What a call of this tool may take when the caller says nothing."""
    return CLIENT_BUDGET_MS if tool == LOCATION_GET else TOOL_BUDGET_MS


def effective_budget(tool: str, wish_ms: Any, *, cap_ms: int = MAX_TIMEOUT_MS) -> Budget:
    """The budget of a call.

    Args:
        tool: decides the default.
        wish_ms: the caller's `timeout_ms` as JSON gave it; None: no wish. A fraction counts down to the millisecond.
        cap_ms: the tenant's limit; never more than MAX_TIMEOUT_MS, which must end before the last resort does.

    Raises:
        InvalidRequest: the wish is no number, not finite, or less than MIN_TIMEOUT_MS.
    """
    cap = min(cap_ms, MAX_TIMEOUT_MS)
    if wish_ms is None:
        return Budget(min(default_budget_ms(tool), cap))
    if isinstance(wish_ms, bool) or not isinstance(wish_ms, int | float):
        raise InvalidRequest(problem="`timeout_ms` must be a number of milliseconds.", field="timeout_ms")
    if isinstance(wish_ms, float) and not math.isfinite(wish_ms):
        raise InvalidRequest(problem="`timeout_ms` must be a finite number of milliseconds.", field="timeout_ms")
    if wish_ms < MIN_TIMEOUT_MS:
        raise InvalidRequest(
            problem=f"`timeout_ms` must be at least {MIN_TIMEOUT_MS}, since the way to a client and back takes its part "
            "of it; leave it out for the tool's own default.",
            field="timeout_ms",
        )
    # Compared before conversion: an integer from JSON may be far too large for a float.
    return Budget(cap, capped=True) if wish_ms > cap else Budget(int(wish_ms))
