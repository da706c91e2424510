"""`hereabouts`: the commands. Each is thin; what it does lives beside it."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hereabouts.runtime.deployment import BRAIN, BROWSER_BRIDGE, NODE_GATEWAY
from hereabouts.runtime.settings import default_data_dir
from hereabouts.schemas.answers import Granted
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.limits import MAX_PURPOSE_CHARS
from hereabouts.schemas.tools import LocationArguments

from .command import command
from .local import Local
from .place import DEV_TENANT, Place
from .session import Target

app = typer.Typer(
    name="hereabouts",
    help="Ask where the user is; their own browser tab or device answers, with consent, in time.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,  # a traceback with local variables could show a position
)
session_app = typer.Typer(help="Sessions: one conversation of a user each.", no_args_is_help=True)
node_app = typer.Typer(help="Devices: run one on this machine, let one in.", no_args_is_help=True)
app.add_typer(session_app, name="session")
app.add_typer(node_app, name="node")

console = Console()
errors = Console(stderr=True)

DataDir = Annotated[
    Path,
    typer.Option(
        envvar="HEREABOUTS_DATA_DIR",
        help="Folder of the embedded server, the secret and the dev key.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(envvar="HEREABOUTS_BRAIN_URL", help="The brain's address; default: the one that runs here."),
]
Key = Annotated[
    str | None, typer.Option(envvar="HEREABOUTS_API_KEY", help="The tenant's API key; default: the dev key.")
]
Host = Annotated[str, typer.Option(envvar="HEREABOUTS_HOST", help="Address to listen on.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(envvar="HEREABOUTS_REDIS_URL", help="Redis by URL instead of the embedded server.", show_envvar=True),
]
BrainPort = Annotated[int | None, typer.Option(min=0, max=65_535, help="Default 8710, or a free one if that is taken.")]
BrowserPort = Annotated[int | None, typer.Option(min=0, max=65_535, help="Default 8711, likewise.")]
NodePort = Annotated[int | None, typer.Option(min=0, max=65_535, help="Default 8712, likewise.")]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON and nothing else.")]

EXIT_NOT_GRANTED = 2
"""Of `ask`: an answer came, and it is not GRANTED."""


@app.command()
def up(
    data_dir: DataDir = default_data_dir(),
    host: Host = "127.0.0.1",
    redis_url: RedisUrl = None,
    brain_port: BrainPort = None,
    browser_port: BrowserPort = None,
    node_port: NodePort = None,
) -> None:
    """Start everything on this machine and serve until Ctrl-C.

    An embedded server and the three services, each a process of its own; one that crashes is started again. Makes the
    tenant [bold]dev[/] on the first start and prints its API key.
    """
    ports = _ports(brain_port, browser_port, node_port)

    async def serve() -> None:
        stop = _stop_event()
        async with Local(data_dir, host=host, ports=ports, redis_url=redis_url, say=_say) as local:
            console.print(_summary(local))
            await stop.wait()
            console.print("[dim]ending: edges, brain, server[/]")

    _run(serve())


@app.command()
def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End after the answer, with exit code 0 if it is GRANTED.")
    ] = False,
    data_dir: DataDir = default_data_dir(),
    host: Host = "127.0.0.1",
    redis_url: RedisUrl = None,
    brain_port: BrainPort = None,
    browser_port: BrowserPort = None,
    node_port: NodePort = None,
) -> None:
    """Everything up, a device on a sample route, one real call with its waterfall; then serve."""
    from . import demo as playing

    ports = _ports(brain_port, browser_port, node_port)

    async def play() -> None:
        stop = _stop_event()
        async with AsyncExitStack() as stack:
            local = await stack.enter_async_context(
                Local(data_dir, host=host, ports=ports, redis_url=redis_url, say=_say)
            )
            await stack.enter_async_context(playing.device(local))
            answer = await playing.demo(local, console, serves=not once)
            if once:
                if not isinstance(answer, Granted):
                    raise typer.Exit(EXIT_NOT_GRANTED)
                return
            console.print(_summary(local))
            await stop.wait()
            console.print("[dim]ending: device, edges, brain, server[/]")

    _run(play())


@app.command()
def ask(
    session: Annotated[str | None, typer.Option(help="Session id; default: the one made last on this machine.")] = None,
    purpose: Annotated[
        str | None, typer.Option(help=f"Why, in words that the user reads (up to {MAX_PURPOSE_CHARS} characters).")
    ] = None,
    timeout_ms: Annotated[
        float | None, typer.Option(help="Wished budget in milliseconds; default: 5,000.", show_default=False)
    ] = None,
    max_age_ms: Annotated[
        int | None,
        typer.Option(min=0, help="How old the position may be, in milliseconds; 0: only a new one. Default: 15,000."),
    ] = None,
    accuracy: Annotated[
        Literal["coarse", "balanced", "precise"] | None, typer.Option(help="How exact the position should be.")
    ] = None,
    as_json: Json = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = default_data_dir(),
) -> None:
    """Ask where the user is: one call of location_get.

    Exit code 0 with GRANTED, 2 with any other answer, 1 when there is no answer.
    """
    from .ask import Wish
    from .ask import ask as ask_once
    from .show import answer as shown

    target = Target(Place(data_dir), url, key)

    async def call() -> None:
        async with target.client() as hereabouts:
            wish = Wish(
                await target.session(hereabouts, session),
                purpose,
                timeout_ms,
                LocationArguments(desired_accuracy=accuracy, max_age_ms=max_age_ms),
            )
            answer = await ask_once(hereabouts, wish, Console(quiet=True) if as_json else console)
        if as_json:
            print(answer.model_dump_json(indent=2, exclude_none=True))
        else:
            console.print(shown(answer))
            console.print(Text(command(f"trace {answer.correlation_id}"), style="dim"))
        if not isinstance(answer, Granted):
            raise typer.Exit(EXIT_NOT_GRANTED)

    _run(call())


@app.command()
def trace(
    correlation_id: Annotated[str, typer.Argument(metavar="ID", help="The answer's correlation_id.")],
    as_json: Json = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = default_data_dir(),
) -> None:
    """Show where a call's time went: its waterfall, with the budget's line, and its story.

    Calls can be looked at for ten minutes.
    """
    from .show import invocation

    target = Target(Place(data_dir), url, key)

    async def look() -> None:
        async with target.client() as hereabouts:
            view = await hereabouts.invocation(correlation_id)
        if as_json:
            print(view.model_dump_json(indent=2, exclude_none=True))
        else:
            console.print(invocation(view, console))

    _run(look())


@session_app.command("new")
def session_new(
    user: Annotated[str | None, typer.Option(help="The user whose devices may answer too.")] = None,
    as_json: Json = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = default_data_dir(),
) -> None:
    """Make a session: prints its id, its tokens and the chat page's address."""
    target = Target(Place(data_dir), url, key)

    async def make() -> None:
        async with target.client() as hereabouts:
            made = await hereabouts.create_session(user)
        target.place.remember_session(made.session_id)
        if as_json:
            print(made.model_dump_json(indent=2))
            return
        for name, value, style in (
            ("session", made.session_id, "bold"),
            ("chat page", made.page_url, "bold"),
            ("agent token", made.agent_token, ""),
            ("client token", made.client_token, ""),
            ("socket", made.socket_url, ""),
        ):
            # One line each, however long: they are made to be copied.
            console.print(Text.assemble((f"{name:<14}", "dim"), (value, style)), soft_wrap=True)

    _run(make())


