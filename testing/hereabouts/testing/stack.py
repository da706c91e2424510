"""All of Hereabouts as real processes on free ports, with a private server in a folder of its own."""

import asyncio
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from hereabouts.runtime.deployment import (
    BRAIN,
    BROWSER_BRIDGE,
    NODE_GATEWAY,
    SERVICES,
    base_url,
    environments,
    wait_healthy,
)
from hereabouts.runtime.keyring import KeyRing, load_keyring
from hereabouts.runtime.processes import Process, ProcessFailed
from hereabouts.runtime.settings import ServiceSettings
from hereabouts.runtime.tokens import Tokens, new_api_key
from hereabouts.schemas.claims import TokenKind

T = TypeVar("T")

HOST = "127.0.0.1"
TENANT = "test"

START_S = 45.0
"""A process imports for a second or two; on a machine that runs many tests at once for much longer."""

STOP_S = 15.0

EVERY = "*"
"""In `environment`: settings for all services."""

_BY_NAME = {spec.name: spec for spec in SERVICES}


class Stack:
    """A running Hereabouts. `with Stack() as stack` or `async with Stack() as stack`.

    Args:
        environment: more environment by service name (`brain`, `browser-bridge`, `node-gateway`), or `*` for each.
        redis_url: a server of your own instead of the embedded one.
        data_dir: a folder to keep; by default one is made, and removed at the end.
        secret: the deployment's secret; by default one is made in `data_dir`.

    Attributes:
        api_key: of the tenant `test`.
        keyring: the deployment's keys.
    """

    def __init__(
        self,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        *,
        redis_url: str | None = None,
        data_dir: Path | None = None,
        origins: list[str] | None = None,
    ) -> None:
        unknown = (environment or {}).keys() - _BY_NAME.keys() - {EVERY}
        if unknown:
            raise ValueError(f"no such service: {', '.join(sorted(unknown))}")
        self._environment = environment or {}
        self._own_folder = data_dir is None
        # Short: a Unix socket's path must stay under 104 bytes, and a test's own folder has a long name.
        self.data_dir = data_dir or Path(tempfile.mkdtemp(prefix="hereabouts-"))
        self.api_key = new_api_key()
        self.ports = _free_ports()
        self._origins = origins
        self._given_url = redis_url
        self._redis_url: str | None = None
        self._keyring: KeyRing | None = None
        self._processes: dict[str, Process] = {}
        self._server = ExitStack()

    def __repr__(self) -> str:
        return f"Stack({self.data_dir}, {self.ports})"

    # --- addresses --------------------------------------------------------------------------------------------------

    @property
    def redis_url(self) -> str:
        """The server's URL."""
        assert self._redis_url is not None, "the stack has not been started"
        return self._redis_url

    @property
    def keyring(self) -> KeyRing:
        """The deployment's keys."""
        assert self._keyring is not None, "the stack has not been started"
        return self._keyring

    @property
    def brain_url(self) -> str:
        """The HTTP API."""
        return base_url(HOST, self.ports[BRAIN.name])

    @property
    def browser_url(self) -> str:
        """The browser bridge: chat page and modules; its socket is at `/ws`."""
        return base_url(HOST, self.ports[BROWSER_BRIDGE.name])

    @property
    def node_url(self) -> str:
        """The node gateway."""
        return base_url(HOST, self.ports[NODE_GATEWAY.name])

    # --- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start the server, make the tenant, start all services, wait until each is ready.

        Raises:
            ProcessFailed: a service did not start; quotes its log.
            ServerNotFound: there is no server to be had.
        """
        try:
            self._start_server()
            self._keyring = load_keyring(ServiceSettings(data_dir=self.data_dir))
            from .tenants import put_tenant

            run_apart(put_tenant(self.redis_url, self.keyring, TENANT, self.api_key, self._origins))
            for spec in SERVICES:
                self._launch(spec.name)
            for spec in SERVICES:
                self._wait(spec.name)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the edges, the brain, the server; remove the folder if it was made here. May be called twice."""
        edges = [process for name, process in self._processes.items() if name != BRAIN.name]
        for process in edges:
            process.terminate()
        for process in edges:
            process.stop(STOP_S)
        if (brain := self._processes.get(BRAIN.name)) is not None:
            brain.stop(STOP_S)
        self._server.close()
        if self._own_folder:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    # --- one service ------------------------------------------------------------------------------------------------

    def process(self, service: str) -> Process:
        """A service's process."""
        return self._processes[service]

    def kill(self, service: str) -> None:
        """End a service as a crash would (SIGKILL); it stays down until `restart`."""
        process = self._processes[service]
        process.kill()
        process.wait()

    def terminate(self, service: str) -> int | None:
        """End a service as an operator would (SIGTERM, drain); its exit code."""
        return self._processes[service].stop(STOP_S)

    def restart(self, service: str) -> None:
        """Start a service again on its port, ending it first if it runs; returns when it is ready."""
        if self._processes[service].running:
            self.terminate(service)
        self._launch(service)
        self._wait(service)

    def kill_server(self) -> None:
        """End the embedded server as a crash would; services stay up and say that they are not ready."""
        from hereabouts.bus import server

        os.kill(server.embedded(self.data_dir).pid, signal.SIGKILL)

    def start_server(self) -> None:
        """Start the embedded server again on its socket, with what its append-only file kept."""
        from hereabouts.bus import server

        server.embedded(self.data_dir)

    # --- what it wrote ----------------------------------------------------------------------------------------------

    @property
    def log_files(self) -> dict[str, Path]:
        """Where each service's log is."""
        return {name: self.data_dir / "logs" / f"{name}.log" for name in _BY_NAME}

    def logs(self) -> dict[str, str]:
        """All that each service logged, restarts included."""
        return {name: file.read_text(errors="replace") for name, file in self.log_files.items() if file.exists()}

    def gateway_token(self, user: str, *, ttl_s: float = 3_600, auto_approve: bool = True) -> str:
        """A token for a user's devices."""
        return Tokens(self.keyring).sign(TokenKind.GATEWAY, TENANT, user=user, ttl_s=ttl_s, auto_approve=auto_approve)

    # ----------------------------------------------------------------------------------------------------------------

    def _start_server(self) -> None:
        if self._given_url is not None:
            self._redis_url = self._given_url
            return
        from hereabouts.bus import server

        self._redis_url = server.embedded(self.data_dir).url
        self._server.callback(server.stop, self.data_dir)

    def _launch(self, name: str) -> None:
        outside = {key: value for key, value in os.environ.items() if not key.startswith(("HEREABOUTS_", "OTEL_"))}
        environment = environments(
            self.ports, redis_url=self.redis_url, data_dir=self.data_dir, host=HOST, base=outside
        )[name]
        environment["HEREABOUTS_LOG_FORMAT"] = "json"
        environment.update(self._environment.get(EVERY, {}))
        environment.update(self._environment.get(name, {}))
        process = Process(name, _BY_NAME[name].module, environment=environment, log_file=self.log_files[name])
        process.start()
        self._processes[name] = process

    def _wait(self, name: str) -> None:
        process = self._processes[name]
        process.wait_ready(START_S)
        cause = wait_healthy(base_url(HOST, self.ports[name]), START_S)
        if cause is not None:
            raise ProcessFailed(
                name=name, what=f"is not ready: {cause}", log_file=str(process.log_file), tail=process.log_tail()
            )


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a loop of its own, also where one runs already."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as problem:
            failed.append(problem)

    thread = threading.Thread(target=run, name="apart")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _free_ports() -> dict[str, int]:
    """A free port for each service; all are held until all are known, so that they differ."""
    with ExitStack() as held:
        listeners = {name: held.enter_context(socket.create_server((HOST, 0))) for name in _BY_NAME}
        return {name: listener.getsockname()[1] for name, listener in listeners.items()}
