"""One socket: it feeds a dialect and carries out what the dialect wants.

Frames of one loop turn leave in one write. A client that does not read is cut once more than its allowance is
buffered. While a question is open the socket is not read, and what was parsed already waits in a short queue.
"""

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from hereabouts.runtime.logs import get_logger
from hereabouts.schemas.limits import MAX_BUFFERED_BYTES

from .dialect import (
    Action,
    Answered,
    Authenticated,
    Close,
    Decided,
    Dialect,
    Invoke,
    Peer,
    Question,
    Registration,
    Rejected,
    Reported,
    Send,
    Unregistered,
    Verdict,
)

MAX_WAITING_FRAMES = 64
"""Frames that may wait for a question's answer: one read's worth of honest ones. More is a flood (1008)."""

QUESTION_TIMEOUT_S = 5.0
"""A question that the bus has not answered by then counts as unanswerable."""

HOLD_LIMIT_S = 1.0
"""How long frames wait for the directory, so that who was told "registered" can be found. Then they go anyway."""

_log = get_logger("hereabouts.edge.connection")


class Socket(Protocol):
    """What a connection needs of a socket; `EdgeProtocol` is one."""

    @property
    def buffered_bytes(self) -> int: ...
    def set_max_frame_bytes(self, limit: int) -> None: ...
    def write_frames(self, texts: Sequence[str]) -> None: ...
    def close(self, code: int, reason: str) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def expect(self) -> None: ...


class Keeper(Protocol):
    """What a connection tells the edge."""

    def registered(self, connection: "Connection", action: Registration) -> "asyncio.Future[None] | None":
        """A future that ends once brains can see the change, if the change is one that they must see."""

    def unregistered(self, connection: "Connection") -> None: ...
    def answered(self, connection: "Connection", action: Answered) -> Verdict: ...
    def reported(self, connection: "Connection", action: Reported) -> None: ...
    def decided(self, connection: "Connection", action: Decided) -> None: ...
    def rejected(self, cause: str) -> None: ...
    def closed(self, cause: str) -> None:
        """This side closes the socket for this cause."""

    def gone(self, connection: "Connection", code: int) -> None:
        """Once, when the socket is no more."""


def now_ms() -> float:
    """The monotonic clock of all asks and dialects of this process."""
    return time.monotonic() * 1000


