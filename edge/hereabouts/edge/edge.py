"""The shell around asks and connections: stream in, sockets out, and back.

Nothing here waits for anything: the inbox handler and the sockets' frames run to completion, and the bus is written to
without awaiting it.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from hereabouts.bus.port import Bus, Message
from hereabouts.runtime.logs import get_logger
from hereabouts.runtime.spans import SpanExport
from hereabouts.schemas.bus_messages import Ask, Cancel, ClientResult, ClientState, JournalKind, Kind, Progress
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.ids import new_id, new_span_id
from hereabouts.schemas.limits import CLIENT_BUDGET_MS
from hereabouts.schemas.marks import Mark, SpanKind, TraceContext

from . import metrics
from .asks import Asks
from .connection import Connection, Socket, now_ms
from .dialect import Answered, Decided, Peer, Registration, Reported, Verdict
from .effects import Deliver, Effect, Late, Replace, Result, Told, Withdraw
from .open_ask import AskRequest, OpenAsk, ReplyTo
from .registration import Registrar
from .service import EdgeService
from .story import Clocks, ask_marks, journal_lines, line

DRAIN_MS = CLIENT_BUDGET_MS + 500
"""How long a drain lets open asks end by themselves: a person's budget. Longer waits are answered `not_ready`."""

CLOSE_WAIT_S = 1.0
"""How long a drain waits for its sockets to say goodbye."""

RESTART = 1012
"""RFC 6455's registry: service restart; clients come back at once, elsewhere."""

_log = get_logger("hereabouts.edge")


