"""Spans as marks: ids and times that ride on a result until the call settles and the brain decides to export them."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field

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


_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")


class Mark(Model):
    """One span, not yet exported. Times are nanoseconds since the epoch."""

    span_id: str
    parent_id: str | None
    name: str
    service: Service
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int | float | bool] = Field(default_factory=dict)
    error_type: str | None = None


class PackedMark(NamedTuple):
    """A mark while it travels: an array without names on the wire, and made at a fifth of a model's cost.

    Most marks are never looked at: one call in ten is exported, and fewer are shown.
    """

    span_id: str
    parent_id: str | None
    name: str
    service: Service
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int | float | bool]
    error_type: str | None = None


Packed = tuple[str, str | None, str, Service, SpanKind, int, int, dict[str, Any], str | None]
"""A packed mark as it is read: the same fields in the same order, with no call of ours for each."""


def unpack(packed: Packed | PackedMark) -> Mark:
    """The mark.

    Raises:
        ValidationError: an attribute is none of the kinds that a span may have.
    """
    return Mark(**dict(zip(PackedMark._fields, packed, strict=True)))


@dataclass(frozen=True, slots=True)
class TraceContext:
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
        if not text or len(text) > MAX_TRACEPARENT_CHARS or (match := _TRACEPARENT.fullmatch(text)) is None:
            return None
        trace_id, span_id, flags = match.groups()
        return cls(trace_id, span_id, bool(int(flags, 16) & 1))
