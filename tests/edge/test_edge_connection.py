"""Sockets of an edge with a small dialect of its own: limits, slow readers, floods, questions."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import REGISTRY
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.edge.dialect import Action, Authenticated, Close, Dialect, Invoke, Peer, Question, Send, Verdict
from hereabouts.edge.protocol import EdgeProtocol
from hereabouts.edge.read_budget import BURST_FRAMES
from hereabouts.edge.service import EdgeService
from hereabouts.schemas.limits import MAX_FRAME_BYTES
from hereabouts.schemas.marks import Service
from hereabouts.schemas.records import Role
from tests.support.edges import RunningEdge, running_edge
from tests.support.waiting import until


class Echo:
    """Repeats; some words do more."""

    authenticated = True

    def __init__(self) -> None:
        self.wake_at_ms: float | None = None
        self.numbers = itertools.count()

    def opened(self, now_ms: float, wall_ms: int) -> list[Action]:
        return [Send("welcome")]

    def received(self, text: str, now_ms: float, wall_ms: int) -> list[Action]:
        word, _, rest = text.partition(" ")
        if word == "enter":
            return [Authenticated(int(rest), 200_000), Send("entered")]
        if word == "ask":
            return [Question(next(self.numbers), rest)]
        if word == "flood":
            return [Send("x" * 1_000) for _ in range(int(rest))]
        if word == "later":
            self.wake_at_ms = now_ms + int(rest)
            return []
        if word == "close":
            return [Send("last"), Close(4321, "as you wish", "test"), Send("never")]
        if word == "break":
            raise ZeroDivisionError("52.5200")
        return [Send(text[:20])]

    def received_binary(self, now_ms: float) -> list[Action]:
        return [Send("binary")]

    def resolved(self, number: int, answer: Any, now_ms: float, wall_ms: int) -> list[Action]:
        return [Send(f"answer {answer}")]

    def unresolved(self, number: int, now_ms: float) -> list[Action]:
        return [Send("no answer")]

    def ask(self, invoke: Invoke, now_ms: float) -> list[Action]:
        return []

    def cancel(self, correlation_id: str, reason: str, now_ms: float) -> list[Action]:
        return []

    def answered(self, token: Any, verdict: Verdict) -> list[Action]:
        return []

    def tick(self, now_ms: float, wall_ms: int) -> list[Action]:
        self.wake_at_ms = None
        return [Send("tick")]


class Resolver:
    """Answers when told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def __call__(self, about: Any) -> str:
        await self.gate.wait()
        if about == "fail":
            raise RuntimeError("away")
        return str(about)


def make_dialect(peer: Peer, name: str) -> Dialect:
    return Echo()


@pytest.fixture
def resolver() -> Resolver:
    return Resolver()


@pytest.fixture
async def edge(resolver: Resolver) -> AsyncIterator[RunningEdge]:
    def build(port: int) -> EdgeService:
        return EdgeService(
            name=Service.BROWSER_BRIDGE,
            client=Service.BROWSER,
            kind="tab",
            path="/socket",
            also_at=("/also",),
            dialect=make_dialect,
            resolve=resolver,
            admit=lambda peer: peer.origin != "https://evil.example",
        )

    async with running_edge(MemoryBus(MemoryHub(), Role.EDGE), build) as running:
        yield running


@pytest.fixture
async def socket(edge: RunningEdge) -> AsyncIterator[ClientConnection]:
    async with connect(edge.url, proxy=None, compression=None, max_size=None) as client:
        assert await client.recv() == "welcome"
        yield client


async def close_code(client: ClientConnection) -> int | None:
    async with asyncio.timeout(10):
        while True:
            try:
                await client.recv()
            except ConnectionClosed:
                return client.close_code


async def test_frames_go_there_and_back(socket: ClientConnection) -> None:
    await socket.send("hello")
    assert await socket.recv() == "hello"
    await socket.send(b"\x00")
    assert await socket.recv() == "binary"


async def test_a_fragmented_message_is_one_frame(socket: ClientConnection) -> None:
    await socket.send(["frag", "men", "ted"])
    assert await socket.recv() == "fragmented"


