"""The wiring: which dialect, which resolver, which pages."""

import secrets

from hereabouts.bus.port import Bus
from hereabouts.edge.app import serve_edge
from hereabouts.edge.dialect import Peer
from hereabouts.edge.service import EdgeService
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import Claims, TokenKind
from hereabouts.schemas.marks import Service

from .dialect import BrowserDialect
from .exchange import SOCKET_PATH, exchange_routes
from .origins import is_origin, origin_of
from .pages import page_routes
from .resolver import Resolver
from .settings import BrowserBridgeSettings


def browser_bridge(bus: Bus, keyring: KeyRing, browser_url: str) -> EdgeService:
    """The service of this process for an edge. `browser_url` is its own public address."""
    tokens = Tokens(keyring)
    own_origin = origin_of(browser_url)

    def verify(text: str) -> Claims:
        return tokens.verify(text, TokenKind.CLIENT)

    def dialect(peer: Peer, connection: str) -> BrowserDialect:
        return BrowserDialect(peer, connection, own_origin=own_origin, verify=verify, new_secret=secrets.token_urlsafe)

    return EdgeService(
        name=Service.BROWSER_BRIDGE,
        client=Service.BROWSER,
        kind="tab",
        path=SOCKET_PATH,
        dialect=dialect,
        resolve=Resolver(bus),
        admit=lambda peer: is_origin(peer.origin),
        # The exchange first: `/chat/{name}` would take its path.
        routes=[*exchange_routes(bus), *page_routes(browser_url)],
    )


def main() -> None:
    """Run the bridge until it is told to end.

    Raises:
        SystemExit: always; 0 after a signal.
    """
    settings = BrowserBridgeSettings()
    serve_edge(settings, lambda bus, keyring: browser_bridge(bus, keyring, settings.browser_url))
