"""A browser bridge in this process, on the in-memory bus and on a real server."""

import hashlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hereabouts.browser_bridge.app import browser_bridge
from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.bus.port import Bus
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.bus.server import embedded, stop
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.records import PageCode, Role, SessionRecord, TenantRecord
from hereabouts.testing.tabs import ScriptedTab
from tests.support.edges import Brain, RunningEdge, running_edge

SECRET = "browser-bridge-tests-" + "x" * 32
NewBus = Callable[[Role], Bus]


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="hb-"))
    try:
        yield embedded(folder).url
    finally:
        stop(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["memory", "redis"])
def new_bus(request: pytest.FixtureRequest) -> NewBus:
    if request.param == "memory":
        hub = MemoryHub()
        return lambda role: MemoryBus(hub, role)
    url: str = request.getfixturevalue("server_url")
    keyring = KeyRing.derive(SECRET)
    return lambda role: RedisBus(url, role, Sealer(keyring.sealing_keys, keyring.sealing_key_id))


@dataclass
class House:
    """A bridge, a brain's end of the bus, a tenant and its sessions."""

    bridge: RunningEdge
    brain: Brain
    tokens: Tokens
    tenant: str

    async def session(self, name: str = "s_1", *, exists: bool = True) -> str:
        """A session; its client token."""
        now_ms = int(time.time() * 1000)
        if exists:
            record = SessionRecord(
                tenant=self.tenant, session=name, user="anna", created_at_ms=now_ms, expires_at_ms=now_ms + 3_600_000
            )
            await self.brain.bus.records(SessionRecord).put(f"{self.tenant}/{name}", record)
        return self.token(name)

    def token(self, session: str | None, kind: TokenKind = TokenKind.CLIENT, ttl_s: float = 3_600) -> str:
        return self.tokens.sign(kind, self.tenant, session, "anna", ttl_s=ttl_s)

    async def code(self, code: str, token: str, session: str = "s_1") -> None:
        page = PageCode(tenant=self.tenant, session=session, user="anna", token=token)
        await self.brain.bus.records(PageCode).put(hashlib.sha256(code.encode()).hexdigest(), page, 60_000)

    async def tab(self, session: str = "s_1", **how: object) -> ScriptedTab:
        """A tab that is not connected yet."""
        return ScriptedTab(self.bridge.url, await self.session(session), session, **how)  # type: ignore[arg-type]


@pytest.fixture
async def house(new_bus: NewBus) -> AsyncIterator[House]:
    keyring = KeyRing.derive(SECRET)
    bus = new_bus(Role.EDGE)
    brain = Brain(new_bus(Role.BRAIN))
    await brain.start()
    tenant = f"t{time.time_ns()}"
    record = TenantRecord(
        tenant=tenant,
        name="Tests",
        api_key_sha256=[],
        allowed_origins=["https://app.example"],
        created_at_ms=int(time.time() * 1000),
    )
    await brain.bus.records(TenantRecord).put(tenant, record)
    try:
        async with running_edge(bus, lambda port: browser_bridge(bus, keyring, f"http://127.0.0.1:{port}")) as bridge:
            yield House(bridge, brain, Tokens(keyring), tenant)
    finally:
        await brain.bus.records(TenantRecord).delete(tenant)
        await brain.bus.stop()
