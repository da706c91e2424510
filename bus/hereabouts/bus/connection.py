"""A connection to Redis as replies: bytes in, replies out (hiredis). Knows nothing of commands or of their order."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import hiredis

from .commands import Argument
from .errors import CommandRefused

_NOTHING = object()

pack: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
"""A command's bytes."""


def _refused(text: str) -> CommandRefused:
    return CommandRefused(text.partition(" ")[0])


class Connection(asyncio.Protocol):
    """One connection.

    Args:
        on_replies: given the connection and all replies that one read brought; with none when it may write again.
    """

    def __init__(self, on_replies: Callable[["Connection", list[Any]], None]) -> None:
        self._on_replies = on_replies
        self._reader = hiredis.Reader(notEnoughData=_NOTHING, replyError=_refused)
        self.transport: asyncio.Transport | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are no subclasses of it

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        replies: list[Any] = []
        try:
            while (reply := reader.gets()) is not _NOTHING:
                replies.append(reply)
        except hiredis.ProtocolError:
            self.abort()
        self._on_replies(self, replies)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._on_replies(self, [])

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.transport is not None
        self.transport.write(data)

    def abort(self) -> None:
        """End it at once; `lost` follows. Nothing more is written meanwhile."""
        self.writable = False
        if self.transport is not None:
            self.transport.abort()
