"""The OpenClaw gateway protocol as a state machine of one socket: no I/O, no clock.

From the challenge to hello-ok is this file's; then a `NodeConnection` or an `OperatorConnection` answers requests. What
only I/O can tell is a Question (see `questions`).
"""

import uuid
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from hereabouts.edge.dialect import (
    Action,
    Answered,
    Authenticated,
    Close,
    Invoke,
    Question,
    Rejected,
    Verdict,
)
from hereabouts.schemas.limits import MAX_BAD_FRAMES
from hereabouts.schemas.node_wire import (
    MAX_NODE_BUFFERED_BYTES,
    MAX_NODE_FRAME_BYTES,
    TICK_INTERVAL_MS,
    Challenge,
    CloseCode,
    Error,
    EventName,
    Features,
    HelloAuth,
    HelloOk,
    InvalidFrame,
    Method,
    NotJson,
    Request,
    Role,
    ServerInfo,
    Snapshot,
    Tick,
    parse_frame,
)
from hereabouts.schemas.outcomes import Reason

from .frames import event, failure, invalid, reject, response
from .handshake import NOT_CONNECT, Proven, Refusal, check_connect, credential_refused, not_ready, pairing_required
from .invocation import refusal
from .labels import clean_label
from .nodes import NodeConnection
from .operators import OperatorConnection
from .questions import Admission, Admitted, CredentialRefused, PairingRequired
from .registration import known_commands

HANDSHAKE_TIMEOUT_MS = 10_000
"""A socket that has not been let in by then is closed: a phone on a bad network needs two round trips, no more."""

TICK_EVERY_MS = TICK_INTERVAL_MS - 5_000
"""Sooner than promised: a timer runs late, and a promise of "at least every" must not."""

MAX_METHOD_CHARS = 64
"""How much of an unknown method's name is said back."""

MAX_CLOSE_REASON_BYTES = 123
"""RFC 6455, section 5.5: a control frame holds 125 bytes, two of them are the code."""

METHODS = frozenset(NodeConnection.methods) | frozenset(OperatorConnection.methods)


class Phase(Enum):
    """Where a socket stands."""

    CHALLENGED = auto()
    ADMITTING = auto()
    CONNECTED = auto()
    CLOSED = auto()


@dataclass(frozen=True, slots=True)
class Gateway:
    """What a socket says of the process that holds it."""

    version: str
    started_wall_ms: int


