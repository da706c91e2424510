"""From the challenge to hello-ok, and each way to fail."""

from collections.abc import Callable
from typing import Any

import pytest

from hereabouts.edge.dialect import Authenticated, Registration, Rejected, Send
from hereabouts.node_gateway.questions import Admission, Admitted, CredentialRefused, PairingRequired
from hereabouts.schemas.node_wire import DetailCode

SKEW_MS = 120_000


def test_the_challenge_is_the_first_thing_said(line: Any) -> None:
    assert line.challenge["type"] == "event"
    assert line.challenge["event"] == "connect.challenge"
    assert line.challenge["payload"]["ts"] == line.wall_ms
    assert len(line.nonce) == 36


def test_no_two_sockets_share_a_nonce(line: Any) -> None:
    assert type(line)().nonce != line.nonce


@pytest.mark.parametrize("version", ["v2", "v3"])
@pytest.mark.parametrize(("low", "high", "spoken"), [(3, 3, 3), (3, 4, 4), (4, 4, 4), (1, 3, 3), (4, 9, 4)])
def test_both_signatures_and_both_protocols_are_accepted(
    line: Any, device: Any, version: str, low: int, high: int, spoken: int
) -> None:
    line.request(
        "connect", device.connect_params(line.nonce, version=version, min_protocol=low, max_protocol=high), "c"
    )
    about = line.question.about
    assert isinstance(about, Admission)
    assert (about.device_id, about.token) == (device.id, "gateway-token")
    assert about.commands == ("location.get",)
    line.resolve(Admitted("acme", "ada", ("location.get",), "hd_x"))
    assert line.frame["id"] == "c"
    assert line.frame["payload"]["protocol"] == spoken


def test_hello_ok_carries_every_field(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce))
    line.resolve(Admitted("acme", "ada", ("location.get",), "hd_x"))
    payload = line.frame["payload"]
    assert payload["server"].pop("connId")
    assert payload == {
        "type": "hello-ok",
        "protocol": 4,
        "server": {"version": "0.1.0"},
        "features": {
            "methods": ["node.invoke.result", "node.event"],
            "events": ["tick", "node.invoke.request", "node.invoke.cancel"],
        },
        "snapshot": {
            "presence": [],
            "health": {},
            "stateVersion": {"presence": 0, "health": 0},
            "uptimeMs": 5_000,
        },
        "auth": {"role": "node", "scopes": [], "deviceToken": "hd_x"},
        "policy": {"maxPayload": 26_214_400, "maxBufferedBytes": 52_428_800, "tickIntervalMs": 30_000},
    }


def test_hello_ok_leaves_after_the_directory_was_written(connected: Callable[..., Any]) -> None:
    kinds = [type(action) for action in connected().last]
    assert kinds == [Authenticated, Registration, Send]


def test_limits_rise_once_the_device_is_known(connected: Callable[..., Any]) -> None:
    (limits,) = [action for action in connected().last if isinstance(action, Authenticated)]
    assert (limits.max_frame_bytes, limits.max_buffered_bytes) == (25 * 1024 * 1024, 50 * 1024 * 1024)


def test_the_node_stands_in_the_directory_under_tenant_and_user(connected: Callable[..., Any], device: Any) -> None:
    line = connected(display_name="  Ada’s\u202e pho\x07ne ", platform="iOS 26.1")
    (place,) = [action for action in line.last if isinstance(action, Registration)]
    record = place.record
    assert (record.kind, record.tenant, record.session, record.user) == ("node", "acme", None, "ada")
    assert (record.client_id, record.platform, record.label) == (device.id, "iOS 26.1", "Ada’s pho ne")
    assert [tool.name for tool in record.tools] == ["location_get"]
    assert place.resume is None
    assert place.resume_next is None


@pytest.mark.parametrize(("declared", "approved"), [(["camera.snap"], ("location.get",)), (["location.get"], ())])
def test_a_tool_must_be_declared_and_approved(
    connected: Callable[..., Any], declared: list[str], approved: tuple[str, ...]
) -> None:
    usable = tuple(command for command in approved if command in declared)
    line = connected(approved=usable, commands=declared)
    (place,) = [action for action in line.last if isinstance(action, Registration)]
    assert place.record.tools == []


def test_android_leaves_out_what_is_empty_and_windows_sends_nulls(line: Any, device: Any) -> None:
    params = device.connect_params(line.nonce, device_family=None)
    del params["caps"], params["commands"], params["scopes"]
    params |= {"permissions": None, "locale": None, "somethingNew": {"a": 1}}
    params["auth"] |= {"bootstrapToken": None}
    line.request("connect", params)
    assert line.question.about.commands == ()


