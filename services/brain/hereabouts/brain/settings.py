"""What the brain is told by its environment."""

from typing import ClassVar

from pydantic import Field

from hereabouts.runtime.settings import BRAIN_PORT, ServiceSettings


class BrainSettings(ServiceSettings):
    """The shared settings, with the brain's own port."""

    service: ClassVar[str] = "brain"

    port: int = Field(default=BRAIN_PORT, ge=0, le=65_535, description="port to listen on; 0 takes a free one")
