"""An ask in the node's words, and its result in ours. Pure."""

import json
import re
from typing import Any

from hereabouts.edge.dialect import Invoke, Outcome
from hereabouts.schemas.fixes import is_plausible
from hereabouts.schemas.node_wire import (
    LOCATION_GET,
    LOCATION_MAX_AGE_MS,
    DesiredAccuracy,
    InvalidLocationPayload,
    LocationErrorCode,
    NodeError,
    NodeInvokeRequest,
    NodeInvokeResult,
    is_too_old,
    location_error_code,
    location_params,
    parse_location_payload,
)
from hereabouts.schemas.outcomes import OUTCOMES, Reason, Status
from hereabouts.schemas.tools import wanted_accuracy_m

REASON_OF_CODE = {
    LocationErrorCode.DISABLED: Reason.LOCATION_DISABLED,
    LocationErrorCode.PERMISSION_REQUIRED: Reason.PERMISSION_REQUIRED,
    LocationErrorCode.BACKGROUND_UNAVAILABLE: Reason.OPEN_THE_APP,
    LocationErrorCode.TIMEOUT: Reason.TIMEOUT,
    LocationErrorCode.UNAVAILABLE: Reason.POSITION_UNAVAILABLE,
}

REFUSED_BY_NODE = frozenset({"NOT_APPROVED", "NOT_ALLOWED", "COMMAND_NOT_ALLOWED", "PERMISSION_DENIED"})
"""Codes by which a node's own policy says no."""

_STABLE_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")
_IMPOSSIBLE = frozenset({"is not a finite number", "is out of range"})


def max_age_ms(params: dict[str, Any]) -> int:
    """How old the node's position may be: what the ask says, else the default for nodes."""
    value = params.get("max_age_ms")
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else LOCATION_MAX_AGE_MS


def location_request(invoke: Invoke, node_id: str) -> NodeInvokeRequest:
    """The event's payload. The correlation id is the invoke's id and its idempotency key.

    Both spellings of the parameters are sent. The node's own time for a fix is at most what is left of the ask, even
    where that is less than the second that a node's clamp would give it: its answer would come too late for anyone.
    """
    left = max(invoke.budget_ms, 0)
    wish = invoke.params.get("location_timeout_ms")
    params = location_params(
        timeout_ms=wish if isinstance(wish, int | float) and not isinstance(wish, bool) else None,
        max_age_ms=max_age_ms(invoke.params),
        desired_accuracy=desired_accuracy(invoke.params.get("desired_accuracy")),
    )
    timeout = min(params["timeoutMs"], left)
    params |= {"timeoutMs": timeout, "locationTimeout": timeout}
    return NodeInvokeRequest(
        id=invoke.correlation_id,
        node_id=node_id,
        command=LOCATION_GET,
        params_json=json.dumps(params, separators=(",", ":")),
        timeout_ms=left,
        idempotency_key=invoke.correlation_id,
    )


def desired_accuracy(wish: Any) -> DesiredAccuracy:
    """The node's word for a wish: the loosest that still meets a number of metres; balanced when nothing is wished."""
    if isinstance(wish, str):
        return DesiredAccuracy(wish) if wish in set(DesiredAccuracy) else DesiredAccuracy.BALANCED
    if isinstance(wish, bool) or not isinstance(wish, int | float):
        return DesiredAccuracy.BALANCED
    for word in (DesiredAccuracy.COARSE, DesiredAccuracy.BALANCED):
        if wish >= (wanted_accuracy_m(word.value) or 0):
            return word
    return DesiredAccuracy.PRECISE


def outcome_of(result: NodeInvokeResult, age_limit_ms: int, wall_ms: int) -> Outcome:
    """What a result means. A position is aged on the gateway's clock: `wall_ms`, milliseconds since the epoch."""
    if not result.ok:
        return _failed(result.error)
    try:
        fix = parse_location_payload(result.value(), wall_ms)
    except InvalidLocationPayload as problem:
        impossible = problem.problem in _IMPOSSIBLE
        return refusal(Reason.IMPLAUSIBLE if impossible else Reason.CLIENT_ERROR)
    except (ValueError, OverflowError, RecursionError):
        return refusal(Reason.CLIENT_ERROR)
    if not is_plausible(fix):
        return refusal(Reason.IMPLAUSIBLE)
    if is_too_old(fix, age_limit_ms):
        return refusal(Reason.STALE)
    return Outcome(status=Status.GRANTED, fix=fix)


def refusal(reason: Reason, node_code: str | None = None) -> Outcome:
    """An outcome without a position. A node's no is a setting or a permission that stood before the call."""
    # A node's message is not passed on: nothing needs it, and it may hold a position.
    return Outcome(status=OUTCOMES[reason].status, reason=reason, node_code=node_code, during_call=False)


def _failed(error: NodeError | None) -> Outcome:
    code = error.code if error else None
    message = error.message if error else None
    known = location_error_code(code, message)
    if known is not None:
        return refusal(REASON_OF_CODE[known], known.value)
    raw = code if code and _STABLE_CODE.match(code) else None
    return refusal(Reason.POLICY if raw in REFUSED_BY_NODE else Reason.CLIENT_ERROR, raw)
