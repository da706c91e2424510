"""This edge's part of the directory, on the in-memory bus."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.edge.registration import Registrar
from hereabouts.schemas.errors import BusOverloaded
from hereabouts.schemas.records import ClientRecord, Role
from hereabouts.schemas.tools import Tool
from tests.support.waiting import until


def record(client_id: str, **fields: Any) -> ClientRecord:
    base: dict[str, Any] = {
        "tenant": "t",
        "session": "s",
        "user": None,
        "kind": "tab",
        "client_id": client_id,
        "connection": "",
        "edge": "",
        "epoch": 0,
        "since_ms": 0,
        "active_at_ms": 0,
        "tools": [Tool(name="location_get")],
    }
    return ClientRecord.model_validate(base | fields)


class House:
    """An edge's registrar and somebody who reads the directory."""

    def __init__(self) -> None:
        self.hub = MemoryHub()
        self.bus = MemoryBus(self.hub, Role.EDGE)
        self.reader = MemoryBus(self.hub, Role.BRAIN)
        self.registrar = Registrar(self.bus)
        self.puts: list[ClientRecord] = []

    async def start(self) -> None:
        await self.bus.start(lambda messages: None, on_new_epoch=self.registrar.new_epoch)
        await self.reader.start(lambda messages: None)
        self.registrar.start()
        put = self.bus.directory.put

        def counted(written: ClientRecord) -> "asyncio.Future[None]":
            self.puts.append(written)
            return put(written)

        self.bus.directory.put = counted  # type: ignore[method-assign]

    async def stop(self) -> None:
        await self.registrar.stop()
        await self.bus.stop()
        await self.reader.stop()

    async def clients(self, session: str = "s") -> list[ClientRecord]:
        return await self.reader.directory.clients("t", session, None)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    house = House()
    await house.start()
    yield house
    await house.stop()


async def test_changes_of_one_turn_are_written_once(house: House) -> None:
    for visibility in ("visible", "hidden", "visible"):
        told = house.registrar.put("c1", record("a", visibility=visibility, focused=True))
    await told
    assert len(house.puts) == 1
    [client] = await house.clients()
    assert (client.connection, client.edge, client.epoch) == ("c1", house.bus.instance, house.bus.epoch)
    assert client.since_ms > 0
    assert client.active_at_ms == client.since_ms


async def test_a_later_change_keeps_since_when(house: House) -> None:
    await house.registrar.put("c1", record("a"))
    [before] = await house.clients()
    house.hub.advance(50)
    await house.registrar.put("c1", record("a", visibility="hidden"))
    [after] = await house.clients()
    assert (after.since_ms, after.visibility) == (before.since_ms, "hidden")


async def test_another_session_leaves_the_first(house: House) -> None:
    await house.registrar.put("c1", record("a"))
    await house.registrar.put("c1", record("a", session="s2"))
    assert await house.clients() == []
    assert len(await house.clients("s2")) == 1


async def test_a_removed_client_is_gone_and_its_open_write_too(house: House) -> None:
    await house.registrar.put("c1", record("a"))
    told = house.registrar.put("c1", record("a", visibility="hidden"))
    house.registrar.remove("c1")

    async def gone() -> bool:
        return not await house.clients()

    await until(gone, "the client to be gone")
    assert told.cancelled()


async def test_after_lost_data_everything_is_said_again_under_the_new_epoch(house: House) -> None:
    await house.registrar.put("c1", record("a"))
    epoch = house.bus.epoch
    house.hub.lose_data()

    async def back() -> list[ClientRecord]:
        return await house.clients()

    [client] = await until(back, "the client to be registered again")
    assert client.epoch == house.bus.epoch > epoch


async def test_a_write_that_fails_is_tried_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hereabouts.edge.registration.RETRY_AFTER_S", 0.01)
    put = house.bus.directory.put
    failures = iter([True, True, False])

    def flaky(written: ClientRecord) -> "asyncio.Future[None]":
        if next(failures, False):
            raise BusOverloaded
        return put(written)

    monkeypatch.setattr(house.bus.directory, "put", flaky)
    await house.registrar.put("c1", record("a"))
    assert len(await house.clients()) == 1
