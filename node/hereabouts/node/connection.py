"""The thin shell around the protocol: one WebSocket after the other, timers, and the invokes' tasks."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from hereabouts.schemas import node_wire as wire

from .errors import GatewayRefused, LocationFault
from .identity import DeviceTokens, Identity
from .protocol import Action, CancelInvoke, Close, Connected, Invoke, NodeProtocol, Profile, Refused, Send
from .reconnect import Backoff, is_final, is_pairing, pairing_request_id

log = logging.getLogger(__name__)
socket_log = logging.getLogger(f"{__name__}.socket")
# At DEBUG websockets logs whole frames, and a frame may hold a position or a token: never, whatever the root says.
socket_log.setLevel(logging.WARNING)

OPEN_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
"""A gateway that does not answer our close must not hold up our end."""


GOING_AWAY = 1001
"""What an endpoint says that goes down (RFC 6455, section 7.4.1)."""


class Phase(StrEnum):
    """What a person may want to know of the connection."""

    CONNECTING = "connecting"
    PAIRING = "pairing"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"


@dataclass(frozen=True, slots=True)
class Status:
    """A change of phase; `request_id` is what an operator approves while pairing."""

    phase: Phase
    device_id: str
    request_id: str | None = None
    retry_in_ms: float | None = None


Handler = Callable[[Any, int | None], Awaitable[dict[str, Any]]]
"""A command: parameters and the caller's remaining milliseconds in, payload out; raises LocationFault."""


def now_ms() -> float:
    """Monotonic milliseconds."""
    return time.monotonic() * 1000


class GatewayLink:
    """Keeps one node connected to one gateway until it is cancelled."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None,
        identity: Identity,
        tokens: DeviceTokens,
        profile: Profile,
        handlers: dict[str, Handler],
        on_status: Callable[[Status], None] = lambda status: None,
        backoff: Backoff | None = None,
    ) -> None:
        self._url = url
        self._token = token
        self._identity = identity
        self._tokens = tokens
        self._profile = profile
        self._handlers = handlers
        self._on_status = on_status
        self._backoff = backoff or Backoff()
        self._connected_at_ms: float | None = None

    async def run(self) -> None:
        """Connect, serve, and connect again.

        Raises:
            GatewayRefused: the gateway will not have this node with these settings.
        """
        while True:
            self._report(Phase.CONNECTING)
            self._connected_at_ms = None
            refused = await self._once()
            if self._connected_at_ms is not None:
                self._backoff.stood(now_ms() - self._connected_at_ms)
            if refused is not None and not self._forget_device_token(refused) and is_final(refused):
                raise GatewayRefused(f"the gateway refused this node: {refused.detail_code} ({refused.message[:200]})")
            delay_ms = self._backoff.next_ms(refused)
            if refused is not None and is_pairing(refused):
                self._report(Phase.PAIRING, pairing_request_id(refused), delay_ms)
            else:
                self._report(Phase.DISCONNECTED, retry_in_ms=delay_ms)
            await asyncio.sleep(delay_ms / 1000)

    async def _once(self) -> wire.Error | None:
        """One connection from open to close; the gateway's refusal, if that is how it ended."""
        try:
            async with connect(
                self._url,
                compression=None,
                ping_interval=None,
                max_size=wire.MAX_NODE_FRAME_BYTES,
                logger=socket_log,
                open_timeout=OPEN_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
            ) as socket:
                session = _Session(socket, self)
                await session.serve()
                return session.refused
        except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
            log.info("gateway not reached (%s)", type(error).__name__)
            return None
        except InvalidURI:
            raise GatewayRefused("the gateway's address is no ws:// or wss:// URL") from None

    def new_protocol(self) -> NodeProtocol:
        """A protocol for a socket that just opened, with the credential that counts now."""
        device_token = None if self._token else self._tokens.get(self._url)
        auth = wire.ConnectAuth(token=self._token or device_token, device_token=device_token)
        return NodeProtocol(self._identity, self._profile, auth, now_ms())

    def connected(self, hello: Connected) -> None:
        """The gateway said hello."""
        self._connected_at_ms = now_ms()
        if hello.device_token:
            self._tokens.put(self._url, hello.device_token)
        self._report(Phase.CONNECTED)

    def handler(self, command: str) -> Handler:
        """What does a command that the profile declares."""
        return self._handlers[command]

    def _forget_device_token(self, refused: wire.Error) -> bool:
        """Drop a stored token that no longer works; True if there was one, so that one more try makes sense."""
        if self._token or self._tokens.get(self._url) is None:
            return False
        if refused.detail_code not in (
            wire.DetailCode.AUTH_TOKEN_MISMATCH,
            wire.DetailCode.AUTH_DEVICE_TOKEN_MISMATCH,
        ):
            return False
        self._tokens.put(self._url, None)
        return True

    def _report(self, phase: Phase, request_id: str | None = None, retry_in_ms: float | None = None) -> None:
        self._on_status(Status(phase, self._identity.device_id, request_id, retry_in_ms))


