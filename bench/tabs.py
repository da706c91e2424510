"""Instant tabs: real WebSockets that answer every ask at once with a fix. `python -m bench.tabs`, the sockets on stdin.

websockets' protocol without its asyncio shell, so that the clients' share of the machine is small and the same for the
floor and for Hereabouts.

Input: one JSON line `[{"url", "origin", "frames": [request, …]}, …]`; each request is sent once the one before is
acknowledged. Output: one line `ready` when all are.
"""

import asyncio
import json
import sys
import time
from typing import Any, cast

import uvloop
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

FIX = {"latitude": 52.5170365, "longitude": 13.3888599, "accuracy": 12.5}
"""Berlin's own centre as OpenStreetMap has it: nobody's position."""


class Tab(asyncio.Protocol):
    """One socket: introduces itself, then answers."""

    def __init__(self, url: str, origin: str | None, frames: list[dict[str, Any]]) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._protocol = ClientProtocol(parse_uri(url), origin=origin)  # type: ignore[arg-type]
        self._frames = frames
        self._number = 0
        self._clock_ms = time.time() * 1_000

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP stands: ask for the upgrade."""
        self._transport = cast(asyncio.Transport, transport)
        self._protocol.send_request(self._protocol.connect())
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """An instant tab that loses its socket makes the whole run worthless."""
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(f"closed: {self._protocol.close_exc!r}, {exc}"))

    def data_received(self, data: bytes) -> None:
        """Bytes from the bridge."""
        connecting = self._protocol.state is State.CONNECTING
        self._protocol.receive_data(data)
        if connecting and self._protocol.state is State.OPEN:
            self._introduce()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                self._received(json.loads(bytes(event.data)))
        self._flush()

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data:
            self._transport.write(data)

    def _introduce(self) -> None:
        if self._frames:
            self._send({"id": f"i{len(self._frames)}", **self._frames.pop(0)})
        elif not self.ready.done():
            self.ready.set_result(None)

    def _received(self, frame: dict[str, Any]) -> None:
        if frame["type"] == "client-tool-invoke":
            self._answer(frame["data"]["correlationId"])
        elif not self.ready.done():
            if frame["type"] == "error":
                self.ready.set_exception(RuntimeError(f"refused: {frame}"))
            elif "replyTo" in frame:
                self._introduce()

    def _answer(self, correlation_id: str) -> None:
        self._number += 1
        fix = {"status": "GRANTED", **FIX, "timestamp": int(time.time() * 1_000), "ageMs": 0, "precision": "precise"}
        data = {"correlationId": correlation_id, "result": fix, "error": None}
        self._send({"id": str(self._number), "type": "client-tool-result", "data": data})

    def _send(self, frame: dict[str, Any]) -> None:
        self._protocol.send_text(json.dumps(frame, separators=(",", ":")).encode())


async def main() -> None:
    """Open all, say so, and answer until stdin ends."""
    loop = asyncio.get_running_loop()
    sockets = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    tabs = []
    for socket in sockets:
        uri = parse_uri(socket["url"])
        tab = Tab(socket["url"], socket["origin"], socket["frames"])
        await loop.create_connection(lambda tab=tab: tab, uri.host, uri.port)  # type: ignore[misc]
        tabs.append(tab)
        await tab.ready
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