async def test_fragments_together_obey_the_limit(socket: ClientConnection) -> None:
    await socket.send(["x" * (MAX_FRAME_BYTES // 2)] * 3)
    assert await close_code(socket) == 1009


async def test_empty_fragments_do_not_pile_up(socket: ClientConnection) -> None:
    with suppress(ConnectionClosed):
        await socket.send([""] * 5_000)
    assert await close_code(socket) in (1006, None)


async def test_the_limit_before_authentication_is_64_kib(socket: ClientConnection) -> None:
    await socket.send("x" * MAX_FRAME_BYTES)
    assert await socket.recv() == "x" * 20
    await socket.send("x" * (MAX_FRAME_BYTES + 1))
    assert await close_code(socket) == 1009


async def test_after_authentication_the_dialects_own_limit_holds(socket: ClientConnection) -> None:
    await socket.send("enter 3000000")
    assert await socket.recv() == "entered"
    await socket.send("y" * 2_000_000)
    assert await socket.recv() == "y" * 20
    await socket.send("y" * 3_000_001)
    assert await close_code(socket) == 1009


async def test_a_reader_that_falls_behind_is_cut_and_others_are_not(
    edge: RunningEdge, socket: ClientConnection
) -> None:
    async with connect(edge.url, proxy=None, compression=None, max_size=None) as slow:
        await slow.recv()
        await slow.send("enter 1000000")
        await slow.recv()
        slow.transport.pause_reading()
        before = cuts()
        for _ in range(30):
            with suppress(ConnectionClosed):
                await slow.send("flood 1000")
        await until(lambda: _true(edge.edge.connections == 1), "the slow reader to be cut")
        assert cuts() == before + 1
        slow.transport.resume_reading()
    await socket.send("still here")
    assert await socket.recv() == "still here"


def cuts() -> float:
    return REGISTRY.get_sample_value("hereabouts_edge_closes_total", {"cause": "slow_reader"}) or 0.0


async def _true(value: bool) -> bool:
    return value


async def test_frames_wait_while_a_question_is_open(socket: ClientConnection, resolver: Resolver) -> None:
    for text in ("ask x", "one", "ask fail", "two"):
        await socket.send(text)
    resolver.gate.set()
    assert [await socket.recv() for _ in range(4)] == ["answer x", "one", "no answer", "two"]


async def test_a_flood_during_a_question_is_closed_with_1008(socket: ClientConnection) -> None:
    # One segment, so that all of it is parsed before reading can be paused.
    for frame in ["ask x", *["y"] * 100]:
        socket.protocol.send_text(frame.encode())
    socket.transport.write(b"".join(socket.protocol.data_to_send()))
    assert await close_code(socket) == 1008


def pipeline(client: ClientConnection, texts: list[str]) -> None:
    """One write, without waiting for the other end."""
    for text in texts:
        client.protocol.send_text(text.encode())
    client.transport.write(b"".join(client.protocol.data_to_send()))


async def test_a_flood_waits_its_turn_while_others_are_served_and_loses_nothing(
    edge: RunningEdge, socket: ClientConnection
) -> None:
    async with connect(edge.url, proxy=None, compression=None, max_queue=None) as flooder:
        await flooder.recv()
        sent = [str(number) for number in range(int(BURST_FRAMES) + 250)]
        pipeline(flooder, sent)
        # A whole burst is through, so what the other one sends now meets a flood at its height.
        got = [str(await flooder.recv()) for _ in range(int(BURST_FRAMES))]
        await socket.send("me too")
        assert await socket.recv() == "me too"
        protocol = protocol_of(edge)
        assert protocol.read_paused, "the flood is not over, and not read"
        got += [str(await flooder.recv()) for _ in range(250)]
        assert got == sent


def protocol_of(edge: RunningEdge) -> EdgeProtocol:
    """The newest socket's."""
    protocol = list(edge.edge._connections.values())[-1]._socket
    assert isinstance(protocol, EdgeProtocol)
    return protocol


async def test_the_two_reasons_to_stop_reading_do_not_lift_each_other(
    edge: RunningEdge, socket: ClientConnection
) -> None:
    protocol = protocol_of(edge)
    protocol.pause_reading()
    protocol._turn = asyncio.get_running_loop().call_later(3_600, lambda: None)
    protocol.resume_reading()
    assert protocol.read_paused, "over its budget"
    protocol.pause_reading()
    protocol._turn.cancel()
    protocol._take_turn()
    assert protocol.read_paused, "a question is open"
    protocol.resume_reading()
    assert not protocol.read_paused
    await socket.send("again")
    assert await socket.recv() == "again"


async def test_the_dialects_timer_fires(socket: ClientConnection) -> None:
    await socket.send("later 1")
    assert await socket.recv() == "tick"


async def test_what_was_sent_before_a_close_arrives_and_nothing_after(socket: ClientConnection) -> None:
    await socket.send("close")
    assert await socket.recv() == "last"
    assert await close_code(socket) == 4321
    assert socket.close_reason == "as you wish"


async def test_a_dialect_that_fails_ends_its_own_socket_only_and_its_words_are_not_logged(
    edge: RunningEdge, socket: ClientConnection, capfd: pytest.CaptureFixture[str]
) -> None:
    async with connect(edge.url, proxy=None, compression=None) as other:
        await other.recv()
        await other.send("break")
        assert await close_code(other) == 1011
    await socket.send("still here")
    assert await socket.recv() == "still here"
    written = capfd.readouterr()
    assert "52.52" not in written.out + written.err
    assert "ZeroDivisionError" in written.out + written.err


async def test_another_path_and_a_refused_peer_are_403(edge: RunningEdge) -> None:
    also = edge.url.replace("/socket", "/also")
    async with connect(also, proxy=None) as client:
        assert await client.recv() == "welcome"
    for url, origin in ((edge.url + "/x", None), (edge.url, "https://evil.example")):
        with pytest.raises(InvalidStatus) as refusal:
            await connect(url, origin=origin, proxy=None)  # type: ignore[arg-type]
        assert refusal.value.response.status_code == 403


async def test_a_draining_edge_takes_nobody_and_sends_1012(edge: RunningEdge, socket: ClientConnection) -> None:
    draining = asyncio.create_task(edge.edge.drain())
    assert await close_code(socket) == 1012
    await draining
    with pytest.raises(InvalidStatus):
        await connect(edge.url, proxy=None)
    assert edge.edge.connections == 0
    assert edge.edge.problem() == "draining"
