"""The words of the node dialect: tolerant where nodes differ, exact where it counts, silent about positions."""

import json
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from hereabouts.schemas import node_wire as wire
from hereabouts.schemas.fixes import Precision, Source

NOW_MS = 1_800_000_000_000
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
PAYLOAD = {
    "lat": 48.2,
    "lon": 16.3,
    "accuracyMeters": 12.5,
    "timestamp": "2026-01-03T12:34:56.000Z",
    "isPrecise": True,
    "source": "gps",
}


def test_unknown_fields_and_explicit_nulls_are_tolerated_and_not_sent_on() -> None:
    frame = wire.parse_frame(
        '{"type":"req","id":"1","method":"node.invoke.result","traceparent":null,"new":1,'
        '"params":{"id":"i","nodeId":"n","ok":true,"payload":{"lat":1},"payloadJSON":null,"error":null,"x":2}}'
    )

    assert isinstance(frame, wire.Request)
    result = wire.NodeInvokeResult.model_validate(frame.params)
    assert result.value() == {"lat": 1}
    assert result.wire() == {"id": "i", "nodeId": "n", "ok": True, "payload": {"lat": 1}}


def test_android_may_leave_out_what_is_empty() -> None:
    params = wire.ConnectParams.model_validate(
        {
            "minProtocol": 3,
            "maxProtocol": 4,
            "client": {"id": "openclaw-android", "version": "1", "platform": "android", "mode": "node"},
            "role": "node",
            "permissions": {"location": True, "odd": None, "odder": "yes"},
        }
    )

    assert (params.caps, params.commands, params.scopes) == ((), (), ())
    assert params.permissions == {"location": True}
    assert params.auth.signed_token == ""


def test_hello_ok_sends_every_field() -> None:
    hello = wire.HelloOk(
        server=wire.ServerInfo(version="0.1.0", conn_id="c"), auth=wire.HelloAuth(role="node", device_token="t")
    )

    assert hello.wire() == {
        "type": "hello-ok",
        "protocol": 4,
        "server": {"version": "0.1.0", "connId": "c"},
        "features": {"methods": [], "events": []},
        "snapshot": {"presence": [], "health": {}, "stateVersion": {"presence": 0, "health": 0}, "uptimeMs": 0},
        "auth": {"role": "node", "scopes": [], "deviceToken": "t"},
        "policy": {"maxPayload": 26214400, "maxBufferedBytes": 52428800, "tickIntervalMs": 30000},
    }


def test_pairing_required_tells_the_reference_client_to_try_again() -> None:
    assert wire.PairingRequiredDetails(request_id="r").wire() == {
        "code": "PAIRING_REQUIRED",
        "reason": "not-paired",
        "requestId": "r",
        "recommendedNextStep": "wait_then_retry",
        "pauseReconnect": False,
    }


@pytest.mark.parametrize("text", ["", "hello", "[]", "1", "null", '{"type":', "NaN", '{"a":NaN}', "[" * 100_000])
def test_what_is_no_json_object_is_told_apart(text: str) -> None:
    with pytest.raises(wire.NotJson):
        wire.parse_frame(text)


@pytest.mark.parametrize(
    ("text", "request_id"),
    [
        ('{"type":"req","id":"7"}', "7"),
        ('{"type":"req","id":7,"method":"connect"}', None),
        ('{"type":"other","id":"7"}', None),
        ('{"id":"7"}', None),
        ('{"type":"event"}', None),
    ],
)
def test_a_bad_frame_keeps_the_id_to_answer(text: str, request_id: str | None) -> None:
    with pytest.raises(wire.InvalidFrame) as caught:
        wire.parse_frame(text)

    assert caught.value.request_id == request_id


@given(JSON_VALUES)
def test_any_json_is_a_frame_or_a_frame_error(value: Any) -> None:
    try:
        wire.parse_frame(json.dumps(value))
    except wire.FrameError:
        pass


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("LOCATION_DISABLED", "anything", "LOCATION_DISABLED"),
        ("UNAVAILABLE", "LOCATION_PERMISSION_REQUIRED: grant it", "LOCATION_PERMISSION_REQUIRED"),
        ("INVALID_REQUEST", "Error: LOCATION_TIMEOUT: no fix", "LOCATION_TIMEOUT"),
        (None, "LOCATION_BACKGROUND_UNAVAILABLE", "LOCATION_BACKGROUND_UNAVAILABLE"),
        ("LOCATION_NONSENSE", "LOCATION_UNAVAILABLE: x", "LOCATION_UNAVAILABLE"),
        ("UNAVAILABLE", "camera broken", None),
        ("UNAVAILABLE", "about LOCATION_DISABLED", None),
        (None, None, None),
    ],
)
def test_the_stable_code_is_found_in_code_or_message(
    code: str | None, message: str | None, expected: str | None
) -> None:
    assert wire.location_error_code(code, message) == expected


