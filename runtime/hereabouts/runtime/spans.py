"""Marks become spans, once their call has settled and somebody decided to keep it.

A span made as it happens costs 30–49 µs of CPU; a tuple of times costs well under one, and six spans built afterwards
27 together. So every call is measured, and only the kept ones are built, each with its own service's resource.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace.status import Status, StatusCode

from hereabouts.schemas.marks import Mark, Packed, PackedMark, Service, SpanKind, unpack

from .logs import get_logger
from .settings import ServiceSettings

ALLOWED_ATTRIBUTES: Final = frozenset(
    """
    error.type server.address server.port
    http.request.method http.response.status_code http.route url.scheme url.path network.protocol.name
    gen_ai.operation.name gen_ai.tool.name gen_ai.tool.call.id gen_ai.tool.type
    messaging.system messaging.operation.name messaging.operation.type messaging.destination.name
    messaging.destination.template messaging.message.conversation_id messaging.message.id messaging.message.body.size
    messaging.batch.message_count
    hereabouts.correlation_id hereabouts.tenant hereabouts.session hereabouts.tool hereabouts.status hereabouts.reason
    hereabouts.retry hereabouts.precision hereabouts.accuracy_bucket hereabouts.dispatched hereabouts.route
    hereabouts.client.kind hereabouts.client.id hereabouts.client.state hereabouts.client.visibility
    hereabouts.client.permission hereabouts.client_reported hereabouts.may_prompt hereabouts.wait hereabouts.asked
    hereabouts.budget.client_ms hereabouts.budget.brain_ms hereabouts.budget.left_ms hereabouts.budget.guard_ms
    hereabouts.spent_in hereabouts.by_guard hereabouts.late hereabouts.joined hereabouts.epoch hereabouts.node_code
    hereabouts.queue_ms hereabouts.elapsed_ms hereabouts.kept_for
    """.split()  # noqa: SIM905 - a list of words reads better so
)
"""What may leave in a span. A new attribute is written down here first; anything else is dropped and said once."""

KEPT_FOR = "hereabouts.kept_for"
"""On the call's first span: slow, failed, outcome or ratio, so that a collector's tail sampler can read the decision."""

QUEUE_SPANS = 8_192
"""About a second of the highest rate measured; beyond it the oldest are dropped, never the process slowed."""

FLUSH_S = 3.0
"""What a process that ends gives a collector that does not answer."""

_KINDS: Final[Mapping[SpanKind, OtelKind]] = {
    SpanKind.INTERNAL: OtelKind.INTERNAL,
    SpanKind.SERVER: OtelKind.SERVER,
    SpanKind.CLIENT: OtelKind.CLIENT,
    SpanKind.PRODUCER: OtelKind.PRODUCER,
    SpanKind.CONSUMER: OtelKind.CONSUMER,
}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)

_log = get_logger("hereabouts.runtime.spans")


def kept_by_ratio(trace_id: str, ratio: float) -> bool:
    """Whether the ratio keeps this trace: the same on every process (low 64 bits, as OpenTelemetry's own ratio)."""
    return int(trace_id[16:], 16) < ratio * (1 << 64)


def reason_to_keep(
    trace_id: str, *, granted: bool, failed: bool, elapsed_ms: int, sampled: bool, ratio: float, slow_ms: int
) -> str | None:
    """Why a settled call's trace is exported, or None.

    `sampled` is what the agent's own `traceparent` says (true without one): an agent that does not sample a call turns
    off the ratio, never the rules for slow, failed and not-GRANTED ones.
    """
    if failed:
        return "failed"
    if not granted:
        return "outcome"
    if elapsed_ms >= slow_ms:
        return "slow"
    return "ratio" if sampled and kept_by_ratio(trace_id, ratio) else None


class SpanExport:
    """Builds spans from marks and hands them to a batch processor with a thread of its own."""

    def __init__(self, ratio: float, slow_ms: int, exporter: SpanExporter | None = None) -> None:
        """Export by `exporter`, or by OTLP over HTTP when OTEL_EXPORTER_OTLP_(TRACES_)ENDPOINT is set, or not at all."""
        self._ratio = ratio
        self._slow_ms = slow_ms
        exporter = exporter or _otlp_exporter()
        self._processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE_SPANS) if exporter is not None else None

    @classmethod
    def from_settings(cls, settings: ServiceSettings) -> "SpanExport":
        """As this process's settings and environment say."""
        return cls(settings.trace_ratio, settings.trace_slow_ms)

    @property
    def enabled(self) -> bool:
        """Whether spans go anywhere."""
        return self._processor is not None

    def settled(
        self,
        trace_id: str,
        marks: Sequence[Mark | Packed | PackedMark],
        *,
        granted: bool,
        elapsed_ms: int,
        sampled: bool = True,
    ) -> bool:
        """Decide about a settled call and export it if it is to be kept; whether it was."""
        if self._processor is None:
            return False
        kept_for = reason_to_keep(
            trace_id,
            granted=granted,
            failed=any(_error_of(mark) is not None for mark in marks),
            elapsed_ms=elapsed_ms,
            sampled=sampled,
            ratio=self._ratio,
            slow_ms=self._slow_ms,
        )
        if kept_for is None:
            return False
        whole = [mark if isinstance(mark, Mark) else unpack(mark) for mark in marks]
        self._hand_over(self._processor, trace_id, whole, kept_for)
        return True

    def export(self, trace_id: str, marks: Sequence[Mark]) -> None:
        """Export without a decision: what only this process knows (late results, refused frames)."""
        if self._processor is not None:
            self._hand_over(self._processor, trace_id, marks, None)

    def close(self) -> None:
        """Send what waits, for FLUSH_S seconds at most. Blocks: call it when nothing is served any more."""
        if self._processor is None:
            return
        # In a thread, since the exporter's retries do not look at any timeout of ours.
        flushing = threading.Thread(target=self._processor.shutdown, name="span-flush", daemon=True)
        flushing.start()
        flushing.join(FLUSH_S)

    @staticmethod
    def _hand_over(processor: BatchSpanProcessor, trace_id: str, marks: Sequence[Mark], kept_for: str | None) -> None:
        number = int(trace_id, 16)
        own = {mark.span_id for mark in marks}
        for mark in marks:
            first = kept_for is not None and mark.parent_id not in own
            processor.on_end(build_span(number, mark, kept_for if first else None))


