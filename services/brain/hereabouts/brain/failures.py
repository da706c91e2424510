"""The one place where errors become HTTP: every status from 400 up has an ErrorBody, and none repeats the request."""

import traceback
from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hereabouts.runtime.logs import get_logger
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.ids import new_trace_id

from . import metrics
from .errors import BadRequest, InternalError, MethodNotAllowed, NoSuchRoute
from .tools import invalid_fields

_log = get_logger("hereabouts.brain.http")


def response(error: HereaboutsError, *, trace_id: str | None = None, headers: dict[str, str] | None = None) -> Response:
    """An error as its caller sees it."""
    metrics.HTTP_ERRORS.labels(error.code).inc()
    fields = dict(headers or {})
    if error.http_status == 401:
        fields["WWW-Authenticate"] = "Bearer"
    if error.http_status == 503:
        fields["Retry-After"] = "1"
    return Response(
        error.body(trace_id).model_dump_json(exclude_none=True),
        status_code=error.http_status,
        media_type="application/json",
        headers=fields,
    )


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, HereaboutsError)
    return response(error)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return response(NoSuchRoute())
    if error.status_code == 405:
        return response(MethodNotAllowed(method=request.method), headers=dict(error.headers or {}))
    return response(BadRequest(problem="The request cannot be read."))


async def _validation(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return response(
        invalid_fields({".".join(str(part)[:64] for part in e["loc"]): str(e["msg"]) for e in error.errors()})
    )


class LastResort:
    """What nobody foresaw: a 500 whose trace id stands in the log, beside the places in the code and not the text.

    An exception's own words may hold what a client sent, so they are not logged.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; answer for what fails."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as problem:
            if scope["type"] != "http":
                raise
            trace_id = new_trace_id()
            places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(problem.__traceback__)[-6:]]
            _log.error("a request failed", trace_id=trace_id, error_type=type(problem).__name__, places=places)
            if not started:
                await response(InternalError(), trace_id=trace_id)(scope, receive, send)


async def answer(request: Request, serve: Callable[[Request], Awaitable[Response]]) -> Response:
    """What `serve` answers, or the error it raised as its caller sees it."""
    try:
        return await serve(request)
    except HereaboutsError as error:
        return response(error)


def install(app: FastAPI) -> None:
    """Map every error of this app."""
    app.add_middleware(LastResort)
    app.add_exception_handler(HereaboutsError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _validation)
