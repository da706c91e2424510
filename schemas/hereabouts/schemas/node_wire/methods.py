"""Asking a node for something, lists of nodes, events, ticks, and what waits for a sleeping node."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field
from pydantic_core import from_json

from .frames import NodeWireModel

LOCATION_GET = "location.get"


class Method(StrEnum):
    """Requests. The first is the handshake; `node.invoke.result`, `node.event` and pending drain are a node's."""

    CONNECT = "connect"
    NODE_LIST = "node.list"
    NODE_DESCRIBE = "node.describe"
    NODE_RENAME = "node.rename"
    NODE_INVOKE = "node.invoke"
    NODE_INVOKE_RESULT = "node.invoke.result"
    NODE_EVENT = "node.event"
    NODE_PAIR_LIST = "node.pair.list"
    NODE_PAIR_APPROVE = "node.pair.approve"
    NODE_PAIR_REJECT = "node.pair.reject"
    NODE_PAIR_REMOVE = "node.pair.remove"
    NODE_PENDING_ENQUEUE = "node.pending.enqueue"
    NODE_PENDING_DRAIN = "node.pending.drain"
    NODE_PENDING_ACK = "node.pending.ack"


class EventName(StrEnum):
    """Events from the server."""

    CHALLENGE = "connect.challenge"
    TICK = "tick"
    SHUTDOWN = "shutdown"
    INVOKE_REQUEST = "node.invoke.request"
    INVOKE_CANCEL = "node.invoke.cancel"
    PAIR_REQUESTED = "node.pair.requested"
    PAIR_RESOLVED = "node.pair.resolved"


class NodeEventName(StrEnum):
    """Events that a node sends with the method `node.event`."""

    LOCATION_UPDATE = "location.update"
    PRESENCE_ALIVE = "node.presence.alive"


class Tick(NodeWireModel):
    ts: int


class NodeInvokeParams(NodeWireModel):
    """An operator asks a node (method `node.invoke`)."""

    node_id: str = Field(min_length=1)
    command: str = Field(min_length=1)
    params: Any = Field(default=None, repr=False)
    timeout_ms: int | None = Field(default=None, ge=0)
    idempotency_key: str = Field(min_length=1)


class NodeInvokeReply(NodeWireModel):
    """The operator's success. A failure's details are `NodeInvokeErrorDetails`."""

    ok: Literal[True] = True
    node_id: str
    command: str
    payload: Any = Field(default=None, repr=False)
    payload_json: str | None = Field(default=None, alias="payloadJSON", repr=False)


class NodeErrorCode(StrEnum):
    """`details.nodeError.code` where the node itself gave none."""

    TIMEOUT = "TIMEOUT"
    DISCONNECTED = "DISCONNECTED"
    NOT_CONNECTED = "NOT_CONNECTED"


class NodeError(NodeWireModel):
    """What a node says when it fails. Windows gives no code."""

    code: str | None = None
    message: str | None = None


class NodeInvokeErrorDetails(NodeWireModel):
    """Why an operator's invoke failed, and whether the node may have done it."""

    code: str | None = None
    node_error: NodeError
    node_command_dispatched: bool


class NodeInvokeRequest(NodeWireModel):
    """Event `node.invoke.request`. `timeout_ms` is what is left of the caller's time."""

    id: str = Field(min_length=1)
    node_id: str = Field(min_length=1)
    command: str = Field(min_length=1)
    params_json: str | None = Field(default=None, alias="paramsJSON", repr=False)
    timeout_ms: int | None = Field(default=None, ge=0)
    idempotency_key: str | None = None

    def params(self) -> Any:
        """The parameters as a value.

        Raises:
            ValueError: `paramsJSON` is no JSON.
        """
        return None if self.params_json is None else _read(self.params_json, "paramsJSON")


class NodeInvokeResult(NodeWireModel):
    """Request `node.invoke.result`, in any dialect: payloadJSON (iOS, macOS, Linux host), payload, error or null."""

    id: str = Field(min_length=1)
    node_id: str = Field(min_length=1)
    ok: bool
    payload: Any = Field(default=None, repr=False)
    payload_json: str | None = Field(default=None, alias="payloadJSON", repr=False)
    error: NodeError | None = Field(default=None, repr=False)

    def value(self) -> Any:
        """The payload as a value, wherever the dialect puts it.

        Raises:
            ValueError: `payloadJSON` is no JSON.
        """
        return self.payload if self.payload_json is None else _read(self.payload_json, "payloadJSON")


