"""A real Chromium over the DevTools protocol itself.

Playwright keeps every tab visible and focused; these tests need tabs that really are in the background, so they speak
the protocol directly (https://chromedevtools.github.io/devtools-protocol/).
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from websockets.asyncio.client import ClientConnection, connect

from .waiting import until

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-default-browser-check",
    "--remote-debugging-port=0",
    "--window-position=0,0",
    "--window-size=1000,800",
]
START_LIMIT_S = 30.0
Setting = Literal["granted", "denied", "prompt"]


def chromium_path() -> str:
    """Where Chromium is; without it the test says how to get it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium: install Debian's package `chromium`")
    return found


class Browser:
    """One browser process with a fresh profile."""

    def __init__(self, process: asyncio.subprocess.Process, socket: ClientConnection) -> None:
        self._process = process
        self._socket = socket
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._tabs: dict[str, Tab] = {}
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, profile: Path, *flags: str, display: str | None = None) -> Self:
        """Start headless, or headed on an X display."""
        arguments = [
            *FLAGS,
            *flags,
            f"--user-data-dir={profile}",
            *(() if display else ("--headless=new",)),
            "about:blank",
        ]
        environment = {**os.environ, **({"DISPLAY": display} if display else {})}
        process = await asyncio.create_subprocess_exec(
            chromium_path(),
            *arguments,
            env=environment,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        address = profile / "DevToolsActivePort"

        async def written() -> list[str]:
            assert process.returncode is None, f"Chromium ended at its start with {process.returncode}"
            return address.read_text().split() if address.exists() else []

        port, path = await until(written, "Chromium's DevTools address", START_LIMIT_S)
        socket = await connect(f"ws://127.0.0.1:{port}{path}", max_size=None, compression=None, proxy=None)
        return cls(process, socket)

    async def _read(self) -> None:
        with contextlib.suppress(Exception):
            async for text in self._socket:
                message = json.loads(text)
                if "id" in message:
                    future = self._waiting.pop(message["id"], None)
                    if future is not None and not future.done():
                        future.set_result(message)
                elif message.get("sessionId") in self._tabs:
                    self._tabs[message["sessionId"]].heard(message["method"], message["params"])
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the browser closed the DevTools socket"))

    async def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command; its result."""
        self._number += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._number] = future
        command = {"id": self._number, "method": method, "params": params}
        await self._socket.send(json.dumps(command | ({"sessionId": session} if session else {})))
        reply = await future
        if "error" in reply:
            raise AssertionError(f"{method}: {reply['error']['message']}")
        result: dict[str, Any] = reply["result"]
        return result

    async def tab(self) -> "Tab":
        """A new tab; it is the active one."""
        target = (await self.send("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.send("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        made = self._tabs[session] = Tab(self, target, session)
        await made.send("Page.enable")
        await made.send("Runtime.enable")
        return made

    async def close(self) -> None:
        """End the browser and all its processes."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.send("Browser.close"), 3)
        await self._socket.close()
        await self._reader
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


class Tab:
    """One tab, driven over its own DevTools session."""

    def __init__(self, browser: Browser, target: str, session: str) -> None:
        self._browser = browser
        self._target = target
        self._session = session
        self._loaded = asyncio.Event()
        self._headers: dict[str, str] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.console: list[str] = []

    def heard(self, method: str, params: dict[str, Any]) -> None:
        """An event of this tab."""
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description", ""))) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append("exception: " + params["exceptionDetails"].get("text", ""))
        elif method == "Fetch.requestPaused":
            task = asyncio.create_task(self._with_headers(params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _with_headers(self, paused: dict[str, Any]) -> None:
        kept = [h for h in paused.get("responseHeaders", []) if h["name"].lower() not in self._headers]
        added = [{"name": name, "value": value} for name, value in self._headers.items()]
        await self.send(
            "Fetch.continueResponse",
            requestId=paused["requestId"],
            responseCode=paused["responseStatusCode"],
            responseHeaders=kept + added,
        )

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command to this tab."""
        return await self._browser.send(method, self._session, **params)

    async def goto(self, url: str) -> None:
        """Navigate, and wait for the load event."""
        self._loaded.clear()
        failure = (await self.send("Page.navigate", url=url)).get("errorText")
        assert not failure, f"{failure} at {url.split('#')[0]}"
        await asyncio.wait_for(self._loaded.wait(), 20)

    async def reload(self) -> None:
        """Reload, and wait for the load event."""
        self._loaded.clear()
        await self.send("Page.reload")
        await asyncio.wait_for(self._loaded.wait(), 20)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression (a promise is awaited)."""
        reply = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"].get("exception", {}).get("description")
        return reply["result"].get("value")

    async def until(self, expression: str, what: str) -> Any:
        """Wait until an expression is truthy."""
        return await until(lambda: self.evaluate(expression), what)

    async def at_start(self, script: str) -> None:
        """Run a script in every new document before its own."""
        await self.send("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def permission(self, setting: Setting, origin: str) -> None:
        """What the person has decided about location for an origin."""
        await self._browser.send(
            "Browser.setPermission", permission={"name": "geolocation"}, setting=setting, origin=origin
        )

    async def position(self, latitude: float, longitude: float, accuracy: float) -> None:
        """Where the device is."""
        await self.send("Emulation.setGeolocationOverride", latitude=latitude, longitude=longitude, accuracy=accuracy)

    async def no_position(self) -> None:
        """A device that cannot find its position (code 2)."""
        await self.send("Emulation.setGeolocationOverride")

    async def response_headers(self, headers: dict[str, str]) -> None:
        """Set headers on every response this tab gets, as a proxy before the page would."""
        self._headers = {name.lower(): value for name, value in headers.items()}
        await self.send("Fetch.enable", patterns=[{"urlPattern": "*", "requestStage": "Response"}])

    async def activate(self) -> None:
        """Bring to the front; the tab that was there becomes hidden."""
        await self._browser.send("Target.activateTarget", targetId=self._target)

    async def hide(self) -> "Tab":
        """Open another tab before this one, and wait until this one knows; the other tab."""
        other = await self._browser.tab()
        await other.activate()
        await self.until("document.visibilityState === 'hidden'", "the tab to be hidden")
        return other

    async def close(self) -> None:
        """Close the tab as a person does."""
        await self._browser.send("Target.closeTarget", targetId=self._target)

    async def screenshot(self, path: Path) -> None:
        """A PNG of the viewport."""
        import base64

        path.write_bytes(base64.b64decode((await self.send("Page.captureScreenshot"))["data"]))


class Screen:
    """A virtual X screen for a headed browser."""

    def __init__(self, process: asyncio.subprocess.Process, display: str) -> None:
        self._process = process
        self.display = display

    @classmethod
    async def start(cls) -> Self:
        """A screen on a display number that is free."""
        for tool, package in (("Xvfb", "xvfb"), ("xdotool", "xdotool")):
            if shutil.which(tool) is None:
                pytest.skip(f"no {tool}: install Debian's package `{package}`")
        read, write = os.pipe()
        process = await asyncio.create_subprocess_exec(
            "Xvfb",
            *("-displayfd", str(write), "-screen", "0", "1000x800x24", "-nolisten", "tcp", "-noreset"),
            pass_fds=[write],
            stderr=asyncio.subprocess.DEVNULL,
        )
        os.close(write)
        # The whole line: Xvfb writes the number and the line's end apart, and dies of a pipe closed in between.
        with os.fdopen(read) as told:
            number = (await asyncio.to_thread(told.readline)).strip()
        assert number, "Xvfb ended at its start"
        screen = cls(process, f":{number}")
        # Xvfb tells its number a moment before it lets clients in.
        await until(screen.answers, "the screen to let clients in")
        return screen

    async def answers(self) -> bool:
        """Whether a client can connect."""
        return await self._xdotool("getdisplaygeometry") == 0

    async def _xdotool(self, *arguments: str) -> int:
        run = await asyncio.create_subprocess_exec(
            *("xdotool", *arguments),
            env={**os.environ, "DISPLAY": self.display},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await run.wait()

    async def click(self, x: int, y: int) -> None:
        """Move the pointer and press its first button."""
        assert await self._xdotool("mousemove", str(x), str(y), "click", "1") == 0

    async def close(self) -> None:
        """End the screen."""
        self._process.terminate()
        await self._process.wait()


CLICK_EVERY_S = 0.7
"""Chromium takes clicks within half a second of a bubble's opening, or of one another, for accidents."""


async def click_until(screen: Screen, x: int, y: int, tab: Tab, expression: str, what: str) -> None:
    """Click, as often as a person would, until the page shows an effect."""
    for _ in range(10):
        await screen.click(x, y)
        with contextlib.suppress(AssertionError):
            await until(lambda: tab.evaluate(expression), what, CLICK_EVERY_S)
            return
    raise AssertionError(f"clicked in vain for {what}")
