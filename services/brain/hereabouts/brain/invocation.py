"""From an HTTP body to a checked invocation. Whatever a caller sends, it is a precise 4xx or a call."""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError

from hereabouts.schemas.errors import InvalidRequest
from hereabouts.schemas.http import InvocationRequest
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.tools import LOCATION_GET, wanted_accuracy_m

from .deadlines import Budget, effective_budget
from .errors import BadRequest
from .tools import invalid, location_arguments

MAX_DEPTH = 32
"""Nesting of a body: tools' arguments have a few levels; a deep one is an attack on the parser's stack."""

DEFAULT_MAX_AGE_MS = 15_000
"""How old a position may be when the caller does not say. Clients then look for a new one, but a node may give one from
its last quarter of a minute, and a page the one that came after PENDING: the "short wait" that the agent was told of."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A checked request for one call."""

    correlation_id: str
    tool: str
    arguments: dict[str, Any]
    """As the client gets them: only what the caller said."""
    budget: Budget
    route: str
    purpose: str | None
    max_age_ms: int
    wanted_accuracy_m: float | None
    started_ms: float
    """The loop's clock, milliseconds."""
    started_ns: int
    """The wall clock, nanoseconds."""
    trace: TraceContext | None

    @property
    def is_location(self) -> bool:
        """Whether it is our own tool."""
        return self.tool == LOCATION_GET


def parse(body: bytes, *, started_ms: float, started_ns: int, trace: TraceContext | None) -> Invocation:
    """The invocation in a request's body.

    Raises:
        BadRequest: it is no JSON.
        InvalidRequest: it is, but not a valid invocation; names each problem without its value.
    """
    content = json_object(body)
    budget = effective_budget(str(content.get("tool")), content.get("timeout_ms"))
    try:
        # The budget has been read already, by stricter rules than a number's.
        request = InvocationRequest.model_validate({k: v for k, v in content.items() if k != "timeout_ms"}, strict=True)
    except ValidationError as problem:
        raise invalid(problem) from None
    arguments, max_age_ms, accuracy_m = request.arguments, DEFAULT_MAX_AGE_MS, None
    if request.tool == LOCATION_GET:
        checked = location_arguments(request.arguments)
        arguments = checked.model_dump(exclude_none=True)
        if checked.max_age_ms is not None:
            max_age_ms = checked.max_age_ms
        accuracy_m = wanted_accuracy_m(checked.desired_accuracy)
    return Invocation(
        correlation_id=new_correlation_id(),
        tool=request.tool,
        arguments=arguments,
        budget=budget,
        route=request.route,
        purpose=request.purpose,
        max_age_ms=max_age_ms,
        wanted_accuracy_m=accuracy_m,
        started_ms=started_ms,
        started_ns=started_ns,
        trace=trace,
    )


def json_object(body: bytes) -> dict[str, Any]:
    """A JSON object as RFC 8259 has it: UTF-8, no NaN or Infinity, no NUL in texts, not too deep.

    Raises:
        BadRequest: the body is no such JSON.
        InvalidRequest: it is JSON, but no object, or holds what cannot be stored.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise BadRequest(problem="The body is not UTF-8.") from None
    if _depth(text) > MAX_DEPTH:
        raise BadRequest(problem=f"The body is nested deeper than {MAX_DEPTH} levels.")
    try:
        content = json.loads(text, parse_constant=_no_constant, parse_int=_int, parse_float=_float)
    except _NotFinite:
        raise InvalidRequest(problem="A number in the body is not finite; JSON has no NaN and no Infinity.") from None
    except ValueError:
        raise BadRequest(
            problem="The body is not JSON. Send an object with `Content-Type: application/json`."
        ) from None
    if not isinstance(content, dict):
        raise InvalidRequest(problem="The body must be a JSON object.")
    if _unstorable(content):
        raise InvalidRequest(problem="A text in the body holds a NUL or half of a surrogate pair; leave it out.")
    return content


class _NotFinite(Exception):
    pass


def _no_constant(_: str) -> NoReturn:
    raise _NotFinite


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _NotFinite
    return value


def _int(text: str) -> int | float:
    """An integer; one too long for any double is as good as infinite (and Python would refuse to parse the longest)."""
    if len(text) > 309:
        raise _NotFinite
    return int(text)


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside of strings, without parsing."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return 0  # the usual case, at a hundredth of the cost
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _unstorable(value: Any) -> bool:
    """Whether a text anywhere in it cannot go into UTF-8 or must not (NUL)."""
    if isinstance(value, str):
        return "\0" in value or any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, dict):
        return any(_unstorable(key) or _unstorable(item) for key, item in value.items())
    return isinstance(value, list) and any(_unstorable(item) for item in value)