def _error_of(mark: Mark | Packed | PackedMark) -> str | None:
    return mark.error_type if isinstance(mark, Mark) else mark[-1]


def build_span(trace_id: int, mark: Mark, kept_for: str | None = None) -> ReadableSpan:
    """The span that a mark stands for, with its service's resource and allowed attributes only."""
    attributes = {name: value for name, value in mark.attributes.items() if name in ALLOWED_ATTRIBUTES}
    if len(attributes) != len(mark.attributes):
        for name in mark.attributes.keys() - ALLOWED_ATTRIBUTES:
            _say_dropped(name)
    if kept_for is not None:
        attributes[KEPT_FOR] = kept_for
    if mark.error_type is not None:
        attributes["error.type"] = mark.error_type
    return ReadableSpan(
        name=mark.name,
        context=SpanContext(trace_id, int(mark.span_id, 16), is_remote=False, trace_flags=_SAMPLED),
        parent=(
            SpanContext(trace_id, int(mark.parent_id, 16), is_remote=True, trace_flags=_SAMPLED)
            if mark.parent_id is not None
            else None
        ),
        resource=_resource(mark.service),
        attributes=attributes,
        kind=_KINDS[mark.kind],
        status=Status(StatusCode.ERROR) if mark.error_type is not None else Status(StatusCode.UNSET),
        start_time=mark.start_ns,
        end_time=mark.end_ns,
        instrumentation_scope=_scope(),
    )


@cache
def _resource(service: Service) -> Resource:
    return Resource.create(
        {"service.name": service.value, "service.namespace": "hereabouts", "service.version": _version()}
    )


@cache
def _scope() -> InstrumentationScope:
    return InstrumentationScope("hereabouts", _version())


@cache
def _version() -> str:
    return version("hereabouts-runtime")


@cache
def _say_dropped(name: str) -> None:
    _log.warning("a span attribute is not on the list and was dropped", attribute=name)


def _otlp_exporter() -> SpanExporter | None:
    if not (os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")):
        return None
    # Imported here: it brings requests and protobuf, which a process that exports nothing need not load.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
