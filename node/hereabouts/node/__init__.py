"""A node for Linux that answers location.get."""

from .connection import Phase, Status
from .errors import (
    GatewayRefused,
    IdentityError,
    LocationFault,
    NodeFault,
    NoFixInTime,
    ProviderUnavailable,
    SettingsError,
)
from .providers import Provider, provider_from
from .run import run
from .settings import EnabledMode, LocationSettings, NodeSettings, load_settings

__all__ = [
    "EnabledMode",
    "GatewayRefused",
    "IdentityError",
    "LocationFault",
    "LocationSettings",
    "NoFixInTime",
    "NodeFault",
    "NodeSettings",
    "Phase",
    "Provider",
    "ProviderUnavailable",
    "SettingsError",
    "Status",
    "load_settings",
    "provider_from",
    "run",
]