# --- the table of failures ------------------------------------------------------------------------------------------


def refused(line: Any) -> tuple[str, str | None, int]:
    error = line.frame["error"]
    assert line.frame["ok"] is False
    assert line.close is not None
    assert not line.dialect.authenticated
    assert line.dialect.wake_at_ms is None
    return error["code"], (error.get("details") or {}).get("code"), line.close.code


@pytest.mark.parametrize("method", ["node.list", "node.event", "bogus"])
def test_the_first_request_must_be_connect(line: Any, method: str) -> None:
    line.request(method)
    assert refused(line) == ("INVALID_REQUEST", None, 1008)
    assert line.frame["error"]["message"] == "invalid handshake: first request must be connect"


def test_a_request_that_is_no_request_is_refused_with_its_id(line: Any) -> None:
    line.send({"type": "req", "id": "x1"})
    assert refused(line) == ("INVALID_REQUEST", None, 1008)
    assert line.frame["id"] == "x1"


@pytest.mark.parametrize(
    "frame", [{"type": "event", "event": "connect"}, {"type": "res", "id": "1", "ok": True}, {"a": 1}, {}]
)
def test_a_first_frame_without_an_id_is_closed_without_an_answer(line: Any, frame: dict[str, Any]) -> None:
    line.send(frame)
    assert line.frames() == []
    assert line.close.code == 1008


@pytest.mark.parametrize("text", ["", "hello", "[1]", "null", "{", '{"a":NaN}', "[" * 5_000])
def test_what_is_no_json_object_closes_with_1000_and_nothing_else(line: Any, text: str) -> None:
    line.send(text)
    assert line.frames() == []
    assert line.close.code == 1000


def test_a_binary_frame_closes_with_1000(line: Any) -> None:
    line.last = line.dialect.received_binary(line.now_ms)
    assert line.close.code == 1000


@pytest.mark.parametrize(("low", "high"), [(1, 2), (5, 9)])
def test_a_protocol_that_we_do_not_speak(line: Any, device: Any, low: int, high: int) -> None:
    line.request("connect", device.connect_params(line.nonce, min_protocol=low, max_protocol=high))
    assert refused(line) == ("INVALID_REQUEST", "PROTOCOL_MISMATCH", 1002)
    assert line.frame["error"]["details"] == {
        "code": "PROTOCOL_MISMATCH",
        "expectedProtocol": 4,
        "clientMinProtocol": low,
        "clientMaxProtocol": high,
    }


def test_another_sockets_nonce(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(type(line)().nonce))
    assert refused(line) == ("INVALID_REQUEST", "DEVICE_AUTH_NONCE_MISMATCH", 1008)


@pytest.mark.parametrize("off_by", [-SKEW_MS - 1, SKEW_MS + 1])
def test_a_signature_from_another_time(line: Any, device: Any, off_by: int) -> None:
    line.request("connect", device.connect_params(line.nonce, signed_at=line.wall_ms + off_by))
    assert refused(line) == ("INVALID_REQUEST", "DEVICE_AUTH_SIGNATURE_EXPIRED", 1008)


@pytest.mark.parametrize("off_by", [-SKEW_MS, SKEW_MS])
def test_a_clock_that_is_a_little_off_is_no_fault(line: Any, device: Any, off_by: int) -> None:
    line.request("connect", device.connect_params(line.nonce, signed_at=line.wall_ms + off_by))
    assert line.question


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("client", "platform"), "android"),
        (("client", "deviceFamily"), "Pixel"),
        (("client", "id"), "other"),
        (("role",), "operator"),
        (("scopes",), ["operator.admin"]),
        (("auth", "token"), "another token"),
        (("device", "signature"), "AAAA"),
        (("device", "signature"), "A" * 86),
        (("device", "signature"), "ü" * 86),
    ],
)
def test_a_signature_over_something_else(line: Any, device: Any, where: tuple[str, ...], value: Any) -> None:
    params = device.connect_params(line.nonce)
    place = params
    for step in where[:-1]:
        place = place[step]
    place[where[-1]] = value
    line.request("connect", params)
    assert refused(line) == ("INVALID_REQUEST", "DEVICE_AUTH_SIGNATURE_INVALID", 1008)


def test_a_key_that_is_not_the_ids(line: Any, device: Any, new_device: Any) -> None:
    params = device.connect_params(line.nonce)
    params["device"]["publicKey"] = new_device().connect_params("n")["device"]["publicKey"]
    line.request("connect", params)
    assert refused(line) == ("INVALID_REQUEST", "DEVICE_AUTH_DEVICE_ID_MISMATCH", 1008)


