"""Wires the brain together and gives it a life."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from hereabouts.bus.port import Bus
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.bus.server import bus_url
from hereabouts.runtime import logs
from hereabouts.runtime.health import health_routes
from hereabouts.runtime.keyring import KeyRing, load_keyring
from hereabouts.runtime.serving import serve
from hereabouts.runtime.spans import SpanExport
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.records import Role

from . import failures, openapi
from .auth import Callers
from .calls import Calls
from .routes import INVOCATION, Api
from .sessions import Sessions
from .settings import BrainSettings

VERSION = "0.1.0"


class _App(FastAPI):
    """FastAPI, with a short way past its eleven layers for the invocation, which they would cost a tenth of its time.

    The route stands in the router as well: for other methods, and for the document.
    """

    hot: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        if self.hot is not None and scope["type"] == "http" and scope["method"] == "POST" and not scope["root_path"]:
            match = INVOCATION.fullmatch(scope["path"])
            if match is not None:
                scope["path_params"] = {"session_id": match[1]}
                await self.hot(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


class Brain:
    """One brain process: its calls, and the ASGI app in front of them."""

    def __init__(self, bus: Bus, settings: BrainSettings, keyring: KeyRing, spans: SpanExport) -> None:
        self.bus = bus
        self.calls = Calls(bus, spans)
        tokens = Tokens(keyring)
        api = Api(bus, Callers(bus, tokens), Sessions(bus, tokens, settings.browser_url), self.calls)
        self.app = _App(
            title="Hereabouts",
            version=VERSION,
            description="Ask where the user is; their own browser tab or device answers, with consent, in time.",
            lifespan=self._lifespan,
            redirect_slashes=False,
            docs_url=None,
            redoc_url=None,
            # Its own would tell exceptions' texts, and asks the environment at each request.
            telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        )
        failures.install(self.app)
        # First, so that the hot path is the first that is matched.
        self.app.router.routes.insert(0, api.invocation_route())
        self.app.hot = failures.LastResort(api.invocation_app)
        self.app.include_router(api.router())
        self.app.router.routes.extend(health_routes("brain", {"bus": bus.problem, "calls": self.calls.problem}))
        self.app.openapi = lambda: openapi.document(self.app)  # type: ignore[method-assign]

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        await self.bus.start(self.calls.on_messages, on_lost=self.calls.on_lost)
        try:
            yield
        finally:
            await self.bus.stop()

    async def drain(self) -> None:
        """Take no new calls and wait until every accepted one has its answer."""
        await self.calls.drain()


def run() -> None:
    """The whole process, as the environment says.

    Raises:
        SystemExit: always, see `hereabouts.runtime.serving.serve`.
    """
    settings = BrainSettings()
    logs.configure(settings, settings.service)
    keyring = load_keyring(settings)
    url = bus_url(settings.redis_url, settings.data_dir)
    bus = RedisBus(url, Role.BRAIN, Sealer(keyring.sealing_keys, keyring.sealing_key_id))
    spans = SpanExport.from_settings(settings)
    brain = Brain(bus, settings, keyring, spans)
    try:
        serve(brain.app, settings, drain=brain.drain)
    finally:
        spans.close()
