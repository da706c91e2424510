"""OpenClaw's own gateway client as a process: installed once, then driven by lines."""

import asyncio
import fcntl
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NODE_24 = HERE / "node_modules/node/bin/node"
LINE_LIMIT_BYTES = 1024 * 1024
PATIENCE_S = 20.0


@pytest.fixture(scope="session")
def openclaw_packages() -> Path:
    """This folder with the npm packages of its lock installed; several test processes install only once."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed; on Debian: apt install npm")
    lock = (HERE / "package-lock.json").read_bytes() + (HERE / "package.json").read_bytes()
    stamp, wanted = HERE / "node_modules/.installed", sha256(lock).hexdigest()
    with (HERE / ".install.lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            done = subprocess.run(
                [npm, "ci", "--no-audit", "--no-fund"], cwd=HERE, capture_output=True, text=True, timeout=300
            )
            if done.returncode != 0 or not NODE_24.exists():
                pytest.skip(f"npm ci failed in tests/interop: {done.stderr[-500:]}")
            stamp.write_text(wanted)
    return HERE


class OpenclawProcess:
    """A running `openclaw_node.mjs`: what it told, in order, and requests to make."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.told: list[dict[str, Any]] = []
        self._process = process
        self._news = asyncio.Condition()
        self._ended = False
        self._requests = 0
        self._reader = asyncio.create_task(self._read())

    async def wait_for(self, event: str, *, after: int = 0, **fields: Any) -> dict[str, Any]:
        """The first thing told under this name (and with these fields) from position `after` on."""

        def found() -> dict[str, Any] | None:
            for told in self.told[after:]:
                if told["event"] == event and all(told.get(name) == value for name, value in fields.items()):
                    return told
            assert not self._ended, f"ended without {event} {fields}; told {self.told}"
            return None

        try:
            async with asyncio.timeout(PATIENCE_S), self._news:
                while (seen := found()) is None:
                    await self._news.wait()
                return seen
        except TimeoutError:
            raise AssertionError(f"waited in vain for {event} {fields}; told {self.told}") from None

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make the client ask the gateway; the response as `{"ok", "payload" | "code", "message", "details"}`."""
        self._requests += 1
        line = json.dumps({"id": self._requests, "method": method, "params": params or {}})
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()
        return await self.wait_for("response", id=self._requests)

    async def kill(self) -> None:
        """End it without a goodbye, as a crash does."""
        self._process.kill()
        await self._reader

    async def stop(self) -> None:
        """Close its standard input, so that it closes its socket and ends."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.shield(self._reader)
        except TimeoutError:
            await self.kill()
        await self._process.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._news:
                self.told.append(json.loads(line))
                self._news.notify_all()
        await self._process.wait()
        async with self._news:
            self._ended = True
            self._news.notify_all()


StartOpenclaw = Callable[..., Awaitable[OpenclawProcess]]


@pytest.fixture
async def start_openclaw(openclaw_packages: Path) -> AsyncIterator[StartOpenclaw]:
    """Start the real client: `await start_openclaw(url, token, dialect="ios", error="LOCATION_TIMEOUT", …)`.

    Keyword arguments are the script's options; True is a bare switch.
    """
    running: list[OpenclawProcess] = []

    async def start(url: str, token: str, **options: Any) -> OpenclawProcess:
        arguments = ["--url", url, "--token", token]
        for name, value in options.items():
            switch = f"--{name.replace('_', '-')}"
            arguments += [switch] if value is True else [switch, value if isinstance(value, str) else json.dumps(value)]
        process = await asyncio.create_subprocess_exec(
            NODE_24,
            openclaw_packages / "openclaw_node.mjs",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT_BYTES,
        )
        running.append(OpenclawProcess(process))
        return running[-1]

    yield start
    for process in running:
        await process.stop()


@pytest.fixture
def openclaw_signatures(openclaw_packages: Path) -> Iterator[Callable[[dict[str, Any]], dict[str, str]]]:
    """What the real client would sign for a set of parameters, as `{"v2", "v3"}`."""
    process = subprocess.Popen(
        [NODE_24, openclaw_packages / "openclaw_signature.mjs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def ask(params: dict[str, Any]) -> dict[str, str]:
        stdin.write(json.dumps(params) + "\n")
        stdin.flush()
        answer: dict[str, str] = json.loads(stdout.readline())
        return answer

    with process:
        yield ask
        stdin.close()
        process.wait(PATIENCE_S)
