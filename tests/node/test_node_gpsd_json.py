"""gpsd's lines: what counts as a fix, how exact it is, and that nothing breaks the parser."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hereabouts.node.providers.gpsd_json import (
    LIVE_MS,
    Device,
    Devices,
    NotGpsd,
    Refusal,
    Tpv,
    Version,
    fix_of,
    parse,
)
from hereabouts.schemas.fixes import MAX_CLOCK_SKEW_MS, Source, is_plausible

THEN_MS = 1_796_083_381_250
TPV: dict[str, Any] = {
    "class": "TPV",
    "device": "/dev/ttyUSB0",
    "mode": 3,
    "time": "2026-12-01T00:03:01.250Z",
    "lat": 48.20849,
    "lon": 16.37208,
    "altHAE": 225.0,
    "altMSL": 182.0,
    "alt": 182.0,
    "epx": 3.0,
    "epy": 4.0,
    "epv": 29.9,
    "track": 84.4,
    "speed": 1.029,
    "eph": 17.1,
}


def line(without: str = "", **changes: Any) -> bytes:
    document = {**TPV, **changes}
    for key in without.split():
        del document[key]
    return json.dumps(document).encode() + b"\r\n"


def tpv(without: str = "", **changes: Any) -> Tpv:
    found = parse(line(without, **changes))
    assert isinstance(found, Tpv)
    return found


def test_a_full_report() -> None:
    assert tpv() == Tpv(48.20849, 16.37208, 17.1, THEN_MS, 225.0, 29.9, 1.029, 84.4)


def test_the_other_objects() -> None:
    version = b'{"class":"VERSION","release":"3.22","rev":"3.22","proto_major":3,"proto_minor":14}'
    assert parse(version) == Version(3)
    listed = b'{"class":"DEVICES","devices":[{"class":"DEVICE","path":"/dev/a"},{"path":"/dev/b"},{},7]}'
    assert parse(listed) == Devices(frozenset({"/dev/a", "/dev/b"}))
    assert parse(b'{"class":"DEVICES","devices":[]}') == Devices(frozenset())
    came = b'{"class":"DEVICE","path":"/dev/a","activated":"2026-12-01T00:43:02.707Z"}'
    assert parse(came) == Device("/dev/a", active=True)
    assert parse(b'{"class":"DEVICE","path":"/dev/a","activated":0}') == Device("/dev/a", active=False)
    assert parse(b'{"class":"ERROR","message":"Unrecognized request"}') == Refusal()
    assert parse(b'{"class":"SKY","hdop":0.9}') is None
    assert parse(b'{"class":"WATCH","enable":true}') is None


@pytest.mark.parametrize("mode", [0, 1, 4, None, "3", True])
def test_only_modes_2_and_3_are_fixes(mode: Any) -> None:
    assert parse(line(mode=mode)) is None


@pytest.mark.parametrize("missing", ["lat", "lon", "time", "mode", "eph epx", "eph epy"])
def test_a_report_without_place_time_or_error_estimate_is_not_used(missing: str) -> None:
    assert parse(line(missing)) is None


def test_the_radius_is_eph_else_the_circle_around_both_axes() -> None:
    assert tpv().accuracy_m == 17.1
    assert tpv("eph").accuracy_m == 5.0
    assert tpv(eph=-1).accuracy_m == 5.0


def test_altitude_is_above_the_ellipsoid_else_above_the_sea_and_only_in_3d() -> None:
    assert tpv("altHAE").altitude_m == 182.0
    assert tpv("altHAE altMSL", alt=181.0).altitude_m == 181.0
    assert tpv("altHAE altMSL alt").altitude_accuracy_m is None
    flat = tpv(mode=2)
    assert (flat.altitude_m, flat.altitude_accuracy_m) == (None, None)


def test_a_course_is_below_360_and_a_speed_not_below_0() -> None:
    assert tpv(track=360.0).heading_deg == 0
    assert tpv("track speed").heading_deg is None
    assert tpv(speed=-0.1).speed_mps is None


def test_a_report_shows_no_number_of_it() -> None:
    assert "48" not in repr(tpv())


def test_a_report_after_the_question_is_as_new_as_can_be() -> None:
    fix = fix_of(tpv(), THEN_MS + LIVE_MS, 0, after_asking=True)

    assert fix is not None
    assert (fix.age_ms, fix.timestamp_ms, fix.source) == (0, THEN_MS, Source.GPS)
    assert fix_of(tpv(), THEN_MS + LIVE_MS + 1, 0, after_asking=True) is None


def test_a_report_from_before_the_question_has_its_true_age() -> None:
    assert fix_of(tpv(), THEN_MS + 1, 0, after_asking=False) is None
    fix = fix_of(tpv(), THEN_MS + 1_000, 1_000, after_asking=False)
    assert fix is not None
    assert fix.age_ms == 1_000


def test_what_cannot_be_true_is_no_fix() -> None:
    assert fix_of(tpv(), THEN_MS - MAX_CLOCK_SKEW_MS, 0, after_asking=True) is not None
    assert fix_of(tpv(), THEN_MS - MAX_CLOCK_SKEW_MS - 1, 0, after_asking=True) is None
    assert fix_of(tpv(lat=0, lon=0), THEN_MS, 0, after_asking=True) is None
    assert fix_of(tpv(lat=91), THEN_MS, 0, after_asking=True) is None


@pytest.mark.parametrize("text", [b"", b"\n", b"hello", b"[]", b"3", b'{"class":3}', b"{}", b"\xff", b"[" * 100_000])
def test_what_is_not_gpsd_is_told_apart_and_not_repeated(text: bytes) -> None:
    with pytest.raises(NotGpsd) as caught:
        parse(text)

    assert "hello" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_report_or_the_typed_error(data: bytes) -> None:
    try:
        parse(data)
    except NotGpsd:
        pass


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["mode", "time", "lat", "lon", "altHAE", "epx", "epy", "epv", "track", "speed", "eph"]


@given(st.dictionaries(st.sampled_from([*FIELDS, "devices", "path", "proto_major", "activated"]), ANYTHING))
def test_any_values_are_a_finite_report_or_none(changes: dict[str, Any]) -> None:
    for kind in ("TPV", "DEVICES", "DEVICE", "VERSION", "ERROR"):
        found = parse(line(**{**changes, "class": kind}))
        if isinstance(found, Tpv):
            assert math.isfinite(found.accuracy_m)
            assert found.accuracy_m >= 0
            fix = fix_of(found, THEN_MS, 10**12, after_asking=True)
            assert fix is None or is_plausible(fix)
