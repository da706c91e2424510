"""The synchronous client: the asynchronous one's twin, method by method."""

from typing import Any, Self, TypeVar

import httpx

from hereabouts.schemas.answers import LocationAnswer, ToolAnswer
from hereabouts.schemas.http import InvocationView, SessionCreated, SessionView
from hereabouts.schemas.tools import LocationArguments, Tool

from . import operations
from .errors import AnswerLost, Unreachable
from .operations import Operation

T = TypeVar("T")


class SyncHereabouts:
    """Talks to a brain. One per process; safe to use from many threads at once.

    No call is repeated by itself: a repeated call would ask the user again.

    Args:
        base_url: the brain's address, such as `http://127.0.0.1:8710`.
        token: a tenant's API key, or a session's agent token.
        transport: for tests.

    Every method raises a `HereaboutsError`: the service's own (`Unauthorized`, `NotFound`, `InvalidRequest`, …),
    `Unreachable` when nothing was sent, `AnswerLost` when it is not known what happened. A refusal by the user is no
    error but an answer.
    """

    def __init__(self, base_url: str, token: str, *, transport: httpx.BaseTransport | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._token = token
        self._http = httpx.Client(
            base_url=self.base_url,
            timeout=httpx.Timeout(operations.READ_TIMEOUT_S, connect=operations.CONNECT_TIMEOUT_S),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=operations.KEEP_ALIVE_S),
            transport=transport,
            trust_env=not operations.is_loopback(self.base_url),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def as_agent(self, agent_token: str) -> "SyncHereabouts":
        """A client of the same brain with a session's agent token. Close it too."""
        return SyncHereabouts(self.base_url, agent_token)

    def create_session(self, user: str | None = None) -> SessionCreated:
        """A new session, with its tokens and the chat page's address. Needs an API key."""
        return self._send(operations.create_session(user))

    def get_session(self, session: str) -> SessionView:
        """A session and its live clients."""
        return self._send(operations.get_session(session))

    def end_session(self, session: str) -> None:
        """End a session: its tokens and its page stop working."""
        self._send(operations.end_session(session))

    def tools(self, session: str | None = None) -> list[Tool]:
        """What a session's clients registered; without a session, what Hereabouts itself defines."""
        return self._send(operations.session_tools(session) if session is not None else operations.own_tools())

    def invoke(
        self,
        session: str,
        tool: str,
        arguments: dict[str, Any] | None = None,
        timeout_ms: float | None = None,
        purpose: str | None = None,
        *,
        route: str = "best",
        traceparent: str | None = None,
    ) -> LocationAnswer | ToolAnswer:
        """Invoke a tool of the session's clients.

        Args:
            timeout_ms: wished budget in milliseconds; the answer's `budget_ms` says what it was.
            purpose: why, in words that the user reads.
            route: `best`, `all`, or a client's id.
            traceparent: the caller's own trace (W3C Trace Context), continued by the call.
        """
        return self._send(operations.invoke(session, tool, arguments, timeout_ms, purpose, route), traceparent)

    def location(
        self,
        session: str,
        arguments: LocationArguments | None = None,
        timeout_ms: float | None = None,
        purpose: str | None = None,
        *,
        route: str = "best",
        traceparent: str | None = None,
    ) -> LocationAnswer:
        """Where the user is: GRANTED, DECLINED, PENDING or UNAVAILABLE. Arguments as in `invoke`."""
        return self._send(
            operations.location(session, arguments or LocationArguments(), timeout_ms, purpose, route), traceparent
        )

    def invocation(self, correlation_id: str) -> InvocationView:
        """Where a call stands and its timeline, for ten minutes after it."""
        return self._send(operations.invocation(correlation_id))

    def _send(self, operation: Operation[T], traceparent: str | None = None) -> T:
        try:
            response = self._http.request(
                operation.method,
                operation.path,
                json=operation.body,
                headers=operations.headers(self._token, traceparent),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as problem:
            raise Unreachable(base_url=self.base_url, problem=str(problem) or type(problem).__name__) from None
        except httpx.TransportError as problem:
            raise AnswerLost(base_url=self.base_url, problem=str(problem) or type(problem).__name__) from None
        return operation.result(self.base_url, response.status_code, response.content)
