"""`location.get` on this device: the person's settings, the system's grant, the provider, and what leaves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from hereabouts.schemas.fixes import Fix, Precision
from hereabouts.schemas.grid import APPROXIMATE_ACCURACY_M, approximate
from hereabouts.schemas.node_wire import DesiredAccuracy, LocationErrorCode, LocationParams, LocationPayload

from .errors import LocationFault, NoFixInTime, ProviderUnavailable
from .grants import Grants, Presence
from .providers import Provider
from .settings import EnabledMode, LocationSettings

BUDGET_MARGIN_MS = 200
"""Kept back from the caller's time, so that LOCATION_TIMEOUT arrives before the gateway gives up on this node."""


@dataclass(slots=True)
class _Search:
    task: asyncio.Task[Fix]
    waiting: int = 0


class LocationService:
    """Answers `location.get`.

    Args:
        provider: None means that this node has none (LOCATION_UNAVAILABLE).
        settings: what the person allows now; called before the search and again before the answer leaves.
        grants: what the system allows now.
        presence: whether the node counts as open, for the mode While Using.
    """

    def __init__(
        self,
        provider: Provider | None,
        settings: Callable[[], LocationSettings],
        grants: Grants,
        presence: Presence,
    ) -> None:
        self._provider = provider
        self._settings = settings
        self._grants = grants
        self._presence = presence
        self._searches: dict[tuple[DesiredAccuracy, int], _Search] = {}

    async def get(self, params: Any, budget_ms: int | None) -> dict[str, Any]:
        """The payload of `location.get` for parameters in either spelling.

        `budget_ms` is what is left of the caller's time; the search never takes longer. Requests that want the same
        share one search.

        Raises:
            LocationFault: with one of the five stable codes.
        """
        wanted = LocationParams.model_validate(params)
        self._gate()
        timeout_ms = wanted.timeout_ms
        if budget_ms is not None:
            timeout_ms = min(timeout_ms, max(0, budget_ms - BUDGET_MARGIN_MS))
        fix = await self._search(wanted, timeout_ms)
        # A provider is asked for no older fix, and not believed: a stale position is not where the person is.
        if fix.age_ms > wanted.max_age_ms:
            raise NoFixInTime
        # The person may have switched sharing off, or to approximate, while the search ran.
        precise = self._gate()
        return _payload(fix if precise else _approximate(fix))

    def permissions(self) -> dict[str, bool]:
        """The permissions map of `connect`: what the system grants. The person's settings are nobody's business."""
        return {"location": self._grants.current().foreground}

    async def aclose(self) -> None:
        """End the searches that are under way."""
        tasks = [search.task for search in self._searches.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _gate(self) -> bool:
        """Whether the position may be told at all (else raises), and precisely (the answer)."""
        settings, grant = self._settings(), self._grants.current()
        if settings.enabled_mode is EnabledMode.OFF:
            raise LocationFault(LocationErrorCode.DISABLED, "Location sharing is disabled.")
        if not grant.foreground:
            raise LocationFault(LocationErrorCode.PERMISSION_REQUIRED, "The system does not grant the position.")
        in_background = settings.enabled_mode is EnabledMode.ALWAYS and grant.background
        if not in_background and not self._presence.is_foreground():
            raise LocationFault(LocationErrorCode.BACKGROUND_UNAVAILABLE, "Only when Hereabouts is open.")
        return settings.precise_enabled and grant.precise

    async def _search(self, wanted: LocationParams, timeout_ms: int) -> Fix:
        if self._provider is None:
            raise ProviderUnavailable("this node has no position provider")
        key = (wanted.desired_accuracy, wanted.max_age_ms)
        search = self._searches.get(key)
        if search is None:
            search = _Search(asyncio.create_task(_fix(self._provider, wanted)))
            self._searches[key] = search
            search.task.add_done_callback(lambda _: self._forget(key, search))
        search.waiting += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(search.task)
        except TimeoutError:
            raise NoFixInTime from None
        finally:
            search.waiting -= 1
            if search.waiting == 0 and not search.task.done():
                self._forget(key, search)
                search.task.cancel()

    def _forget(self, key: tuple[DesiredAccuracy, int], search: _Search) -> None:
        if self._searches.get(key) is search:
            del self._searches[key]
        if search.task.done() and not search.task.cancelled():
            search.task.exception()  # seen, also when every waiter had left


async def _fix(provider: Provider, wanted: LocationParams) -> Fix:
    """Ask the provider; whatever goes wrong in it has a stable code and tells nothing of where."""
    try:
        return await provider.fix(wanted.desired_accuracy, wanted.max_age_ms)
    except LocationFault:
        raise
    except Exception as error:
        raise ProviderUnavailable(f"the provider failed ({type(error).__name__})") from None


def _approximate(fix: Fix) -> Fix:
    """The cell instead of the place. What could give the place away again is left out."""
    latitude, longitude = approximate(fix.latitude, fix.longitude)
    return fix.model_copy(
        update={
            "latitude": latitude,
            "longitude": longitude,
            "accuracy": max(fix.accuracy, float(APPROXIMATE_ACCURACY_M)),
            "precision": Precision.APPROXIMATE,
            "altitude": None,
            "altitude_accuracy": None,
            "speed": None,
            "heading": None,
        }
    )


def _payload(fix: Fix) -> dict[str, Any]:
    try:
        payload = LocationPayload(
            lat=fix.latitude,
            lon=fix.longitude,
            accuracy_meters=fix.accuracy,
            altitude_meters=fix.altitude,
            speed_mps=fix.speed,
            heading_deg=fix.heading,
            timestamp=_iso(fix.timestamp_ms),
            is_precise=fix.precision is Precision.PRECISE,
            source=fix.source,
        )
    except (ValidationError, ValueError, OverflowError):
        raise ProviderUnavailable("the provider gave no valid position") from None
    return payload.wire()


def _iso(epoch_ms: int) -> str:
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
