"""`hereabouts demo`, which `make run` runs: everything up, a device on a route, one real call, its waterfall."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from importlib.resources import as_file, files

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from hereabouts.client import Hereabouts, LocationAnswer
from hereabouts.node import EnabledMode
from hereabouts.runtime.processes import Process
from hereabouts.runtime.settings import socket_url
from hereabouts.schemas.errors import HereaboutsError, NotFound
from hereabouts.schemas.http import InvocationView, SessionCreated
from hereabouts.schemas.tools import LOCATION_GET

from . import show
from .ask import Wish, ask
from .command import command
from .devices import gateway_token, write_settings
from .local import Local
from .place import DEV_TENANT

USER = "demo"
PURPOSE = "To show you what an agent gets"
DEVICE_S = 30.0
"""A device starts, connects, is paired and registers in about a second; the rest is for slow machines."""

TOKEN_S = 24 * 3_600
STORY_S = 5.0
LOOK_S = 0.05


class DeviceMissing(HereaboutsError):
    code = "device_missing"
    template = "The demo's device did not connect within {seconds:g} s. Its log, {log_file}, ends with:\n{tail}"


async def demo(local: Local, console: Console, *, serves: bool) -> LocationAnswer:
    """A session, one real call to the connected device, its answer and its waterfall on the terminal.

    Args:
        serves: everything stays up afterwards, so what to try next is said.

    Raises:
        HereaboutsError: says what is wrong.
    """
    async with Hereabouts(local.state.brain_url, local.api_key) as hereabouts:
        session = await hereabouts.create_session(USER)
        local.place.remember_session(session.session_id)
        await _device_connected(hereabouts, session.session_id, local)
        console.print(Rule("one call", style="dim"))
        answer = await ask(hereabouts, Wish(session.session_id, PURPOSE), console)
        console.print(show.answer(answer))
        console.print(Rule("where its time went", style="dim"))
        console.print(show.invocation(await _settled(hereabouts, answer.correlation_id), console))
        if serves:
            console.print(Rule("try it", style="dim"))
            console.print(_addresses(session), soft_wrap=True)
        else:
            console.print("To open the chat page and ask again, leave it running: make run", style="dim")
        return answer


@contextlib.asynccontextmanager
async def device(local: Local) -> AsyncIterator[Process]:
    """A device of the demo's user, walking the sample route. Its sharing is switched on by a settings file."""
    folder = local.place.data_dir / "demo-device"
    settings = write_settings(folder / "node.toml", EnabledMode.ALWAYS)
    token = gateway_token(local.place.data_dir, DEV_TENANT, USER, TOKEN_S, auto_approve=True)
    with as_file(files("hereabouts.cli") / "route.gpx") as route:
        process = Process(
            "demo-device",
            "hereabouts.node",
            environment=dict(os.environ)
            | {
                "HEREABOUTS_NODE_GATEWAY_URL": socket_url(local.state.node_url, "/"),
                "HEREABOUTS_NODE_TOKEN": token,
                "HEREABOUTS_NODE_PROVIDER": f"route:{route}",
                "HEREABOUTS_NODE_SETTINGS_FILE": str(settings),
                "HEREABOUTS_NODE_STATE_DIR": str(folder),
                "HEREABOUTS_NODE_DISPLAY_NAME": "Demo device",
            },
            log_file=local.log_file("demo-device"),
        )
        process.start()
        try:
            yield process
        finally:
            await asyncio.to_thread(process.stop, 5.0)


async def _device_connected(hereabouts: Hereabouts, session: str, local: Local) -> None:
    """Wait until the session has a client that tells locations."""
    try:
        async with asyncio.timeout(DEVICE_S):
            while True:
                if any(tool.name == LOCATION_GET for tool in await hereabouts.tools(session)):
                    return
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        log = local.log_file("demo-device")
        tail = log.read_text(errors="replace")[-2_000:].strip() if log.exists() else ""
        raise DeviceMissing(seconds=DEVICE_S, log_file=str(log), tail=tail) from None


async def _settled(hereabouts: Hereabouts, correlation_id: str) -> InvocationView:
    """The call's story once its last line is in the journal: it is written beside the answer, not before it."""
    try:
        async with asyncio.timeout(STORY_S):
            while True:
                with contextlib.suppress(NotFound):
                    view = await hereabouts.invocation(correlation_id)
                    if view.state == "settled":
                        return view
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise NotFound(what="call") from None


def _addresses(session: SessionCreated) -> Text:
    text = Text()
    text.append("chat page   ", style="dim")
    text.append(session.page_url, style="bold")
    text.append(f'\n            open it and let the agent ask: {command("ask")} --purpose "…"', style="dim")
    text.append(f"\n            it works once, within ten minutes; another: {command('session new')}", style="dim")
    return text
