"""A scripted browser tab: the browser dialect on a real socket, its answers told in advance."""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.ids import new_id
from hereabouts.schemas.tools import LOCATION_GET, LOCATION_GET_TOOL, Tool

from .replies import Disconnect, Error, Invoke, Raw, Reply, Result, Silent

REPLY_TIMEOUT_S = 10.0
"""How long a tab waits for the bridge's answer to a request of its own before the test fails."""


class BridgeRefused(AssertionError):
    """The bridge answered a request with an error."""

    def __init__(self, request: str, error: dict[str, Any]) -> None:
        self.error_code = error.get("errorCode")
        self.error_message = error.get("errorMessage")
        super().__init__(f"{request} was answered with {self.error_code}: {self.error_message}")


class ScriptedTab:
    """One tab. `async with ScriptedTab(url, token, session) as tab` connects, binds and registers.

    Replies are used in the order they were given, one an ask. When the script is empty `otherwise` answers every ask;
    without it the tab stays silent.

    Attributes:
        invokes: the asks received, in order.
        cancelled: correlation ids that the bridge took back.
        acks: the bridge's answers to results, by correlation id.
        errors: error frames that answered nothing in particular.
    """

    def __init__(
        self,
        socket_url: str,
        token: str,
        session: str,
        *,
        origin: str | None = None,
        client_id: str | None = None,
        resume: str | None = None,
        tools: Sequence[Tool] = (LOCATION_GET_TOOL,),
        permission: str = "prompt",
        visibility: str = "visible",
        focused: bool = True,
        sharing: str = "on",
        precision: str = "precise",
        time_zone: str = "Europe/Berlin",
        languages: Sequence[str] = ("de-DE", "en"),
        otherwise: Reply | Callable[[Invoke], Reply] | None = None,
    ) -> None:
        self.socket_url = socket_url
        self.token = token
        self.session = session
        self.origin = origin if origin is not None else _origin_of(socket_url)
        self.client_id = client_id or new_id("tab")
        self.resume = resume
        self.connection_id: str | None = None
        self.tools = list(tools)
        self.state = {
            "visibility": visibility,
            "focused": focused,
            "permission": permission,
            "sharing": sharing,
            "precision": precision,
        }
        self.time_zone = time_zone
        self.languages = list(languages)
        self.otherwise = otherwise
        self.invokes: list[Invoke] = []
        self.cancelled: list[str] = []
        self.acks: dict[str, dict[str, Any]] = {}
        self.errors: list[dict[str, Any]] = []
        self._script: deque[Reply] = deque()
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._changed = asyncio.Condition()
        self._socket: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None

    # --- script -----------------------------------------------------------------------------------------------------

    def then(self, *replies: Reply) -> Self:
        """Add replies to the script."""
        self._script.extend(replies)
        return self

    @property
    def unused(self) -> list[Reply]:
        """Replies that no ask has used."""
        return list(self._script)

    # --- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.open()
        await self.hello()
        await self.bind()
        await self.register(*self.tools)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Only the socket: nothing is said yet."""
        self._socket = await connect(
            self.socket_url,
            origin=self.origin,  # type: ignore[arg-type]  # a NewType of str
            compression=None,
            proxy=None,
            open_timeout=REPLY_TIMEOUT_S,
        )
        self._reading = asyncio.create_task(self._read(self._socket), name=f"tab-{self.client_id}")

    async def close(self) -> None:
        """Close the socket as a page that is left does."""
        if self._socket is not None:
            await self._socket.close()
        await self._ended()

    async def drop(self) -> None:
        """Lose the network: no close frame."""
        if self._socket is not None:
            self._socket.transport.abort()
        await self._ended()

    async def closed(self) -> int | None:
        """Wait until the bridge closes the socket; its close code (1006 without one)."""
        assert self._socket is not None
        await asyncio.wait_for(self._socket.wait_closed(), REPLY_TIMEOUT_S)
        return self._socket.close_code

    # --- requests ---------------------------------------------------------------------------------------------------

    async def hello(self) -> dict[str, Any]:
        """Say who this is; remembers the resume secret."""
        said = {
            "token": self.token,
            "clientId": self.client_id,
            **self.state,
            "timeZone": self.time_zone,
            "languages": self.languages,
        }
        ack = await self.request("hello", said | {"resume": self.resume} if self.resume else said)
        self.resume, self.connection_id = ack["resume"], ack["connectionId"]
        return ack

    async def bind(self, session: str | None = None, token: str | None = None) -> dict[str, Any]:
        """Bind to the session (or switch to another)."""
        self.session = session or self.session
        return await self.request("session-bind", {"sessionId": self.session} | ({"token": token} if token else {}))

    async def register(self, *tools: Tool) -> dict[str, Any]:
        """Register tools."""
        specs = [
            {"name": tool.name, "description": tool.description, "paramsSchema": tool.params_schema} for tool in tools
        ]
        return await self.request("client-tool-register", {"tools": specs})

    async def unregister(self, *names: str) -> dict[str, Any]:
        """Take tools back."""
        return await self.request("client-tool-unregister", {"names": list(names) or [LOCATION_GET]})

    async def set_state(self, **changed: Any) -> None:
        """Report a change of visibility, focused, permission, sharing or precision; returns once the bridge read it."""
        self.state |= changed
        await self.send({"type": "client-state", "data": self.state})
        await self.ping()

    async def ping(self) -> dict[str, Any]:
        """A round trip: whatever was sent before has been read."""
        return await self.request("ping", {"t": next(self._ids)})

    async def request(self, kind: str, data: Any) -> dict[str, Any]:
        """Send a request and wait for its reply's data.

        Raises:
            BridgeRefused: the reply is an error.
            ConnectionError: the bridge closed instead of replying.
        """
        number = str(next(self._ids))
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            await self.send({"id": number, "type": kind, "data": data})
            reply = await asyncio.wait_for(waiting, REPLY_TIMEOUT_S)
        finally:
            self._waiting.pop(number, None)
        if reply["type"] == "error":
            raise BridgeRefused(kind, reply.get("data") or {})
        return reply.get("data") or {}

    async def send(self, frame: dict[str, Any]) -> None:
        """Send a frame."""
        await self.send_raw(json.dumps(frame))

    async def send_raw(self, text: str | bytes) -> None:
        """Send any text, or bytes, as they are."""
        assert self._socket is not None
        await self._socket.send(text)

    # --- asks -------------------------------------------------------------------------------------------------------

    async def asked(self, count: int = 1) -> Invoke:
        """Wait until `count` asks have come in all; the last of them."""
        await self._until(lambda: len(self.invokes) >= count)
        return self.invokes[count - 1]

    async def was_cancelled(self, correlation_id: str) -> None:
        """Wait until the bridge took an ask back."""
        await self._until(lambda: correlation_id in self.cancelled)

    async def acked(self, correlation_id: str) -> dict[str, Any]:
        """Wait for the bridge's word on a result: `{accepted}` or `{ignored: true}`."""
        await self._until(lambda: correlation_id in self.acks)
        return self.acks[correlation_id]

    async def progress(self, correlation_id: str, state: ClientState) -> None:
        """Report what the tab is doing about an ask."""
        data = {"correlationId": correlation_id, "state": state.value}
        await self.send({"type": "client-tool-progress", "data": data})

    async def answer(self, correlation_id: str, reply: Reply) -> None:
        """Answer an ask now, whatever the script says: late, twice, or for an id that is not this tab's."""
        match reply:
            case Result(result, progress):
                for state in progress:
                    await self.progress(correlation_id, state)
                await self._result(correlation_id, result, None)
            case Error(message):
                await self._result(correlation_id, None, {"message": message})
            case Silent(progress):
                for state in progress:
                    await self.progress(correlation_id, state)
            case Raw(text):
                await self.send_raw(text.replace("{correlationId}", correlation_id))
            case Disconnect():
                assert self._socket is not None
                self._socket.transport.abort()

    async def decide_late(self, correlation_id: str, status: str) -> None:
        """Tell what the person decided after PENDING had been answered."""
        await self.send(
            {"type": "client-tool-late-result", "data": {"correlationId": correlation_id, "status": status}}
        )

    async def _result(self, correlation_id: str, result: Any, error: Any) -> None:
        data = {"correlationId": correlation_id, "result": result, "error": error}
        await self.send({"id": f"r-{correlation_id}", "type": "client-tool-result", "data": data})

    # --- reading ----------------------------------------------------------------------------------------------------

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                await self._received(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            for waiting in self._waiting.values():
                if not waiting.done():
                    code, reason = socket.close_code, socket.close_reason
                    waiting.set_exception(ConnectionError(f"the bridge closed with {code} {reason}"))

    async def _received(self, frame: dict[str, Any]) -> None:
        kind, data, reply_to = frame["type"], frame.get("data") or {}, frame.get("replyTo")
        async with self._changed:
            if reply_to in self._waiting:
                if not self._waiting[reply_to].done():
                    self._waiting[reply_to].set_result(frame)
            elif isinstance(reply_to, str) and reply_to.startswith("r-"):
                self.acks[reply_to.removeprefix("r-")] = data
            elif kind == "client-tool-invoke":
                self.invokes.append(Invoke.read(data))
            elif kind == "client-tool-cancel":
                self.cancelled.append(data["correlationId"])
            elif kind == "error":
                self.errors.append(data)
            self._changed.notify_all()
        if kind == "client-tool-invoke":
            invoke = self.invokes[-1]
            reply = self._next(invoke)
            if reply is not None:
                await self.answer(invoke.correlation_id, reply)

    def _next(self, invoke: Invoke) -> Reply | None:
        if self._script:
            return self._script.popleft()
        return self.otherwise(invoke) if callable(self.otherwise) else self.otherwise

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(REPLY_TIMEOUT_S), self._changed:
            await self._changed.wait_for(condition)

    async def _ended(self) -> None:
        if self._reading is not None:
            await self._reading


def _origin_of(socket_url: str) -> str:
    """The origin of a page that the bridge itself serves."""
    scheme, _, rest = socket_url.partition("://")
    return f"{'https' if scheme == 'wss' else 'http'}://{rest.split('/', 1)[0]}"
