"""The port of a position provider, and its short form on the command line."""

from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs

from hereabouts.schemas.fixes import Fix
from hereabouts.schemas.node_wire import DesiredAccuracy

from ..errors import SettingsError


class Provider(Protocol):
    """Finds this device's position."""

    async def fix(self, desired_accuracy: DesiredAccuracy, max_age_ms: int) -> Fix:
        """A fix no older than `max_age_ms`; takes as long as it needs and is cancelled when nobody waits.

        Raises:
            NoFixInTime: it gave up looking.
            ProviderUnavailable: it cannot work.
        """
        ...

    async def aclose(self) -> None:
        """Let go of devices and files."""
        ...


def provider_from(text: str) -> Provider:
    """A provider from its short form.

    `fixed:LAT,LON[,ACCURACY_M]`, `route:FILE.gpx[?speed=M_PER_S&factor=N&loop=no]` or `gpsd[:HOST[:PORT]]`.

    Raises:
        SettingsError: not such a form; the text does not repeat a position.
    """
    from .fixed import FixedProvider
    from .gpsd import gpsd_from
    from .route import RouteProvider, read_gpx

    kind, _, rest = text.partition(":")
    if kind == "fixed":
        try:
            numbers = [float(part) for part in rest.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == 2:
            return FixedProvider(numbers[0], numbers[1])
        if len(numbers) == 3:
            return FixedProvider(numbers[0], numbers[1], numbers[2])
        raise SettingsError("provider: write fixed:LATITUDE,LONGITUDE or fixed:LATITUDE,LONGITUDE,ACCURACY_M")
    if kind == "route":
        file, _, query = rest.partition("?")
        options = {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
        if unknown := options.keys() - {"speed", "factor", "loop"}:
            raise SettingsError(f"provider: route has no option {sorted(unknown)[0]!r}; it has speed, factor and loop")
        return RouteProvider(
            read_gpx(Path(file)),
            speed_mps=_positive(options, "speed"),
            factor=_positive(options, "factor") or 1.0,
            loop=options.get("loop", "yes").lower() not in {"no", "false", "0"},
        )
    if kind == "gpsd":
        return gpsd_from(rest)
    raise SettingsError("provider: must be fixed:LATITUDE,LONGITUDE, route:FILE.gpx or gpsd[:HOST[:PORT]]")


def _positive(options: dict[str, str], name: str) -> float | None:
    if name not in options:
        return None
    try:
        number = float(options[name])
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise SettingsError(f"provider: {name} must be a number above 0")
    return number
