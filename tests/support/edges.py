"""A real edge in this process: uvicorn with the edge's protocol on a free port, on any bus."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from hereabouts.bus.port import Bus, Message
from hereabouts.edge.app import edge_app
from hereabouts.edge.edge import Edge
from hereabouts.edge.protocol import EdgeProtocol
from hereabouts.edge.service import EdgeService
from hereabouts.schemas.bus_messages import Ask, Cancel, ClientResult, JournalEntry, JournalKind, Kind, Progress
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.records import ClientRecord

from .waiting import until


@dataclass
class RunningEdge:
    """An edge that serves."""

    edge: Edge
    port: int
    server: uvicorn.Server

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}{self.edge.service.path}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_socket() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


@contextlib.asynccontextmanager
async def running_edge(bus: Bus, build: Callable[[int], EdgeService]) -> AsyncIterator[RunningEdge]:
    """Serve; `build` gets the port, since a service knows its own origin."""
    listener = free_socket()
    port = listener.getsockname()[1]
    edge = Edge(bus, build(port))
    config = uvicorn.Config(
        edge_app(edge),
        http="httptools",
        ws=EdgeProtocol,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listener]))

    async def started() -> bool:
        if serving.done():
            serving.result()
        return server.started

    try:
        await until(started, "the edge to serve")
        yield RunningEdge(edge, port, server)
    finally:
        server.should_exit = True
        await serving


@dataclass
class Brain:
    """What a brain does on the bus, by hand: asks, and keeps what comes back."""

    bus: Bus
    results: list[tuple[str, ClientResult]] = field(default_factory=list)
    progress: list[tuple[str, Progress]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    async def start(self) -> None:
        await self.bus.start(self._take)

    def _take(self, messages: Any) -> None:
        for message in messages:
            self.messages.append(message)
            if message.kind is Kind.RESULT:
                self.results.append((message.correlation_id, ClientResult.model_validate_json(message.body)))
            elif message.kind is Kind.PROGRESS:
                self.progress.append((message.correlation_id, Progress.model_validate_json(message.body)))

    async def clients(self, tenant: str, session: str | None, count: int = 1, user: str | None = None) -> Any:
        async def look() -> list[ClientRecord] | bool:
            found = await self.bus.directory.clients(tenant, session, user)
            return (found or True) if len(found) == count else False

        seen = await until(look, f"{count} client(s)")
        return [] if seen is True else seen

    def ask(
        self,
        client: ClientRecord,
        tool: str = "location_get",
        *,
        correlation_id: str | None = None,
        budget_ms: int = 5_000,
        expires_at_ms: int = 0,
        **fields: Any,
    ) -> str:
        correlation_id = correlation_id or new_correlation_id()
        context = TraceContext.new()
        ask = Ask(
            connection=client.connection,
            client_id=client.client_id,
            tool=tool,
            params=fields.pop("params", {}),
            budget_ms=budget_ms,
            may_prompt=fields.pop("may_prompt", True),
            sent_at_ns=0,
            **fields,
        )
        self._send(client, Kind.ASK, correlation_id, ask.model_dump_json(), context, expires_at_ms)
        return correlation_id

    def cancel(self, client: ClientRecord, correlation_id: str, reason: str = "cancelled") -> None:
        body = Cancel.model_validate(
            {"connection": client.connection, "client_id": client.client_id, "reason": reason}
        ).model_dump_json()
        self._send(client, Kind.CANCEL, correlation_id, body, TraceContext.new(), 0)

    def _send(
        self, client: ClientRecord, kind: Kind, correlation_id: str, body: str, context: TraceContext, expires: int
    ) -> None:
        self.bus.send(
            self.bus.inbox_of(client.edge),
            Message(
                kind=kind,
                correlation_id=correlation_id,
                tenant=client.tenant,
                body=body.encode(),
                reply_to=self.bus.inbox,
                expires_at_ms=expires,
                traceparent=context.traceparent,
            ),
        )

    async def result(self, correlation_id: str, count: int = 1) -> ClientResult:
        async def look() -> list[ClientResult]:
            found = [result for name, result in self.results if name == correlation_id]
            return found if len(found) >= count else []

        return (await until(look, f"result {count} of the call"))[count - 1]

    async def states(self, correlation_id: str, count: int = 1) -> list[str]:
        async def look() -> list[str]:
            found = [told.state.value for name, told in self.progress if name == correlation_id]
            return found if len(found) >= count else []

        return await until(look, "progress")

    async def line(self, correlation_id: str, kind: JournalKind) -> JournalEntry:
        async def look() -> JournalEntry | None:
            lines = await self.bus.journal.read(correlation_id)
            return next((line for line in lines if line.kind is kind), None)

        found = await until(look, f"a journal line {kind.value}")
        assert found is not None
        return found


def as_json(text: str | bytes) -> Any:
    return json.loads(text)
