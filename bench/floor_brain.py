"""The floor's brain: POST, XADD to the edge's stream, await the future, JSON answer. `python -m bench.floor_brain URL PORT`."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import uuid_utils
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.floor_bus import FLOOR_BRAIN, FLOOR_EDGE, Outbox, read

KEEP_ALIVE_S = 75
"""Callers stay connected while the other side has its turns."""


def app(url: str) -> Starlette:
    """The application; `url` is Redis's."""
    open_calls: dict[str, asyncio.Future[dict[str, Any]]] = {}
    outboxes: list[Outbox] = []

    async def invoke(request: Request) -> JSONResponse:
        body = await request.json()
        correlation_id = str(uuid_utils.uuid7())
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        open_calls[correlation_id] = future
        ask = json.dumps({"correlationId": correlation_id, "name": body["tool"], "params": body["arguments"]})
        client = request.path_params["client"]
        outboxes[0].add(FLOOR_EDGE, "id", correlation_id, "client", client, "body", ask)
        result = await future
        return JSONResponse({"correlation_id": correlation_id, **result})

    def settle(entry: dict[str, str]) -> None:
        future = open_calls.pop(entry["id"], None)
        if future is not None:
            future.set_result(json.loads(entry["body"]))

    async def healthy(request: Request) -> JSONResponse:
        return JSONResponse({"open": len(open_calls)})

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        outboxes.append(await Outbox.open(url))
        tasks = [asyncio.create_task(outboxes[0].run()), asyncio.create_task(read(url, FLOOR_BRAIN, settle))]
        yield
        for task in tasks:
            task.cancel()

    routes = [Route("/clients/{client}/calls", invoke, methods=["POST"]), Route("/healthz", healthy)]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(
        app(sys.argv[1]),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        log_level="warning",
    )
