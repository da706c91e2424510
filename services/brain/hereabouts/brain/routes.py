"""The HTTP API. The invocation is a plain Starlette route, since it is the hot path; the rest is ordinary FastAPI."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import APIRouter
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hereabouts.bus.port import Bus
from hereabouts.schemas.errors import BusUnavailable, HereaboutsError, NotFound, RequestTooLarge
from hereabouts.schemas.http import (
    InvocationView,
    SessionCreated,
    SessionRequest,
    SessionTools,
    SessionView,
    ToolList,
)
from hereabouts.schemas.ids import is_correlation_id
from hereabouts.schemas.limits import CLIENT_BUDGET_MS, MAX_REQUEST_BYTES
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.records import ClientRecord, SessionRecord

from . import failures, invocation, timeline
from .auth import Caller, Callers
from .calls import Calls
from .errors import BadRequest
from .routing import preference
from .sessions import Sessions, view
from .timers import monotonic_ms
from .tools import BUILT_IN, each_name_once, invalid

BUS_WAIT_S = CLIENT_BUDGET_MS / 1000
"""How long a request waits for the bus in all: never longer than for a person."""

BODY_WAIT_S = 10.0
"""For a body of at most 64 KiB: a slow phone needs a second or two; who needs longer holds a place for nothing."""

INVOCATIONS_PATH = "/v1/sessions/{session_id}/invocations"
INVOCATION = re.compile("/v1/sessions/([^/]+)/invocations")

PICTURE_MS = 250
"""How old the picture of who is connected may be when the ask leaves: it was read while the body still came in, and a
body may come slowly. Leases are looked at no oftener either."""


@asynccontextmanager
async def bus_in_time() -> AsyncIterator[None]:
    """What stands within must have heard from the bus in time.

    Raises:
        BusUnavailable: it has not.
    """
    try:
        async with asyncio.timeout(BUS_WAIT_S):
            yield
    except TimeoutError:
        raise BusUnavailable from None


async def read_body(request: Request) -> bytes:
    """The body, up to MAX_REQUEST_BYTES; the rest of a larger one is not read.

    Raises:
        RequestTooLarge: there is more, or its header says so.
        BadRequest: the caller hung up, or sends too slowly.
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > MAX_REQUEST_BYTES:
        raise RequestTooLarge(limit_bytes=MAX_REQUEST_BYTES)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_REQUEST_BYTES:
                    raise RequestTooLarge(limit_bytes=MAX_REQUEST_BYTES)
    except TimeoutError:
        raise BadRequest(problem=f"The body did not arrive within {BODY_WAIT_S:.0f} s.") from None
    except ClientDisconnect:
        raise BadRequest(problem="The connection was closed before the request was complete.") from None
    return bytes(body)


