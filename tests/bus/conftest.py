"""The places that the contract is tested in: Redis, Valkey, and the twin; and what no test may leave behind."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
import redis

from hereabouts.bus import keys, server
from hereabouts.bus.end import BusEnd
from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.bus.port import Message
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.records import Role

T = TypeVar("T")

LIMIT_S = 15.0


async def until(look: Callable[[], T | Awaitable[T]], what: str) -> T:
    """The first truthy value of `look`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LIMIT_S):
            while True:
                seen: Any = look()
                if asyncio.iscoroutine(seen):
                    seen = await seen
                if seen:
                    return seen  # type: ignore[no-any-return]
                await asyncio.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


class Heard:
    """What one bus was told."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.epochs: list[int] = []
        self.lost = 0

    def on_messages(self, messages: Any) -> None:
        self.messages.extend(messages)

    async def on_new_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def on_lost(self) -> None:
        self.lost += 1


class Place(Protocol):
    """A store, from outside."""

    def bus(self, role: Role) -> BusEnd: ...
    def raw(self, *command: str | bytes | int) -> Any: ...
    def names(self) -> dict[str, int | None]: ...
    def lose_data(self) -> None: ...
    async def silence(self, bus: BusEnd) -> None: ...
    async def answer(self, bus: BusEnd) -> None: ...


class RedisPlace:
    """A server of this test's own."""

    def __init__(self, data_dir: Path, binary: Path | None) -> None:
        self.data_dir = data_dir
        self.binary = binary
        self.sealer = Sealer({"new": os.urandom(32), "old": os.urandom(32)}, "new")
        self.start()

    def start(self) -> None:
        self.server = server.embedded(self.data_dir, self.binary)
        self.client = redis.Redis.from_url(self.server.url)

    def kill(self) -> None:
        """kill -9, until nobody answers."""
        os.kill(self.server.pid, signal.SIGKILL)
        while server._ask(server.socket_path(self.data_dir), b"PING") is not None:
            pass
        self.client.close()

    def bus(self, role: Role) -> RedisBus:
        return RedisBus(self.server.url, role, self.sealer)

    def raw(self, *command: str | bytes | int) -> Any:
        # As bytes and without redis-py's own shaping of replies.
        return self.client.execute_command(*command)

    def names(self) -> dict[str, int | None]:
        found = {}
        for key in self.client.scan_iter(count=1000):
            ttl = self.client.pttl(key)
            if ttl != -2:
                found[key.decode()] = None if ttl == -1 else int(ttl)
        return found

    def lose_data(self) -> None:
        self.client.flushall()

    async def silence(self, bus: BusEnd) -> None:
        os.kill(self.server.pid, signal.SIGSTOP)

    async def answer(self, bus: BusEnd) -> None:
        os.kill(self.server.pid, signal.SIGCONT)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.server.pid, signal.SIGCONT)
        self.client.close()
        server.stop(self.data_dir)


class MemoryPlace:
    """The twin's hub."""

    def __init__(self) -> None:
        self.hub = MemoryHub()

    def bus(self, role: Role) -> MemoryBus:
        return MemoryBus(self.hub, role)

    def raw(self, *command: str | bytes | int) -> Any:
        return self.hub.store.execute(command)

    def names(self) -> dict[str, int | None]:
        return {key.decode(): self.hub.store.ttl_ms(key) for key in self.hub.store.living()}

    def lose_data(self) -> None:
        self.hub.lose_data()

    async def silence(self, bus: BusEnd) -> None:
        self.hub.silence(bus.instance)

    async def answer(self, bus: BusEnd) -> None:
        self.hub.answer(bus.instance)

    def close(self) -> None:
        pass


def redis_binary() -> Path:
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("no redis-server on PATH: install Debian's package `redis-server`")
    return Path(found)


@pytest.fixture(params=["redis", "valkey"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A real server, for what only happens to one."""
    place = RedisPlace(tmp_path / "data", redis_binary() if request.param == "redis" else None)
    yield place
    place.close()


@pytest.fixture(params=["redis", "valkey", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Each place; a key that a test leaves without a time to live fails it."""
    made: RedisPlace | MemoryPlace
    if request.param == "memory":
        made = MemoryPlace()
    else:
        made = RedisPlace(tmp_path / "data", redis_binary() if request.param == "redis" else None)
    yield made
    try:
        forever = [name for name, ttl in made.names().items() if ttl is None and not name.startswith(keys.WITHOUT_TTL)]
        assert not forever, f"keys without a time to live: {forever}"
    finally:
        made.close()


Start = Callable[..., Awaitable[tuple[BusEnd, Heard]]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a bus in a place; stopped when the test ends."""
    buses: list[BusEnd] = []

    async def begin(where: Place, role: Role = Role.EDGE, on_messages: Any = None) -> tuple[BusEnd, Heard]:
        heard = Heard()
        bus = where.bus(role)
        buses.append(bus)
        await bus.start(on_messages or heard.on_messages, on_new_epoch=heard.on_new_epoch, on_lost=heard.on_lost)
        return bus, heard

    yield begin
    for bus in buses:
        await bus.stop()


@pytest.fixture
def wait_until() -> Any:
    return until


def ask(bus: BusEnd | None = None, **changes: Any) -> Message:
    """A message that asks."""
    fields: dict[str, Any] = {
        "kind": Kind.ASK,
        "correlation_id": new_correlation_id(),
        "tenant": "acme",
        "body": b'{"tool":"location_get"}',
        "reply_to": bus.inbox if bus else "",
    }
    return Message(**{**fields, **changes})


@pytest.fixture
def make_ask() -> Any:
    return ask


@pytest.fixture
def redis_path() -> Path:
    """The server that also is a sentinel."""
    return redis_binary()