class NodeDialect:
    """One socket of a node or an operator."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._phase = Phase.CHALLENGED
        self._nonce = str(uuid.uuid4())
        self._wake_at_ms: float | None = None
        self._proven: Proven | None = None
        self._connection: NodeConnection | OperatorConnection | None = None
        self._asked: dict[int, Request] = {}
        self._questions = 0
        self._bad_frames = 0

    # --- what the edge reads ----------------------------------------------------------------------------------------

    @property
    def wake_at_ms(self) -> float | None:
        """The end of the handshake's time, then the next tick."""
        return None if self._phase is Phase.CLOSED else self._wake_at_ms

    @property
    def authenticated(self) -> bool:
        """Whether hello-ok was said."""
        return self._phase is Phase.CONNECTED

    # --- events -----------------------------------------------------------------------------------------------------

    def opened(self, now_ms: float, wall_ms: int) -> list[Action]:
        """The challenge leaves at once: Android waits two seconds for it."""
        self._wake_at_ms = now_ms + HANDSHAKE_TIMEOUT_MS
        return [event(EventName.CHALLENGE, Challenge(nonce=self._nonce, ts=wall_ms))]

    def received(self, text: str, now_ms: float, wall_ms: int) -> list[Action]:
        """One frame. Before hello-ok any fault ends the socket; after it, MAX_BAD_FRAMES unreadable frames do."""
        if self._phase is Phase.CHALLENGED:
            return self._first_frame(text, wall_ms)
        if self._connection is None:
            return [Rejected("early_frame")]
        if self._phase is Phase.CLOSED:
            return []
        try:
            frame = parse_frame(text)
        except NotJson:
            return self._bad_frame("not_json")
        except InvalidFrame as problem:
            said: list[Action] = [failure(problem.request_id, invalid(str(problem)))] if problem.request_id else []
            return said + self._bad_frame("invalid_frame")
        if not isinstance(frame, Request):
            return []  # nobody is asked for responses here, and what a client tells comes as a request
        return self._request(self._connection, frame, now_ms, wall_ms)

    def received_binary(self, now_ms: float) -> list[Action]:
        """The dialect is text only."""
        if self._phase is Phase.CHALLENGED:
            return [Rejected("binary"), *self._close(CloseCode.NORMAL, "", "binary")]
        return self._bad_frame("binary") if self.authenticated else []

    def resolved(self, number: int, answer: Any, now_ms: float, wall_ms: int) -> list[Action]:
        """The answer to a Question; one for a socket that was closed meanwhile counts for nothing."""
        request = self._asked.pop(number, None)
        if request is None:
            return []
        if self._phase is not Phase.ADMITTING:
            return [failure(request.id, answer) if isinstance(answer, Error) else response(request.id, answer)]
        if isinstance(answer, Admitted):
            return self._hello(request, answer, now_ms, wall_ms)
        if isinstance(answer, PairingRequired):
            return self._refuse(request, pairing_required(answer.request_id))
        if isinstance(answer, CredentialRefused):
            return self._refuse(request, credential_refused(answer.code))
        raise TypeError("not an answer to an Admission")

    def unresolved(self, number: int, now_ms: float) -> list[Action]:
        """The bus is away: a handshake is to be tried again soon, a request is answered so."""
        request = self._asked.pop(number, None)
        if request is None:
            return []
        if self._phase is Phase.ADMITTING:
            return self._refuse(request, not_ready())
        return [failure(request.id, not_ready().error)]

    def ask(self, invoke: Invoke, now_ms: float) -> list[Action]:
        """Pass an ask on, or answer it for a node that may not be asked this."""
        if self._connection is None or self._phase is Phase.CLOSED:
            return [Answered(invoke.correlation_id, refusal(Reason.NOT_READY), None)]
        return self._connection.ask(invoke)

    def cancel(self, correlation_id: str, reason: str, now_ms: float) -> list[Action]:
        """The node may stop."""
        return self._connection.cancel(correlation_id) if self._connection and self.authenticated else []

    def answered(self, token: Any, verdict: Verdict) -> list[Action]:
        """Acknowledge a result. An answer that was ours, since the node was not asked, has no token."""
        if token is None or self._connection is None or self._phase is Phase.CLOSED:
            return []
        return self._connection.answered(token, verdict)

    def tick(self, now_ms: float, wall_ms: int) -> list[Action]:
        """The handshake took too long, or it is time for a sign of life."""
        if self.wake_at_ms is None or now_ms < self.wake_at_ms:
            return []
        if not self.authenticated:
            return self._close(CloseCode.POLICY_VIOLATION, "handshake timeout", "handshake_timeout")
        self._wake_at_ms = now_ms + TICK_EVERY_MS
        return [event(EventName.TICK, Tick(ts=wall_ms))]

    # --- handshake --------------------------------------------------------------------------------------------------

    def _first_frame(self, text: str, wall_ms: int) -> list[Action]:
        try:
            frame = parse_frame(text)
        except NotJson:
            return [Rejected("not_json"), *self._close(CloseCode.NORMAL, "", "not_json")]
        except InvalidFrame as problem:
            return self._refuse_frame(problem.request_id)
        if not isinstance(frame, Request):
            return self._refuse_frame(None)
        if frame.method != Method.CONNECT:
            return self._refuse_frame(frame.id)
        verdict = check_connect(frame.params, self._nonce, wall_ms)
        if isinstance(verdict, Refusal):
            return self._refuse(frame, verdict)
        self._proven = verdict
        self._phase = Phase.ADMITTING
        return [self._question(frame, _admission(verdict))]

    def _hello(self, request: Request, admitted: Admitted, now_ms: float, wall_ms: int) -> list[Action]:
        assert self._proven is not None
        params = self._proven.params
        self._connection = connection = (
            NodeConnection(self._proven, admitted)
            if params.role is Role.NODE
            else OperatorConnection(admitted, params.scopes)
        )
        self._phase = Phase.CONNECTED
        self._wake_at_ms = now_ms + TICK_EVERY_MS
        hello = HelloOk(
            protocol=self._proven.protocol,
            server=ServerInfo(version=self._gateway.version, conn_id=str(uuid.uuid4())),
            features=Features(
                methods=tuple(method.value for method in connection.methods),
                events=tuple(name.value for name in connection.events),
            ),
            snapshot=Snapshot(uptime_ms=max(0, wall_ms - self._gateway.started_wall_ms)),
            auth=HelloAuth(role=params.role.value, scopes=connection.scopes, device_token=admitted.device_token),
        )
        place = connection.registration(wall_ms)
        return [
            Authenticated(MAX_NODE_FRAME_BYTES, MAX_NODE_BUFFERED_BYTES),
            # Before hello-ok, which then waits for the directory: who was let in can be found.
            *([place] if place is not None else []),
            response(request.id, hello),
        ]

    def _refuse(self, request: Request, refusal: Refusal) -> list[Action]:
        return [failure(request.id, refusal.error), *self._end(refusal)]

    def _refuse_frame(self, request_id: str | None) -> list[Action]:
        said: list[Action] = [] if request_id is None else [failure(request_id, NOT_CONNECT.error)]
        return said + self._end(NOT_CONNECT)

    def _end(self, refusal: Refusal) -> list[Action]:
        reason = refusal.close_reason or refusal.error.message
        return [Rejected(refusal.cause), *self._close(refusal.close_code, reason, refusal.cause)]

    # --- after it ---------------------------------------------------------------------------------------------------

    def _request(
        self, connection: NodeConnection | OperatorConnection, request: Request, now_ms: float, wall_ms: int
    ) -> list[Action]:
        if request.method in connection.methods:
            answer = connection.request(request, Method(request.method), now_ms, wall_ms)
            return answer if isinstance(answer, list) else [self._question(request, answer)]
        if request.method in METHODS:
            role = Role.NODE if isinstance(connection, NodeConnection) else Role.OPERATOR
            return reject(request, f"unauthorized role: {role.value}", "role")
        if request.method == Method.CONNECT:
            return reject(request, "connect is only valid as the first request", "second_connect")
        name = clean_label(request.method, MAX_METHOD_CHARS) or ""
        return reject(request, f"unknown method: {name}", "unknown_method")

    def _bad_frame(self, cause: str) -> list[Action]:
        self._bad_frames += 1
        actions: list[Action] = [Rejected(cause)]
        if self._bad_frames >= MAX_BAD_FRAMES:
            actions += self._close(CloseCode.POLICY_VIOLATION, "too many unreadable frames", "bad_frames")
        return actions

    def _question(self, request: Request, about: Any) -> Question:
        self._questions += 1
        self._asked[self._questions] = request
        return Question(self._questions, about)

    def _close(self, code: CloseCode, reason: str, cause: str) -> list[Action]:
        self._phase = Phase.CLOSED
        self._asked.clear()
        fitting = reason.encode("utf-8", "replace")[:MAX_CLOSE_REASON_BYTES].decode("utf-8", "ignore")
        return [Close(int(code), fitting, cause)]


def _admission(proven: Proven) -> Admission:
    params = proven.params
    client, auth = params.client, params.auth
    return Admission(
        device_id=proven.device_id,
        public_key=proven.public_key,
        role=params.role,
        # A bootstrap token is what a phone read from a code that it scanned: a gateway token like any other.
        token=auth.token or auth.bootstrap_token,
        device_token=auth.device_token,
        display_name=clean_label(client.display_name),
        platform=clean_label(client.platform) or "unknown",
        device_family=clean_label(client.device_family),
        version=clean_label(client.version),
        commands=known_commands(params.commands) if params.role is Role.NODE else (),
    )
