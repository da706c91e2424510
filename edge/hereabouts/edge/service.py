"""What a service adds to an edge: its dialect, its resolver, its HTTP side."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.routing import BaseRoute

from hereabouts.schemas.marks import Service

from .dialect import Dialect, Peer


def admit_all(peer: Peer) -> bool:
    """No check before the handshake."""
    return True


@dataclass(frozen=True, slots=True)
class EdgeService:
    """One kind of edge."""

    name: Service
    """This process's `service.name`, and `by` in the journal."""
    client: Service
    """The `service.name` of its clients' spans."""
    kind: Literal["tab", "node"]
    path: str
    """Where its WebSocket is."""
    also_at: Sequence[str] = field(default=(), kw_only=True)
    """Other paths of the same WebSocket."""
    dialect: Callable[[Peer, str], Dialect]
    """Makes the state machine of a new socket; the text is the connection's name, unique for all time."""
    resolve: Callable[[Any], Awaitable[Any]]
    """Answers a Question's `about`; may raise, then the dialect hears `unresolved`."""
    admit: Callable[[Peer], bool] = admit_all
    """Before the handshake: false is answered with 403."""
    routes: Sequence[BaseRoute] = ()
    checks: Mapping[str, Callable[[], str | None]] = field(default_factory=dict)
    """More causes for `/readyz` beside the bus's own."""
