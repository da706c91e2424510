"""A brain on the in-memory bus, an edge whose clients a test scripts, and records to build on."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from hereabouts.brain.app import Brain
from hereabouts.brain.settings import BrainSettings
from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.bus.port import Message
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.spans import SpanExport
from hereabouts.runtime.tokens import Tokens, api_key_sha256, new_api_key
from hereabouts.schemas.bus_messages import Ask, Cancel, ClientResult, ClientState, Kind, Progress
from hereabouts.schemas.fixes import Fix
from hereabouts.schemas.ids import new_id
from hereabouts.schemas.marks import TraceContext
from hereabouts.schemas.outcomes import OUTCOMES, Reason, Status
from hereabouts.schemas.records import ClientRecord, Role, TenantRecord
from hereabouts.schemas.tools import LOCATION_GET_TOOL, Tool

KEYRING = KeyRing.derive("a secret of a test, long enough to be one")


def a_client(**fields: Any) -> ClientRecord:
    """A focused tab with permission that registered location_get."""
    name = fields.pop("name", "tab-1")
    return ClientRecord.model_validate(
        {
            "tenant": "acme",
            "session": "s_1",
            "user": "ada",
            "kind": "tab",
            "client_id": name,
            "connection": f"c_{name}",
            "edge": "edge_1",
            "epoch": 1,
            "since_ms": 1,
            "active_at_ms": 1,
            "tools": [LOCATION_GET_TOOL],
            "visibility": "visible",
            "focused": True,
            "permission": "granted",
            **fields,
        }
    )


def a_fix(**fields: Any) -> Fix:
    """Somewhere in Vienna, a moment ago."""
    return Fix.model_validate(
        {"latitude": 48.2, "longitude": 16.37, "accuracy": 20.0, "timestamp_ms": 1, "age_ms": 0, **fields}
    )


def a_result(client: ClientRecord, **fields: Any) -> ClientResult:
    """What this client answers; GRANTED unless a `reason` says otherwise."""
    reason = fields.get("reason")
    if reason is None:
        fields = {"status": Status.GRANTED, "fix": a_fix(), **fields}
    elif isinstance(reason, Reason):
        fields = {"status": OUTCOMES[reason].status, **fields}
    else:
        fields = {"status": Status.UNAVAILABLE, **fields}
    return ClientResult.model_validate(
        {
            "connection": client.connection,
            "client_id": client.client_id,
            "epoch": client.epoch,
            "received_at_ms": 1_700_000_000_000,
            **fields,
        }
    )


@pytest.fixture
def client() -> Callable[..., ClientRecord]:
    return a_client


@pytest.fixture
def fix() -> Callable[..., Fix]:
    return a_fix


@pytest.fixture
def result() -> Callable[..., ClientResult]:
    return a_result


class ScriptedEdge:
    """An edge on the bus whose clients do what `on_ask` says; by itself it is silent."""

    def __init__(self, hub: MemoryHub) -> None:
        self.bus = MemoryBus(hub, Role.EDGE)
        self.asks: list[tuple[Message, Ask]] = []
        self.cancels: list[Cancel] = []
        self.on_ask: Callable[[Message, Ask], None] = lambda message, ask: None
        self.changed = asyncio.Event()
        self.records: dict[str, ClientRecord] = {}

    def on_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.kind is Kind.ASK:
                ask = Ask.model_validate_json(message.body)
                self.asks.append((message, ask))
                self.on_ask(message, ask)
            else:
                self.cancels.append(Cancel.model_validate_json(message.body))
        self.changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            self.changed.clear()
            await self.changed.wait()

    async def register(self, of_session: str, name: str = "tab-1", **fields: Any) -> ClientRecord:
        record = a_client(
            **{
                "name": name,
                "session": of_session,
                "user": None,
                "edge": self.bus.instance,
                "epoch": self.bus.epoch,
                "connection": new_id("c"),
                **fields,
            }
        )
        await self.bus.directory.put(record)
        self.records[record.connection] = record
        return record

    def answer(self, message: Message, ask: Ask, **fields: Any) -> None:
        record = self.records[ask.connection]
        body = a_result(record, **{"received_at_ms": self.bus.now_ms(), **fields})
        self._send(Kind.RESULT, message, body.model_dump_json().encode())

    def report(self, message: Message, ask: Ask, state: ClientState) -> None:
        body = Progress(connection=ask.connection, client_id=ask.client_id, state=state)
        self._send(Kind.PROGRESS, message, body.model_dump_json().encode())

    def _send(self, kind: Kind, message: Message, body: bytes) -> None:
        parent = TraceContext.parse(message.traceparent)
        assert parent is not None
        self.bus.send(
            message.reply_to,
            Message(
                kind=kind,
                correlation_id=message.correlation_id,
                tenant=message.tenant,
                body=body,
                reply_to=self.bus.inbox,
                traceparent=parent.child().traceparent,
            ),
        )


@dataclass
class House:
    """A brain over HTTP, an edge, and a tenant's key."""

    hub: MemoryHub
    brain: Brain
    edge: ScriptedEdge
    http: httpx.AsyncClient
    key: str
    tokens: Tokens = field(default_factory=lambda: Tokens(KEYRING))

    async def session(self, user: str | None = None) -> dict[str, Any]:
        response = await self.http.post("/v1/sessions", json={"user": user} if user else {})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def invoke(self, session: str, tool: str = "location_get", **fields: Any) -> dict[str, Any]:
        response = await self.post(session, {"tool": tool, **fields})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def post(self, session: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.http.post(f"/v1/sessions/{session}/invocations", content=content, headers=headers)


async def add_tenant(hub: MemoryHub, tenant: str) -> str:
    """A tenant and its key."""
    key = new_api_key()
    bus = MemoryBus(hub, Role.BRAIN)
    await bus.start(lambda messages: None)
    await bus.records(TenantRecord).put(
        tenant, TenantRecord(tenant=tenant, name=tenant, api_key_sha256=[api_key_sha256(key)], created_at_ms=1)
    )
    await bus.stop()
    return key


@asynccontextmanager
async def a_house() -> AsyncIterator[House]:
    """Everything started, and stopped afterwards with no call left open."""
    hub = MemoryHub()
    key = await add_tenant(hub, "acme")
    brain = Brain(MemoryBus(hub, Role.BRAIN), BrainSettings(), KEYRING, SpanExport(0, 1_000))
    edge = ScriptedEdge(hub)
    await edge.bus.start(edge.on_messages)
    async with (
        brain.app.router.lifespan_context(brain.app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(brain.app),
            base_url="http://brain",
            headers={"Authorization": f"Bearer {key}"},
        ) as http,
    ):
        yield House(hub, brain, edge, http, key)
        assert brain.calls.open == 0
    await edge.bus.stop()


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with a_house() as made:
        yield made


@pytest.fixture
def silent_tool() -> Tool:
    return Tool(
        name="page_title",
        description="The page's title",
        params_schema={
            "type": "object",
            "properties": {"language": {"type": "string", "pattern": "^[a-z]{2}$"}},
            "required": ["language"],
            "additionalProperties": False,
        },
    )


@pytest.fixture
def other_tenant() -> Callable[[MemoryHub], Any]:
    async def add(hub: MemoryHub) -> str:
        return await add_tenant(hub, "globex")

    return add


@pytest.fixture(scope="session")
def make_house() -> Callable[[], Any]:
    return a_house
