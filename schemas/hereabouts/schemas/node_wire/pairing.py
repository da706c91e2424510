"""Pairing: a device asks to be known, an operator decides."""

from enum import StrEnum

from pydantic import Field

from .frames import NodeWireModel


class PairingDecision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"


class PendingPairing(NodeWireModel):
    """A device that waits; also the payload of event `node.pair.requested`. One stable request id per device."""

    request_id: str
    node_id: str
    display_name: str | None = None
    platform: str | None = None
    version: str | None = None
    device_family: str | None = None
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] | None = None
    remote_ip: str | None = None
    is_repair: bool | None = None
    ts: int


class PairedNode(NodeWireModel):
    """A device that an operator let in. Its token is never listed."""

    node_id: str
    display_name: str | None = None
    platform: str | None = None
    version: str | None = None
    device_family: str | None = None
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] | None = None
    remote_ip: str | None = None
    created_at_ms: int | None = None
    approved_at_ms: int | None = None
    last_connected_at_ms: int | None = None


class PairingList(NodeWireModel):
    """Answer of `node.pair.list`."""

    pending: tuple[PendingPairing, ...] = ()
    paired: tuple[PairedNode, ...] = ()


class PairingDecisionParams(NodeWireModel):
    """Parameters of `node.pair.approve` and `node.pair.reject`."""

    request_id: str = Field(min_length=1)


class PairingRemoveParams(NodeWireModel):
    node_id: str = Field(min_length=1)


class PairingApproved(NodeWireModel):
    """Answer of `node.pair.approve`."""

    request_id: str
    node: PairedNode


class PairingRejected(NodeWireModel):
    """Answer of `node.pair.reject`."""

    request_id: str
    node_id: str


class PairingResolved(NodeWireModel):
    """Event `node.pair.resolved`."""

    request_id: str
    node_id: str
    decision: PairingDecision
    ts: int