class Ack(NodeWireModel):
    """The answer to `node.invoke.result`; `ignored` for a late or unknown id."""

    ok: Literal[True] = True
    ignored: bool | None = None


class NodeInvokeCancel(NodeWireModel):
    """Event `node.invoke.cancel`: nobody waits for this any more."""

    invoke_id: str = Field(min_length=1)
    node_id: str = Field(min_length=1)


class ApprovalState(StrEnum):
    """Whether the node's command surface may be used."""

    APPROVED = "approved"
    PENDING_APPROVAL = "pending-approval"
    UNAPPROVED = "unapproved"


class NodeEntry(NodeWireModel):
    """One node in `node.list`. `node_id` is the device id; strings are the node's own."""

    node_id: str
    display_name: str | None = None
    platform: str | None = None
    version: str | None = None
    client_id: str | None = None
    client_mode: str | None = None
    device_family: str | None = None
    remote_ip: str | None = None
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: dict[str, bool] | None = None
    approval_state: ApprovalState | None = None
    paired: bool
    connected: bool
    connected_at_ms: int | None = None
    last_seen_at_ms: int | None = None


class NodeList(NodeWireModel):
    ts: int
    nodes: tuple[NodeEntry, ...] = ()


class NodeDescribeParams(NodeWireModel):
    node_id: str = Field(min_length=1)


class NodeDescribe(NodeEntry):
    """One entry, flat, with the time of the answer."""

    ts: int


class NodeRenameParams(NodeWireModel):
    node_id: str = Field(min_length=1)
    display_name: str = Field(min_length=1)


class NodeEventParams(NodeWireModel):
    """Request `node.event`; the payload in either spelling."""

    event: str = Field(min_length=1)
    payload: Any = Field(default=None, repr=False)
    payload_json: str | None = Field(default=None, alias="payloadJSON", repr=False)

    def value(self) -> Any:
        """The payload as a value.

        Raises:
            ValueError: `payloadJSON` is no JSON.
        """
        return self.payload if self.payload_json is None else _read(self.payload_json, "payloadJSON")


class NodeEventReply(NodeWireModel):
    ok: bool = True
    event: str
    handled: bool
    reason: str | None = None


class PresenceAlive(NodeWireModel):
    """Payload of `node.presence.alive`."""

    trigger: str
    sent_at_ms: int | None = Field(default=None, ge=0)
    display_name: str | None = None
    version: str | None = None
    platform: str | None = None
    device_family: str | None = None


class PendingItem(NodeWireModel):
    """Something that waits for a sleeping node."""

    id: str
    type: Literal["status.request", "location.request"]
    priority: Literal["default", "normal", "high"] = "normal"
    created_at_ms: int = Field(ge=0)
    expires_at_ms: int | None = None
    payload: dict[str, Any] | None = Field(default=None, repr=False)


class PendingEnqueueParams(NodeWireModel):
    node_id: str = Field(min_length=1)
    type: Literal["status.request", "location.request"]
    priority: Literal["normal", "high"] = "normal"
    expires_in_ms: int | None = Field(default=None, ge=1_000, le=86_400_000)
    wake: bool | None = None


class PendingEnqueueReply(NodeWireModel):
    node_id: str
    revision: int = Field(ge=0)
    queued: PendingItem
    wake_triggered: bool


class PendingDrainParams(NodeWireModel):
    max_items: int | None = Field(default=None, ge=1, le=10)


class PendingDrainReply(NodeWireModel):
    node_id: str
    revision: int = Field(ge=0)
    items: tuple[PendingItem, ...] = ()
    has_more: bool = False


class PendingAckParams(NodeWireModel):
    ids: tuple[str, ...] = Field(min_length=1)


def _read(text: str, field: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        # The parser's message would quote a piece of a payload that may hold a position.
        raise ValueError(f"{field} is not JSON") from None