def test_parameters_go_out_in_both_spellings() -> None:
    params = wire.location_params(timeout_ms=7_000, max_age_ms=0, desired_accuracy=wire.DesiredAccuracy.PRECISE)

    assert params == {
        "timeoutMs": 7_000,
        "maxAgeMs": 0,
        "desiredAccuracy": "precise",
        "locationTimeout": 7_000,
        "maxAge": 0,
        "accuracy": "precise",
    }


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"timeoutMs": 5_000, "maxAgeMs": 0, "desiredAccuracy": "coarse"}, (5_000, 0, "coarse")),
        ({"locationTimeout": 5_000, "maxAge": 7, "accuracy": "precise"}, (5_000, 7, "precise")),
        ({"timeoutMs": 1, "maxAgeMs": -4, "desiredAccuracy": "best"}, (1_000, 0, "balanced")),
        ({"timeoutMs": 10**400, "maxAgeMs": True, "desiredAccuracy": 3}, (10_000, 15_000, "balanced")),
        ({"timeoutMs": 1e9, "maxAgeMs": None}, (60_000, 15_000, "balanced")),
        (None, (10_000, 15_000, "balanced")),
        ("text", (10_000, 15_000, "balanced")),
    ],
)
def test_parameters_are_read_in_either_spelling(raw: Any, expected: tuple[int, int, str]) -> None:
    params = wire.LocationParams.model_validate(raw)

    assert (params.timeout_ms, params.max_age_ms, params.desired_accuracy) == expected


@pytest.mark.parametrize(
    ("wish", "clamped"), [(None, 10_000), (0, 1_000), (-1, 1_000), (12_345, 12_345), (1e12, 60_000), (math.nan, 10_000)]
)
def test_the_timeout_is_clamped(wish: float | None, clamped: int) -> None:
    assert wire.clamp_location_timeout_ms(wish) == clamped


def test_a_payload_becomes_a_fix_aged_on_our_clock() -> None:
    fix = wire.parse_location_payload(PAYLOAD | {"altitudeMeters": 182, "speedMps": 0, "headingDeg": 270}, NOW_MS)

    assert (fix.latitude, fix.longitude, fix.accuracy) == (48.2, 16.3, 12.5)
    assert (fix.altitude, fix.speed, fix.heading) == (182, 0, 270)
    assert (fix.precision, fix.source) == (Precision.PRECISE, Source.GPS)
    assert fix.timestamp_ms == 1_767_443_696_000
    assert fix.age_ms == NOW_MS - 1_767_443_696_000


def test_the_windows_spelling_is_the_same_fix() -> None:
    windows = {"latitude": 48.2, "longitude": 16.3, "accuracy": 12.5, "timestamp": NOW_MS - 40}

    fix = wire.parse_location_payload(windows, NOW_MS)

    assert (fix.latitude, fix.longitude, fix.accuracy, fix.age_ms) == (48.2, 16.3, 12.5, 40)
    assert fix.source is Source.UNKNOWN


def test_unknown_speed_and_course_as_core_location_says_them_count_as_not_measured() -> None:
    fix = wire.parse_location_payload(PAYLOAD | {"speedMps": -1, "headingDeg": -1, "altitudeMeters": None}, NOW_MS)

    assert (fix.speed, fix.heading, fix.altitude) == (None, None, None)


