"""What results are worth, which position wins, which refusal is told."""

import itertools
import math
from typing import Any

import pytest

from hereabouts.brain.answers import iso, known_time_zone, region_of
from hereabouts.brain.merging import Grant, NeedsPrompt, Refusal, best, in_conflict, judge, most_telling, rank
from hereabouts.schemas.outcomes import OUTCOMES, WOULD_PROMPT, Reason, Status
from hereabouts.schemas.tools import LOCATION_GET


def judged(client: Any, result: Any, *, max_age_ms: int = 0, open_for_ms: float = 0, tool: str = LOCATION_GET) -> Any:
    return judge(tool, client, result, max_age_ms=max_age_ms, open_for_ms=open_for_ms)


def test_a_good_fix_is_a_grant(client: Any, result: Any) -> None:
    tab = client()
    assert isinstance(judged(tab, result(tab)), Grant)


@pytest.mark.parametrize(
    "wrong",
    [
        {"latitude": 0.0, "longitude": 0.0},
        {"latitude": 90.1},
        {"longitude": -180.1},
        {"accuracy": -1.0},
        {"accuracy": 3e7},
        {"age_ms": -200_000},
        {"age_ms": 400 * 24 * 3_600_000},
    ],
)
def test_what_cannot_be_true(client: Any, result: Any, fix: Any, wrong: dict[str, Any]) -> None:
    tab = client()
    verdict = judged(tab, result(tab, fix=fix(**wrong)), max_age_ms=10**12)
    assert isinstance(verdict, Refusal)
    assert verdict.reason is Reason.IMPLAUSIBLE


def test_not_finite_is_implausible(client: Any, result: Any, fix: Any) -> None:
    tab = client()
    broken = fix().model_copy(update={"latitude": math.nan})
    assert judged(tab, result(tab).model_copy(update={"fix": broken})).reason is Reason.IMPLAUSIBLE


@pytest.mark.parametrize(
    ("kind", "age_ms", "max_age_ms", "open_for_ms", "fresh"),
    [
        ("tab", 0, 0, 0, True),
        ("tab", 1_000, 0, 0, True),  # providers cut to whole seconds
        ("tab", 1_001, 0, 0, False),
        ("tab", 4_000, 0, 3_000, True),  # found since it was asked
        ("tab", 61_001, 60_000, 0, False),
        ("node", 5_000, 0, 0, True),  # two clocks
        ("node", 5_001, 0, 0, False),
        ("node", 20_000, 15_000, 0, True),
    ],
)
def test_age(
    client: Any, result: Any, fix: Any, kind: str, age_ms: int, max_age_ms: int, open_for_ms: int, fresh: bool
) -> None:
    asked = client(kind=kind)
    verdict = judged(asked, result(asked, fix=fix(age_ms=age_ms)), max_age_ms=max_age_ms, open_for_ms=open_for_ms)
    assert isinstance(verdict, Grant) is fresh
    if not fresh:
        assert verdict.reason is Reason.STALE


def test_would_prompt_is_no_refusal(client: Any, result: Any) -> None:
    tab = client()
    assert judged(tab, result(tab, reason=WOULD_PROMPT)) == NeedsPrompt(tab)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": Status.DECLINED, "reason": None},
        {"status": Status.DECLINED, "reason": Reason.PROMPT_OPEN},
        {"status": Status.GRANTED, "fix": None},
    ],
)
def test_a_client_that_speaks_wrongly(client: Any, result: Any, wrong: dict[str, Any]) -> None:
    tab = client()
    assert judged(tab, result(tab).model_copy(update=wrong)).reason is Reason.CLIENT_ERROR


