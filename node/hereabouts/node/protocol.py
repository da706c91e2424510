"""The node's side of the dialect, without socket or clock: frames and times go in, actions come out.

Times are monotonic milliseconds of the caller's clock, except where a name says epoch.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from pydantic import ValidationError

from hereabouts.schemas import node_wire as wire

from .identity import Identity

CHALLENGE_WAIT_MS = 15_000
"""For the server's first word; the reference client waits as long."""

HELLO_WAIT_MS = 15_000
"""For the answer to `connect`."""

MAX_OPEN_INVOKES = 64
"""A gateway asks one node a handful of things at once; more is a flood, and each costs memory and a provider's time."""

CAPABILITY = "location"


class State(Enum):
    """Where a connection stands."""

    AWAITING_CHALLENGE = auto()
    AWAITING_HELLO = auto()
    READY = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Send:
    """Put one text frame on the socket. Not shown: it may hold a position or a token."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The gateway said hello. `device_token` is what it issued to this device, if it did."""

    connection_id: str
    tick_interval_ms: int
    device_token: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The gateway said no to `connect`; the socket will close."""

    error: wire.Error


@dataclass(frozen=True, slots=True)
class Invoke:
    """Do a command; answer with `finish` or `fail` under the same id. `budget_ms` is what is left of the caller's."""

    id: str
    command: str
    params: Any = field(repr=False)
    budget_ms: int | None


@dataclass(frozen=True, slots=True)
class CancelInvoke:
    """Nobody waits for this any more."""

    id: str


Action = Send | Close | Connected | Refused | Invoke | CancelInvoke


@dataclass(frozen=True, slots=True)
class Profile:
    """What this node tells of itself when it connects."""

    display_name: str
    version: str
    instance_id: str
    commands: Sequence[str] = (wire.LOCATION_GET,)
    permissions: dict[str, bool] | None = None
    client_id: str = "node-host"
    """One of the closed list of client ids that OpenClaw's gateway accepts."""
    platform: str = "linux"
    device_family: str = "Linux"
    mode: str = "node"


