"""The wiring: which dialect, which resolver, where the socket is."""

from importlib.metadata import version

from hereabouts.bus.port import Bus
from hereabouts.edge.app import serve_edge
from hereabouts.edge.service import EdgeService
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.marks import Service

from .dialect import Gateway, NodeDialect
from .resolver import Resolver, wall_clock_ms
from .settings import NodeGatewaySettings

PATH = "/"
"""Where OpenClaw's clients connect when an address names no path."""

ALSO_AT = ("/ws",)


def node_gateway(bus: Bus, keyring: KeyRing) -> EdgeService:
    """The service of this process for an edge."""
    gateway = Gateway(version=version("hereabouts-node-gateway"), started_wall_ms=wall_clock_ms())
    return EdgeService(
        name=Service.NODE_GATEWAY,
        client=Service.NODE,
        kind="node",
        path=PATH,
        also_at=ALSO_AT,
        dialect=lambda peer, connection: NodeDialect(gateway),
        resolve=Resolver(bus, Tokens(keyring)),
    )


def main() -> None:
    """Run the gateway until it is told to end.

    Raises:
        SystemExit: always; 0 after a signal.
    """
    serve_edge(NodeGatewaySettings(), node_gateway)