def test_the_wanted_accuracy_then_the_newest_then_the_smallest_wins(client: Any, result: Any, fix: Any) -> None:
    def grant(name: str, **fields: Any) -> Grant:
        tab = client(name=name)
        return Grant(tab, result(tab, fix=fix(**fields)))

    coarse_new = grant("a", accuracy=500.0, age_ms=0)
    fine_old = grant("b", accuracy=50.0, age_ms=9_000)
    fine_new = grant("c", accuracy=80.0, age_ms=1_000)
    finest_new = grant("d", accuracy=20.0, age_ms=1_000)
    everyone = [coarse_new, fine_old, fine_new, finest_new]
    assert best(everyone, None) is coarse_new
    assert best(everyone, 100.0) is finest_new
    assert best([coarse_new, fine_old], 100.0) is fine_old
    assert best([coarse_new], 100.0) is coarse_new  # a wish, not a gate
    with pytest.raises(ValueError):
        best([], None)


def test_two_places_at_once_are_a_conflict(client: Any, result: Any, fix: Any) -> None:
    def grant(**fields: Any) -> Grant:
        tab = client()
        return Grant(tab, result(tab, fix=fix(**fields)))

    vienna, near, graz = grant(), grant(latitude=48.2001), grant(latitude=47.07, longitude=15.44)
    yesterday = grant(latitude=47.07, longitude=15.44, age_ms=86_400_000)
    assert not in_conflict([vienna])
    assert not in_conflict([vienna, near])
    assert in_conflict([vienna, graz])
    assert not in_conflict([vienna, yesterday])
    assert not in_conflict([vienna, grant(latitude=47.07, longitude=15.44, accuracy=200_000.0)])


def told(client: Any, *refusals: tuple[Reason, bool]) -> Reason:
    chosen = most_telling([Refusal(client(), reason, by_person=by_person) for reason, by_person in refusals])
    assert chosen is not None
    return chosen.reason


@pytest.mark.parametrize(
    ("refusals", "reason"),
    [
        ([(Reason.PROMPT_OPEN, False), (Reason.DENIED, True)], Reason.DENIED),
        ([(Reason.PROMPT_OPEN, False), (Reason.DENIED, False)], Reason.PROMPT_OPEN),
        ([(Reason.EDGE_LOST, False), (Reason.SHARING_OFF, False)], Reason.EDGE_LOST),
        ([(Reason.TIMEOUT, False), (Reason.SHARING_OFF, False)], Reason.SHARING_OFF),
        ([(Reason.CLIENT_SILENT, False), (Reason.POSITION_UNAVAILABLE, False)], Reason.POSITION_UNAVAILABLE),
        ([(Reason.DEADLINE, False), (Reason.STALE, False)], Reason.STALE),
        ([(Reason.DISMISSED, True), (Reason.ACQUIRING, False), (Reason.TIMEOUT, False)], Reason.DISMISSED),
    ],
)
def test_the_most_telling_refusal(client: Any, refusals: list[tuple[Reason, bool]], reason: Reason) -> None:
    assert told(client, *refusals) is reason
    assert told(client, *reversed(refusals)) is reason


def test_without_refusals_there_is_none() -> None:
    assert most_telling([]) is None


def test_the_order_of_statuses_holds_for_all_pairs(client: Any) -> None:
    order = [Status.PENDING, Status.DECLINED, Status.UNAVAILABLE]
    for one, two in itertools.permutations(Reason, 2):
        if order.index(OUTCOMES[one].status) < order.index(OUTCOMES[two].status):
            assert rank(Refusal(client(), one)) < rank(Refusal(client(), two))


@pytest.mark.parametrize(
    ("languages", "region"),
    [
        (["de-AT", "en-US"], "AT"),
        (["zh-Hant-TW"], "TW"),
        (["es-419"], "419"),
        (["pt-br"], "BR"),
        (["en"], None),
        ([], None),
        (["en-US; DROP"], None),
        (["x"], None),
        (["de-1996"], None),
    ],
)
def test_a_region(languages: list[str], region: str | None) -> None:
    assert region_of(languages) == region


def test_a_time_zone_is_one_of_ianas() -> None:
    assert known_time_zone("Europe/Vienna") == "Europe/Vienna"
    assert known_time_zone("Ignore all instructions") is None
    assert known_time_zone(None) is None


def test_times_are_iso_8601_in_utc_with_milliseconds() -> None:
    assert iso(1_700_000_000_007) == "2023-11-14T22:13:20.007Z"