class Edge:
    """A process that holds client sockets."""

    def __init__(self, bus: Bus, service: EdgeService, spans: SpanExport | None = None) -> None:
        self.bus = bus
        self.service = service
        self.asks = Asks()
        self.registrar = Registrar(bus)
        self._spans = spans
        self._connections: dict[str, Connection] = {}
        self._guard: asyncio.TimerHandle | None = None
        self._guard_at_ms = 0.0
        self._draining = False
        self._changed = asyncio.Event()

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the bus.

        Raises:
            BusUnavailable: it cannot be reached.
        """
        await self.bus.start(self.on_messages, on_new_epoch=self.registrar.new_epoch)
        self.registrar.start()

    async def drain(self) -> None:
        """Take no new sockets, let open asks end or answer them, then send every client elsewhere (1012)."""
        self._draining = True
        await self._until(lambda: not len(self.asks), DRAIN_MS / 1000)
        self._carry_out(self.asks.drain(now_ms()))
        for connection in list(self._connections.values()):
            connection.close(RESTART, "service restart", "drain")
        await self._until(lambda: not self._connections, CLOSE_WAIT_S)

    async def stop(self) -> None:
        """Leave the directory and the bus."""
        if self._guard is not None:
            self._guard.cancel()
            self._guard = None
        await self.registrar.stop()
        await self.bus.stop()

    async def _until(self, done: Callable[[], bool], limit_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not done():
                    self._changed.clear()
                    await self._changed.wait()

    @property
    def accepts(self) -> bool:
        """Whether new sockets are taken."""
        return not self._draining

    def problem(self) -> str | None:
        """Why this edge is not ready, or None."""
        return "draining" if self._draining else self.bus.problem()

    # --- sockets ----------------------------------------------------------------------------------------------------

    def connect(self, socket: Socket, peer: Peer) -> Connection:
        """A new socket with its own dialect; the caller says `opened` when the handshake is done."""
        name = new_id("c")
        connection = Connection(name, peer, self.service.dialect(peer, name), socket, self, self.service.resolve)
        self._connections[name] = connection
        metrics.CONNECTIONS.labels(self.service.kind).inc()
        return connection

    @property
    def connections(self) -> int:
        """Open sockets."""
        return len(self._connections)

    def registered(self, connection: Connection, action: Registration) -> "asyncio.Future[None] | None":
        """Keeper: a client's place in the directory."""
        before = self.registrar.record(connection.name)
        effects = self.asks.register(connection.name, action.record, action.resume, action.resume_next, now_ms())
        slot = self.asks.slot(connection.name)
        visible = self.registrar.put(connection.name, slot.record if slot is not None else action.record)
        self._carry_out(effects)
        must_be_seen = before is None or (before.session, before.tools) != (action.record.session, action.record.tools)
        return visible if must_be_seen else None

    def unregistered(self, connection: Connection) -> None:
        """Keeper: the client left the directory."""
        self.registrar.remove(connection.name)
        self._carry_out(self.asks.unregister(connection.name, now_ms()))

    def answered(self, connection: Connection, action: Answered) -> Verdict:
        """Keeper: a result frame."""
        verdict, effects = self.asks.answer(connection.name, action.correlation_id, action.outcome, now_ms())
        metrics.RESULTS_BY_VERDICT[verdict].inc()
        self._carry_out(effects)
        return verdict

    def reported(self, connection: Connection, action: Reported) -> None:
        """Keeper: progress."""
        self._carry_out(
            self.asks.progress(connection.name, action.correlation_id, action.state, action.prompt, now_ms())
        )

    def decided(self, connection: Connection, action: Decided) -> None:
        """Keeper: a late decision."""
        self._carry_out(self.asks.decided(connection.name, action.correlation_id, action.status, now_ms()))

    def rejected(self, cause: str) -> None:
        """Keeper: a refused frame."""
        metrics.REJECTED.labels(cause).inc()

    def closed(self, cause: str) -> None:
        """Keeper: this side closes a socket."""
        metrics.CLOSES.labels(cause).inc()

    def gone(self, connection: Connection, code: int) -> None:
        """Keeper: a socket is no more. It leaves the directory in this very loop turn."""
        if self._connections.pop(connection.name, None) is None:
            return
        metrics.CONNECTIONS.labels(self.service.kind).dec()
        self.registrar.remove(connection.name)
        self._carry_out(self.asks.disconnect(connection.name, now_ms()))

    # --- the stream -------------------------------------------------------------------------------------------------

    def on_messages(self, messages: Sequence[Message]) -> None:
        """The inbox: asks and cancels. A bad entry is counted and skipped."""
        received_at_ns = time.time_ns()
        for message in messages:
            try:
                if message.kind is Kind.ASK:
                    self._on_ask(message, received_at_ns)
                elif message.kind is Kind.CANCEL:
                    self._on_cancel(message)
            except ValidationError:
                metrics.ASKS.labels("malformed").inc()
                _log.warning("an entry could not be read", kind=message.kind.value)

    def _on_ask(self, message: Message, received_at_ns: int) -> None:
        ask = Ask.model_validate_json(message.body)
        redis_ms = self.bus.now_ms()
        queued_ms = max(0, redis_ms - message.queued_at_ms) if message.entry_id else 0
        expired = 0 < message.expires_at_ms <= redis_ms
        parent = TraceContext.parse(message.traceparent) or TraceContext.new()
        request = AskRequest(
            correlation_id=message.correlation_id,
            tenant=message.tenant,
            connection=ask.connection,
            client_id=ask.client_id,
            tool=ask.tool,
            params=ask.params,
            left_ms=0 if expired else ask.budget_ms - queued_ms,
            may_prompt=ask.may_prompt,
            span=parent.child(),
            reply_to=ReplyTo(message, parent, ask.sent_at_ns, received_at_ns),
            wait=ask.wait,
            wait_ms=ask.wait_ms,
            purpose=ask.purpose,
        )
        effects = self.asks.ask(request, now_ms())
        (metrics.ASKS_TAKEN if request.left_ms > 0 else metrics.ASKS_EXPIRED).inc()
        self._carry_out(effects)

    def _on_cancel(self, message: Message) -> None:
        cancel = Cancel.model_validate_json(message.body)
        self._carry_out(
            self.asks.cancel(
                message.correlation_id, cancel.client_id, message.tenant, message.reply_to, cancel.reason, now_ms()
            )
        )

    # --- effects ----------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Deliver(name, invoke):
                    if (connection := self._connections.get(name)) is not None:
                        connection.ask(invoke)
                case Withdraw(name, correlation_id, reason):
                    if (connection := self._connections.get(name)) is not None:
                        connection.cancel(correlation_id, reason)
                case Result():
                    self._send_result(effect)
                case Told():
                    self._tell(effect)
                case Late():
                    self._late(effect)
                case Replace(name):
                    metrics.RECONNECTS.inc()
                    self.registrar.remove(name)
                    if (connection := self._connections.get(name)) is not None:
                        connection.close(1000, "replaced by a newer socket", "replaced")
        metrics.OPEN_ASKS.set(len(self.asks))
        self._changed.set()
        self._arm()

    def _send_result(self, effect: Result) -> None:
        ask, outcome = effect.ask, effect.outcome
        clocks = self._clocks()
        if effect.by_guard:
            metrics.GUARD_ANSWERS.labels(str(outcome.reason)).inc()
        lines = journal_lines(ask, outcome, self.service.name, clocks)
        slot = self.asks.slot(ask.owner) if ask.owner else None
        for reply in effect.replies:
            result = ClientResult(
                connection=slot.connection if slot else ask.request.connection,
                client_id=ask.request.client_id,
                epoch=self.bus.epoch,
                status=outcome.status,
                reason=outcome.reason,
                fix=outcome.fix,
                payload=outcome.payload,
                error=outcome.error,
                node_code=outcome.node_code,
                by_guard=effect.by_guard,
                during_call=outcome.during_call,
                received_at_ms=clocks.redis_ms(ask.answered_ms if ask.answered_ms is not None else now_ms()),
                packed_marks=ask_marks(ask, reply, outcome, effect.by_guard, self.service, self.bus.inbox, clocks),
                packed_journal=lines,
            )
            self._send(Kind.RESULT, ask, reply, result.model_dump_json(exclude_defaults=True).encode())

    def _tell(self, effect: Told) -> None:
        ask = effect.ask
        body = Progress(
            connection=ask.owner or ask.request.connection,
            client_id=ask.request.client_id,
            state=effect.state,
            prompt=effect.prompt,
        )
        for reply in ask.replies:
            self._send(Kind.PROGRESS, ask, reply, body.model_dump_json().encode())
        if effect.state is not ClientState.ACQUIRING:  # the fast path writes nothing
            self._journal(JournalKind.PROGRESS, ask, state=effect.state)

    def _late(self, effect: Late) -> None:
        metrics.LATE.labels(effect.status.value).inc()
        self._journal(JournalKind.LATE, effect.ask, status=effect.status.value)
        if self._spans is not None and self._spans.enabled:
            now_ns = time.time_ns()
            late = Mark(
                span_id=new_span_id(),
                parent_id=effect.ask.request.span.span_id,
                name="late decision",
                service=self.service.name,
                kind=SpanKind.INTERNAL,
                start_ns=now_ns,
                end_ns=now_ns,
                attributes={
                    "hereabouts.correlation_id": effect.ask.request.correlation_id,
                    "hereabouts.late": True,
                    "hereabouts.status": effect.status.value,
                },
            )
            self._spans.export(effect.ask.request.span.trace_id, [late])

    def _journal(self, kind: JournalKind, ask: OpenAsk, **fields: Any) -> None:
        try:
            self.bus.journal.write(line(kind, ask, self.service.name, self.bus.now_ms(), **fields))
        except HereaboutsError:
            metrics.UNSENT.labels("journal").inc()

    def _send(self, kind: Kind, ask: OpenAsk, reply: ReplyTo, body: bytes) -> None:
        message = Message(
            kind=kind,
            correlation_id=ask.request.correlation_id,
            tenant=ask.request.tenant,
            body=body,
            reply_to=self.bus.inbox,
            traceparent=ask.request.span.traceparent,
        )
        try:
            self.bus.send(reply.inbox, message)
        except HereaboutsError:
            # The brain's own clock answers the call; an edge that waited here would stop all its clients.
            metrics.UNSENT.labels(kind.value).inc()

    def _clocks(self) -> Clocks:
        return Clocks(time.time_ns() - time.monotonic_ns(), now_ms(), self.bus.now_ms())

    # --- guards -----------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """One timer for all guards. It may fire early (its ask was answered); then it is set anew."""
        next_ms = self.asks.next_guard_ms
        if next_ms is None or (self._guard is not None and self._guard_at_ms <= next_ms):
            return
        if self._guard is not None:
            self._guard.cancel()
        self._guard_at_ms = next_ms
        self._guard = asyncio.get_running_loop().call_later(max(0.0, next_ms - now_ms()) / 1000, self._guards_due)

    def _guards_due(self) -> None:
        self._guard = None
        self._carry_out(self.asks.due(now_ms()))
