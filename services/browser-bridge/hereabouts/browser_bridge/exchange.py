"""`POST /chat/exchange`: the one-time code of a chat page's address, once, for the page's token."""

import hashlib

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from hereabouts.bus.port import Bus
from hereabouts.schemas.base import StrictModel, WireModel
from hereabouts.schemas.errors import HereaboutsError, InvalidRequest, RequestTooLarge
from hereabouts.schemas.records import PageCode

MAX_BODY_BYTES = 4_096
"""A code has 43 characters."""

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
SOCKET_PATH = "/ws"


class CodeGone(HereaboutsError):
    code = "code_gone"
    http_status = 410
    template = "This link was used already or has expired. Ask for a new one."


class ExchangeRequest(StrictModel):
    """What the page sends."""

    code: str = Field(min_length=1, max_length=256)


class Visit(WireModel):
    """What the page gets: enough to connect."""

    token: str
    session_id: str
    socket_url: str = Field(description="relative to the page")
    user: str | None


def exchange_routes(bus: Bus) -> list[BaseRoute]:
    """The route; codes are taken from the bus, so that of two pages only one gets the token."""
    codes = bus.records(PageCode)

    async def exchange(request: Request) -> JSONResponse:
        try:
            code = await _code(request)
            page = await codes.take(hashlib.sha256(code.encode()).hexdigest())
            if page is None:
                raise CodeGone
        except HereaboutsError as problem:
            return JSONResponse(problem.body().model_dump(mode="json"), problem.http_status, headers=HEADERS)
        visit = Visit(token=page.token, session_id=page.session, socket_url=SOCKET_PATH, user=page.user)
        return JSONResponse(visit.model_dump(mode="json", by_alias=True, exclude_none=True), headers=HEADERS)

    return [Route("/chat/exchange", exchange, methods=["POST"])]


async def _code(request: Request) -> str:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY_BYTES:
            raise RequestTooLarge(limit_bytes=MAX_BODY_BYTES)
    try:
        return ExchangeRequest.model_validate_json(bytes(body)).code
    except ValidationError:
        raise InvalidRequest(problem='Send {"code": "…"} as JSON.') from None