class Connection:
    """See the module. Implements the protocol's `Sink`."""

    def __init__(
        self,
        name: str,
        peer: Peer,
        dialect: Dialect,
        socket: Socket,
        keeper: Keeper,
        resolve: Callable[[Any], Awaitable[Any]],
    ) -> None:
        self.name = name
        self.peer = peer
        self.dialect = dialect
        self._socket = socket
        self._keeper = keeper
        self._resolve = resolve
        self._loop = asyncio.get_running_loop()
        self._out: list[str] = []
        self._held: list[str] = []
        self._hold: asyncio.Future[None] | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._questions: dict[int, asyncio.Task[None]] = {}
        self._waiting: deque[str | None] = deque()
        self._wake: asyncio.TimerHandle | None = None
        self._wake_at_ms: float | None = None
        self._max_buffered_bytes = MAX_BUFFERED_BYTES
        self._closing = False
        self._gone = False

    def __repr__(self) -> str:
        return f"Connection({self.name})"

    # --- from the socket --------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """The handshake is complete."""
        self._step(lambda now, wall: self.dialect.opened(now, wall))

    def received(self, text: str) -> None:
        """A text frame."""
        self._take(text)

    def received_binary(self) -> None:
        """A binary frame."""
        self._take(None)

    def refused(self, cause: str) -> None:
        """The WebSocket layer refused a frame and closes the socket."""
        self._keeper.rejected(cause)
        self._keeper.closed(cause)

    def lost(self, code: int) -> None:
        """The socket is gone; may be called again."""
        if self._gone:
            return
        self._gone = self._closing = True
        for timer in (self._wake, self._hold_timer):
            if timer is not None:
                timer.cancel()
        for task in self._questions.values():
            task.cancel()
        self._waiting.clear()
        self._keeper.gone(self, code)

    # --- from the edge ----------------------------------------------------------------------------------------------

    def ask(self, invoke: Invoke) -> None:
        """Hand an ask to the client."""
        self._socket.expect()
        self._step(lambda now, wall: self.dialect.ask(invoke, now))

    def cancel(self, correlation_id: str, reason: str) -> None:
        """Tell the client that an ask is no longer needed."""
        self._step(lambda now, wall: self.dialect.cancel(correlation_id, reason, now))

    def close(self, code: int, reason: str, cause: str) -> None:
        """Send what waits and close."""
        self._do([Close(code, reason, cause)])

    # --- inside -----------------------------------------------------------------------------------------------------

    def _take(self, text: str | None) -> None:
        if self._closing:
            return
        if self._questions or self._waiting:
            if len(self._waiting) >= MAX_WAITING_FRAMES:
                self._keeper.rejected("flood")
                self.close(1008, "too many frames while one is being looked at", "flood")
                return
            self._waiting.append(text)
            return
        self._feed(text)

    def _feed(self, text: str | None) -> None:
        if text is None:
            self._step(lambda now, wall: self.dialect.received_binary(now))
        else:
            self._step(lambda now, wall: self.dialect.received(text, now, wall))

    def _step(self, event: Callable[[float, int], Sequence[Action]]) -> None:
        """One event into the dialect, its actions out, its timer re-read."""
        if self._closing:
            return
        try:
            actions = event(now_ms(), int(time.time() * 1000))
        except Exception as problem:
            # The text of an exception may quote a frame; its place in our code never does.
            place = traceback.extract_tb(problem.__traceback__)[-1]
            _log.error("a dialect failed", error=type(problem).__name__, file=place.filename, line=place.lineno)
            self.close(1011, "internal error", "internal")
            return
        self._do(actions)
        if not self._closing and self.dialect.wake_at_ms != self._wake_at_ms:
            self._set_timer(self.dialect.wake_at_ms)

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if self._closing:
                return
            match action:
                case Send(text):
                    self._send(text)
                case Answered():
                    verdict = self._keeper.answered(self, action)
                    self._step(lambda now, wall, token=action.token, said=verdict: self.dialect.answered(token, said))  # type: ignore[misc]
                case Reported():
                    self._keeper.reported(self, action)
                case Registration():
                    visible = self._keeper.registered(self, action)
                    if visible is not None and not visible.done():
                        self._hold_until(visible)
                case Unregistered():
                    self._keeper.unregistered(self)
                case Decided():
                    self._keeper.decided(self, action)
                case Rejected(cause):
                    self._keeper.rejected(cause)
                case Question():
                    self._ask_about(action)
                case Authenticated(max_frame_bytes, max_buffered_bytes):
                    self._socket.set_max_frame_bytes(max_frame_bytes)
                    self._max_buffered_bytes = max_buffered_bytes
                case Close(code, reason, cause):
                    self._release()
                    self._flush()
                    self._closing = True
                    self._keeper.closed(cause)
                    self._socket.close(code, reason)

    def _send(self, text: str) -> None:
        if self._hold is not None:
            self._held.append(text)
            return
        self._out.append(text)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._gone or not self._out:
            self._out.clear()
            return
        frames, self._out = self._out, []
        self._socket.write_frames(frames)
        if self._socket.buffered_bytes > self._max_buffered_bytes:
            # A close frame would stand behind what is buffered and never arrive.
            self._closing = True
            self._keeper.closed("slow_reader")
            self._socket.abort()

    def _hold_until(self, visible: "asyncio.Future[None]") -> None:
        if self._hold is None:
            self._hold_timer = self._loop.call_later(HOLD_LIMIT_S, self._release)
        self._hold = visible
        visible.add_done_callback(self._visible)

    def _visible(self, future: "asyncio.Future[None]") -> None:
        if not future.cancelled():
            future.exception()
        if future is self._hold:
            self._release()

    def _release(self) -> None:
        self._hold = None
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None
        held, self._held = self._held, []
        for text in held:
            self._send(text)

    def _ask_about(self, question: Question) -> None:
        self._socket.pause_reading()
        self._questions[question.number] = self._loop.create_task(self._find_out(question))

    async def _find_out(self, question: Question) -> None:
        try:
            async with asyncio.timeout(QUESTION_TIMEOUT_S):
                answer = await self._resolve(question.about)
        except Exception as problem:
            _log.warning("a question could not be answered", error=type(problem).__name__)
            self._questions.pop(question.number, None)
            self._step(lambda now, wall: self.dialect.unresolved(question.number, now))
        else:
            self._questions.pop(question.number, None)
            self._step(lambda now, wall: self.dialect.resolved(question.number, answer, now, wall))
        while self._waiting and not self._questions and not self._closing:
            self._feed(self._waiting.popleft())
        if not self._questions and not self._gone:
            self._socket.resume_reading()

    def _set_timer(self, at_ms: float | None) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        self._wake_at_ms = at_ms
        if at_ms is not None:
            self._wake = self._loop.call_later(max(0.0, at_ms - now_ms()) / 1000, self._tick)

    def _tick(self) -> None:
        self._wake = None
        self._wake_at_ms = None
        self._step(lambda now, wall: self.dialect.tick(now, wall))
