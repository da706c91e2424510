"""A node from start to end."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from importlib.metadata import version

from hereabouts.schemas import node_wire as wire
from hereabouts.schemas.ids import new_id

from .connection import GatewayLink, Status
from .grants import AllGranted, Grants, LoginSession, Presence
from .identity import DeviceTokens, Identity
from .location import LocationService
from .protocol import Profile
from .providers import Provider, provider_from
from .settings import LocationSwitch, NodeSettings

log = logging.getLogger(__name__)

SUPERVISED_FD = "HEREABOUTS_SUPERVISED_FD"
"""Environment: the number of an inherited pipe whose other end the supervisor holds. Its end of file is its death."""


async def run(
    settings: NodeSettings,
    *,
    provider: Provider | None = None,
    grants: Grants | None = None,
    presence: Presence | None = None,
    on_status: Callable[[Status], None] = lambda status: None,
    stop: asyncio.Event | None = None,
) -> None:
    """Connect to the gateway and answer `location.get` until SIGTERM, SIGINT, `stop`, or the supervisor's death.

    Without a provider here or in the settings the node still connects; without a settings file that says otherwise
    it answers LOCATION_DISABLED.

    Raises:
        GatewayRefused: the gateway will not have this node with these settings.
        SettingsError: the provider's short form or file cannot be used.
        IdentityError: the key file cannot be used.
    """
    found = provider or (provider_from(settings.provider) if settings.provider else None)
    service = LocationService(
        found, LocationSwitch(settings.settings_file), grants or AllGranted(), presence or LoginSession()
    )
    link = GatewayLink(
        settings.gateway_url,
        token=settings.token.get_secret_value() if settings.token else None,
        identity=Identity.load_or_create(settings.state_dir / "identity.pem"),
        tokens=DeviceTokens(settings.state_dir / "device-tokens.json"),
        profile=Profile(
            display_name=settings.display_name,
            version=version("hereabouts-node"),
            instance_id=new_id("n"),
            permissions=service.permissions(),
        ),
        handlers={wire.LOCATION_GET: service.get},
        on_status=on_status,
    )
    ended = stop or asyncio.Event()
    release = _watch_for_end(ended)
    working = asyncio.create_task(link.run())
    stopping = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        release()
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
        await service.aclose()
        if found is not None:
            await found.aclose()


def _watch_for_end(ended: asyncio.Event) -> Callable[[], None]:
    """Set `ended` on SIGTERM, SIGINT, or when the supervisor's pipe ends; returns how to stop watching."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    watched = []
    for number in signals:
        try:
            loop.add_signal_handler(number, ended.set)
            watched.append(number)
        except (RuntimeError, ValueError):
            # Only the main thread has signals; elsewhere the owner uses `stop`.
            log.debug("not in the main thread: signals are the owner's")
    fd = _supervisor_fd()

    def on_readable(fd: int) -> None:
        try:
            alive = bool(os.read(fd, 4096))
        except OSError:
            alive = False
        if not alive:
            log.info("the supervisor is gone")
            loop.remove_reader(fd)
            ended.set()

    if fd is not None:
        loop.add_reader(fd, on_readable, fd)

    def release() -> None:
        for number in watched:
            loop.remove_signal_handler(number)
        if fd is not None:
            loop.remove_reader(fd)

    return release


def _supervisor_fd() -> int | None:
    text = os.environ.get(SUPERVISED_FD, "")
    return int(text) if text.isdigit() else None
