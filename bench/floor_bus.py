"""The floor's bus: redis-py and hiredis, nothing around them.

All commands of a loop turn leave in one write, as Hereabouts does it: without that the floor would be four times slower
and easy to beat.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

FLOOR_EDGE = "bench:floor:edge"
FLOOR_BRAIN = "bench:floor:brain"

MAX_STREAM_ENTRIES = 10_000
"""Kept per stream, approximately: more than ever wait, and little memory."""

MAX_READ = 64
BLOCK_MS = 2_000


async def _connect(url: str) -> AbstractConnection:
    client = Redis.from_url(url, protocol=2, decode_responses=True)
    connection: AbstractConnection = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]
    await connection.connect()  # type: ignore[no-untyped-call]
    return connection


class Outbox:
    """Stream entries that leave together."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._waiting: list[tuple[Any, ...]] = []
        self._wake = asyncio.Event()

    @classmethod
    async def open(cls, url: str) -> "Outbox":
        """An outbox on a connection of its own."""
        return cls(await _connect(url))

    def add(self, stream: str, *fields: str) -> None:
        """Append one entry: names and values in turn."""
        self._waiting.append(("XADD", stream, "MAXLEN", "~", MAX_STREAM_ENTRIES, "*", *fields))
        self._wake.set()

    async def run(self) -> None:
        """Write for ever."""
        connection = self._connection
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._waiting = self._waiting, []
            await connection.send_packed_command(connection.pack_commands(batch))
            for _ in batch:
                await connection.read_response()


async def read(url: str, stream: str, handle: Callable[[dict[str, str]], None]) -> None:
    """Read a stream for ever from its end at the start, and give each entry's fields to `handle`."""
    connection = await _connect(url)
    await connection.send_command("DEL", stream)
    await connection.read_response()
    last = "0-0"
    while True:
        await connection.send_command("XREAD", "COUNT", MAX_READ, "BLOCK", BLOCK_MS, "STREAMS", stream, last)
        answer = await connection.read_response()
        for _, entries in answer or ():
            for last, fields in entries:  # noqa: B007 - the last id is where the next read begins
                handle(dict(zip(fields[::2], fields[1::2], strict=True)))