def test_a_key_that_is_none(line: Any, device: Any) -> None:
    params = device.connect_params(line.nonce)
    params["device"]["publicKey"] = "AAAA"
    line.request("connect", params)
    assert refused(line) == ("INVALID_REQUEST", "DEVICE_AUTH_PUBLIC_KEY_INVALID", 1008)


@pytest.mark.parametrize("missing", [None, "absent"])
def test_no_device(line: Any, device: Any, missing: str | None) -> None:
    params = device.connect_params(line.nonce)
    if missing is None:
        params["device"] = None
    else:
        del params["device"]
    line.request("connect", params)
    assert refused(line) == ("NOT_PAIRED", "DEVICE_IDENTITY_REQUIRED", 1008)


def test_not_paired_yet_tells_the_client_to_wait_and_try_again(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce))
    line.resolve(PairingRequired("req-7"))
    assert refused(line) == ("NOT_PAIRED", "PAIRING_REQUIRED", 1008)
    assert line.frame["error"]["details"] == {
        "code": "PAIRING_REQUIRED",
        "reason": "not-paired",
        "requestId": "req-7",
        "recommendedNextStep": "wait_then_retry",
        "pauseReconnect": False,
    }
    assert line.close.reason == "pairing required (requestId: req-7)"


@pytest.mark.parametrize(
    "code", [DetailCode.AUTH_TOKEN_MISSING, DetailCode.AUTH_TOKEN_MISMATCH, DetailCode.AUTH_DEVICE_TOKEN_MISMATCH]
)
def test_a_credential_that_is_none(line: Any, device: Any, code: DetailCode) -> None:
    line.request("connect", device.connect_params(line.nonce))
    line.resolve(CredentialRefused(code))
    assert refused(line) == ("INVALID_REQUEST", code.value, 1008)


def test_parameters_that_are_none_name_the_field_and_not_the_value(line: Any, device: Any) -> None:
    params = device.connect_params(line.nonce)
    params["client"]["mode"] = 48.20849
    line.request("connect", params)
    assert refused(line) == ("INVALID_REQUEST", None, 1008)
    assert "client.mode" in line.frame["error"]["message"]
    assert "48.2" not in line.frame["error"]["message"]


def test_a_bus_that_is_away_is_a_gateway_that_starts(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce))
    line.last = line.dialect.unresolved(line.question.number, line.now_ms)
    assert refused(line) == ("UNAVAILABLE", None, 1013)
    error = line.frame["error"]
    assert (error["retryable"], error["retryAfterMs"]) == (True, 1_000)
    assert error["details"] == {"reason": "startup-sidecars"}


# --- time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half_way", [False, True])
def test_a_socket_that_does_not_get_in_is_closed(line: Any, device: Any, half_way: bool) -> None:
    if half_way:
        line.request("connect", device.connect_params(line.nonce))
    due_ms = line.dialect.wake_at_ms
    assert line.dialect.tick(due_ms - 1, line.wall_ms) == []
    line.last = line.dialect.tick(due_ms, line.wall_ms)
    assert (line.close.code, line.close.cause) == (1008, "handshake_timeout")


def test_an_answer_for_a_socket_that_was_closed_counts_for_nothing(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce))
    question = line.question
    line.dialect.tick(line.dialect.wake_at_ms, line.wall_ms)
    late = line.dialect.resolved(question.number, Admitted("acme", "ada", (), "hd_x"), line.now_ms, line.wall_ms)
    assert late == []
    assert not line.dialect.authenticated


def test_ticks_come_within_thirty_seconds_for_ever(connected: Callable[..., Any]) -> None:
    line = connected()
    at_ms = line.now_ms
    for _ in range(5):
        due_ms = line.dialect.wake_at_ms
        assert at_ms < due_ms <= at_ms + 30_000
        line.last = line.dialect.tick(due_ms, line.wall_ms + 7)
        assert line.frame == {"type": "event", "event": "tick", "payload": {"ts": line.wall_ms + 7}}
        at_ms = due_ms


def test_frames_before_the_answer_are_not_taken(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce))
    assert line.request("node.event", {"event": "x"}) == [Rejected("early_frame")]


def test_tokens_are_not_in_a_repr(line: Any, device: Any) -> None:
    line.request("connect", device.connect_params(line.nonce, token="secret-one", device_token="secret-two"))
    assert "secret" not in repr(line.question)
    assert "secret" not in repr(Admitted("acme", "ada", (), "hd_secret"))
