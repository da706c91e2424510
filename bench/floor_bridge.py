"""The floor's bridge: stream entry to frame, frame to stream entry. `python -m bench.floor_bridge URL PORT`."""

import asyncio
import json
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, serve

from bench.floor_bus import FLOOR_BRAIN, FLOOR_EDGE, Outbox, read


async def main(url: str, port: int) -> None:
    """Serve until killed; `url` is Redis's. A client's name is its socket's path."""
    outbox = await Outbox.open(url)
    clients: dict[str, ServerConnection] = {}
    sending: set[asyncio.Task[None]] = set()

    def ask(entry: dict[str, str]) -> None:
        frame = f'{{"type":"client-tool-invoke","data":{entry["body"]}}}'
        task = asyncio.create_task(clients[entry["client"]].send(frame))
        sending.add(task)
        task.add_done_callback(sending.discard)

    async def serve_client(socket: ServerConnection) -> None:
        assert socket.request is not None
        clients[socket.request.path.removeprefix("/")] = socket
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "client-tool-result":
                data = frame["data"]
                outbox.add(FLOOR_BRAIN, "id", data["correlationId"], "body", json.dumps(data["result"]))
            else:
                await socket.send(json.dumps({"replyTo": frame["id"], "type": "ack", "data": {}}))

    async with serve(serve_client, "127.0.0.1", port, compression=None):
        await asyncio.gather(outbox.run(), read(url, FLOOR_EDGE, ask))


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
