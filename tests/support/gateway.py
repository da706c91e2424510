"""A whole node gateway in this process, on a real socket and the in-memory bus, with a brain that asks through it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import uvicorn

from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.bus.port import Message
from hereabouts.edge.app import edge_app
from hereabouts.edge.edge import Edge
from hereabouts.edge.protocol import EdgeProtocol
from hereabouts.node_gateway.app import node_gateway
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.serving import bind
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.bus_messages import Ask, Cancel, ClientResult, Kind
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.records import ClientRecord, Role
from tests.support.waiting import until

PATIENCE_S = 20.0
TENANT = "acme"
SECRET = "a secret of this test and of nothing else"


class Brain:
    """Asks clients over the bus as a brain does, and keeps what comes back."""

    def __init__(self, bus: MemoryBus) -> None:
        self.bus = bus
        self.results: list[ClientResult] = []
        self._waiting: dict[str, asyncio.Future[ClientResult]] = {}

    def on_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.kind is Kind.RESULT:
                result = ClientResult.model_validate_json(message.body)
                self.results.append(result)
                if (waiting := self._waiting.get(message.correlation_id)) is not None and not waiting.done():
                    waiting.set_result(result)

    async def nodes(self, user: str, count: int = 1) -> list[ClientRecord]:
        """The user's live nodes, once there are `count`."""

        async def found() -> tuple[list[ClientRecord]] | None:
            nodes = await self.bus.directory.clients(TENANT, None, user)
            return (nodes,) if len(nodes) == count else None

        return (await until(found, f"{count} nodes of {user}", PATIENCE_S))[0]

    def begin(
        self, node: ClientRecord, budget_ms: int = 10_000, **params: Any
    ) -> tuple[str, "asyncio.Future[ClientResult]"]:
        """Ask without waiting; the correlation id and the future result."""
        correlation_id = new_correlation_id()
        ask = Ask(
            connection=node.connection,
            client_id=node.client_id,
            tool="location_get",
            params=params,
            budget_ms=budget_ms,
            may_prompt=False,
            sent_at_ns=0,
        )
        self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        self._send(Kind.ASK, node, correlation_id, ask)
        return correlation_id, self._waiting[correlation_id]

    async def ask(self, node: ClientRecord, budget_ms: int = 10_000, **params: Any) -> ClientResult:
        """Ask one node for its position and wait for the result."""
        return await asyncio.wait_for(self.begin(node, budget_ms, **params)[1], PATIENCE_S)

    def cancel(
        self, node: ClientRecord, correlation_id: str, reason: Literal["settled", "cancelled", "deadline"]
    ) -> None:
        """The call no longer needs this node."""
        cancel = Cancel(connection=node.connection, client_id=node.client_id, reason=reason)
        self._send(Kind.CANCEL, node, correlation_id, cancel)

    def _send(self, kind: Kind, node: ClientRecord, correlation_id: str, body: Ask | Cancel) -> None:
        message = Message(
            kind=kind,
            correlation_id=correlation_id,
            tenant=node.tenant,
            body=body.model_dump_json().encode(),
            reply_to=self.bus.inbox,
            traceparent=TraceContext.new().traceparent,
        )
        self.bus.send(self.bus.inbox_of(node.edge), message)


class LiveGateway:
    """Where it listens, its brain, and tokens for it."""

    def __init__(self, port: int, hub: MemoryHub, edge: Edge, brain: Brain, tokens: Tokens) -> None:
        self.url = f"ws://127.0.0.1:{port}/"
        self.hub = hub
        self.edge = edge
        self.brain = brain
        self._tokens = tokens

    def token(self, user: str = "ada", tenant: str = TENANT, auto_approve: bool = False) -> str:
        """A gateway token."""
        return self._tokens.sign(TokenKind.GATEWAY, tenant, user=user, ttl_s=600, auto_approve=auto_approve)


@asynccontextmanager
async def live_gateway(hub: MemoryHub | None = None, port: int = 0) -> AsyncIterator[LiveGateway]:
    """Serve until the block ends. With the hub of an earlier one it is the same deployment, restarted."""
    hub = hub or MemoryHub()
    keyring = KeyRing.derive(SECRET)
    edge_bus, brain_bus = MemoryBus(hub, Role.EDGE), MemoryBus(hub, Role.BRAIN)
    brain = Brain(brain_bus)
    edge = Edge(edge_bus, node_gateway(edge_bus, keyring))
    listener = bind("127.0.0.1", port)
    config = uvicorn.Config(
        edge_app(edge), ws=EdgeProtocol, ws_per_message_deflate=False, lifespan="on", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listener]))
    try:
        await brain_bus.start(brain.on_messages)

        async def started() -> bool:
            assert not serving.done(), "the server ended at its start"
            return server.started

        await until(started, "the gateway's server", PATIENCE_S)
        yield LiveGateway(listener.getsockname()[1], hub, edge, brain, Tokens(keyring))
    finally:
        await edge.drain()
        server.should_exit = True
        await serving
        await brain_bus.stop()
        listener.close()
