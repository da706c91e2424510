"""The gateway on a real socket: limits, closes, replacement, and our own node from pairing to answer."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hereabouts.node.connection import Status as NodeStatus
from hereabouts.node.run import run
from hereabouts.node.settings import NodeSettings
from hereabouts.schemas.outcomes import Reason, Status
from tests.support.gateway import PATIENCE_S, LiveGateway, live_gateway
from tests.support.waiting import until


@pytest.fixture
async def gateway() -> AsyncIterator[LiveGateway]:
    async with live_gateway() as running:
        yield running


class Socket:
    """A raw client."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def frame(self) -> dict[str, Any]:
        frame: dict[str, Any] = json.loads(await asyncio.wait_for(self._socket.recv(), PATIENCE_S))
        return frame

    async def send(self, frame: Any) -> None:
        with suppress(ConnectionClosed):  # the gateway may close in the middle of a large frame
            await self._socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))

    async def hello(self, device: Any, **options: Any) -> dict[str, Any]:
        """Answer the challenge; the response to `connect`."""
        nonce = (await self.frame())["payload"]["nonce"]
        params = device.connect_params(nonce, signed_at=int(time.time() * 1000), **options)
        await self.send({"type": "req", "id": "c", "method": "connect", "params": params})
        return await self.frame()

    async def closed(self) -> int | None:
        while True:
            try:
                await self.frame()
            except ConnectionClosed:
                return self._socket.close_code


@asynccontextmanager
async def raw(url: str) -> AsyncIterator[Socket]:
    async with connect(url, compression=None, ping_interval=None, max_size=None) as socket:
        yield Socket(socket)


@pytest.mark.parametrize("path", ["", "ws"])
async def test_a_device_is_paired_and_answers(gateway: LiveGateway, device: Any, path: str) -> None:
    async with raw(gateway.url + path) as socket:
        hello = await socket.hello(device, token=gateway.token(auto_approve=True))
        assert hello["payload"]["type"] == "hello-ok"
        (node,) = await gateway.brain.nodes("ada")
        assert (node.client_id, node.label, node.platform) == (device.id, "Ada's phone", "iOS")

        _, waiting = gateway.brain.begin(node, budget_ms=4_000)
        request = await socket.frame()
        assert request["event"] == "node.invoke.request"
        payload = {"latitude": 48.2, "longitude": 16.4, "accuracy": 9, "timestamp": int(time.time() * 1000)}
        result = {"id": request["payload"]["id"], "nodeId": device.id, "ok": True, "payload": payload, "error": None}
        for expected in ({"ok": True}, {"ok": True, "ignored": True}):
            await socket.send({"type": "req", "id": "r", "method": "node.invoke.result", "params": result})
            assert (await socket.frame())["payload"] == expected
        answer = await asyncio.wait_for(waiting, PATIENCE_S)
        assert answer.status is Status.GRANTED
        assert answer.fix is not None
        assert (answer.fix.latitude, answer.fix.accuracy) == (48.2, 9.0)
        assert not answer.by_guard


