"""The ASGI side of an edge: one bare WebSocket endpoint, a Starlette app for the rest, and the process around both."""

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from hereabouts.bus.port import Bus
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.bus.server import bus_url
from hereabouts.runtime import logs
from hereabouts.runtime.health import health_routes
from hereabouts.runtime.keyring import KeyRing, load_keyring
from hereabouts.runtime.serving import serve
from hereabouts.runtime.settings import ServiceSettings
from hereabouts.runtime.spans import SpanExport
from hereabouts.schemas.records import Role

from .dialect import Peer
from .edge import Edge
from .protocol import EXTENSION, EdgeProtocol
from .service import EdgeService


def edge_app(edge: Edge) -> ASGIApp:
    """The ASGI application of an edge: its socket at `service.path`, health and the service's routes beside it.

    Its lifespan starts and stops the edge. It must be served with `EdgeProtocol` as uvicorn's WebSocket protocol.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        await edge.start()
        try:
            yield
        finally:
            await edge.stop()

    service = edge.service
    routes = [*health_routes(service.name.value, {"bus": edge.problem, **service.checks}), *service.routes]
    http = Starlette(routes=routes, lifespan=lifespan)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await _websocket(edge, scope, receive, send)
        else:
            await http(scope, receive, send)

    return app


async def _websocket(edge: Edge, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    peer = peer_of(scope)
    here = scope["path"] in (edge.service.path, *edge.service.also_at)
    if not here or not edge.accepts or not edge.service.admit(peer):
        await send({"type": "websocket.close"})  # before the handshake: HTTP 403
        return
    socket = cast(EdgeProtocol, scope["extensions"][EXTENSION])
    connection = edge.connect(socket, peer)
    try:
        socket.sink = connection
        await send({"type": "websocket.accept"})
        connection.opened()
        while (await receive())["type"] != "websocket.disconnect":
            pass
    finally:
        connection.lost(1006)


def peer_of(scope: Scope) -> Peer:
    """The other end as the handshake shows it. Of a header that is sent twice the last counts, but of Origin neither."""
    headers: dict[str, str] = {}
    origins: list[str] = []
    for name, value in scope["headers"]:
        text = value.decode("latin-1")
        headers[name.decode("latin-1").lower()] = text
        if name.lower() == b"origin":
            origins.append(text)
    client = scope.get("client")
    return Peer(
        origin=origins[0] if len(origins) == 1 else None,
        host=headers.get("host", ""),
        address=client[0] if client else "",
        headers=headers,
    )


def serve_edge(settings: ServiceSettings, build: Callable[[Bus, KeyRing], EdgeService]) -> None:
    """The whole process of an edge: bus, keys, sockets, drain. `build` makes the service once the bus exists.

    Raises:
        SystemExit: always, see `serve`.
    """
    logs.configure(settings, settings.service)
    keyring = load_keyring(settings)
    url = bus_url(settings.redis_url, settings.data_dir)
    bus = RedisBus(url, Role.EDGE, Sealer(keyring.sealing_keys, keyring.sealing_key_id))
    spans = SpanExport.from_settings(settings)
    edge = Edge(bus, build(bus, keyring), spans)
    try:
        serve(edge_app(edge), settings, service=settings.service, ws_protocol=EdgeProtocol, drain=edge.drain)
    finally:
        spans.close()
