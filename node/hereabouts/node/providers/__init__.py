"""What finds positions."""

from .base import Provider, provider_from
from .fixed import FixedProvider
from .gpsd import GpsdProvider
from .route import RouteProvider, read_gpx

__all__ = ["FixedProvider", "GpsdProvider", "Provider", "RouteProvider", "provider_from", "read_gpx"]
