"""All of Hereabouts on this machine, supervised: what `up` and `demo` run."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from hereabouts.bus import server
from hereabouts.runtime.deployment import (
    BRAIN,
    SERVICES,
    ServiceSpec,
    base_url,
    environments,
    free_port,
    wait_healthy,
)
from hereabouts.runtime.keyring import KeyRing, load_keyring
from hereabouts.runtime.processes import Process, ProcessFailed
from hereabouts.runtime.settings import ENV_PREFIX, ServiceSettings
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.testing.tenants import put_tenant

from .backoff import Backoff
from .place import DEV_TENANT, Place, State

READY_S = 60.0
DRAIN_S = 40.0
"""A little more than a service allows itself to drain."""

Say = Callable[[str], None]


class PortBusy(HereaboutsError):
    code = "port_busy"
    template = "Port {port} for {service} is taken on {host}. Name another one, or stop what uses it."


def choose_ports(host: str, wanted: Mapping[str, int | None], say: Say) -> dict[str, int]:
    """A port for each service: the one named, else its usual one, else (said) a free one.

    Raises:
        PortBusy: a port that was named is taken.
    """
    chosen: dict[str, int] = {}
    for spec in SERVICES:
        named = wanted.get(spec.name)
        usual = spec.default_port if named is None else named
        port = free_port(host, usual)
        if usual and port != usual:
            if named is not None:
                raise PortBusy(port=named, service=spec.name, host=host)
            say(f"[yellow]port {usual} is taken[/]: {spec.name} moves to {port}")
        chosen[spec.name] = port
    return chosen


class Local:
    """`async with Local(...) as local`: everything runs and is ready; at the end all is ended in order.

    Raises (on entry):
        RunsAlready, PortBusy, ServerNotFound, ProcessFailed: each says what to do.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        host: str = "127.0.0.1",
        ports: Mapping[str, int | None] | None = None,
        redis_url: str | None = None,
        say: Say = lambda _: None,
    ) -> None:
        self.place = Place(data_dir)
        self._host = host
        self._wanted = ports or {}
        self._given_url = redis_url
        self._say = say
        self._holding = self.place.held()
        self._ports: dict[str, int] = {}
        self._environments: dict[str, dict[str, str]] = {}
        self._processes: dict[str, Process] = {}
        self._started_at: dict[str, float] = {}
        self._backoffs = {spec.name: Backoff() for spec in SERVICES}
        self._restarts: set[asyncio.Task[None]] = set()
        self._ending = False
        self._own_server = False
        self.keyring: KeyRing
        self.api_key: str
        self.state: State

    async def __aenter__(self) -> Self:
        self._holding.__enter__()
        try:
            await self._start()
        except BaseException:
            await self._stop()
            self._holding.__exit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()
        self._holding.__exit__(None, None, None)

    def process(self, service: str) -> Process:
        """A service's process."""
        return self._processes[service]

    def log_file(self, name: str) -> Path:
        """Where a process's log goes."""
        return self.place.data_dir / "logs" / f"{name}.log"

    async def _start(self) -> None:
        data_dir = self.place.data_dir
        self._ports = choose_ports(self._host, self._wanted, self._say)
        if self._given_url is not None:
            redis_url = self._given_url
        else:
            found = await asyncio.to_thread(server.embedded, data_dir)
            redis_url, self._own_server = found.url, True
            self._say("server [green]ready[/]" + ("" if found.started else " (found running)"))
        self.keyring = load_keyring(ServiceSettings(data_dir=data_dir, redis_url=self._given_url))
        self.api_key = self.place.dev_key()
        await put_tenant(redis_url, self.keyring, DEV_TENANT, self.api_key)
        self._environments = environments(self._ports, redis_url=redis_url, data_dir=data_dir, host=self._host)
        for spec in SERVICES:
            self._launch(spec)
        await asyncio.gather(*(self._ready(spec) for spec in SERVICES))
        urls = {spec.url_setting: self._public_url(spec) for spec in SERVICES}
        self.state = State(pid=os.getpid(), **urls)
        self.place.write_state(self.state)

    async def _stop(self) -> None:
        self._ending = True
        for task in self._restarts:
            task.cancel()
        edges = [process for name, process in self._processes.items() if name != BRAIN.name]
        await asyncio.gather(*(asyncio.to_thread(process.stop, DRAIN_S) for process in edges))
        if (brain := self._processes.get(BRAIN.name)) is not None:
            await asyncio.to_thread(brain.stop, DRAIN_S)
        if self._own_server:
            await asyncio.to_thread(server.stop, self.place.data_dir)

    def _launch(self, spec: ServiceSpec) -> Process:
        loop = asyncio.get_running_loop()

        def ended(process: Process, code: int) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._ended, spec, process, code)

        process = Process(
            spec.name,
            spec.module,
            environment=self._environments[spec.name],
            log_file=self.log_file(spec.name),
            on_exit=ended,
        )
        process.start()
        self._processes[spec.name] = process
        self._started_at[spec.name] = time.monotonic()
        return process

    async def _ready(self, spec: ServiceSpec) -> None:
        process = self._processes[spec.name]
        port = await asyncio.to_thread(process.wait_ready, READY_S)
        cause = await asyncio.to_thread(wait_healthy, base_url(self._host, port), READY_S)
        if cause is not None:
            raise ProcessFailed(
                name=spec.name, what=f"is not ready: {cause}", log_file=str(process.log_file), tail=process.log_tail()
            )
        self._say(f"{spec.name} [green]ready[/] at {self._public_url(spec)}")

    def _public_url(self, spec: ServiceSpec) -> str:
        return self._environments[spec.name][f"{ENV_PREFIX}{spec.url_setting.upper()}"]

    def _ended(self, spec: ServiceSpec, process: Process, code: int) -> None:
        if self._ending or self._processes.get(spec.name) is not process or not hasattr(self, "state"):
            return
        pause_s = self._backoffs[spec.name].after_crash(time.monotonic() - self._started_at[spec.name])
        self._say(
            f"[red]{spec.name} ended[/] with code {code}; it starts again in {pause_s:g} s (log: {process.log_file})"
        )
        task = asyncio.create_task(self._restart(spec, pause_s), name=f"restart-{spec.name}")
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _restart(self, spec: ServiceSpec, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        self._launch(spec)
        try:
            await self._ready(spec)
        except ProcessFailed as problem:
            if not self._ending:
                self._say(f"[red]{problem}[/]")
