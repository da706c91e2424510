"""What rides on a result: the hop's and the client's spans as marks, and the edge's lines of the journal.

Client phases are placed without trusting any clock: the time between frame out and frame in that the client did not
account for is split evenly between the two directions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hereabouts.bus.marks import hop_marks
from hereabouts.schemas.bus_messages import JournalEntry, JournalKind, accuracy_bucket
from hereabouts.schemas.ids import new_span_id
from hereabouts.schemas.marks import PackedMark, Service, SpanKind

from .dialect import ClientPhase, Outcome
from .open_ask import OpenAsk, ReplyTo
from .service import EdgeService

MAX_PHASES = 8
"""Phases of one answer: the dialects know five names."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """How the monotonic milliseconds of asks stand to the wall clock and to Redis's, at one moment."""

    wall_minus_monotonic_ns: int
    now_ms: float
    """The monotonic clock's moment."""
    redis_now_ms: int
    """The same moment on Redis's clock, which is whole milliseconds."""

    def wall_ns(self, at_ms: float) -> int:
        """Nanoseconds since the epoch on this machine's clock."""
        return int(at_ms * 1_000_000) + self.wall_minus_monotonic_ns

    def redis_ms(self, at_ms: float) -> int:
        """Milliseconds since the epoch on Redis's clock. Counted back from now, so that no line is dated before one
        that was written earlier."""
        return self.redis_now_ms - round(self.now_ms - at_ms)


def ask_marks(
    ask: OpenAsk,
    reply: ReplyTo,
    outcome: Outcome,
    by_guard: bool,
    service: EdgeService,
    inbox: str,
    clocks: Clocks,
) -> list[PackedMark]:
    """The ask's way over the stream, the span from frame out to frame in, and the client's phases under it.

    A brain that joined another's ask under another trace gets its own hop only: spans do not stand in two traces.
    """
    send, process = hop_marks(
        reply.message,
        reply.sent_at_ns,
        reply.received_at_ns,
        sender=Service.BRAIN,
        receiver=service.name,
        destination=inbox,
        parent_id=reply.parent.span_id,
        handled_at_ns=clocks.wall_ns(ask.delivered_ms if ask.delivered_ms is not None else ask.arrived_ms),
    )
    if reply.parent.trace_id != ask.request.span.trace_id:
        return [send, process]
    edge = _edge_mark(ask, outcome, by_guard, service.name, process.span_id, clocks)
    if by_guard:
        return [send, process, edge]
    return [send, process, edge, *_phases(outcome.phases, edge, service.client)]


def _edge_mark(
    ask: OpenAsk, outcome: Outcome, by_guard: bool, service: Service, parent_id: str, clocks: Clocks
) -> PackedMark:
    request = ask.request
    end_ms = ask.answered_ms if ask.answered_ms is not None else ask.arrived_ms
    start_ms = ask.delivered_ms if ask.delivered_ms is not None else ask.arrived_ms
    attributes: dict[str, str | int | float | bool] = {
        "hereabouts.correlation_id": request.correlation_id,
        "hereabouts.tool": request.tool,
        "hereabouts.client.kind": ask.kind,
        "hereabouts.client.id": request.client_id,
        "hereabouts.status": outcome.status.value,
        "hereabouts.may_prompt": ask.may_prompt,
        "hereabouts.wait": request.wait,
        "hereabouts.by_guard": by_guard,
        "hereabouts.budget.left_ms": int(request.left_ms),
    }
    if outcome.reason is not None:
        attributes["hereabouts.reason"] = str(outcome.reason)
    if outcome.node_code is not None:
        attributes["hereabouts.node_code"] = outcome.node_code
    if ask.state is not None:
        attributes["hereabouts.client.state"] = ask.state.value
    return PackedMark(
        span_id=request.span.span_id,
        parent_id=parent_id,
        name=f"ask {ask.kind}",
        service=service,
        kind=SpanKind.CLIENT,
        start_ns=clocks.wall_ns(start_ms),
        end_ns=clocks.wall_ns(end_ms),
        attributes=attributes,
    )


def _phases(phases: Sequence[ClientPhase], edge: PackedMark, client_service: Service) -> list[PackedMark]:
    kept = list(phases)[:MAX_PHASES]
    if not kept:
        return []
    span_ms = (edge.end_ns - edge.start_ns) / 1_000_000
    worked_ms = min(span_ms, max(phase.end_ms for phase in kept))
    received_ms = (span_ms - worked_ms) / 2
    client = PackedMark(
        span_id=new_span_id(),
        parent_id=edge.span_id,
        name="client",
        service=client_service,
        kind=SpanKind.SERVER,
        start_ns=edge.start_ns + int(received_ms * 1_000_000),
        end_ns=edge.start_ns + int((received_ms + worked_ms) * 1_000_000),
        attributes={"hereabouts.client_reported": True},
    )

    def at_ns(reported_ms: float) -> int:
        return client.start_ns + int(min(worked_ms, max(0.0, reported_ms)) * 1_000_000)

    return [
        client,
        *(
            PackedMark(
                span_id=new_span_id(),
                parent_id=client.span_id,
                name=phase.name,
                service=client_service,
                kind=SpanKind.INTERNAL,
                start_ns=at_ns(phase.start_ms),
                end_ns=max(at_ns(phase.start_ms), at_ns(phase.end_ms)),
                attributes={"hereabouts.client_reported": True},
            )
            for phase in kept
            if phase.end_ms > phase.start_ms
        ),
    ]


def journal_lines(ask: OpenAsk, outcome: Outcome, role: Service, clocks: Clocks) -> list[dict[str, Any]]:
    """When the client got the ask and when it answered, for the brain's one write; packed, since it only carries them."""
    lines: list[dict[str, Any]] = []
    common = _common(ask, role)
    if ask.delivered_ms is not None:
        lines.append(
            {
                **common,
                "kind": JournalKind.DELIVERED,
                "at_ms": clocks.redis_ms(ask.delivered_ms),
                "deadline_ms": clocks.redis_ms(ask.deadline_ms),
                "budget_ms": int(ask.request.left_ms),
            }
        )
    answered_ms = ask.answered_ms if ask.answered_ms is not None else ask.arrived_ms
    answered: dict[str, Any] = {
        **common,
        "kind": JournalKind.ANSWERED,
        "at_ms": clocks.redis_ms(answered_ms),
        "status": outcome.status.value,
        "elapsed_ms": max(0, int(answered_ms - ask.arrived_ms)),
    }
    if outcome.reason is not None:
        answered["reason"] = str(outcome.reason)
    if outcome.fix is not None:
        answered["accuracy_bucket"] = accuracy_bucket(outcome.fix.accuracy)
    lines.append(answered)
    return lines


def line(kind: JournalKind, ask: OpenAsk, role: Service, at_ms: int, **fields: Any) -> JournalEntry:
    """One line of the story of an ask."""
    return JournalEntry(kind=kind, at_ms=at_ms, **_common(ask, role), **fields)


def _common(ask: OpenAsk, role: Service) -> dict[str, Any]:
    """What each line of an ask says."""
    return {
        "correlation_id": ask.request.correlation_id,
        "tenant": ask.request.tenant,
        "by": role.value,
        "session": ask.session,
        "tool": ask.request.tool,
        "client_kind": ask.kind,
        "client_id": ask.request.client_id,
        "trace_id": ask.request.span.trace_id,
    }
