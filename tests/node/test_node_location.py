"""`location.get`: what the person, the system and the clock allow."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from hereabouts.node.errors import LocationFault, NoFixInTime
from hereabouts.node.grants import Grant
from hereabouts.node.location import BUDGET_MARGIN_MS, LocationService
from hereabouts.node.providers import Provider
from hereabouts.node.settings import EnabledMode, LocationSettings
from hereabouts.schemas.fixes import Fix, Source
from hereabouts.schemas.grid import approximate
from hereabouts.schemas.node_wire import DesiredAccuracy, parse_location_payload

NOW_MS = 1_800_000_000_123
NO_TIME_MS = BUDGET_MARGIN_MS
"""A budget that leaves nothing for the search."""


class Person:
    """Everything around the service, changed at will."""

    def __init__(self) -> None:
        self.settings = LocationSettings(enabled_mode=EnabledMode.ALWAYS)
        self.grant = Grant(foreground=True, background=True, precise=True)
        self.open = True

    def current(self) -> Grant:
        return self.grant

    def is_foreground(self) -> bool:
        return self.open


class Receiver:
    """A provider that finds the fix when the test says so."""

    def __init__(self, age_ms: int = 0) -> None:
        self.asked: list[tuple[DesiredAccuracy, int]] = []
        self.found = asyncio.Event()
        self.began = asyncio.Event()
        self.cancelled = 0
        self.age_ms = age_ms
        self.error: Exception | None = None
        self.changes: dict[str, Any] = {}

    async def fix(self, desired_accuracy: DesiredAccuracy, max_age_ms: int) -> Fix:
        self.asked.append((desired_accuracy, max_age_ms))
        self.began.set()
        try:
            await self.found.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error:
            raise self.error
        return Fix(
            **{
                "latitude": 48.20849,
                "longitude": 16.37208,
                "accuracy": 12.5,
                "timestamp_ms": NOW_MS - self.age_ms,
                "age_ms": self.age_ms,
                "source": Source.GPS,
                "altitude": 182.0,
                "speed": 1.0,
                "heading": 270.0,
                **self.changes,
            }
        )

    async def aclose(self) -> None:
        pass


def ready_receiver(age_ms: int = 0) -> Receiver:
    receiver = Receiver(age_ms)
    receiver.found.set()
    return receiver


def service(person: Person, provider: Provider | None) -> LocationService:
    return LocationService(provider, lambda: person.settings, person, person)


async def code_of(asking: Any) -> str:
    with pytest.raises(LocationFault) as caught:
        await asking
    assert str(caught.value).startswith(f"{caught.value.code}: ")
    return caught.value.code


async def test_a_fix_leaves_as_the_dialect_spells_it() -> None:
    payload = await service(Person(), ready_receiver()).get({"maxAgeMs": 0}, None)

    assert payload == {
        "lat": 48.20849,
        "lon": 16.37208,
        "accuracyMeters": 12.5,
        "altitudeMeters": 182.0,
        "speedMps": 1.0,
        "headingDeg": 270.0,
        "timestamp": "2027-01-15T08:00:00.123Z",
        "isPrecise": True,
        "source": "gps",
    }
    assert datetime.fromisoformat(payload["timestamp"]).timestamp() * 1000 == NOW_MS
    assert parse_location_payload(payload, NOW_MS + 7).age_ms == 7


@pytest.mark.parametrize(
    ("mode", "foreground", "background", "is_open", "code"),
    [
        (EnabledMode.OFF, True, True, True, "LOCATION_DISABLED"),
        (EnabledMode.OFF, False, False, False, "LOCATION_DISABLED"),
        (EnabledMode.WHILE_USING, False, False, True, "LOCATION_PERMISSION_REQUIRED"),
        (EnabledMode.ALWAYS, False, False, True, "LOCATION_PERMISSION_REQUIRED"),
        (EnabledMode.WHILE_USING, True, True, False, "LOCATION_BACKGROUND_UNAVAILABLE"),
        (EnabledMode.ALWAYS, True, False, False, "LOCATION_BACKGROUND_UNAVAILABLE"),
        (EnabledMode.WHILE_USING, True, False, True, None),
        (EnabledMode.ALWAYS, True, False, True, None),
        (EnabledMode.ALWAYS, True, True, False, None),
    ],
)
async def test_who_may_be_told(
    mode: EnabledMode, foreground: bool, background: bool, is_open: bool, code: str | None
) -> None:
    person, receiver = Person(), ready_receiver()
    person.settings = LocationSettings(enabled_mode=mode)
    person.grant = Grant(foreground=foreground, background=background, precise=True)
    person.open = is_open

    if code is None:
        assert (await service(person, receiver).get({}, None))["isPrecise"]
    else:
        assert await code_of(service(person, receiver).get({}, None)) == code
        assert receiver.asked == []


@pytest.mark.parametrize(("setting", "grant"), [(False, True), (True, False), (False, False)])
async def test_without_precise_only_the_cell_leaves(setting: bool, grant: bool) -> None:
    person = Person()
    person.settings = LocationSettings(enabled_mode=EnabledMode.ALWAYS, precise_enabled=setting)
    person.grant = Grant(foreground=True, background=True, precise=grant)

    payload = await service(person, ready_receiver()).get({}, None)

    latitude, longitude = approximate(48.20849, 16.37208)
    assert payload == {
        "lat": latitude,
        "lon": longitude,
        "accuracyMeters": 2_000,
        "timestamp": "2027-01-15T08:00:00.123Z",
        "isPrecise": False,
        "source": "gps",
    }


async def test_a_worse_accuracy_stays_in_the_cell() -> None:
    person, receiver = Person(), ready_receiver()
    person.settings = LocationSettings(enabled_mode=EnabledMode.ALWAYS, precise_enabled=False)
    receiver.changes = {"accuracy": 5_000.0}

    assert (await service(person, receiver).get({}, None))["accuracyMeters"] == 5_000


async def test_switching_off_during_the_search_counts() -> None:
    person, receiver = Person(), Receiver()
    asking = asyncio.create_task(service(person, receiver).get({}, None))
    await receiver.began.wait()

    person.settings = LocationSettings(enabled_mode=EnabledMode.OFF)
    receiver.found.set()

    assert await code_of(asking) == "LOCATION_DISABLED"


async def test_switching_precise_off_during_the_search_counts() -> None:
    person, receiver = Person(), Receiver()
    asking = asyncio.create_task(service(person, receiver).get({}, None))
    await receiver.began.wait()

    person.settings = LocationSettings(enabled_mode=EnabledMode.ALWAYS, precise_enabled=False)
    receiver.found.set()

    assert (await asking)["isPrecise"] is False


async def test_requests_that_want_the_same_share_one_search() -> None:
    receiver = Receiver()
    asked = service(Person(), receiver)
    same = [asyncio.create_task(asked.get({"maxAgeMs": 5}, None)) for _ in range(5)]
    other = asyncio.create_task(asked.get({"maxAgeMs": 5, "desiredAccuracy": "precise"}, None))
    await receiver.began.wait()
    await asyncio.sleep(0)

    receiver.found.set()
    payloads = await asyncio.gather(*same, other)

    assert receiver.asked == [(DesiredAccuracy.BALANCED, 5), (DesiredAccuracy.PRECISE, 5)]
    assert all(payload == payloads[0] for payload in payloads)
    await asked.get({"maxAgeMs": 5}, None)
    assert len(receiver.asked) == 3


async def test_a_search_that_nobody_waits_for_ends() -> None:
    receiver = Receiver()
    asked = service(Person(), receiver)
    first = asyncio.create_task(asked.get({}, None))
    second = asyncio.create_task(asked.get({}, None))
    await receiver.began.wait()
    await asyncio.sleep(0)

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert receiver.cancelled == 0
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.sleep(0)

    assert receiver.cancelled == 1


async def test_one_who_gives_up_leaves_the_search_to_the_others() -> None:
    receiver = Receiver()
    asked = service(Person(), receiver)
    patient = asyncio.create_task(asked.get({}, None))
    await receiver.began.wait()

    assert await code_of(asked.get({}, NO_TIME_MS)) == "LOCATION_TIMEOUT"
    receiver.found.set()

    assert (await patient)["isPrecise"]


async def test_no_fix_within_the_callers_time_is_a_timeout_and_ends_the_search() -> None:
    receiver = Receiver()

    assert await code_of(service(Person(), receiver).get({"timeoutMs": 60_000}, NO_TIME_MS)) == "LOCATION_TIMEOUT"
    await asyncio.sleep(0)

    assert receiver.cancelled == len(receiver.asked)


async def test_a_fix_that_is_too_old_is_not_told() -> None:
    asked = service(Person(), ready_receiver(age_ms=20_000))

    assert await code_of(asked.get({"maxAgeMs": 15_000}, None)) == "LOCATION_TIMEOUT"
    assert (await asked.get({"maxAgeMs": 20_000}, None))["isPrecise"]


async def test_no_provider_is_unavailable() -> None:
    assert await code_of(service(Person(), None).get({}, None)) == "LOCATION_UNAVAILABLE"


@pytest.mark.parametrize(
    ("error", "code"),
    [(NoFixInTime(), "LOCATION_TIMEOUT"), (RuntimeError("at 48.20849,16.37208"), "LOCATION_UNAVAILABLE")],
)
async def test_a_provider_that_fails_has_a_code_and_tells_nothing(error: Exception, code: str) -> None:
    receiver = ready_receiver()
    receiver.error = error

    with pytest.raises(LocationFault) as caught:
        await service(Person(), receiver).get({}, None)

    assert caught.value.code == code
    assert "48" not in str(caught.value)


@pytest.mark.parametrize("changes", [{"latitude": 91.5}, {"longitude": -200.0}, {"accuracy": -1.0}])
async def test_a_provider_that_lies_is_unavailable(changes: dict[str, Any]) -> None:
    receiver = ready_receiver()
    receiver.changes = changes

    assert await code_of(service(Person(), receiver).get({}, None)) == "LOCATION_UNAVAILABLE"


async def test_closing_ends_the_search() -> None:
    receiver = Receiver()
    asked = service(Person(), receiver)
    asking = asyncio.create_task(asked.get({}, None))
    await receiver.began.wait()

    await asked.aclose()
    await asyncio.gather(asking, return_exceptions=True)

    assert receiver.cancelled == 1


async def test_the_permissions_map_tells_the_systems_grant_and_not_the_setting() -> None:
    person = Person()
    person.settings = LocationSettings(enabled_mode=EnabledMode.OFF)

    assert service(person, None).permissions() == {"location": True}
