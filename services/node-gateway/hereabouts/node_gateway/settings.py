"""What the node gateway is told by its environment."""

from typing import ClassVar

from pydantic import Field

from hereabouts.runtime.settings import NODE_GATEWAY_PORT, ServiceSettings
from hereabouts.schemas.marks import Service


class NodeGatewaySettings(ServiceSettings):
    """See `ServiceSettings`."""

    service: ClassVar[str] = Service.NODE_GATEWAY.value

    port: int = Field(default=NODE_GATEWAY_PORT, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
