"""From the server's challenge to hello-ok."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from .frames import NodeWireModel, StateVersion
from .limits import (
    MAX_NODE_BUFFERED_BYTES,
    MAX_NODE_FRAME_BYTES,
    PROTOCOL_VERSION,
    TICK_INTERVAL_MS,
)
from .signing import signature_payload


class Role(StrEnum):
    """What a connection may be."""

    NODE = "node"
    OPERATOR = "operator"


class Challenge(NodeWireModel):
    """Event `connect.challenge`, the first thing that the server says."""

    nonce: str = Field(min_length=1)
    ts: int


class ClientInfo(NodeWireModel):
    """Which program connects; strings of its own choosing, never trusted."""

    id: str = Field(min_length=1)
    display_name: str | None = None
    version: str = Field(min_length=1)
    platform: str = Field(min_length=1)
    device_family: str | None = None
    model_identifier: str | None = None
    mode: str = Field(min_length=1)
    instance_id: str | None = None


class ConnectAuth(NodeWireModel):
    """The credential; at most one is used, in this order. Never shown by `repr`."""

    token: str | None = Field(default=None, repr=False)
    device_token: str | None = Field(default=None, repr=False)
    bootstrap_token: str | None = Field(default=None, repr=False)
    password: str | None = Field(default=None, repr=False)

    @property
    def signed_token(self) -> str:
        """The token that is part of the signed text."""
        return self.token or self.bootstrap_token or ""


class DeviceProof(NodeWireModel):
    """The device's key and its signature over `signature_payload`; both base64url."""

    id: str = Field(min_length=1)
    public_key: str = Field(min_length=1)
    signature: str = Field(min_length=1, repr=False)
    signed_at: int = Field(ge=0)
    nonce: str = Field(min_length=1)


def _known_booleans(value: Any) -> Any:
    # A hint, never a gate: an odd entry is no reason to refuse a node.
    return {k: v for k, v in value.items() if isinstance(v, bool)} if isinstance(value, dict) else None


class ConnectParams(NodeWireModel):
    """Parameters of `connect`, the first request. Android leaves out empty caps, commands and scopes."""

    min_protocol: int
    max_protocol: int
    client: ClientInfo
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: Annotated[dict[str, bool] | None, BeforeValidator(_known_booleans)] = None
    role: Role = Role.OPERATOR
    scopes: tuple[str, ...] = ()
    auth: ConnectAuth = ConnectAuth()
    device: DeviceProof | None = None
    locale: str | None = None
    user_agent: str | None = None

    def signed_text(self, version: Literal["v2", "v3"]) -> str:
        """What `device.signature` must sign.

        Raises:
            ValueError: there is no device.
        """
        if self.device is None:
            raise ValueError("no device")
        return signature_payload(
            version,
            device_id=self.device.id,
            client_id=self.client.id,
            client_mode=self.client.mode,
            role=self.role.value,
            scopes=self.scopes,
            signed_at_ms=self.device.signed_at,
            token=self.auth.signed_token,
            nonce=self.device.nonce,
            platform=self.client.platform,
            device_family=self.client.device_family,
        )


class ServerInfo(NodeWireModel):
    version: str
    conn_id: str


class Features(NodeWireModel):
    methods: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class Snapshot(NodeWireModel):
    presence: tuple[Any, ...] = ()
    health: dict[str, Any] = {}
    state_version: StateVersion = StateVersion()
    uptime_ms: int = 0


class HelloAuth(NodeWireModel):
    role: str
    scopes: tuple[str, ...] = ()
    device_token: str | None = Field(default=None, repr=False)


class Policy(NodeWireModel):
    """The server's limits: bytes per frame, bytes buffered, milliseconds between ticks."""

    max_payload: int = Field(default=MAX_NODE_FRAME_BYTES, ge=1)
    max_buffered_bytes: int = Field(default=MAX_NODE_BUFFERED_BYTES, ge=1)
    tick_interval_ms: int = Field(default=TICK_INTERVAL_MS, ge=1)


class HelloOk(NodeWireModel):
    """The payload that answers `connect`. Every field is sent: Swift decodes it into fixed structs."""

    type: Literal["hello-ok"] = "hello-ok"
    protocol: int = PROTOCOL_VERSION
    server: ServerInfo
    features: Features = Features()
    snapshot: Snapshot = Snapshot()
    auth: HelloAuth
    policy: Policy = Policy()


class PairingRequiredDetails(NodeWireModel):
    """Details of NOT_PAIRED. Without `wait_then_retry` the reference client stops trying for ever."""

    code: Literal["PAIRING_REQUIRED"] = "PAIRING_REQUIRED"
    reason: str = "not-paired"
    request_id: str
    recommended_next_step: str = "wait_then_retry"
    pause_reconnect: bool = False


class ProtocolMismatchDetails(NodeWireModel):
    """Details of a version range that does not meet ours."""

    code: Literal["PROTOCOL_MISMATCH"] = "PROTOCOL_MISMATCH"
    expected_protocol: int = PROTOCOL_VERSION
    client_min_protocol: int
    client_max_protocol: int
