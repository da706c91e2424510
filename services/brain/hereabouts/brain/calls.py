"""The shell around the calls: it reads the bus, keeps the clock, and carries out what each `Call` decides."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from hereabouts.bus.errors import InboxGone
from hereabouts.bus.port import Bus, Message
from hereabouts.runtime.logs import get_logger
from hereabouts.runtime.spans import SpanExport
from hereabouts.schemas.answers import Granted
from hereabouts.schemas.bus_messages import (
    Ask,
    Cancel,
    ClientResult,
    JournalEntry,
    JournalKind,
    JournalLine,
    Kind,
    Progress,
    accuracy_bucket,
)
from hereabouts.schemas.errors import BusOverloaded, BusUnavailable, HereaboutsError
from hereabouts.schemas.outcomes import Reason
from hereabouts.schemas.records import ClientRecord, SessionRecord

from . import metrics
from .answers import Answer, answer
from .call import Action, Call, Ignored, Journal, Request, SendAsk, SendCancel, Settle, Wake
from .errors import Draining
from .invocation import Invocation
from .routing import Plan, plan
from .timers import Timers, monotonic_ms
from .tools import ArgumentChecks, tool_of
from .traces import Trace

CANCEL_LIFE_MS = 5_000
"""A cancel older than this tells an edge nothing that its guard has not said."""

_log = get_logger("hereabouts.brain.calls")


@dataclass(slots=True)
class _Open:
    """An open call and what the shell keeps for it."""

    call: Call
    trace: Trace
    answered: "asyncio.Future[Answer]"
    settled: bool = False
    watched: set[str] = field(default_factory=set)
    edge_lines: list[dict[str, Any]] = field(default_factory=list)


class Calls:
    """All calls that this process has open."""

    def __init__(self, bus: Bus, spans: SpanExport) -> None:
        self._bus = bus
        self._spans = spans
        self._open: dict[str, _Open] = {}
        self._beginning = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self._timers = Timers(self._due)
        self._watches: Counter[str] = Counter()
        self._checks = ArgumentChecks()

    @property
    def open(self) -> int:
        """How many calls have not settled."""
        return len(self._open)

    def problem(self) -> str | None:
        """Why new calls are not taken, or None."""
        return "draining" if self._draining else None

    # --- callers ----------------------------------------------------------------------------------------------------

    async def invoke(
        self, session: SessionRecord, invocation: Invocation, clients: list[ClientRecord] | None = None
    ) -> Answer:
        """One call, from the request to its answer. It always comes, by the call's deadline.

        `clients`: who is connected, where that has just been read.

        Raises:
            AmbiguousClient: the route names more than one client.
            InvalidRequest: the arguments do not fit the client's schema.
            Conflict: the client's schema is itself invalid.
            Draining: this process takes no new calls.
        """
        if self._draining:
            raise Draining
        self._beginning += 1
        self._idle.clear()
        try:
            trace = Trace.begin(invocation.trace, invocation.started_ns)
            request = self._request(session, invocation, trace)
            try:
                chosen = await self._plan(session, invocation, request, clients)
            except (BusUnavailable, BusOverloaded, TimeoutError):
                return self._settled_by_bus(request, trace)
            opened = self._begin(request, chosen, trace)
        finally:
            self._beginning -= 1
            self._look_idle()
        # A caller that hangs up ends its own waiting and not the call; story and answer are finished all the same.
        return await opened.answered

    def cancel(self, correlation_id: str) -> bool:
        """End a call whose answer nobody wants any more; whether it was open."""
        opened = self._open.get(correlation_id)
        if opened is None:
            return False
        self._perform(opened, opened.call.cancel(self._now()))
        return True

    def end_session(self, tenant: str, session: str) -> None:
        """The session is over: no answer of a client may reach anybody through it any more."""
        for opened in list(self._open.values()):
            request = opened.call.request
            if (request.tenant, request.session) == (tenant, session):
                self._perform(opened, opened.call.cancel(self._now()))

    async def drain(self) -> None:
        """Take no new calls and wait until every accepted one has its answer."""
        self._draining = True
        await self._idle.wait()

    # --- the bus ----------------------------------------------------------------------------------------------------

    def on_messages(self, messages: Sequence[Message]) -> None:
        """The inbox: results and progress. One bad entry never keeps the others from being read."""
        received_ns = time.time_ns()
        for message in messages:
            try:
                self._on_message(message, received_ns)
            except ValidationError:
                metrics.IGNORED_RESULTS.labels("malformed").inc()
                _log.warning("a message could not be read", kind=message.kind, correlation_id=message.correlation_id)
            except Exception as problem:
                # The exception's own text may hold what the message held.
                _log.error(
                    "a message could not be handled",
                    kind=message.kind,
                    correlation_id=message.correlation_id,
                    error_type=type(problem).__name__,
                )

    def on_lost(self) -> None:
        """The bus does not answer or lost data: each open call is answered honestly now."""
        for opened in list(self._open.values()):
            self._perform(opened, opened.call.bus_lost(self._now()))

    def _on_message(self, message: Message, received_ns: int) -> None:
        opened = self._open.get(message.correlation_id)
        if opened is None:
            if message.kind is Kind.RESULT:
                metrics.IGNORED_RESULTS.labels("late").inc()
            return
        if message.tenant != opened.call.request.tenant:
            metrics.IGNORED_RESULTS.labels("stranger").inc()
            return
        if message.kind is Kind.RESULT:
            result = ClientResult.model_validate_json(message.body)
            actions = opened.call.result(self._now(), result, edge=self._edge(opened, message))
            if not any(isinstance(action, Ignored) for action in actions):
                opened.trace.received(message, result.client_id, result.packed_marks, self._bus.inbox, received_ns)
                opened.edge_lines.extend(result.packed_journal)
            self._perform(opened, actions)
        elif message.kind is Kind.PROGRESS:
            progress = Progress.model_validate_json(message.body)
            self._perform(opened, opened.call.progress(self._now(), progress))

    def _edge(self, opened: _Open, message: Message) -> str | None:
        """Which of the asked edges sent this, when it names its inbox; an unknown one matches none."""
        if not message.reply_to:
            return None
        edges = {ask.client.edge for ask in opened.call.asks.values()}
        return next((edge for edge in edges if self._bus.inbox_of(edge) == message.reply_to), "")

    def _edge_lost(self, edge: str) -> None:
        metrics.EDGES_LOST.inc()
        self._watches.pop(edge, None)
        for opened in list(self._open.values()):
            if edge in opened.watched:
                opened.watched.discard(edge)
                self._perform(opened, opened.call.edge_lost(self._now(), edge))

    # --- a call's life ----------------------------------------------------------------------------------------------

    def _request(self, session: SessionRecord, invocation: Invocation, trace: Trace) -> Request:
        return Request(
            correlation_id=invocation.correlation_id,
            tenant=session.tenant,
            session=session.session,
            tool=invocation.tool,
            arguments=invocation.arguments,
            budget=invocation.budget,
            started_ms=invocation.started_ms,
            started_wall_ms=self._bus.now_ms() - round(self._now() - invocation.started_ms),
            trace_id=trace.context.trace_id,
            purpose=invocation.purpose,
            max_age_ms=invocation.max_age_ms,
            wanted_accuracy_m=invocation.wanted_accuracy_m,
        )

    async def _plan(
        self, session: SessionRecord, invocation: Invocation, request: Request, clients: list[ClientRecord] | None
    ) -> Plan:
        if clients is None:
            async with asyncio.timeout_at(request.deadline_ms / 1000):
                clients = await self._bus.directory.clients(session.tenant, session.session, session.user)
        chosen = plan(invocation.tool, clients, invocation.route)
        if not invocation.is_location:
            self._check_arguments((*chosen.prompt, *chosen.silent), invocation)
        return chosen

    def _check_arguments(self, clients: Iterable[ClientRecord], invocation: Invocation) -> None:
        for client in clients:
            tool = tool_of(client, invocation.tool)
            if tool is not None:
                self._checks.check(tool, invocation.arguments)

    def _begin(self, request: Request, chosen: Plan, trace: Trace) -> _Open:
        opened = _Open(Call(request, chosen), trace, asyncio.get_running_loop().create_future())
        self._open[request.correlation_id] = opened
        metrics.OPEN_CALLS.inc()
        self._perform(opened, opened.call.start(self._now()))
        return opened

    def _settled_by_bus(self, request: Request, trace: Trace) -> Answer:
        """The directory cannot be read: nobody was asked, and that is all there is to say."""
        opened = _Open(Call(request, Plan()), trace, asyncio.get_running_loop().create_future())
        self._open[request.correlation_id] = opened
        metrics.OPEN_CALLS.inc()
        self._perform(opened, opened.call.start_without_bus(self._now()))
        return opened.answered.result()

    def _due(self, correlation_id: str) -> None:
        opened = self._open.get(correlation_id)
        if opened is not None:
            self._perform(opened, opened.call.tick(self._now()))

    def _perform(self, opened: _Open, actions: Iterable[Action]) -> None:
        """Carry out actions in order; what fails on the way is fed back and its actions follow."""
        waiting = deque(actions)
        while waiting:
            match waiting.popleft():
                case SendAsk() as ask:
                    waiting.extend(self._send_ask(opened, ask))
                case SendCancel() as cancel:
                    self._send_cancel(opened, cancel)
                case Journal(entry):
                    self._write(entry)
                case Wake(at_ms):
                    self._timers.set(opened.call.request.correlation_id, at_ms)
                case Ignored(cause):
                    metrics.IGNORED_RESULTS.labels(cause).inc()
                case Settle() as settle:
                    self._settle(opened, settle)
        if opened.watched and not opened.settled:
            self._unwatch(opened, opened.watched - opened.call.open_edges)

    def _send_ask(self, opened: _Open, action: SendAsk) -> list[Action]:
        request, client = opened.call.request, action.client
        body = Ask(
            connection=client.connection,
            client_id=client.client_id,
            tool=request.tool,
            params=request.arguments,
            budget_ms=action.budget_ms,
            may_prompt=action.may_prompt,
            purpose=request.purpose,
            sent_at_ns=opened.trace.sending(request.correlation_id, action),
        )
        message = Message(
            kind=Kind.ASK,
            correlation_id=request.correlation_id,
            tenant=request.tenant,
            body=body.model_dump_json().encode(),
            reply_to=self._bus.inbox,
            expires_at_ms=self._bus.now_ms() + action.budget_ms,
            traceparent=opened.trace.context.traceparent,
        )
        try:
            future = self._bus.send(self._bus.inbox_of(client.edge), message)
        except HereaboutsError:
            return opened.call.send_failed(self._now(), client.connection, maybe_sent=False)

        def sent(done: "asyncio.Future[str]") -> None:
            problem = None if done.cancelled() else done.exception()
            if problem is None and not done.cancelled():
                return
            gone = isinstance(problem, InboxGone)
            self._perform(
                opened,
                opened.call.send_failed(
                    self._now(),
                    client.connection,
                    maybe_sent=not gone,
                    reason=Reason.EDGE_LOST if gone else Reason.BUS_LOST,
                ),
            )

        future.add_done_callback(sent)
        self._watch(opened, client.edge)
        return []

    def _send_cancel(self, opened: _Open, action: SendCancel) -> None:
        request, client = opened.call.request, action.client
        body = Cancel(connection=client.connection, client_id=client.client_id, reason=action.reason)
        message = Message(
            kind=Kind.CANCEL,
            correlation_id=request.correlation_id,
            tenant=request.tenant,
            body=body.model_dump_json().encode(),
            reply_to=self._bus.inbox,
            expires_at_ms=self._bus.now_ms() + CANCEL_LIFE_MS,
            traceparent=opened.trace.context.traceparent,
        )
        try:
            self._bus.send(self._bus.inbox_of(client.edge), message)
        except HereaboutsError:
            pass  # the edge's guard ends the ask without it

    def _settle(self, opened: _Open, settle: Settle) -> None:
        request = opened.call.request
        self._timers.drop(request.correlation_id)
        self._unwatch(opened, set(opened.watched))
        del self._open[request.correlation_id]
        metrics.OPEN_CALLS.dec()
        made = answer(request, settle)
        marks = opened.trace.marks(request, settle, str(made.status))
        reason = None if isinstance(made, Granted) else made.reason
        fix = settle.result.fix if settle.result is not None else None
        self._write(
            JournalLine(
                kind=JournalKind.SETTLED,
                correlation_id=request.correlation_id,
                tenant=request.tenant,
                at_ms=request.wall_ms(self._now()),
                by="brain",
                session=request.session,
                tool=request.tool,
                client_kind=settle.client.kind if settle.client is not None else None,
                client_id=settle.client.client_id if settle.client is not None else None,
                status=str(made.status),
                reason=str(reason) if reason else None,
                budget_ms=request.budget.budget_ms,
                deadline_ms=request.wall_ms(request.deadline_ms),
                elapsed_ms=settle.elapsed_ms,
                accuracy_bucket=accuracy_bucket(fix.accuracy) if fix is not None and reason is None else None,
                trace_id=request.trace_id,
                purpose=request.purpose,
                packed_marks=marks,
                packed_earlier=opened.edge_lines,
            )
        )
        self._spans.settled(
            request.trace_id,
            marks,
            granted=reason is None,
            elapsed_ms=settle.elapsed_ms,
            sampled=opened.trace.context.sampled,
        )
        metrics.observe_call(request.tool, made, len(opened.call.asks))
        opened.settled = True
        if not opened.answered.done():
            opened.answered.set_result(made)
        self._look_idle()

    def _write(self, entry: JournalEntry) -> None:
        try:
            self._bus.journal.write(entry)
        except HereaboutsError:
            _log.warning("a journal line was not written", correlation_id=entry.correlation_id, line=entry.kind)

    # --- leases of edges with open asks -----------------------------------------------------------------------------

    def _watch(self, opened: _Open, edge: str) -> None:
        if edge in opened.watched or opened.settled:
            return
        opened.watched.add(edge)
        self._watches[edge] += 1
        if self._watches[edge] == 1:
            self._bus.leases.watch(edge, self._edge_lost)

    def _unwatch(self, opened: _Open, edges: set[str]) -> None:
        for edge in edges:
            opened.watched.discard(edge)
            if self._watches[edge] <= 1:
                del self._watches[edge]
                self._bus.leases.unwatch(edge, self._edge_lost)
            else:
                self._watches[edge] -= 1

    def _look_idle(self) -> None:
        if not self._open and not self._beginning:
            self._idle.set()

    @staticmethod
    def _now() -> float:
        return monotonic_ms()
