"""What is kept in Redis about tenants, sessions, clients and devices."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from .base import EpochMs, Model
from .tools import Tool


class Role(StrEnum):
    """What a process is on the bus. It is the first part of its instance's name."""

    BRAIN = "brain"
    EDGE = "edge"


class TenantRecord(Model):
    """A platform. Its API keys are kept as SHA-256 (they are 256 random bits: no slow hash is needed)."""

    tenant: str
    name: str
    api_key_sha256: list[str]
    allowed_origins: list[str] = Field(default=[], description="exact origins of pages; empty: the bridge's own")
    created_at_ms: EpochMs


class SessionRecord(Model):
    """One conversation of a user."""

    tenant: str
    session: str
    user: str | None
    created_at_ms: EpochMs
    expires_at_ms: EpochMs


class PageCode(Model):
    """What a chat page's one-time code stands for. Kept sealed, taken once."""

    tenant: str
    session: str
    user: str | None
    token: str


class ClientRecord(Model):
    """One live client in the directory. It counts while its edge holds the lease of this epoch."""

    tenant: str
    session: str | None = Field(description="the session of a tab; None for a node")
    user: str | None
    kind: Literal["tab", "node"]
    client_id: str = Field(description="a tab's own id, or a node's device id")
    connection: str = Field(description="the socket; a new one for each connection")
    edge: str = Field(description="instance that holds the socket")
    epoch: int = Field(description="the edge's epoch when it registered this")
    since_ms: EpochMs
    active_at_ms: EpochMs = Field(description="when the client last became visible or focused")
    tools: list[Tool]
    visibility: Literal["visible", "hidden"] = "visible"
    focused: bool = False
    permission: Literal["granted", "denied", "prompt", "unknown"] = "unknown"
    sharing: Literal["on", "off"] = "on"
    precision: Literal["precise", "approximate"] = "precise"
    time_zone: str | None = None
    languages: list[str] = Field(default_factory=list)
    label: str | None = Field(default=None, description="client-made text, cleaned and cut")
    platform: str | None = None


class PairingState(StrEnum):
    """Whether a device may connect."""

    PENDING = "pending"
    APPROVED = "approved"


class PairingRecord(Model):
    """A device under a tenant and a user. Never expires while approved; a request that is not approved does."""

    tenant: str
    user: str
    device_id: str
    public_key: str = Field(description="raw Ed25519 key, base64url")
    state: PairingState
    request_id: str
    role: Literal["node", "operator"] = Field(
        default="node", description="what the device may be; one never passes for the other"
    )
    display_name: str | None = None
    platform: str | None = None
    device_family: str | None = None
    version: str | None = None
    commands: list[str] = Field(default=[], description="commands that are approved, or with PENDING would be")
    device_token_sha256: str | None = None
    requested_at_ms: EpochMs
    approved_at_ms: EpochMs | None = None
    last_seen_at_ms: EpochMs | None = None
