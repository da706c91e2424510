"""Asks to a node and its results, in every dialect."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from hereabouts.edge.dialect import Answered, Rejected
from hereabouts.schemas.fixes import Precision, Source
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.outcomes import Reason, Status

LAT, LON = 48.20849, 16.37208


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def openclaw(wall_ms: int, **fields: Any) -> dict[str, Any]:
    return {
        "lat": LAT,
        "lon": LON,
        "accuracyMeters": 12.5,
        "altitudeMeters": None,
        "timestamp": iso(wall_ms),
        "isPrecise": True,
        "source": "gps",
    } | fields


def windows(wall_ms: int, **fields: Any) -> dict[str, Any]:
    return {"latitude": LAT, "longitude": LON, "accuracy": 12.5, "timestamp": wall_ms} | fields


DIALECTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "ios": lambda ms: {"ok": True, "payloadJSON": json.dumps(openclaw(ms))},
    "android": lambda ms: {"ok": True, "payload": openclaw(ms)},
    "windows": lambda ms: {"ok": True, "payload": windows(ms), "error": None},
    "windows, payloadJSON null": lambda ms: {"ok": True, "payload": windows(ms), "payloadJSON": None, "error": None},
}


def answer(line: Any, correlation_id: str, node_id: str, **fields: Any) -> Answered:
    """Send a result and give what the dialect made of it."""
    line.request("node.invoke.result", {"id": correlation_id, "nodeId": node_id, **fields}, "res-1")
    (answered,) = line.last
    assert isinstance(answered, Answered)
    return answered


# --- what the node is asked -----------------------------------------------------------------------------------------


def test_the_request_event_says_both_spellings(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    invoke = line.ask(params={"desired_accuracy": "precise", "max_age_ms": 3_000}, budget_ms=4_700)
    assert line.frame["event"] == "node.invoke.request"
    payload = line.frame["payload"]
    params = json.loads(payload.pop("paramsJSON"))
    assert payload == {
        "id": invoke.correlation_id,
        "nodeId": device.id,
        "command": "location.get",
        "timeoutMs": 4_700,
        "idempotencyKey": invoke.correlation_id,
    }
    assert params == {
        "timeoutMs": 4_700,
        "locationTimeout": 4_700,
        "maxAgeMs": 3_000,
        "maxAge": 3_000,
        "desiredAccuracy": "precise",
        "accuracy": "precise",
    }


@pytest.mark.parametrize(
    ("wish", "budget_ms", "timeout_ms"),
    [
        ({}, 20_000, 10_000),
        ({}, 4_700, 4_700),
        ({}, 400, 400),
        ({"location_timeout_ms": 200}, 20_000, 1_000),
        ({"location_timeout_ms": 90_000}, 120_000, 60_000),
        ({"location_timeout_ms": 25_000}, 20_000, 20_000),
        ({"location_timeout_ms": "soon"}, 20_000, 10_000),
        ({"location_timeout_ms": float("inf")}, 20_000, 10_000),
        ({"location_timeout_ms": True}, 20_000, 10_000),
    ],
)
def test_the_nodes_time_is_clamped_and_never_more_than_what_is_left(
    connected: Callable[..., Any], wish: dict[str, Any], budget_ms: int, timeout_ms: int
) -> None:
    line = connected()
    line.ask(params=wish, budget_ms=budget_ms)
    params = json.loads(line.frame["payload"]["paramsJSON"])
    assert params["timeoutMs"] == params["locationTimeout"] == timeout_ms
    assert line.frame["payload"]["timeoutMs"] == budget_ms


@pytest.mark.parametrize(
    ("params", "max_age_ms"),
    [({}, 15_000), ({"max_age_ms": 0}, 0), ({"max_age_ms": 60_000}, 60_000), ({"max_age_ms": None}, 15_000)],
)
def test_the_age_is_always_said(connected: Callable[..., Any], params: dict[str, Any], max_age_ms: int) -> None:
    line = connected()
    line.ask(params=params)
    assert json.loads(line.frame["payload"]["paramsJSON"])["maxAgeMs"] == max_age_ms


@pytest.mark.parametrize(
    ("wish", "word"),
    [
        (None, "balanced"),
        ("coarse", "coarse"),
        ("nonsense", "balanced"),
        (5_000, "coarse"),
        (3_000.0, "coarse"),
        (500, "balanced"),
        (99.9, "precise"),
        (1, "precise"),
        (True, "balanced"),
    ],
)
def test_a_wish_in_metres_becomes_the_loosest_word_that_meets_it(
    connected: Callable[..., Any], wish: Any, word: str
) -> None:
    line = connected()
    line.ask(params={"desired_accuracy": wish})
    assert json.loads(line.frame["payload"]["paramsJSON"])["desiredAccuracy"] == word


@pytest.mark.parametrize(
    ("declared", "approved", "tool", "reason"),
    [
        (["location.get"], (), "location_get", Reason.POLICY),
        ([], (), "location_get", Reason.UNSUPPORTED),
        (["location.get"], ("location.get",), "camera_snap", Reason.UNSUPPORTED),
    ],
)
def test_a_node_that_may_not_be_asked_is_not_asked(
    connected: Callable[..., Any], declared: list[str], approved: tuple[str, ...], tool: str, reason: Reason
) -> None:
    line = connected(commands=declared, approved=approved)
    invoke = line.ask(tool=tool)
    (answered,) = line.last
    assert (answered.correlation_id, answered.outcome.reason) == (invoke.correlation_id, reason)
    assert line.dialect.answered(answered.token, "accepted") == []


def test_a_cancel_names_the_invoke_and_the_node(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    invoke = line.ask()
    line.last = line.dialect.cancel(invoke.correlation_id, "settled", line.now_ms)
    assert line.frame["event"] == "node.invoke.cancel"
    assert line.frame["payload"] == {"invokeId": invoke.correlation_id, "nodeId": device.id}


def test_what_was_answered_or_never_asked_is_not_cancelled(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    invoke = line.ask()
    answer(line, invoke.correlation_id, device.id, ok=True, payload=openclaw(line.wall_ms))
    assert line.dialect.cancel(invoke.correlation_id, "settled", line.now_ms) == []
    assert line.dialect.cancel(new_correlation_id(), "settled", line.now_ms) == []


# --- what it answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_position_in_each_dialect(connected: Callable[..., Any], device: Any, dialect: str) -> None:
    line = connected()
    invoke = line.ask()
    answered = answer(line, invoke.correlation_id, device.id, **DIALECTS[dialect](line.wall_ms - 1_500))
    fix = answered.outcome.fix
    assert (answered.correlation_id, answered.outcome.status) == (invoke.correlation_id, Status.GRANTED)
    assert fix is not None
    assert (fix.latitude, fix.longitude, fix.accuracy) == (LAT, LON, 12.5)
    assert (fix.timestamp_ms, fix.age_ms) == (line.wall_ms - 1_500, 1_500)
    assert fix.precision is Precision.PRECISE


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("gps", Source.GPS),
        ("wifi", Source.WIFI),
        ("cell", Source.CELL),
        ("browser", Source.UNKNOWN),
        (7, Source.UNKNOWN),
    ],
)
def test_the_source_is_one_of_ours_or_unknown(
    connected: Callable[..., Any], device: Any, said: Any, source: Source
) -> None:
    line = connected()
    payload = openclaw(line.wall_ms, source=said, isPrecise=False)
    fix = answer(line, line.ask().correlation_id, device.id, ok=True, payload=payload).outcome.fix
    assert fix is not None
    assert (fix.source, fix.precision) == (source, Precision.APPROXIMATE)


@pytest.mark.parametrize(
    ("params", "age_ms", "reason"),
    [
        ({}, 20_000, None),
        ({}, 20_001, Reason.STALE),
        ({"max_age_ms": 0}, 5_000, None),
        ({"max_age_ms": 0}, 5_001, Reason.STALE),
        ({"max_age_ms": 60_000}, 65_000, None),
        ({}, -120_000, None),
        ({}, -120_001, Reason.IMPLAUSIBLE),
    ],
)
def test_the_age_is_measured_on_our_clock_with_five_seconds_of_grace(
    connected: Callable[..., Any], device: Any, params: dict[str, Any], age_ms: int, reason: Reason | None
) -> None:
    line = connected()
    invoke = line.ask(params=params)
    outcome = answer(line, invoke.correlation_id, device.id, ok=True, payload=openclaw(line.wall_ms - age_ms)).outcome
    assert outcome.reason is reason
    assert (outcome.fix is None) is (reason is not None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"lat": 90.1}, Reason.IMPLAUSIBLE),
        ({"lon": -180.5}, Reason.IMPLAUSIBLE),
        ({"lat": "48.2"}, Reason.IMPLAUSIBLE),
        ({"lat": True}, Reason.IMPLAUSIBLE),
        ({"lat": 10**400}, Reason.IMPLAUSIBLE),
        ({"accuracyMeters": -1}, Reason.IMPLAUSIBLE),
        ({"lat": 0, "lon": 0}, Reason.IMPLAUSIBLE),
        ({"lat": None}, Reason.CLIENT_ERROR),
        ({"timestamp": None}, Reason.CLIENT_ERROR),
        ({"timestamp": "yesterday"}, Reason.CLIENT_ERROR),
    ],
)
def test_a_payload_is_not_trusted(
    connected: Callable[..., Any], device: Any, fields: dict[str, Any], reason: Reason
) -> None:
    line = connected()
    payload = json.dumps(openclaw(line.wall_ms, **fields))
    outcome = answer(line, line.ask().correlation_id, device.id, ok=True, payloadJSON=payload).outcome
    assert (outcome.status, outcome.reason, outcome.fix) == (Status.UNAVAILABLE, reason, None)


@pytest.mark.parametrize("payload", ["", "{", "null", "[]", '"x"', '{"lat":NaN}', "[" * 5_000])
def test_a_payload_that_is_no_object_is_the_clients_error(
    connected: Callable[..., Any], device: Any, payload: str
) -> None:
    line = connected()
    outcome = answer(line, line.ask().correlation_id, device.id, ok=True, payloadJSON=payload).outcome
    assert outcome.reason is Reason.CLIENT_ERROR


CODES = {
    "LOCATION_DISABLED": (Status.DECLINED, Reason.LOCATION_DISABLED),
    "LOCATION_PERMISSION_REQUIRED": (Status.DECLINED, Reason.PERMISSION_REQUIRED),
    "LOCATION_BACKGROUND_UNAVAILABLE": (Status.PENDING, Reason.OPEN_THE_APP),
    "LOCATION_TIMEOUT": (Status.UNAVAILABLE, Reason.TIMEOUT),
    "LOCATION_UNAVAILABLE": (Status.UNAVAILABLE, Reason.POSITION_UNAVAILABLE),
}
HIDDEN_IN: dict[str, Callable[[str], dict[str, Any]]] = {
    "android": lambda code: {"code": code, "message": f"{code}: said Android"},
    "ios": lambda code: {"code": "UNAVAILABLE", "message": f"{code}: said iOS"},
    "linux": lambda code: {"code": "INVALID_REQUEST", "message": f"Error: {code}: said Linux"},
    "windows": lambda code: {"message": code},
    "windows, null code": lambda code: {"code": None, "message": code},
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("dialect", HIDDEN_IN)
def test_a_stable_code_is_found_wherever_a_dialect_hides_it(
    connected: Callable[..., Any], device: Any, code: str, dialect: str
) -> None:
    line = connected()
    outcome = answer(line, line.ask().correlation_id, device.id, ok=False, error=HIDDEN_IN[dialect](code)).outcome
    assert (outcome.status, outcome.reason, outcome.node_code) == (*CODES[code], code)
    assert outcome.during_call is False


@pytest.mark.parametrize(
    ("error", "reason", "node_code"),
    [
        (None, Reason.CLIENT_ERROR, None),
        ({}, Reason.CLIENT_ERROR, None),
        ({"message": "it broke at 48.20849"}, Reason.CLIENT_ERROR, None),
        ({"code": "LOCATION_ON_FIRE", "message": "?"}, Reason.CLIENT_ERROR, "LOCATION_ON_FIRE"),
        ({"code": "not a stable code 48.2", "message": "?"}, Reason.CLIENT_ERROR, None),
        ({"code": "NOT_ALLOWED"}, Reason.POLICY, "NOT_ALLOWED"),
    ],
)
def test_other_failures_are_the_clients_error_without_its_words(
    connected: Callable[..., Any], device: Any, error: Any, reason: Reason, node_code: str | None
) -> None:
    line = connected()
    outcome = answer(line, line.ask().correlation_id, device.id, ok=False, error=error).outcome
    assert (outcome.reason, outcome.node_code, outcome.error) == (reason, node_code, None)


# --- acknowledgements -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verdict", "ack"), [("accepted", {"ok": True}), ("ignored", {"ok": True, "ignored": True})])
def test_a_result_is_acknowledged(
    connected: Callable[..., Any], device: Any, verdict: Any, ack: dict[str, Any]
) -> None:
    line = connected()
    answered = answer(line, line.ask().correlation_id, device.id, ok=True, payload=openclaw(line.wall_ms))
    line.last = line.dialect.answered(answered.token, verdict)
    assert line.frame == {"type": "res", "id": "res-1", "ok": True, "payload": ack}


def test_another_nodes_name_in_a_result(connected: Callable[..., Any], new_device: Any) -> None:
    line = connected()
    invoke = line.ask()
    params = {"id": invoke.correlation_id, "nodeId": new_device().id, "ok": True, "payload": openclaw(line.wall_ms)}
    line.request("node.invoke.result", params)
    assert line.frame["error"] == {"code": "INVALID_REQUEST", "message": "nodeId mismatch"}
    assert Rejected("node_mismatch") in line.last


def test_another_nodes_ask_under_ones_own_name(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    answered = answer(line, new_correlation_id(), device.id, ok=True, payload=openclaw(line.wall_ms))
    line.last = line.dialect.answered(answered.token, "not_yours")
    assert line.frame["error"]["message"] == "nodeId mismatch"


def test_an_id_that_cannot_be_ours_is_late(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    line.request("node.invoke.result", {"id": "nonsense", "nodeId": device.id, "ok": True})
    assert line.frame["payload"] == {"ok": True, "ignored": True}


def test_a_late_result_still_tells_what_became_of_it(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    invoke = line.ask(params={"max_age_ms": 60_000})
    line.dialect.cancel(invoke.correlation_id, "deadline", line.now_ms)
    outcome = answer(line, invoke.correlation_id, device.id, ok=True, payload=openclaw(line.wall_ms - 50_000)).outcome
    assert outcome.status is Status.GRANTED


@pytest.mark.parametrize("params", [None, [], {}, {"id": "x"}, {"id": 1, "nodeId": 2, "ok": "yes"}])
def test_a_result_that_is_none(connected: Callable[..., Any], params: Any) -> None:
    line = connected()
    line.request("node.invoke.result", params)
    assert line.frame["error"]["code"] == "INVALID_REQUEST"
    assert line.close is None


def test_no_repr_shows_where(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    answered = answer(line, line.ask().correlation_id, device.id, ok=True, payload=openclaw(line.wall_ms))
    assert "48.2" not in repr(answered)
    assert "16.3" not in repr(answered)