@node_app.command("run")
def node_run(
    url: Annotated[str | None, typer.Option(help="The gateway's WebSocket address.", show_default=False)] = None,
    token: Annotated[
        str | None, typer.Option(envvar="HEREABOUTS_NODE_TOKEN", help="Gateway token, from `hereabouts node token`.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            metavar="PROVIDER",
            help="Where positions come from: fixed:LAT,LON\\[,ACC], route:FILE.gpx or gpsd\\[:HOST\\[:PORT]].",
        ),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option(help="Settings file (TOML or JSON); read again at each call.", dir_okay=False)
    ] = None,
    enabled_mode: Annotated[
        Literal["off", "whileUsing", "always"] | None,
        typer.Option(help="Switch sharing without a file of your own. Without either it is off."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the device calls itself.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Where its key is kept.", file_okay=False)] = None,
) -> None:
    """Run this machine as a device that can tell its location.

    Sharing is [bold]off[/] until you say otherwise: then each call is answered with LOCATION_DISABLED.
    """
    from hereabouts.node import EnabledMode, NodeFault

    from . import devices

    if settings is not None and enabled_mode is not None:
        raise typer.BadParameter("use either --settings or --enabled-mode", param_hint="--enabled-mode")
    if enabled_mode is not None:
        settings = devices.write_settings(
            (state_dir or default_data_dir() / "node") / "enabled-mode.toml", EnabledMode(enabled_mode)
        )
    try:
        devices.run_node(
            console,
            url=url,
            token=token,
            provider=provider,
            settings_file=settings,
            state_dir=state_dir,
            display_name=name,
        )
    except NodeFault as fault:
        _fail(str(fault))


@node_app.command("token")
def node_token(
    user: Annotated[str, typer.Option(help="The user whose device it is.")],
    tenant: Annotated[str, typer.Option(help="The tenant it belongs to.")] = DEV_TENANT,
    hours: Annotated[float, typer.Option(min=0.01, help="How long the token lets devices in.")] = 24.0,
    auto_approve: Annotated[
        bool, typer.Option("--auto-approve", help="A device that shows it is paired at once.")
    ] = False,
    data_dir: DataDir = default_data_dir(),
) -> None:
    """Print a gateway token: it lets a user's devices ask to be paired.

    Signed with the secret of this machine's deployment.
    """
    from .devices import gateway_token

    try:
        print(gateway_token(data_dir, tenant, user, hours * 3_600, auto_approve))
    except HereaboutsError as error:
        _fail(str(error))


def _ports(brain: int | None, browser: int | None, node: int | None) -> dict[str, int | None]:
    return {BRAIN.name: brain, BROWSER_BRIDGE.name: browser, NODE_GATEWAY.name: node}


def _summary(local: Local) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("brain", local.state.brain_url)
    table.add_row("chat pages", local.state.browser_url)
    table.add_row("devices", local.state.node_url)
    table.add_row("tenant", DEV_TENANT)
    table.add_row("API key", Text(local.api_key, style="bold"))
    table.add_row("logs", str(local.place.data_dir / "logs"))
    table.add_row("", Text("Ctrl-C ends it", style="dim"))
    return table


def _say(text: str) -> None:
    console.print(text, highlight=False)


def _stop_event() -> asyncio.Event:
    """Set by the first Ctrl-C or SIGTERM; a second one ends the process at once, and its children see that."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ended() -> None:
        if stop.is_set():
            os._exit(1)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended)
    return stop


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command's work; an error is a sentence and exit code 1, never a traceback."""
    try:
        asyncio.run(work)
    except HereaboutsError as error:
        _fail(str(error), getattr(error, "__notes__", ()))
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(text: str, notes: "tuple[str, ...] | list[str]" = ()) -> None:
    errors.print(Text("error: ", style="bold red") + Text(text), soft_wrap=True)
    for note in notes:
        errors.print(Text(note, style="dim"))
    raise typer.Exit(1)
