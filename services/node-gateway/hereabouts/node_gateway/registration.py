"""A node's place in the directory."""

from hereabouts.edge.dialect import Registration
from hereabouts.schemas.node_wire import LOCATION_GET
from hereabouts.schemas.records import ClientRecord
from hereabouts.schemas.tools import LOCATION_GET_TOOL, Tool

from .handshake import Proven
from .labels import clean_label
from .questions import Admitted

TOOL_OF_COMMAND: dict[str, Tool] = {LOCATION_GET: LOCATION_GET_TOOL}
"""The commands that the gateway knows, and the tools that agents see for them."""


def known_commands(declared: tuple[str, ...]) -> tuple[str, ...]:
    """Of what a node declared, what the gateway can ask for; each once."""
    return tuple(command for command in TOOL_OF_COMMAND if command in declared)


def registration(proven: Proven, admitted: Admitted, wall_ms: int) -> Registration:
    """The node with its approved tools. There is no resume secret: another socket never inherits a node's asks."""
    client = proven.params.client
    return Registration(
        ClientRecord(
            tenant=admitted.tenant,
            session=None,
            user=admitted.user,
            kind="node",
            client_id=proven.device_id,
            connection="",
            edge="",
            epoch=0,
            since_ms=0,
            active_at_ms=wall_ms,
            tools=[TOOL_OF_COMMAND[command] for command in admitted.commands],
            label=clean_label(client.display_name),
            platform=clean_label(client.platform),
        )
    )