class _Session:
    """One socket and its protocol."""

    def __init__(self, socket: ClientConnection, link: GatewayLink) -> None:
        self.refused: wire.Error | None = None
        self._socket = socket
        self._link = link
        self._protocol = link.new_protocol()
        self._changed = asyncio.Event()
        self._invokes: dict[str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Until the socket closes, whoever closes it."""
        clock = asyncio.create_task(self._watch_clock())
        try:
            async for text in self._socket:
                await self._perform(self._protocol.receive(text, now_ms()))
                self._changed.set()
        except ConnectionClosed:
            pass
        finally:
            self._protocol.closed()
            tasks = [clock, *self._invokes.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # Already closed, unless this node is being stopped: then the gateway hears it at once.
            await self._socket.close(GOING_AWAY, "node stopped")
        log.info("gateway closed the connection (%s)", self._socket.close_code)

    async def _watch_clock(self) -> None:
        while (deadline_ms := self._protocol.deadline_ms) is not None:
            try:
                async with asyncio.timeout(max(0.0, deadline_ms - now_ms()) / 1000):
                    await self._changed.wait()
                self._changed.clear()
            except TimeoutError:
                await self._perform(self._protocol.advance(now_ms()))

    async def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                await self._socket.send(action.text)
            elif isinstance(action, Close):
                await self._socket.close(action.code, action.reason)
            elif isinstance(action, Connected):
                self._link.connected(action)
            elif isinstance(action, Refused):
                self.refused = action.error
            elif isinstance(action, Invoke):
                task = asyncio.create_task(self._answer(action))
                self._invokes[action.id] = task
                task.add_done_callback(partial(self._forget, action.id))
            elif isinstance(action, CancelInvoke) and (found := self._invokes.get(action.id)):
                found.cancel()

    def _forget(self, invoke_id: str, task: asyncio.Task[None]) -> None:
        if self._invokes.get(invoke_id) is task:
            del self._invokes[invoke_id]

    async def _answer(self, invoke: Invoke) -> None:
        try:
            payload = await self._link.handler(invoke.command)(invoke.params, invoke.budget_ms)
            actions = self._protocol.finish(invoke.id, payload)
        except LocationFault as fault:
            actions = self._protocol.fail(invoke.id, fault.code.value, str(fault))
        except Exception as error:
            # Its type alone: the text of an error in a command may hold what the command found.
            log.error("%s failed (%s)", invoke.command, type(error).__name__)
            actions = self._protocol.fail(invoke.id, wire.ErrorCode.UNAVAILABLE.value, "the command failed")
        try:
            await self._perform(actions)
            log.debug("%s answered", invoke.command)
        except ConnectionClosed:
            log.debug("%s not answered: the connection is gone", invoke.command)
