"""Each request and how its response is read, without I/O: both flavours of the client send these."""

from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from hereabouts.schemas.answers import LOCATION_ANSWER, Declined, Granted, Pending, ToolAnswer, Unavailable
from hereabouts.schemas.http import (
    InvocationRequest,
    InvocationView,
    SessionCreated,
    SessionRequest,
    SessionTools,
    SessionView,
    ToolList,
)
from hereabouts.schemas.tools import LOCATION_GET, LocationArguments, Tool

from .errors import ServiceError, error_from

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 35.0
"""Longer than the brain's last resort (30 s): the brain always answers first, and its answer says why."""

KEEP_ALIVE_S = 30.0
"""Shorter than the server keeps an idle connection, so that no request meets a closing one."""

Answer = Granted | Declined | Pending | Unavailable


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """One request, and what makes a value of its response's body."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: Any = field(default=None, repr=False)

    def result(self, base_url: str, status: int, content: bytes) -> T:
        """The value of a response.

        Raises:
            HereaboutsError: the error that the response stands for.
        """
        if status >= 400:
            raise error_from(base_url, status, content)
        try:
            return self.read(content)
        except ValidationError:
            raise ServiceError(base_url=base_url, status=status, problem="not an answer of Hereabouts") from None


def create_session(user: str | None) -> Operation[SessionCreated]:
    body = SessionRequest(user=user).model_dump(mode="json", exclude_none=True)
    return Operation("POST", "/v1/sessions", SessionCreated.model_validate_json, body)


def get_session(session: str) -> Operation[SessionView]:
    return Operation("GET", f"/v1/sessions/{_segment(session)}", SessionView.model_validate_json)


def end_session(session: str) -> Operation[None]:
    return Operation("DELETE", f"/v1/sessions/{_segment(session)}", lambda _: None)


def session_tools(session: str) -> Operation[list[Tool]]:
    return Operation(
        "GET", f"/v1/sessions/{_segment(session)}/tools", lambda body: SessionTools.model_validate_json(body).tools
    )


def own_tools() -> Operation[list[Tool]]:
    return Operation("GET", "/v1/tools", lambda body: ToolList.model_validate_json(body).tools)


def invoke(
    session: str,
    tool: str,
    arguments: dict[str, Any] | None,
    timeout_ms: float | None,
    purpose: str | None,
    route: str,
) -> Operation[Answer | ToolAnswer]:
    read: Callable[[bytes], Answer | ToolAnswer] = (
        LOCATION_ANSWER.validate_json if tool == LOCATION_GET else ToolAnswer.model_validate_json
    )
    return Operation("POST", _invocations(session), read, _invocation(tool, arguments, timeout_ms, purpose, route))


def location(
    session: str,
    arguments: LocationArguments,
    timeout_ms: float | None,
    purpose: str | None,
    route: str,
) -> Operation[Answer]:
    said = arguments.model_dump(mode="json", exclude_none=True)
    body = _invocation(LOCATION_GET, said, timeout_ms, purpose, route)
    return Operation("POST", _invocations(session), LOCATION_ANSWER.validate_json, body)


def invocation(correlation_id: str) -> Operation[InvocationView]:
    return Operation("GET", f"/v1/invocations/{_segment(correlation_id)}", InvocationView.model_validate_json)


def headers(token: str, traceparent: str | None = None) -> dict[str, str]:
    """What each request carries."""
    carried = {"Authorization": f"Bearer {token}"}
    return carried | {"traceparent": traceparent} if traceparent else carried


def is_loopback(base_url: str) -> bool:
    """Whether an address is this machine's own: a proxy from the environment could not reach it."""
    host = urlsplit(base_url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _invocations(session: str) -> str:
    return f"/v1/sessions/{_segment(session)}/invocations"


def _invocation(
    tool: str, arguments: dict[str, Any] | None, timeout_ms: float | None, purpose: str | None, route: str
) -> dict[str, Any]:
    request = InvocationRequest(
        tool=tool, arguments=arguments or {}, timeout_ms=timeout_ms, purpose=purpose, route=route
    )
    return request.model_dump(mode="json", exclude_none=True)


def _segment(text: str) -> str:
    return quote(text, safe="")