async def test_a_hello_is_said_to_who_can_be_found(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as socket:
        await socket.hello(device, token=gateway.token(auto_approve=True))
        assert len(await gateway.brain.bus.directory.clients("acme", None, "ada")) == 1


async def test_sixty_four_kilobytes_before_and_twenty_five_megabytes_after(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as socket:
        await socket.frame()
        await socket.send("x" * (64 * 1024 + 1))
        assert await socket.closed() == 1009
    async with raw(gateway.url) as socket:
        await socket.hello(device, token=gateway.token(auto_approve=True))
        event = {"event": "something", "payload": "x" * (20 * 1024 * 1024)}
        await socket.send({"type": "req", "id": "big", "method": "node.event", "params": event})
        assert (await socket.frame())["payload"]["handled"] is False
        await socket.send("x" * (25 * 1024 * 1024 + 1))
        assert await socket.closed() == 1009


@pytest.mark.parametrize(
    ("frame", "code"), [("no json", 1000), (b"binary", 1000), ({"type": "req", "id": "1", "method": "x"}, 1008)]
)
async def test_a_stranger_is_shown_out(gateway: LiveGateway, frame: Any, code: int) -> None:
    async with raw(gateway.url) as socket:
        await socket.frame()
        await socket.send(frame)
        assert await socket.closed() == code


@pytest.mark.parametrize("token", [None, "nonsense"])
async def test_a_token_is_needed(gateway: LiveGateway, device: Any, token: str | None) -> None:
    async with raw(gateway.url) as socket:
        refused = await socket.hello(device, token=token)
        assert refused["error"]["details"]["code"] == ("AUTH_TOKEN_MISSING" if token is None else "AUTH_TOKEN_MISMATCH")
        assert await socket.closed() == 1008


async def test_an_operator_approves_what_waits(gateway: LiveGateway, device: Any, new_device: Any) -> None:
    async with raw(gateway.url) as socket:
        refused = await socket.hello(device, token=gateway.token())
        assert refused["error"]["code"] == "NOT_PAIRED"
        assert await socket.closed() == 1008
    async with raw(gateway.url) as socket:
        scopes = ["operator.pairing", "operator.read"]
        await socket.hello(new_device(), token=gateway.token(auto_approve=True), role="operator", scopes=scopes)
        request_id = refused["error"]["details"]["requestId"]
        await socket.send({"type": "req", "id": "1", "method": "node.pair.list"})
        (pending,) = (await socket.frame())["payload"]["pending"]
        assert (pending["requestId"], pending["nodeId"]) == (request_id, device.id)
        params = {"requestId": request_id}
        await socket.send({"type": "req", "id": "2", "method": "node.pair.approve", "params": params})
        assert (await socket.frame())["ok"] is True
        async with raw(gateway.url) as node:
            hello = await node.hello(device, token=gateway.token())
            assert hello["ok"] is True
            await socket.send({"type": "req", "id": "3", "method": "node.list"})
            (entry,) = (await socket.frame())["payload"]["nodes"]
            assert (entry["nodeId"], entry["connected"], entry["commands"]) == (device.id, True, ["location.get"])


async def test_a_newer_socket_of_a_device_replaces_the_older_and_inherits_nothing(
    gateway: LiveGateway, device: Any
) -> None:
    token = gateway.token(auto_approve=True)
    async with raw(gateway.url) as older:
        await older.hello(device, token=token)
        (node,) = await gateway.brain.nodes("ada")
        _, waiting = gateway.brain.begin(node)
        assert (await older.frame())["event"] == "node.invoke.request"
        async with raw(gateway.url) as newer:
            await newer.hello(device, token=token)
            answer = await asyncio.wait_for(waiting, PATIENCE_S)
            assert (answer.status, answer.reason) == (Status.PENDING, Reason.NOT_READY)
            assert await older.closed() == 1000
            (now,) = await gateway.brain.nodes("ada")
            assert now.connection != node.connection


async def test_one_device_of_two_users_is_two_nodes(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as ada, raw(gateway.url) as bob:
        await ada.hello(device, token=gateway.token("ada", auto_approve=True))
        await bob.hello(device, token=gateway.token("bob", auto_approve=True))
        await gateway.brain.nodes("ada")
        (node,) = await gateway.brain.nodes("bob")
        gateway.brain.begin(node)
        assert (await bob.frame())["event"] == "node.invoke.request"


async def test_a_node_that_leaves_is_answered_for_at_once(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as socket:
        await socket.hello(device, token=gateway.token(auto_approve=True))
        (node,) = await gateway.brain.nodes("ada")
        _, waiting = gateway.brain.begin(node)
        await socket.frame()
    answer = await asyncio.wait_for(waiting, PATIENCE_S)
    assert (answer.status, answer.reason) == (Status.PENDING, Reason.NOT_READY)
    assert await gateway.brain.nodes("ada", 0) == []


async def test_a_silent_node_is_answered_for_and_told_to_stop(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as socket:
        await socket.hello(device, token=gateway.token(auto_approve=True))
        (node,) = await gateway.brain.nodes("ada")
        correlation_id, waiting = gateway.brain.begin(node, budget_ms=500)
        assert (await socket.frame())["event"] == "node.invoke.request"
        answer = await asyncio.wait_for(waiting, PATIENCE_S)
        assert (answer.status, answer.reason, answer.by_guard) == (Status.UNAVAILABLE, Reason.CLIENT_SILENT, True)
        cancelled = await socket.frame()
        assert (cancelled["event"], cancelled["payload"]["invokeId"]) == ("node.invoke.cancel", correlation_id)


async def test_another_nodes_ask_cannot_be_answered(gateway: LiveGateway, device: Any, new_device: Any) -> None:
    token = gateway.token(auto_approve=True)
    thief = new_device()
    async with raw(gateway.url) as socket, raw(gateway.url) as other:
        await socket.hello(device, token=token)
        await other.hello(thief, token=token)
        nodes = {node.client_id: node for node in await gateway.brain.nodes("ada", 2)}
        correlation_id, waiting = gateway.brain.begin(nodes[device.id], budget_ms=1_500)
        await socket.frame()
        for node_id in (device.id, thief.id):
            params = {"id": correlation_id, "nodeId": node_id, "ok": False}
            await other.send({"type": "req", "id": "r", "method": "node.invoke.result", "params": params})
            error = (await other.frame())["error"]
            assert (error["code"], error["message"]) == ("INVALID_REQUEST", "nodeId mismatch")
        assert (await asyncio.wait_for(waiting, PATIENCE_S)).reason is Reason.CLIENT_SILENT


async def test_a_refused_frame_is_all_that_it_is(gateway: LiveGateway, device: Any) -> None:
    async with raw(gateway.url) as socket:
        await socket.hello(device, token=gateway.token(auto_approve=True))
        await socket.send("no json")
        await socket.send(b"\x00")
        await socket.send({"type": "req", "id": "u", "method": "node.unheard"})
        assert (await socket.frame())["error"]["message"] == "unknown method: node.unheard"


# --- our own node ---------------------------------------------------------------------------------------------------


@asynccontextmanager
async def own_node(folder: Path, url: str, token: str, mode: str | None) -> AsyncIterator[list[NodeStatus]]:
    """`hereabouts node run` in this process; what it says of its connection."""
    settings_file = None
    if mode is not None:
        settings_file = folder / "node.toml"
        settings_file.write_text(f'[location]\nenabledMode = "{mode}"\n')
    settings = NodeSettings(
        gateway_url=url,
        token=token,
        display_name="desk",
        provider="fixed:48.20849,16.37208,12.5",
        settings_file=settings_file,
        state_dir=folder / "state",
    )
    statuses: list[NodeStatus] = []
    stop = asyncio.Event()
    running = asyncio.create_task(run(settings, on_status=statuses.append, stop=stop))
    try:
        yield statuses
    finally:
        stop.set()
        await running


async def test_our_node_is_paired_and_answers(gateway: LiveGateway, tmp_path: Path) -> None:
    async with own_node(tmp_path, gateway.url, gateway.token(auto_approve=True), "always"):
        (node,) = await gateway.brain.nodes("ada")
        assert node.label == "desk"
        answer = await gateway.brain.ask(node)
        assert answer.status is Status.GRANTED
        assert answer.fix is not None
        assert (answer.fix.latitude, answer.fix.longitude, answer.fix.accuracy) == (48.20849, 16.37208, 12.5)


async def test_our_node_without_settings_says_that_it_is_off(gateway: LiveGateway, tmp_path: Path) -> None:
    async with own_node(tmp_path, gateway.url, gateway.token(auto_approve=True), None):
        (node,) = await gateway.brain.nodes("ada")
        answer = await gateway.brain.ask(node)
        assert (answer.status, answer.reason) == (Status.DECLINED, Reason.LOCATION_DISABLED)
        assert answer.node_code == "LOCATION_DISABLED"


async def test_our_node_waits_for_its_pairing(gateway: LiveGateway, tmp_path: Path, new_device: Any) -> None:
    async with own_node(tmp_path, gateway.url, gateway.token(), "always") as statuses:

        async def request_id() -> str | None:
            return next((status.request_id for status in statuses if status.request_id), None)

        waiting = await until(request_id, "the pairing request", PATIENCE_S)
        async with raw(gateway.url) as operator:
            token = gateway.token(auto_approve=True)
            await operator.hello(new_device(), token=token, role="operator", scopes=["operator.pairing"])
            params = {"requestId": waiting}
            await operator.send({"type": "req", "id": "1", "method": "node.pair.approve", "params": params})
            assert (await operator.frame())["ok"] is True
        (node,) = await gateway.brain.nodes("ada")
        assert (await gateway.brain.ask(node)).status is Status.GRANTED


async def test_a_restarted_gateway_knows_its_nodes(tmp_path: Path) -> None:
    async with live_gateway() as first:
        hub, port = first.hub, int(first.url.rsplit(":", 1)[1].strip("/"))
        token = first.token(auto_approve=True)
        async with own_node(tmp_path, first.url, token, "always"):
            await first.brain.nodes("ada")
    async with (
        live_gateway(hub, port) as second,
        # A token that approves nothing: the pairing itself must have lasted.
        own_node(tmp_path, second.url, second.token(), "always"),
    ):
        (node,) = await second.brain.nodes("ada")
        assert (await second.brain.ask(node)).status is Status.GRANTED
