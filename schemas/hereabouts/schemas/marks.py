"""Spans as marks: ids and times that ride on a result until the call settles and the brain decides to export them."""

from enum import StrEnum

from .base import Model
from .ids import new_span_id, new_trace_id
from .limits import MAX_TRACEPARENT_CHARS


class Service(StrEnum):
    """The `service.name` of each process."""

    BRAIN = "brain"
    BROWSER_BRIDGE = "browser-bridge"
    NODE_GATEWAY = "node-gateway"
    BROWSER = "browser"
    NODE = "node"


class SpanKind(StrEnum):
    """OpenTelemetry's span kinds, as far as they are used."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Mark(Model):
    """One span, not yet exported. Times are nanoseconds since the epoch."""

    span_id: str
    parent_id: str | None
    name: str
    service: Service
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int | float | bool] = {}
    error_type: str | None = None


class TraceContext(Model):
    """W3C Trace Context: the ids under which the next span stands."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The header's text, version 00."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def child(self) -> "TraceContext":
        """The same trace with a new span id."""
        return TraceContext(trace_id=self.trace_id, span_id=new_span_id(), sampled=self.sampled)

    @classmethod
    def new(cls) -> "TraceContext":
        """A trace that begins here."""
        return cls(trace_id=new_trace_id(), span_id=new_span_id())

    @classmethod
    def parse(cls, text: str | None) -> "TraceContext | None":
        """A `traceparent` from outside, or None when it is absent, too long or malformed (then a new trace begins)."""
        if not text or len(text) > MAX_TRACEPARENT_CHARS:
            return None
        parts = text.split("-")
        if len(parts) != 4 or [len(p) for p in parts] != [2, 32, 16, 2] or parts[0] == "ff":
            return None
        if not all(c in "0123456789abcdef" for part in parts for c in part):
            return None
        if parts[1] == "0" * 32 or parts[2] == "0" * 16:
            return None
        return cls(trace_id=parts[1], span_id=parts[2], sampled=bool(int(parts[3], 16) & 1))
