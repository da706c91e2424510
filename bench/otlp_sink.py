"""A collector that only counts. `python -m bench.otlp_sink PORT`; a line on stdin is answered with the counts so far.

Bodies are kept as they came and decoded when asked, so that counting costs nothing while the clock runs.
"""

import asyncio
import gzip
import json
import sys
from typing import cast

import httptools
import uvloop
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received:
    """What came in."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._spans: dict[str, int] = {}
        self._traces: set[bytes] = set()
        self._requests = 0

    def add(self, body: bytes) -> None:
        """Keep one export request."""
        self._bodies.append(body)

    def counts(self) -> dict[str, object]:
        """Requests, traces, and spans by service."""
        bodies, self._bodies = self._bodies, []
        for body in bodies:
            self._requests += 1
            request = ExportTraceServiceRequest.FromString(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
            for resource in request.resource_spans:
                names = {a.key: a.value.string_value for a in resource.resource.attributes}
                service = names.get("service.name", "")
                for scope in resource.scope_spans:
                    self._spans[service] = self._spans.get(service, 0) + len(scope.spans)
                    self._traces.update(span.trace_id for span in scope.spans)
        return {"requests": self._requests, "traces": len(self._traces), "spans": self._spans}


class Exporter(asyncio.Protocol):
    """One exporter's connection; every request is answered 200."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """httptools: the request is here."""
        self._received.add(b"".join(self._body))
        self._body.clear()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")


async def main(port: int) -> None:
    """Serve until stdin ends."""
    loop = asyncio.get_running_loop()
    received = Received()
    server = await loop.create_server(lambda: Exporter(received), "127.0.0.1", port)
    async with server:
        while await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(received.counts()), flush=True)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