def test_an_approximate_payload_says_so() -> None:
    assert wire.parse_location_payload(PAYLOAD | {"isPrecise": False}, NOW_MS).precision is Precision.APPROXIMATE


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"lat": None}, "lat", "is missing"),
        ({"lat": "48.123456"}, "lat", "is not a finite number"),
        ({"lat": math.inf}, "lat", "is not a finite number"),
        ({"lat": True}, "lat", "is not a finite number"),
        ({"lat": 91.123456}, "lat", "is out of range"),
        ({"lon": -180.123456}, "lon", "is out of range"),
        ({"accuracyMeters": -1}, "accuracyMeters", "is out of range"),
        ({"timestamp": "yesterday"}, "timestamp", "is not ISO 8601"),
        ({"timestamp": "2026-01-03T12:34:56"}, "timestamp", "has no time zone"),
        ({"timestamp": -1}, "timestamp", "is out of range"),
        ({"timestamp": None}, "timestamp", "is missing"),
        ({"timestamp": []}, "timestamp", "is not a finite number"),
    ],
)
def test_a_bad_payload_is_named_without_its_numbers(change: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(wire.InvalidLocationPayload) as caught:
        wire.parse_location_payload(PAYLOAD | change, NOW_MS)

    assert (caught.value.field, caught.value.problem) == (field, problem)
    assert not any(char.isdigit() for char in str(caught.value).replace("ISO 8601", ""))
    assert caught.value.__cause__ is None


@given(
    JSON_VALUES
    | st.fixed_dictionaries({}, optional=dict.fromkeys([*PAYLOAD, "speedMps", "altitudeMeters"], JSON_VALUES))
)
def test_any_payload_is_a_fix_in_range_or_the_named_error(payload: Any) -> None:
    try:
        fix = wire.parse_location_payload(payload, NOW_MS)
    except wire.InvalidLocationPayload:
        return
    assert -90 <= fix.latitude <= 90
    assert -180 <= fix.longitude <= 180
    assert math.isfinite(fix.accuracy)


def test_age_has_an_allowance_for_clocks_that_differ() -> None:
    fix = wire.parse_location_payload(PAYLOAD | {"timestamp": NOW_MS - 20_000}, NOW_MS)

    assert not wire.is_too_old(fix, 15_000)
    assert wire.is_too_old(fix, 14_999)


def test_nothing_that_holds_a_position_or_a_token_shows_it() -> None:
    secret = "48.20849"
    payload = wire.LocationPayload(lat=48.20849, lon=16.3, accuracy_meters=1, timestamp="t", is_precise=True)
    result = {"id": "i", "nodeId": "n", "ok": True, "payload": {"lat": 48.20849}}
    shown = [
        payload,
        wire.NodeInvokeResult.model_validate(result),
        wire.NodeInvokeResult.model_validate({**result, "payloadJSON": f'{{"lat":{secret}}}'}),
        wire.Request(id="1", method="node.invoke.result", params=result),
        wire.Response(id="1", ok=True, payload=result),
        wire.Event(event="x", payload=result),
        wire.ConnectAuth(token=secret, device_token=secret, bootstrap_token=secret, password=secret),
    ]

    for each in shown:
        assert secret not in repr(each)
        assert secret not in str(each)
    with pytest.raises(ValidationError) as caught:
        wire.LocationPayload(lat=148.20849, lon=16.3, accuracy_meters=1, timestamp="t", is_precise=True)
    assert "148" not in str(caught.value)


def test_a_broken_payload_json_is_not_quoted() -> None:
    result = wire.NodeInvokeResult(id="i", node_id="n", ok=True, payload_json='{"lat": 48.20849,')

    with pytest.raises(ValueError, match=r"^payloadJSON is not JSON$") as caught:
        result.value()
    assert caught.value.__suppress_context__


def test_signed_text_is_ordered_and_normalised() -> None:
    text = wire.signature_payload(
        "v3",
        device_id="d",
        client_id="c",
        client_mode="node",
        role="node",
        scopes=["a", "b"],
        signed_at_ms=5,
        token="t",
        nonce="n",
        platform="  iOS 18 ",
        device_family="İPhone",
    )

    # Only ASCII letters change: "İ".lower() would be two characters.
    assert text == "v3|d|c|node|node|a,b|5|t|n|ios 18|İphone"


@given(st.binary(min_size=32, max_size=32))
def test_keys_survive_base64url(key: bytes) -> None:
    assert wire.decode_base64url(wire.base64url(key), 32) == key


@pytest.mark.parametrize("text", ["", "a", "!!!!", "é", "AAAA", "A" * 44])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        wire.decode_base64url(text, 32)


def test_device_id_is_the_hash_of_the_raw_key() -> None:
    key = random.Random(7).randbytes(32)

    assert len(wire.device_id(key)) == 64
    assert wire.device_id(bytes(32)) == "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925"
