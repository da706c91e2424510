"""An OTLP/HTTP collector in this process: what services export, as they sent it."""

import gzip
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span, its ids in hex, its resource's attributes beside its own."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, Value]
    resource: dict[str, Value]

    @property
    def service(self) -> str:
        """Its `service.name`."""
        return str(self.resource.get("service.name", ""))


class Collector:
    """Listens on a free port of this machine; `with Collector() as collector`, then give services `environment`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._spans: list[ReceivedSpan] = []
        self._bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector._receive(body)
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: a test's output is its own."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """What OTEL_EXPORTER_OTLP_ENDPOINT must be."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """For the services' environment: export here, without waiting long for a batch to fill."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans so far."""
        with self._changed:
            return list(self._spans)

    @property
    def raw(self) -> bytes:
        """Every byte received, decompressed: for a search for what must not be there."""
        with self._changed:
            return b"".join(self._bodies)

    def trace(
        self, trace_id: str, complete: Callable[[list[ReceivedSpan]], bool], timeout_s: float = 10.0
    ) -> list[ReceivedSpan]:
        """Wait until a trace's spans satisfy `complete`; the spans by start. Blocks: in a coroutine use a thread.

        Raises:
            AssertionError: they never did; names what has come.
        """

        def found() -> list[ReceivedSpan]:
            return sorted((span for span in self._spans if span.trace_id == trace_id), key=lambda span: span.start_ns)

        with self._changed:
            if not self._changed.wait_for(lambda: complete(found()), timeout_s):
                come = [f"{span.service}: {span.name}" for span in found()]
                raise AssertionError(f"trace {trace_id} was not complete within {timeout_s:g} s; it has {come}")
            return found()

    def _receive(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        spans = [
            ReceivedSpan(
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex() or None,
                name=span.name,
                kind=span.kind,
                start_ns=span.start_time_unix_nano,
                end_ns=span.end_time_unix_nano,
                failed=span.status.code == Status.STATUS_CODE_ERROR,
                attributes=_attributes(span.attributes),
                resource=_attributes(resource.resource.attributes),
            )
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._changed:
            self._bodies.append(body)
            self._spans.extend(spans)
            self._changed.notify_all()


def _attributes(pairs: "list[KeyValue]") -> dict[str, Value]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Value:
    kind = value.WhichOneof("value")
    if kind in ("string_value", "int_value", "double_value", "bool_value"):
        found: Value = getattr(value, kind)
        return found
    return str(value)
