"""uvicorn's WebSocket protocol with what an edge must control: size limits by phase, bytes buffered, abort.

Plain ASGI can say none of these. This subclass also hands frames to its `sink` as they are parsed, without a queue and
a task switch between: dialects never block, so a frame costs no trip through the event loop and reading is not paused
and resumed around each. One socket gets a small turn and what `ReadBudget` allows; then the others have theirs. Written
against uvicorn 0.54.0 and websockets 17.4, which are pinned.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol, cast

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.exceptions import InvalidState
from websockets.frames import Frame
from websockets.http11 import Request

from hereabouts.schemas.limits import MAX_FRAME_BYTES

from .read_budget import ReadBudget

EXTENSION = "hereabouts.socket"
"""Under which the ASGI scope carries the protocol object."""

CLOSE_TIMEOUT_S = 3.0
"""How long a closing socket may take to say goodbye; uvicorn's 10 s would hold up a drain."""

MAX_FRAGMENTS = 1_024
"""Fragments of one message. The size limit counts bytes only, and empty fragments have none."""

SLICE_BYTES = 4 * 1024
"""Bytes parsed at a time. One read may hold 256 KiB, that is 40,000 empty frames: half a second without a heartbeat."""

MAX_FRAMES_PER_TURN = 64
"""Messages that a socket is given before other sockets and timers have their turn: a few milliseconds."""


class Sink(Protocol):
    """Who gets a socket's frames."""

    def received(self, text: str) -> None:
        """A whole text message."""

    def received_binary(self) -> None:
        """A whole binary message; its content is of no interest."""

    def refused(self, cause: str) -> None:
        """The protocol itself closes the socket for this (too_big, not_utf8, protocol_error)."""

    def lost(self, code: int) -> None:
        """The socket is gone or going; called at least once, maybe more often."""


class EdgeProtocol(WebSocketsSansIOProtocol):
    """One socket. `sink` must be set before the handshake is accepted."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.close_timeout = CLOSE_TIMEOUT_S
        self.conn.max_message_size = MAX_FRAME_BYTES
        self.sink: Sink | None = None
        self._budget = ReadBudget(self.loop.time())
        self._unparsed = bytearray()
        self._messages = 0
        self._turn: asyncio.TimerHandle | None = None
        self._held = False

    # --- for the connection -----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether frames can still be written."""
        return self.handshake_complete and not (self.close_sent or self.disconnected or self.transport.is_closing())

    @property
    def buffered_bytes(self) -> int:
        """What waits because the other end does not read."""
        return self.transport.get_write_buffer_size()

    def set_max_frame_bytes(self, limit: int) -> None:
        """The largest message from now on; beyond it the socket is closed with 1009."""
        self.conn.max_message_size = limit

    def write_frames(self, texts: Sequence[str]) -> None:
        """Several text messages in one write to the transport. Nothing when the socket is closing."""
        if not self.is_open:
            return
        try:
            for text in texts:
                self.conn.send_text(text.encode("utf-8", "replace"))
        except InvalidState:
            return
        self.transport.write(b"".join(self.conn.data_to_send()))

    def close(self, code: int, reason: str) -> None:
        """Begin the closing handshake."""
        if not self.is_open:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        try:
            self.conn.send_close(code, reason)
        except InvalidState:
            self.transport.close()
            return
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.resume_reading()
        self.close_timer = self.loop.call_later(self.close_timeout, self.transport.close)

    def abort(self) -> None:
        """Drop the socket and what is buffered for it."""
        self.transport.abort()

    def expect(self) -> None:
        """The client was asked something: its frames of that do not count against its budget."""
        self._budget.expect(self.conn.max_message_size or MAX_FRAME_BYTES)

    def pause_reading(self) -> None:
        """Take no more bytes until `resume_reading`."""
        self._held = True
        self._set_reading()

    def resume_reading(self) -> None:
        """Read again, once the budget allows it too."""
        self._held = False
        self._set_reading()

    def _set_reading(self) -> None:
        """Two reasons stop reading, each for itself: the connection's, and a turn that is not over."""
        pause = self._held or self._turn is not None
        if self.transport.is_closing() or pause == self.read_paused:
            return
        self.read_paused = pause
        if pause:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # --- fairness ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if self._turn is None:
            self._take_turn()

    def _take_turn(self) -> None:
        """Parse what has come, up to a turn's worth; go on when the loop has been round and the budget allows it."""
        self._turn = None
        taken = self._messages = 0
        while self._messages < MAX_FRAMES_PER_TURN and taken < len(self._unparsed):
            part = bytes(self._unparsed[taken : taken + SLICE_BYTES])
            taken += len(part)
            super().data_received(part)
        if self.transport.is_closing():
            self._unparsed.clear()
            return
        del self._unparsed[:taken]
        owed_s = self._budget.take(self._messages, taken, self.loop.time())
        if self._unparsed or owed_s > 0:
            self._turn = self.loop.call_later(owed_s, self._take_turn)
        self._set_reading()

    # --- from uvicorn -----------------------------------------------------------------------------------------------

    def handle_events(self) -> None:
        self._messages += sum(isinstance(event, Frame) and event.fin for event in self.conn.events)
        super().handle_events()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == 101:
            # The application's task was only created, so it has not looked at the scope yet.
            cast("dict[str, Any]", self.scope["extensions"])[EXTENSION] = self

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MAX_FRAGMENTS:
            self._refuse("too_big")
            self.transport.abort()
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        data = self.frames[0] if len(self.frames) == 1 else b"".join(self.frames)
        self.frames = []
        if self.sink is None or not self.is_open:
            return
        if self.curr_msg_data_type != "text":
            self.sink.received_binary()
            return
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError:
            self.conn.send_close(1007)
            self.handle_parser_exception()
            return
        self.sink.received(text)

    def handle_close(self, event: Frame) -> None:
        super().handle_close(event)
        self._lost(event_code(self.conn.close_rcvd))

    def handle_parser_exception(self) -> None:
        code = event_code(self.conn.close_sent)
        self._refuse({1009: "too_big", 1007: "not_utf8"}.get(code, "protocol_error"))
        super().handle_parser_exception()
        self._lost(code)

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._lost(1011)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._unparsed.clear()
        super().connection_lost(exc)
        self._lost(1006)

    def shutdown(self) -> None:
        super().shutdown()
        self._lost(1012)

    def _refuse(self, cause: str) -> None:
        if self.sink is not None:
            self.sink.refused(cause)

    def _lost(self, code: int) -> None:
        if self.sink is not None:
            self.sink.lost(code)


def event_code(close: Any) -> int:
    """The code of a close frame, or 1006 (RFC 6455: none was seen)."""
    return int(close.code) if close is not None else 1006
