"""Which calls are exported, and what leaves in a span."""

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind as OtelKind
from opentelemetry.trace.status import StatusCode

from hereabouts.runtime.spans import SpanExport, kept_by_ratio
from hereabouts.schemas.ids import new_span_id, new_trace_id
from hereabouts.schemas.marks import Mark, Service, SpanKind

ROOT, CHILD, AGENT = "0000000000000001", "0000000000000002", "00000000000000ff"


def marks(error_type: str | None = None) -> list[Mark]:
    return [
        Mark(
            span_id=ROOT,
            parent_id=AGENT,
            name="execute_tool location_get",
            service=Service.BRAIN,
            kind=SpanKind.SERVER,
            start_ns=1_000,
            end_ns=9_000,
            attributes={"gen_ai.tool.name": "location_get", "latitude": 52.52},
        ),
        Mark(
            span_id=CHILD,
            parent_id=ROOT,
            name="ask tab",
            service=Service.BROWSER_BRIDGE,
            kind=SpanKind.CLIENT,
            start_ns=2_000,
            end_ns=8_000,
            error_type=error_type,
        ),
    ]


def settled(ratio: float, trace_id: str = "f" * 32, error_type: str | None = None, **said: object) -> list[object]:
    exporter = InMemorySpanExporter()
    export = SpanExport(ratio, 1_000, exporter)
    said = {"granted": True, "elapsed_ms": 10, **said}
    kept = export.settled(trace_id, marks(error_type), **said)  # type: ignore[arg-type]
    export.close()
    spans = list(exporter.get_finished_spans())
    assert kept == bool(spans)
    return [span.attributes["hereabouts.kept_for"] for span in spans if "hereabouts.kept_for" in span.attributes]


def test_slow_failed_and_refused_calls_are_always_kept() -> None:
    assert settled(0.0) == []
    assert settled(0.0, elapsed_ms=1_000) == ["slow"]
    assert settled(0.0, granted=False) == ["outcome"]
    assert settled(0.0, error_type="timeout") == ["failed"]


def test_the_rest_is_kept_by_ratio_unless_the_agent_does_not_sample() -> None:
    assert settled(1.0) == ["ratio"]
    assert settled(1.0, sampled=False) == []
    assert settled(0.0, sampled=False, granted=False) == ["outcome"]


def test_the_ratio_is_the_same_on_every_process_and_near_its_number() -> None:
    ids = [new_trace_id() for _ in range(5_000)]
    kept = [kept_by_ratio(one, 0.1) for one in ids]
    assert kept == [kept_by_ratio(one, 0.1) for one in ids]
    assert 300 < sum(kept) < 700  # 500 ± 9 standard deviations
    assert not kept_by_ratio("f" * 32, 0.999)
    assert kept_by_ratio("f" * 32, 1.0)


def test_a_span_carries_its_own_service_and_only_listed_attributes() -> None:
    exporter = InMemorySpanExporter()
    export = SpanExport(1.0, 1_000, exporter)
    trace_id = new_trace_id()
    export.export(trace_id, marks("timeout"))
    export.close()
    root, child = exporter.get_finished_spans()
    assert root.attributes == {"gen_ai.tool.name": "location_get"}
    assert root.resource.attributes["service.name"] == "brain"
    assert child.resource.attributes["service.name"] == "browser-bridge"
    assert child.resource.attributes["service.namespace"] == "hereabouts"
    assert format(root.context.trace_id, "032x") == trace_id
    assert format(root.parent.span_id, "016x") == AGENT
    assert child.parent.span_id == root.context.span_id
    assert (root.kind, child.kind) == (OtelKind.SERVER, OtelKind.CLIENT)
    assert root.status.status_code is StatusCode.UNSET
    assert child.status.status_code is StatusCode.ERROR
    assert child.attributes == {"error.type": "timeout"}
    assert (child.start_time, child.end_time) == (2_000, 8_000)


def test_without_an_endpoint_nothing_is_built(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    export = SpanExport(1.0, 0)
    assert not export.enabled
    assert not export.settled(new_trace_id(), marks(), granted=False, elapsed_ms=5_000)
    export.export(new_span_id(), marks())
    export.close()
