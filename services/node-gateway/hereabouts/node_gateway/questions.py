"""What the dialect asks of I/O, and the answers. No tokens in any `repr`."""

from dataclasses import dataclass, field

from hereabouts.schemas.node_wire import DetailCode, Error, NodeWireModel, Role


@dataclass(frozen=True, slots=True)
class Admission:
    """May this device come in? It has proven its key; the credentials say for whom."""

    device_id: str
    public_key: str
    role: Role
    token: str | None = field(repr=False)
    device_token: str | None = field(repr=False)
    display_name: str | None
    platform: str
    device_family: str | None
    version: str | None
    commands: tuple[str, ...]
    """Declared commands that the gateway knows."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """Yes: under this tenant and user, with these approved commands."""

    tenant: str
    user: str
    commands: tuple[str, ...]
    device_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PairingRequired:
    """Not yet: a person has to approve this request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class CredentialRefused:
    """No: the credential is missing, not ours, or not this device's."""

    code: DetailCode


AdmissionAnswer = Admitted | PairingRequired | CredentialRefused


@dataclass(frozen=True, slots=True)
class Seen:
    """A node says it is alive."""

    tenant: str
    user: str
    device_id: str


@dataclass(frozen=True, slots=True)
class ListNodes:
    tenant: str
    user: str


@dataclass(frozen=True, slots=True)
class DescribeNode:
    tenant: str
    user: str
    node_id: str


@dataclass(frozen=True, slots=True)
class ListPairings:
    tenant: str
    user: str


@dataclass(frozen=True, slots=True)
class DecidePairing:
    tenant: str
    user: str
    request_id: str
    approve: bool


Query = Seen | ListNodes | DescribeNode | ListPairings | DecidePairing
QueryAnswer = NodeWireModel | Error