@dataclass(frozen=True, slots=True)
class Api:
    """The endpoints over the brain's parts."""

    bus: Bus
    callers: Callers
    sessions: Sessions
    calls: Calls

    async def _session(self, request: Request) -> tuple[Caller, SessionRecord]:
        """Who asks, and the session in the path, which must be theirs.

        Raises:
            Unauthorized, Forbidden, NotFound, BusUnavailable: see `Callers`, `Caller` and `Sessions`.
        """
        session_id = request.path_params["session_id"]
        async with bus_in_time():
            caller = await self._caller(request)
            caller.must_reach(session_id)
            return caller, await self.sessions.get(caller.tenant, session_id)

    async def _session_and_clients(self, request: Request) -> tuple[SessionRecord, list[ClientRecord] | None, float]:
        """The session in the path, its clients, and since when that is known (milliseconds of `monotonic_ms`).

        An agent's token names the session's user: both are asked for in one write. None: the clients are not known.
        """
        session_id = request.path_params["session_id"]
        asked_ms = monotonic_ms()
        async with bus_in_time():
            caller = await self._caller(request)
            caller.must_reach(session_id)
            if caller.session is None:
                return await self.sessions.get(caller.tenant, session_id), None, asked_ms
            try:
                asked = self.bus.directory.clients(caller.tenant, session_id, caller.user)
            except HereaboutsError:
                return await self.sessions.get(caller.tenant, session_id), None, asked_ms
            try:
                session = await self.sessions.get(caller.tenant, session_id)
                if session.user != caller.user:
                    return session, None, asked_ms
                try:
                    return session, await asked, asked_ms
                except HereaboutsError:
                    return session, None, asked_ms  # the call itself says what that means
            finally:
                asked.close()

    async def _caller(self, request: Request) -> Caller:
        return await self.callers.identify(request.headers.get("authorization"))

    async def invoke(self, request: Request) -> Response:
        """`POST /v1/sessions/{id}/invocations`: one call, and its answer."""
        started_ns, started_ms = time.time_ns(), monotonic_ms()
        session, clients, read_ms = await self._session_and_clients(request)
        wanted = invocation.parse(
            await read_body(request),
            started_ms=started_ms,
            started_ns=started_ns,
            # Only now: a stranger's header decides nothing about our traces.
            trace=TraceContext.parse(request.headers.get("traceparent")),
        )
        if monotonic_ms() - read_ms > PICTURE_MS:
            clients = None
        answer = await self.calls.invoke(session, wanted, clients)
        return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")

    async def create_session(self, request: Request) -> SessionCreated:
        """`POST /v1/sessions`: a session with its tokens."""
        async with bus_in_time():
            caller = await self._caller(request)
        caller.must_be_tenant()
        body = await read_body(request)
        try:
            wanted = SessionRequest.model_validate(invocation.json_object(body) if body else {}, strict=True)
        except ValidationError as problem:
            raise invalid(problem) from None
        async with bus_in_time():
            return await self.sessions.create(caller.tenant, wanted.user)

    async def get_session(self, request: Request) -> SessionView:
        """`GET /v1/sessions/{id}`: the session and its live clients."""
        _, session = await self._session(request)
        async with bus_in_time():
            clients = await self.bus.directory.clients(session.tenant, session.session, session.user)
        return view(session, clients)

    async def delete_session(self, request: Request) -> Response:
        """`DELETE /v1/sessions/{id}`: its tokens are worth nothing from now on."""
        async with bus_in_time():
            caller = await self._caller(request)
            caller.must_be_tenant()
            await self.sessions.end(caller.tenant, request.path_params["session_id"])
        self.calls.end_session(caller.tenant, request.path_params["session_id"])
        return Response(status_code=204)

    async def session_tools(self, request: Request) -> SessionTools:
        """`GET /v1/sessions/{id}/tools`: what its clients registered, each name once."""
        _, session = await self._session(request)
        async with bus_in_time():
            clients = await self.bus.directory.clients(session.tenant, session.session, session.user)
        return SessionTools(tools=each_name_once(sorted(clients, key=preference)))

    async def get_invocation(self, request: Request) -> InvocationView:
        """`GET /v1/invocations/{correlation_id}`: where a call stands, from the journal alone.

        An agent sees the calls of its own session; of another's it is told what a stranger is told.
        """
        correlation_id = request.path_params["correlation_id"]
        async with bus_in_time():
            caller = await self._caller(request)
            entries = await self.bus.journal.read(correlation_id) if is_correlation_id(correlation_id) else []
        own = [entry for entry in entries if entry.tenant == caller.tenant]
        sessions = {entry.session for entry in own if entry.session is not None}
        if not own or (caller.session is not None and caller.session not in sessions):
            raise NotFound(what="invocation")
        return timeline.view(correlation_id, own)

    async def list_tools(self, request: Request) -> ToolList:
        """`GET /v1/tools`: the tools that Hereabouts defines."""
        async with bus_in_time():
            await self._caller(request)
        return ToolList(tools=list(BUILT_IN))

    def router(self) -> APIRouter:
        """All but the invocation."""
        router = APIRouter(prefix="/v1")
        add = router.add_api_route
        add("/sessions", self.create_session, methods=["POST"], status_code=201, response_model=SessionCreated)
        add("/sessions/{session_id}", self.get_session, methods=["GET"], response_model=SessionView)
        add("/sessions/{session_id}", self.delete_session, methods=["DELETE"], status_code=204, response_model=None)
        add("/sessions/{session_id}/tools", self.session_tools, methods=["GET"], response_model=SessionTools)
        add("/invocations/{correlation_id}", self.get_invocation, methods=["GET"], response_model=InvocationView)
        add("/tools", self.list_tools, methods=["GET"], response_model=ToolList)
        return router

    async def invocation_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The hot path without a framework around it; `path_params` in the scope are set."""
        response = await failures.answer(Request(scope, receive), self.invoke)
        await response(scope, receive, send)

    def invocation_route(self) -> Route:
        """The hot path."""
        return Route(INVOCATIONS_PATH, self.invoke, methods=["POST"])
