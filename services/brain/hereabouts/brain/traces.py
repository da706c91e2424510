"""The brain's own spans of a call, as marks: the tool's span at the root, and the hops of the results.

The hop of an ask (send and process) comes back as marks with its result, since its receiver alone knows both ends; the
brain marks the sending itself only where no result came.
"""

import time
from dataclasses import dataclass, field

from hereabouts.bus.marks import hop_marks
from hereabouts.bus.port import Message
from hereabouts.schemas.ids import new_span_id
from hereabouts.schemas.marks import Packed, PackedMark, Service, SpanKind, TraceContext
from hereabouts.schemas.outcomes import Reason

from .call import Request, SendAsk, Settle

EDGE_INBOX = "edge.inbox"

ERROR_TYPES = {
    Reason.TIMEOUT: "timeout",
    Reason.CLIENT_SILENT: "timeout",
    Reason.DEADLINE: "timeout",
    Reason.CLIENT_ERROR: "client_error",
    Reason.EDGE_LOST: "edge_lost",
    Reason.BUS_LOST: "bus_lost",
}
"""Endings that are a fault of ours or of a client, and not an answer of a person or a device."""

_Attributes = dict[str, str | int | float | bool]


@dataclass(slots=True)
class Trace:
    """Collects one call's marks."""

    context: TraceContext
    """The root span's own ids; every ask carries them as its `traceparent`."""
    parent_id: str | None
    start_ns: int
    _sent: dict[str, PackedMark] = field(default_factory=dict)
    _marks: list[Packed | PackedMark] = field(default_factory=list)
    asked: int = 0

    @classmethod
    def begin(cls, incoming: TraceContext | None, start_ns: int) -> "Trace":
        """A trace that continues the caller's, or a new one."""
        if incoming is None:
            return cls(TraceContext.new(), None, start_ns)
        return cls(incoming.child(), incoming.span_id, start_ns)

    def sending(self, correlation_id: str, ask: SendAsk) -> int:
        """An ask leaves now; the time for its message, in nanoseconds since the epoch."""
        now_ns = time.time_ns()
        self.asked += 1
        self._sent[ask.client.client_id] = PackedMark(
            span_id=new_span_id(),
            parent_id=self.context.span_id,
            name=f"send {EDGE_INBOX}",
            service=Service.BRAIN,
            kind=SpanKind.PRODUCER,
            start_ns=now_ns,
            end_ns=now_ns,
            attributes={
                "messaging.system": "redis",
                "messaging.operation.name": "send",
                "messaging.operation.type": "send",
                "messaging.destination.template": EDGE_INBOX,
                "messaging.message.conversation_id": correlation_id,
                "hereabouts.client.kind": ask.client.kind,
                "hereabouts.client.id": ask.client.client_id,
                "hereabouts.may_prompt": ask.may_prompt,
                "hereabouts.budget.left_ms": ask.budget_ms,
            },
        )
        return now_ns

    def received(self, message: Message, client_id: str, marks: list[Packed], inbox: str, received_ns: int) -> None:
        """A result that counts arrived, with the marks of its hop, its edge and its client."""
        self._marks.extend(marks)
        parent = TraceContext.parse(message.traceparent)
        edge = next((mark for mark in marks if parent is not None and mark[0] == parent.span_id), None)
        if edge is None or parent is None:
            return  # an edge that joined another call's ask has its spans there
        self._sent.pop(client_id, None)
        self._marks.extend(
            hop_marks(
                message,
                min(edge[6], received_ns),
                received_ns,
                sender=edge[3],
                receiver=Service.BRAIN,
                destination=inbox,
                parent_id=parent.span_id,
                handled_at_ns=time.time_ns(),
            )
        )

    def marks(self, request: Request, settle: Settle, status: str) -> list[Packed | PackedMark]:
        """Every mark of the settled call, its root first."""
        attributes: _Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": request.tool,
            "gen_ai.tool.call.id": request.correlation_id,
            "gen_ai.tool.type": "function",
            "hereabouts.tenant": request.tenant,
            "hereabouts.session": request.session,
            "hereabouts.status": status,
            "hereabouts.asked": self.asked,
            "hereabouts.dispatched": settle.dispatched,
            "hereabouts.budget.brain_ms": request.budget.budget_ms,
            "hereabouts.elapsed_ms": settle.elapsed_ms,
        }
        if settle.reason is not None:
            attributes["hereabouts.reason"] = settle.reason.value
        root = PackedMark(
            span_id=self.context.span_id,
            parent_id=self.parent_id,
            name=f"execute_tool {request.tool}",
            service=Service.BRAIN,
            kind=SpanKind.SERVER,
            start_ns=self.start_ns,
            end_ns=max(self.start_ns, time.time_ns()),
            attributes=attributes,
            error_type=ERROR_TYPES.get(settle.reason) if settle.reason is not None else None,
        )
        return [root, *self._sent.values(), *self._marks]