class NodeProtocol:
    """One connection's life, from the challenge to the close."""

    def __init__(self, identity: Identity, profile: Profile, auth: wire.ConnectAuth, now_ms: float) -> None:
        self.state = State.AWAITING_CHALLENGE
        self.frames_ignored = 0
        self._identity = identity
        self._profile = profile
        self._auth = auth
        self._deadline_ms: float | None = now_ms + CHALLENGE_WAIT_MS
        self._silence_ms = float(wire.TICK_INTERVAL_MS * wire.TICK_TIMEOUT_FACTOR)
        self._open: set[str] = set()
        self._requests = 0
        self._connect_id: str | None = None

    @property
    def deadline_ms(self) -> float | None:
        """When `advance` has something to do if nothing arrives before."""
        return self._deadline_ms

    @property
    def open_invokes(self) -> frozenset[str]:
        """The ids that wait for `finish` or `fail`."""
        return frozenset(self._open)

    def receive(self, text: str | bytes, now_ms: float) -> list[Action]:
        """Take one frame. Whatever it holds, this does not raise: what cannot be read is counted and ignored."""
        if self.state is State.CLOSED:
            return []
        try:
            frame = wire.parse_frame(text)
        except wire.FrameError:
            self.frames_ignored += 1
            return []
        if self.state is State.READY:
            # Any frame shows that the server lives, as in the reference client; WebSocket pings never get here.
            self._deadline_ms = now_ms + self._silence_ms
        try:
            if isinstance(frame, wire.Event):
                return self._event(frame, now_ms)
            if isinstance(frame, wire.Response):
                return self._response(frame, now_ms)
        except ValidationError:
            self.frames_ignored += 1
            return []
        return self._request(frame)

    def advance(self, now_ms: float) -> list[Action]:
        """Let time pass: closes when the server has been silent for too long."""
        if self._deadline_ms is None or now_ms < self._deadline_ms:
            return []
        if self.state is State.READY:
            return self._close(wire.CloseCode.TICK_TIMEOUT, "tick timeout")
        waiting = "challenge" if self.state is State.AWAITING_CHALLENGE else "hello"
        return self._close(wire.CloseCode.POLICY_VIOLATION, f"connect {waiting} timeout")

    def finish(self, invoke_id: str, payload: dict[str, Any]) -> list[Action]:
        """Answer an open invoke with its payload; nothing if it is no longer open."""
        return self._result(invoke_id, {"ok": True, "payloadJSON": json.dumps(payload, allow_nan=False)})

    def fail(self, invoke_id: str, code: str, message: str) -> list[Action]:
        """Answer an open invoke with an error; nothing if it is no longer open."""
        return self._result(invoke_id, {"ok": False, "error": {"code": code, "message": message}})

    def closed(self) -> list[Action]:
        """The socket is gone: what was open is cancelled."""
        self.state = State.CLOSED
        self._deadline_ms = None
        cancelled: list[Action] = [CancelInvoke(invoke_id) for invoke_id in sorted(self._open)]
        self._open.clear()
        return cancelled

    # --- what arrives -----------------------------------------------------------------------------------------------

    def _event(self, frame: wire.Event, now_ms: float) -> list[Action]:
        if self.state is State.AWAITING_CHALLENGE:
            if frame.event == wire.EventName.CHALLENGE:
                return self._connect(wire.Challenge.model_validate(frame.payload), now_ms)
        elif self.state is State.READY:
            if frame.event == wire.EventName.INVOKE_REQUEST:
                return self._invoke(wire.NodeInvokeRequest.model_validate(frame.payload))
            if frame.event == wire.EventName.INVOKE_CANCEL:
                return self._cancel(wire.NodeInvokeCancel.model_validate(frame.payload))
        return []

    def _response(self, frame: wire.Response, now_ms: float) -> list[Action]:
        if self.state is not State.AWAITING_HELLO or frame.id != self._connect_id:
            return []
        if not frame.ok:
            error = frame.error or wire.Error(code=wire.ErrorCode.UNAVAILABLE, message="connect failed")
            return [Refused(error), *self._close(wire.CloseCode.POLICY_VIOLATION, "connect failed")]
        try:
            hello = wire.HelloOk.model_validate(frame.payload)
        except ValidationError:
            return self._close(wire.CloseCode.PROTOCOL_MISMATCH, "hello-ok cannot be read")
        if not wire.MIN_PROTOCOL_VERSION <= hello.protocol <= wire.PROTOCOL_VERSION:
            return self._close(wire.CloseCode.PROTOCOL_MISMATCH, "protocol version")
        self.state = State.READY
        self._silence_ms = float(hello.policy.tick_interval_ms * wire.TICK_TIMEOUT_FACTOR)
        self._deadline_ms = now_ms + self._silence_ms
        return [Connected(hello.server.conn_id, hello.policy.tick_interval_ms, hello.auth.device_token)]

    def _request(self, frame: wire.Request) -> list[Action]:
        """A gateway asks nodes by events; a request gets the documented error."""
        if self.state is not State.READY:
            return []
        error = wire.Error(code=wire.ErrorCode.INVALID_REQUEST, message="unknown method")
        return [_send(wire.Response(id=frame.id, ok=False, error=error))]

    def _connect(self, challenge: wire.Challenge, now_ms: float) -> list[Action]:
        profile, identity = self._profile, self._identity
        signed = wire.signature_payload(
            "v3",
            device_id=identity.device_id,
            client_id=profile.client_id,
            client_mode=profile.mode,
            role=wire.Role.NODE.value,
            scopes=(),
            # The server's own time: a node whose clock is wrong can still prove who it is.
            signed_at_ms=challenge.ts,
            token=self._auth.signed_token,
            nonce=challenge.nonce,
            platform=profile.platform,
            device_family=profile.device_family,
        )
        params = wire.ConnectParams(
            min_protocol=wire.MIN_PROTOCOL_VERSION,
            max_protocol=wire.PROTOCOL_VERSION,
            client=wire.ClientInfo(
                id=profile.client_id,
                display_name=profile.display_name,
                version=profile.version,
                platform=profile.platform,
                device_family=profile.device_family,
                mode=profile.mode,
                instance_id=profile.instance_id,
            ),
            role=wire.Role.NODE,
            caps=(CAPABILITY,),
            commands=tuple(profile.commands),
            permissions=profile.permissions,
            auth=self._auth,
            device=wire.DeviceProof(
                id=identity.device_id,
                public_key=identity.public_key,
                signature=identity.sign(signed),
                signed_at=challenge.ts,
                nonce=challenge.nonce,
            ),
        )
        self.state = State.AWAITING_HELLO
        self._deadline_ms = now_ms + HELLO_WAIT_MS
        request = wire.Request(id=self._next_id(), method=wire.Method.CONNECT, params=params.wire())
        self._connect_id = request.id
        return [_send(request)]

    def _invoke(self, request: wire.NodeInvokeRequest) -> list[Action]:
        if request.id in self._open:
            return []
        if len(self._open) >= MAX_OPEN_INVOKES:
            return self._refuse(request.id, wire.ErrorCode.UNAVAILABLE, "too many open requests")
        if request.node_id != self._identity.device_id:
            return self._refuse(request.id, wire.ErrorCode.INVALID_REQUEST, "nodeId mismatch")
        if request.command not in self._profile.commands:
            return self._refuse(request.id, wire.ErrorCode.INVALID_REQUEST, "unknown command")
        try:
            params = request.params()
        except ValueError:
            return self._refuse(request.id, wire.ErrorCode.INVALID_REQUEST, "paramsJSON is not JSON")
        self._open.add(request.id)
        return [Invoke(request.id, request.command, params, request.timeout_ms)]

    def _cancel(self, cancel: wire.NodeInvokeCancel) -> list[Action]:
        if cancel.invoke_id not in self._open:
            return []
        self._open.discard(cancel.invoke_id)
        return [CancelInvoke(cancel.invoke_id)]

    # --- what leaves ------------------------------------------------------------------------------------------------

    def _refuse(self, invoke_id: str, code: wire.ErrorCode, message: str) -> list[Action]:
        self._open.add(invoke_id)
        return self.fail(invoke_id, code.value, message)

    def _result(self, invoke_id: str, outcome: dict[str, Any]) -> list[Action]:
        if invoke_id not in self._open:
            return []
        self._open.discard(invoke_id)
        params = {"id": invoke_id, "nodeId": self._identity.device_id, **outcome}
        return [_send(wire.Request(id=self._next_id(), method=wire.Method.NODE_INVOKE_RESULT, params=params))]

    def _close(self, code: wire.CloseCode, reason: str) -> list[Action]:
        return [Close(int(code), reason), *self.closed()]

    def _next_id(self) -> str:
        self._requests += 1
        return f"n{self._requests}"


def _send(frame: wire.Request | wire.Response) -> Send:
    return Send(json.dumps(frame.wire(), ensure_ascii=False, separators=(",", ":"), allow_nan=False))
