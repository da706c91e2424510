"""A gateway for one node's tests: it speaks the wire models, verifies the signature, and does what the test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from hereabouts.schemas import node_wire as wire

PATIENCE_S = 20.0
CHALLENGE_TS_MS = 1_700_000_000_000


class ScriptedGateway:
    """Accepts nodes; refuses the first ones if told to."""

    def __init__(self) -> None:
        self.url = ""
        self.refusals: list[wire.Error] = []
        self.tick_interval_ms = wire.TICK_INTERVAL_MS
        self.device_token = "device-token"
        self.connects: list[wire.ConnectParams] = []
        self.extensions: list[str | None] = []
        self.sockets: asyncio.Queue[ServerConnection] = asyncio.Queue()
        self.close_codes: asyncio.Queue[int | None] = asyncio.Queue()
        self._results: dict[str, asyncio.Future[wire.NodeInvokeResult]] = {}
        self._asked = 0

    async def socket(self) -> ServerConnection:
        """The next connection that was let in."""
        return await asyncio.wait_for(self.sockets.get(), PATIENCE_S)

    async def close_code(self) -> int | None:
        """The code of the next close of a connection that was let in."""
        return await asyncio.wait_for(self.close_codes.get(), PATIENCE_S)

    async def ask(
        self, socket: ServerConnection, params: dict[str, Any] | None = None, timeout_ms: int = 5_000
    ) -> wire.NodeInvokeResult:
        """Invoke `location.get` on a connection and wait for its result."""
        return await asyncio.wait_for(await self.begin(socket, params, timeout_ms), PATIENCE_S)

    async def begin(
        self, socket: ServerConnection, params: dict[str, Any] | None = None, timeout_ms: int = 5_000
    ) -> asyncio.Future[wire.NodeInvokeResult]:
        """Invoke `location.get` without waiting."""
        self._asked += 1
        invoke_id = f"i{self._asked}"
        request = wire.NodeInvokeRequest(
            id=invoke_id,
            node_id=self.node_id,
            command=wire.LOCATION_GET,
            params_json=json.dumps(params or wire.location_params()),
            timeout_ms=timeout_ms,
            idempotency_key=invoke_id,
        )
        self._results[invoke_id] = asyncio.get_running_loop().create_future()
        await self._tell(socket, wire.Event(event=wire.EventName.INVOKE_REQUEST, payload=request.wire()))
        return self._results[invoke_id]

    @property
    def node_id(self) -> str:
        """The id of the node that connected last."""
        device = self.connects[-1].device
        assert device is not None
        return device.id

    async def serve_node(self, socket: ServerConnection) -> None:
        """One connection, as the handshake's table says."""
        self.extensions.append(socket.response.headers.get("Sec-WebSocket-Extensions") if socket.response else None)
        await self._tell(
            socket,
            wire.Event(
                event=wire.EventName.CHALLENGE, payload=wire.Challenge(nonce="nonce-1", ts=CHALLENGE_TS_MS).wire()
            ),
        )
        frame = wire.parse_frame(await socket.recv())
        assert isinstance(frame, wire.Request)
        params = wire.ConnectParams.model_validate(frame.params)
        verify(params)
        self.connects.append(params)
        if self.refusals:
            await self._tell(socket, wire.Response(id=frame.id, ok=False, error=self.refusals.pop(0)))
            await socket.close(wire.CloseCode.POLICY_VIOLATION, "refused")
            return
        hello = wire.HelloOk(
            server=wire.ServerInfo(version="0", conn_id="c1"),
            auth=wire.HelloAuth(role="node", device_token=self.device_token),
            policy=wire.Policy(tick_interval_ms=self.tick_interval_ms),
        )
        await self._tell(socket, wire.Response(id=frame.id, ok=True, payload=hello.wire()))
        self.sockets.put_nowait(socket)
        try:
            while True:
                await self._result(socket, wire.parse_frame(await socket.recv()))
        except ConnectionClosed:
            self.close_codes.put_nowait(socket.close_code)

    async def _result(self, socket: ServerConnection, frame: wire.Request | wire.Response | wire.Event) -> None:
        assert isinstance(frame, wire.Request)
        assert frame.method == wire.Method.NODE_INVOKE_RESULT
        result = wire.NodeInvokeResult.model_validate(frame.params)
        await self._tell(socket, wire.Response(id=frame.id, ok=True, payload=wire.Ack().wire()))
        self._results[result.id].set_result(result)

    async def _tell(self, socket: ServerConnection, frame: wire.Request | wire.Response | wire.Event) -> None:
        await socket.send(json.dumps(frame.wire()))


def verify(params: wire.ConnectParams) -> None:
    """The signature check that a gateway does; raises if it fails."""
    device = params.device
    assert device is not None
    key = wire.decode_base64url(device.public_key, wire.PUBLIC_KEY_BYTES)
    signature = wire.decode_base64url(device.signature, wire.SIGNATURE_BYTES)
    assert device.id == wire.device_id(key)
    Ed25519PublicKey.from_public_bytes(key).verify(signature, params.signed_text("v3").encode())


@pytest.fixture
async def gateway() -> AsyncIterator[ScriptedGateway]:
    """A scripted gateway on a free port of this machine."""
    scripted = ScriptedGateway()
    async with serve(scripted.serve_node, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        scripted.url = f"ws://127.0.0.1:{port}/"
        yield scripted


@pytest.fixture
def settings_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a settings file: `settings_file(mode="always", precise=False)`; again to change it."""

    def write(mode: str = "always", precise: bool = True) -> Path:
        path = tmp_path / "node.toml"
        path.write_text(f'[location]\nenabledMode = "{mode}"\npreciseEnabled = {str(precise).lower()}\n')
        return path

    return write
