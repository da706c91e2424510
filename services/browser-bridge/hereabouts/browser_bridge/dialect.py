"""The browser dialect: one socket of a page as a state machine, without I/O and clock.

A socket says hello, is let in, binds to a session, registers tools and answers asks. No frame, however broken, raises:
it gets an `error` and the socket stays, until there were too many.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import to_json

from hereabouts.edge.dialect import (
    Action,
    Answered,
    Authenticated,
    ClientPhase,
    Close,
    Decided,
    Invoke,
    Outcome,
    Peer,
    Question,
    Registration,
    Rejected,
    Reported,
    Verdict,
)
from hereabouts.edge.open_ask import WAITS_FOR_PERSON, outcome_of
from hereabouts.edge.text import clean
from hereabouts.schemas.base import WireModel
from hereabouts.schemas.browser_wire import (
    MAX_REFUSAL_CHARS,
    BindAck,
    CancelData,
    ClientStateData,
    Envelope,
    FrameType,
    HelloAck,
    HelloData,
    InvokeData,
    LateResultData,
    PingData,
    PongData,
    ProgressData,
    RegisterData,
    ResultAck,
    ResultData,
    SessionBindData,
    SocketLimits,
    Timings,
    UnregisterData,
)
from hereabouts.schemas.claims import Claims
from hereabouts.schemas.errors import Unauthorized
from hereabouts.schemas.fixes import Precision
from hereabouts.schemas.limits import (
    HELLO_TIMEOUT_MS,
    MAX_BAD_FRAMES,
    MAX_BUFFERED_BYTES,
    MAX_FRAME_BYTES,
    MAX_REMEMBERED_RESULTS,
    MAX_RESULT_BYTES,
    MAX_TOOLS_BYTES,
    MAX_TOOLS_PER_CLIENT,
)
from hereabouts.schemas.outcomes import Reason, Status
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET, Tool

from .frames import MalformedFrame, error, frame, parse, where
from .languages import languages_of, time_zone_of
from .location_result import read_location
from .origins import may_connect
from .questions import SessionAnswer, SessionQuestion

NO_HELLO = 4001
TOKEN_REFUSED = 4003
POLICY = 1008
TRY_LATER = 1013

UNBOUND = "requires a bound session"
"""What a client is told that registers or answers before it is bound; clients look for these very words."""

MAX_TOKENS = 8
"""Sessions that one socket holds tokens for; the oldest is let go."""

Model = TypeVar("Model", bound=WireModel)
PHASES = frozenset({"permission_query", "prompt_open", "waiting", "acquiring", "answered"})


class State(StrEnum):
    """Where a socket stands."""

    SILENT = "silent"
    ASKING = "asking"
    """hello has come; its session is being looked up."""
    OPEN = "open"
    BOUND = "bound"


class BrowserDialect:
    """Implements `hereabouts.edge.dialect.Dialect`.

    Args:
        peer: the other end of the handshake.
        connection: the socket's name, told to the client.
        own_origin: of the bridge's own pages.
        verify: claims of a client token; pure computation. Raises Unauthorized.
        new_secret: makes the resume secret.
    """

    def __init__(
        self,
        peer: Peer,
        connection: str,
        *,
        own_origin: str,
        verify: Callable[[str], Claims],
        new_secret: Callable[[], str],
    ) -> None:
        self._peer = peer
        self._connection = connection
        self._own_origin = own_origin
        self._verify = verify
        self._secret = new_secret()
        self._state = State.SILENT
        self._wake_at_ms: float | None = None
        self._bad_frames = 0
        self._question = 0
        self._asking: Envelope | None = None
        self._shown: str | None = None
        self._claims: OrderedDict[str, Claims] = OrderedDict()
        self._pending: Claims | None = None
        self._hello: HelloData | None = None
        self._record: ClientRecord | None = None
        self._client = ClientStateData()
        self._active_at_ms = 0
        self._tools: dict[str, Tool] = {}
        self._asked: OrderedDict[str, str] = OrderedDict()
        self._prompted: set[str] = set()

    # --- Dialect ----------------------------------------------------------------------------------------------------

    @property
    def wake_at_ms(self) -> float | None:
        """See Dialect."""
        return self._wake_at_ms

    @property
    def authenticated(self) -> bool:
        """See Dialect."""
        return self._state in (State.OPEN, State.BOUND)

    def opened(self, now_ms: float, wall_ms: int) -> list[Action]:
        """See Dialect."""
        self._wake_at_ms = now_ms + HELLO_TIMEOUT_MS
        return []

    def received(self, text: str, now_ms: float, wall_ms: int) -> list[Action]:
        """See Dialect."""
        try:
            envelope = parse(text)
        except MalformedFrame as problem:
            return self._bad(problem.problem, "malformed")
        if self._state is State.SILENT and envelope.type != FrameType.HELLO:
            return [Close(NO_HELLO, "the first frame must be hello", "no_hello")]
        handle = self._handlers.get(envelope.type)
        if handle is None:
            return self._bad("this type of frame is not known", "unknown_type", envelope)
        return handle(self, envelope, now_ms, wall_ms)

    def received_binary(self, now_ms: float) -> list[Action]:
        """See Dialect."""
        return self._bad("frames are text", "binary")

    def resolved(self, number: int, answer: Any, now_ms: float, wall_ms: int) -> list[Action]:
        """See Dialect."""
        envelope, claims = self._asking, self._pending
        if number != self._question or envelope is None or claims is None:
            return []
        self._asking = self._pending = None
        allowed = answer.allowed_origins if isinstance(answer, SessionAnswer) else None
        if self._state is State.ASKING:
            if allowed is None:
                return [Close(TOKEN_REFUSED, "the token's session does not exist", "session")]
            if not may_connect(self._peer.origin, self._own_origin, allowed):
                return [Close(TOKEN_REFUSED, "this origin is not allowed", "origin")]
            return self._let_in(envelope, claims, now_ms, wall_ms)
        if allowed is None:
            return self._forbidden("the session does not exist", envelope, "session")
        self._keep(claims)
        return self._bind(str(claims.session), envelope, now_ms, wall_ms)

    def unresolved(self, number: int, now_ms: float) -> list[Action]:
        """See Dialect."""
        envelope = self._asking
        if number != self._question or envelope is None:
            return []
        self._asking = self._pending = None
        if self._state is State.ASKING:
            return [Close(TRY_LATER, "try again later", "bus")]
        return [error(503, "try again later", reply_to=envelope.id, reason="bus"), Rejected("bus")]

    def ask(self, invoke: Invoke, now_ms: float) -> list[Action]:
        """See Dialect."""
        self._asked[invoke.correlation_id] = invoke.tool
        self._asked.move_to_end(invoke.correlation_id)
        while len(self._asked) > MAX_REMEMBERED_RESULTS:
            self._prompted.discard(self._asked.popitem(last=False)[0])
        data = InvokeData(
            correlation_id=invoke.correlation_id,
            name=invoke.tool,
            params=invoke.params,
            budget_ms=invoke.budget_ms,
            may_prompt=invoke.may_prompt,
            wait=invoke.wait,
            wait_ms=invoke.wait_ms,
            purpose=invoke.purpose,
            traceparent=invoke.traceparent,
        )
        return [frame(FrameType.INVOKE, data)]

    def cancel(self, correlation_id: str, reason: str, now_ms: float) -> list[Action]:
        """See Dialect."""
        return [frame(FrameType.CANCEL, CancelData(correlation_id=correlation_id, reason=reason))]

    def answered(self, token: Any, verdict: Verdict) -> list[Action]:
        """See Dialect."""
        ack = ResultAck(accepted=True) if verdict == "accepted" else ResultAck(ignored=True)
        return [frame(FrameType.ACK, ack, reply_to=token)]

    def tick(self, now_ms: float, wall_ms: int) -> list[Action]:
        """See Dialect."""
        if self._wake_at_ms is None or now_ms < self._wake_at_ms:
            return []
        self._wake_at_ms = None
        if self._state is State.SILENT:
            return [Close(NO_HELLO, "no hello in time", "no_hello")]
        claims = self._claims.get(self._record.session or "") if self._record else None
        if claims is not None and claims.exp * 1000 > wall_ms:
            self._wake_at_ms = now_ms + claims.exp * 1000 - wall_ms
            return []
        return [Close(TOKEN_REFUSED, "the token has expired", "token_expired")]

    # --- hello and bind ---------------------------------------------------------------------------------------------

    def _on_hello(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.SILENT:
            return self._bad("hello is said once", "second_hello", envelope)
        hello, problem = self._read(HelloData, envelope)
        if hello is None:
            return problem
        try:
            claims = self._verify(hello.token)
        except Unauthorized:
            return [Close(TOKEN_REFUSED, "the token is refused", "token")]
        if claims.session is None:
            return [Close(TOKEN_REFUSED, "the token is refused", "token")]
        self._state = State.ASKING
        self._wake_at_ms = None
        self._hello = hello.model_copy(update={"token": "-"})  # not kept: nobody needs it again
        return self._inquire(SessionQuestion(claims.tenant, claims.session, "hello"), claims, envelope)

    def _let_in(self, envelope: Envelope, claims: Claims, now_ms: float, wall_ms: int) -> list[Action]:
        self._state = State.OPEN
        self._keep(claims)
        self._wake_at_ms = now_ms + max(0, claims.exp * 1000 - wall_ms)
        assert self._hello is not None
        self._shown = self._hello.resume
        self._note(self._hello, wall_ms)
        ack = HelloAck(
            connection_id=self._connection,
            resume=self._secret,
            server_time_ms=wall_ms,
            limits=SocketLimits(
                max_frame_bytes=MAX_FRAME_BYTES, max_result_bytes=MAX_RESULT_BYTES, max_tools=MAX_TOOLS_PER_CLIENT
            ),
        )
        return [
            Authenticated(MAX_FRAME_BYTES, MAX_BUFFERED_BYTES),
            frame(FrameType.ACK, ack, reply_to=envelope.id),
        ]

    def _on_bind(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        bind, problem = self._read(SessionBindData, envelope)
        if bind is None:
            return problem
        if bind.token is not None:
            try:
                claims = self._verify(bind.token)
            except Unauthorized as refusal:
                return self._forbidden(str(refusal.details.get("problem", "the token is refused")), envelope, "token")
            tenants = {known.tenant for known in self._claims.values()}
            if claims.session is None or claims.session != bind.session_id or claims.tenant not in tenants:
                return self._forbidden("the token does not cover this session", envelope, "token")
            if claims.session not in self._claims:
                return self._inquire(SessionQuestion(claims.tenant, claims.session, "bind"), claims, envelope)
            self._keep(claims)
        held = self._claims.get(bind.session_id)
        if held is None or held.exp * 1000 <= wall_ms:
            return self._forbidden("no token covers this session", envelope, "token")
        return self._bind(bind.session_id, envelope, now_ms, wall_ms)

    def _bind(self, session: str, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        claims = self._claims[session]
        self._claims.move_to_end(session)
        self._wake_at_ms = now_ms + max(0, claims.exp * 1000 - wall_ms)
        ack = frame(FrameType.ACK, BindAck(), reply_to=envelope.id)
        if self._record is not None and self._record.session == session:
            return [ack]
        # Tools belong to a session: a page that switches registers them anew for the other one.
        self._tools.clear()
        self._state = State.BOUND
        assert self._hello is not None
        self._record = ClientRecord(
            tenant=claims.tenant,
            session=session,
            user=claims.user,
            kind="tab",
            client_id=self._hello.client_id,
            connection="",
            edge="",
            epoch=0,
            since_ms=0,
            active_at_ms=self._active_at_ms,
            tools=[],
            time_zone=time_zone_of(self._hello.time_zone),
            languages=languages_of(self._hello.languages),
            label=clean(self._hello.page),
        )
        shown, self._shown = self._shown, None
        return [self._registration(resume=shown), ack]

    # --- tools and state --------------------------------------------------------------------------------------------

    def _on_register(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.BOUND:
            return self._forbidden(UNBOUND, envelope, "unbound")
        register, problem = self._read(RegisterData, envelope)
        if register is None:
            return problem
        tools = self._tools | {
            spec.name: Tool(
                name=spec.name,
                description=spec.description,
                params_schema=spec.params_schema,
                output_schema=spec.output_schema,
            )
            for spec in register.tools
        }
        if len(tools) > MAX_TOOLS_PER_CLIENT:
            return self._bad(f"at most {MAX_TOOLS_PER_CLIENT} tools can be registered", "too_many_tools", envelope)
        if sum(len(tool.model_dump_json()) for tool in tools.values()) > MAX_TOOLS_BYTES:
            return self._bad(f"all tools together may have {MAX_TOOLS_BYTES} bytes of JSON", "tools_too_big", envelope)
        self._tools = tools
        return [self._registration(), frame(FrameType.ACK, reply_to=envelope.id)]

    def _on_unregister(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.BOUND:
            return self._forbidden(UNBOUND, envelope, "unbound")
        unregister, problem = self._read(UnregisterData, envelope)
        if unregister is None:
            return problem
        for name in unregister.names:
            self._tools.pop(name, None)
        return [self._registration(), frame(FrameType.ACK, reply_to=envelope.id)]

    def _on_state(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        state, problem = self._read(ClientStateData, envelope)
        if state is None:
            return problem
        if self._state not in (State.OPEN, State.BOUND) or not self._note(state, wall_ms):
            return []
        return [self._registration()] if self._record is not None else []

    # --- asks -------------------------------------------------------------------------------------------------------

    def _on_progress(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.BOUND:
            return self._forbidden(UNBOUND, envelope, "unbound")
        progress, problem = self._read(ProgressData, envelope)
        if progress is None:
            return problem
        if progress.state in WAITS_FOR_PERSON and progress.correlation_id in self._asked:
            self._prompted.add(progress.correlation_id)
        return [Reported(progress.correlation_id, progress.state, clean(progress.prompt))]

    def _on_result(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.BOUND:
            return self._forbidden(UNBOUND, envelope, "unbound")
        result, problem = self._read(ResultData, envelope)
        if result is None:
            return problem
        return [Answered(result.correlation_id, self._outcome(result), envelope.id)]

    def _on_late_result(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        if self._state is not State.BOUND:
            return self._forbidden(UNBOUND, envelope, "unbound")
        late, problem = self._read(LateResultData, envelope)
        if late is None:
            return problem
        return [Decided(late.correlation_id, late.status)]

    def _outcome(self, result: ResultData) -> Outcome:
        outcome = self._told(result)
        phases, clock_ms = _timings(result.timings)
        return Outcome(
            status=outcome.status,
            reason=outcome.reason,
            fix=outcome.fix,
            payload=outcome.payload,
            error=outcome.error,
            during_call=outcome.during_call,
            phases=phases,
            client_clock_ms=clock_ms,
        )

    def _told(self, result: ResultData) -> Outcome:
        if result.error is not None:
            return _failed(result.error)
        if self._asked.get(result.correlation_id, LOCATION_GET) == LOCATION_GET:
            return read_location(
                result.result,
                sharing=self._client.sharing or "on",
                precision=self._client.precision or Precision.PRECISE,
                prompted=result.correlation_id in self._prompted,
            )
        try:
            size = len(to_json(result.result))
        except ValueError:
            return outcome_of(Reason.CLIENT_ERROR)
        if size > MAX_RESULT_BYTES:
            return _failed(f"the result was larger than {MAX_RESULT_BYTES} bytes")
        return Outcome(status=Status.GRANTED, payload=result.result)

    def _on_ping(self, envelope: Envelope, now_ms: float, wall_ms: int) -> list[Action]:
        ping, problem = self._read(PingData, envelope, empty=True)
        if ping is None:
            return problem
        t = ping.t if ping.t is not None and math.isfinite(ping.t) else None
        return [frame(FrameType.PONG, PongData(t=t, server_time_ms=wall_ms), reply_to=envelope.id)]

    # --- inside -----------------------------------------------------------------------------------------------------

    def _read(
        self, model: type[Model], envelope: Envelope, *, empty: bool = False
    ) -> tuple[Model | None, list[Action]]:
        if envelope.data is None and not empty:
            return None, self._bad("the frame has no data", "bad_payload", envelope)
        try:
            return model.model_validate(envelope.data or {}), []
        except ValidationError as problem:
            return None, self._bad(f"{where(problem)} is missing or wrong", "bad_payload", envelope)

    def _note(self, state: ClientStateData, wall_ms: int) -> bool:
        """Take over what a frame says of the page; whether anything changed."""
        before = self._client
        said = {name: value for name in ClientStateData.model_fields if (value := getattr(state, name)) is not None}
        self._client = before.model_copy(update=said)
        became_active = (self._client.focused and not before.focused) or (
            self._client.visibility == "visible" and before.visibility != "visible"
        )
        if became_active:
            self._active_at_ms = wall_ms
        return became_active or self._client != before

    def _registration(self, resume: str | None = None) -> Registration:
        assert self._record is not None
        self._record = self._record.model_copy(
            update={
                "tools": list(self._tools.values()),
                "active_at_ms": self._active_at_ms,
                "visibility": self._client.visibility or "visible",
                "focused": bool(self._client.focused),
                "permission": self._client.permission or "unknown",
                "sharing": self._client.sharing or "on",
                "precision": (self._client.precision or Precision.PRECISE).value,
            }
        )
        return Registration(self._record, resume=resume, resume_next=self._secret)

    def _inquire(self, about: SessionQuestion, claims: Claims, envelope: Envelope) -> list[Action]:
        self._question += 1
        self._asking, self._pending = envelope, claims
        return [Question(self._question, about)]

    def _keep(self, claims: Claims) -> None:
        self._claims[str(claims.session)] = claims
        self._claims.move_to_end(str(claims.session))
        while len(self._claims) > MAX_TOKENS:
            self._claims.popitem(last=False)

    def _bad(self, problem: str, cause: str, envelope: Envelope | None = None) -> list[Action]:
        self._bad_frames += 1
        refusal: list[Action] = [
            error(400, problem, reply_to=envelope.id if envelope else None, reason=cause),
            Rejected(cause),
        ]
        if self._bad_frames >= MAX_BAD_FRAMES:
            refusal.append(Close(POLICY, "too many malformed frames", "bad_frames"))
        return refusal

    def _forbidden(self, problem: str, envelope: Envelope, cause: str) -> list[Action]:
        return [error(403, problem, reply_to=envelope.id, reason=cause), Rejected(cause)]

    _handlers = {
        FrameType.HELLO.value: _on_hello,
        FrameType.SESSION_BIND.value: _on_bind,
        FrameType.REGISTER.value: _on_register,
        FrameType.UNREGISTER.value: _on_unregister,
        FrameType.PROGRESS.value: _on_progress,
        FrameType.RESULT.value: _on_result,
        FrameType.LATE_RESULT.value: _on_late_result,
        FrameType.STATE.value: _on_state,
        FrameType.PING.value: _on_ping,
    }


def _failed(words: str | dict[str, Any]) -> Outcome:
    if not isinstance(words, str):
        words = str(words.get("message", ""))
    return Outcome(
        status=Status.UNAVAILABLE,
        reason=Reason.CLIENT_ERROR,
        error=clean(words, MAX_REFUSAL_CHARS),
        during_call=False,
    )


def _timings(timings: Timings | None) -> tuple[tuple[ClientPhase, ...], float | None]:
    """Known phases with finite times; others are left out, since a clock is a help and not a duty."""
    if timings is None:
        return (), None
    phases = tuple(
        ClientPhase(name=phase.name, start_ms=phase.start_ms, end_ms=phase.end_ms)  # type: ignore[arg-type]
        for phase in timings.phases
        if phase.name in PHASES and 0 <= phase.start_ms <= phase.end_ms
    )
    return phases, timings.clock_ms
