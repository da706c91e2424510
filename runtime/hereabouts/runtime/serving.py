"""The server under each service: uvicorn, with the process's signals in our own hands.

uvicorn by itself closes every socket on SIGTERM before the lifespan may drain, and exits with the signal's status.
Here SIGTERM and SIGINT first drain (finish what is open while sockets live), then end the server, and the exit code
is 0. A second signal does not wait.
"""

import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import uvicorn

from .logs import get_logger
from .settings import ServiceSettings
from .supervision import supervised_fd, watch_supervisor

DRAIN_LIMIT_S = 35.0
"""The last resort of a call (30 s) and a little: whoever drains longer is stuck."""

GRACE_S = 5
"""After the drain, for connections that do not close."""

KEEP_ALIVE_S = 75
"""Longer than usual clients keep an idle connection, so that they close it and no request meets a closing one."""

BACKLOG = 2_048
EXIT_PORT_BUSY = 98
"""EADDRINUSE's number on Linux: a supervisor can tell a taken port from a crash."""

EXIT_STARTUP = 3
"""The lifespan did not start (uvicorn's own code for it)."""

EXIT_FORCED = 1

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

GC_THRESHOLDS = (20_000, 20, 100)
"""Python's own (700, 10, 10) walk again and again what was imported and never goes. Measured with 64 callers, six pairs
of runs: these and the freeze together take 17 % off the brain's CPU a call and 26 % off the p99 (medians)."""

Drain = Callable[[], Awaitable[None]]
Ready = Callable[[int], None]

_log = get_logger("hereabouts.runtime.serving")


class Server(uvicorn.Server):
    """uvicorn's server; it drains before it ends and tells where it listens."""

    def __init__(self, config: uvicorn.Config, *, drain: Drain | None = None, ready: Ready | None = None) -> None:
        super().__init__(config)
        self._drain = drain
        self._ready = ready
        self._ending: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[Any] | None = None

    @property
    def forced(self) -> bool:
        """Whether the end did not wait for open work."""
        return self.force_exit

    def end(self) -> None:
        """Drain and then stop; called again: stop now."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(), name="drain")
            return
        self.force_exit = True
        self.should_exit = True
        self._ending.cancel()
        if not self.started and self._serving is not None:
            self._serving.cancel()  # a start that hangs has no main loop that looks at the flags

    async def _end(self) -> None:
        if self._drain is not None and self.started:
            try:
                async with asyncio.timeout(DRAIN_LIMIT_S):
                    await self._drain()
            except TimeoutError:
                _log.warning("the drain took too long and was ended", limit_s=DRAIN_LIMIT_S)
            except Exception:
                _log.exception("the drain failed")
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Ours instead of uvicorn's; entered inside the running loop."""
        loop = asyncio.get_running_loop()
        self._serving = asyncio.current_task()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """uvicorn's start, then the news that the port answers."""
        await super().startup(sockets)
        settle_memory()
        if self.started and self._ready is not None and sockets:
            self._ready(sockets[0].getsockname()[1])


def serve(
    app: Any,
    settings: ServiceSettings,
    *,
    service: str | None = None,
    ws_protocol: type[asyncio.Protocol] | None = None,
    drain: Drain | None = None,
    ready: Ready | None = None,
) -> None:
    """Serve an ASGI app until a signal or the supervisor's death, then leave the process.

    `drain` runs while sockets still live. `ready` is called with the real port once it answers; the ready line
    `{"service": …, "port": …}` goes to stdout (or the ready file) then as well.

    Raises:
        SystemExit: always: 0 after a drain, EXIT_FORCED, EXIT_STARTUP, or EXIT_PORT_BUSY.
    """
    name = service or settings.service
    try:
        listener = bind(settings.host, settings.port)
    except OSError as problem:
        print(  # noqa: T201 - a person reads it, also where logs are JSON
            f"{name}: cannot listen on {settings.host}:{settings.port} ({problem.strerror or problem}). "
            "Stop what uses this port, or choose another with HEREABOUTS_PORT (0 takes a free one).",
            file=sys.stderr,
        )
        sys.exit(EXIT_PORT_BUSY)

    def tell(port: int) -> None:
        announce(name, port, settings.ready_file)
        _log.info("ready", port=port)
        if ready is not None:
            ready(port)

    server = Server(_config(app, settings, ws_protocol), drain=drain, ready=tell)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner, contextlib.suppress(asyncio.CancelledError):
        runner.run(_serve(server, listener))
    if server.forced:
        sys.exit(EXIT_FORCED)
    sys.exit(0 if server.started or server.should_exit else EXIT_STARTUP)


def settle_memory() -> None:
    """What stands after the start stays for good: the collector need not look at it again, and seldom at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket, not listening yet; port 0 takes a free one.

    Raises:
        OSError: the port is taken or the host is not ours.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def announce(service: str, port: int, ready_file: Path | None = None) -> None:
    """The ready line: to the file in one step (write beside, rename), else to stdout."""
    line = json.dumps({"service": service, "port": port, "pid": os.getpid()})
    if ready_file is None:
        print(line, flush=True)  # noqa: T201 - stdout is what the supervisor reads
        return
    beside = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
    beside.write_text(line + "\n")
    beside.replace(ready_file)


async def _serve(server: Server, listener: socket.socket) -> None:
    descriptor = supervised_fd()
    if descriptor is not None:
        watch_supervisor(descriptor, server.end)
    try:
        await server.serve(sockets=[listener])
    finally:
        for number in _SIGNALS:  # the process leaves now; a late signal must not change its exit code
            signal.signal(number, signal.SIG_IGN)


def _config(app: Any, settings: ServiceSettings, ws_protocol: type[asyncio.Protocol] | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http="httptools",
        ws=ws_protocol if ws_protocol is not None else "none",
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
