"""What the browser bridge is told by its environment."""

from typing import ClassVar

from pydantic import Field

from hereabouts.runtime.settings import BROWSER_BRIDGE_PORT, ServiceSettings
from hereabouts.schemas.marks import Service


class BrowserBridgeSettings(ServiceSettings):
    """See `ServiceSettings`. `browser_url` is this service's own public address: pages of its origin may connect."""

    service: ClassVar[str] = Service.BROWSER_BRIDGE.value

    port: int = Field(default=BROWSER_BRIDGE_PORT, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
