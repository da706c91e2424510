"""What can go wrong in a node."""

from hereabouts.schemas.node_wire import LocationErrorCode


class NodeFault(Exception):
    """The root of this room's errors."""


class IdentityError(NodeFault):
    """The key file cannot be used."""


class SettingsError(NodeFault):
    """The settings cannot be used; the text says which field and never repeats its value."""


class GatewayRefused(NodeFault):
    """The gateway said no, and trying again with the same settings would change nothing."""


class LocationFault(NodeFault):
    """`location.get` without a position.

    Attributes:
        code: the stable code that the caller gets.
    """

    def __init__(self, code: LocationErrorCode, message: str) -> None:
        self.code = code
        super().__init__(f"{code.value}: {message}")


class ProviderUnavailable(LocationFault):
    """The provider cannot find positions at all (LOCATION_UNAVAILABLE)."""

    def __init__(self, message: str) -> None:
        super().__init__(LocationErrorCode.UNAVAILABLE, message)


class NoFixInTime(LocationFault):
    """The provider works and found nothing in time (LOCATION_TIMEOUT)."""

    def __init__(self, message: str = "no fix in time") -> None:
        super().__init__(LocationErrorCode.TIMEOUT, message)
