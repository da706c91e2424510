"""The load: so many callers, each with one open call at a time. `python -m bench.load`, commands on stdin.

HTTP/1.1 keep-alive on bare sockets with httptools' parser: a client library would be slower than what is measured.

Input: a JSON line `{"host", "port", "requests": [{"path", "headers", "body"}, …]}`, one request per caller; then lines
`{"concurrent", "seconds", "calls"}`. Output: a JSON line for each command, as `Round` has it. A command ends when its
time is over or `calls` (0: no limit) are done, whichever is first; calls that are open then are waited for and counted.
"""

import asyncio
import json
import sys
import time
from typing import Any, cast

import httptools
import uvloop

MAX_SHOWN = 200


class Caller(asyncio.Protocol):
    """One caller on one connection: the next call leaves when the last is answered."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._round: Round | None = None
        self._started_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that is lost with a call open is a failed call."""
        if self._round is not None:
            self._round.done(self, 0, b"connection lost", time.perf_counter_ns() - self._started_ns)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer."""
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """httptools: a part of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """httptools: the answer is here."""
        took_ns = time.perf_counter_ns() - self._started_ns
        body = b"".join(self._body)
        self._body.clear()
        status = self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        running, self._round = self._round, None
        if running is not None:
            running.done(self, status, body, took_ns)

    def call(self, running: "Round") -> None:
        """Send the request."""
        self._round = running
        self._started_ns = time.perf_counter_ns()
        self._transport.write(self._request)


class Round:
    """One measurement."""

    def __init__(self, callers: list[Caller], seconds: float, calls: int) -> None:
        self._ends_ns = time.perf_counter_ns() + int(seconds * 1e9)
        self._left = calls or sys.maxsize
        self._open = 0
        self._took_ns: list[int] = []
        self._failed = 0
        self._first_failure = ""
        self._finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._callers = callers

    async def run(self) -> dict[str, Any]:
        """The figures: calls, failed, seconds, p50_ms, p99_ms, first_failure."""
        started = time.perf_counter()
        for caller in self._callers:
            self._next(caller)
        await self._finished
        seconds = time.perf_counter() - started
        took = sorted(self._took_ns) or [0]
        return {
            "calls": len(self._took_ns),
            "failed": self._failed,
            "first_failure": self._first_failure,
            "seconds": seconds,
            "p50_ms": took[len(took) // 2] / 1e6,
            "p99_ms": took[min(len(took) - 1, len(took) * 99 // 100)] / 1e6,
        }

    def _next(self, caller: Caller) -> None:
        if self._left > 0 and time.perf_counter_ns() < self._ends_ns:
            self._left -= 1
            self._open += 1
            caller.call(self)
        elif self._open == 0 and not self._finished.done():
            self._finished.set_result(None)

    def done(self, caller: Caller, status: int, body: bytes, took_ns: int) -> None:
        """One answer: only a granted one counts."""
        self._open -= 1
        if status == 200 and b'"GRANTED"' in body:
            self._took_ns.append(took_ns)
        else:
            self._failed += 1
            self._first_failure = self._first_failure or f"{status} {body[:MAX_SHOWN].decode(errors='replace')}"
            if status == 0:
                self._left = 0
        self._next(caller)


def request_bytes(host: str, request: dict[str, Any]) -> bytes:
    """A POST as it goes over the wire."""
    body = json.dumps(request["body"]).encode()
    lines = [f"POST {request['path']} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in request["headers"].items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def main() -> None:
    """Obey stdin."""
    loop = asyncio.get_running_loop()
    target = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    callers: list[Caller] = []
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        while len(callers) < command["concurrent"]:
            caller = Caller(request_bytes(target["host"], target["requests"][len(callers)]))
            await loop.create_connection(lambda caller=caller: caller, target["host"], target["port"])  # type: ignore[misc]
            callers.append(caller)
        figures = await Round(callers[: command["concurrent"]], command["seconds"], command["calls"]).run()
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
