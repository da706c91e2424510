"""The node's side of the dialect, frame by frame and by the clock."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from hereabouts.node.identity import Identity
from hereabouts.node.protocol import (
    MAX_OPEN_INVOKES,
    Action,
    CancelInvoke,
    Close,
    Connected,
    Invoke,
    NodeProtocol,
    Profile,
    Refused,
    Send,
    State,
)
from hereabouts.schemas import node_wire as wire

IDENTITY = Identity(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
PROFILE = Profile("kitchen", "0.1.0", "n_1", permissions={"location": True})
AUTH = wire.ConnectAuth(token="gateway-token")


def event(name: str, payload: Any) -> str:
    return json.dumps({"type": "event", "event": name, "payload": payload})


def challenge(ts: int = 1_700_000_000_000) -> str:
    return event("connect.challenge", {"nonce": "nonce-1", "ts": ts, "new": None})


def hello(request_id: str, protocol: int = 4, tick_ms: int = 1_000) -> str:
    payload = wire.HelloOk(
        protocol=protocol,
        server=wire.ServerInfo(version="0", conn_id="c1"),
        auth=wire.HelloAuth(role="node", device_token="issued"),
        policy=wire.Policy(tick_interval_ms=tick_ms),
    ).wire()
    return json.dumps({"type": "res", "id": request_id, "ok": True, "payload": payload})


def invoke(invoke_id: str = "i1", **changes: Any) -> str:
    payload = {
        "id": invoke_id,
        "nodeId": IDENTITY.device_id,
        "command": "location.get",
        "paramsJSON": '{"maxAgeMs":0}',
        "timeoutMs": 4_000,
        "idempotencyKey": "k",
    }
    return event("node.invoke.request", payload | changes)


def frame_of(actions: list[Action]) -> dict[str, Any]:
    (send,) = actions
    assert isinstance(send, Send)
    frame: dict[str, Any] = json.loads(send.text)
    return frame


def fresh(now_ms: float = 0) -> NodeProtocol:
    return NodeProtocol(IDENTITY, PROFILE, AUTH, now_ms)


def ready(tick_ms: int = 1_000) -> NodeProtocol:
    node = fresh()
    node.receive(hello(frame_of(node.receive(challenge(), 0))["id"], tick_ms=tick_ms), 0)
    assert node.state is State.READY
    return node


def test_the_challenge_is_answered_with_a_signed_connect() -> None:
    connect = frame_of(fresh().receive(challenge(ts=77), 0))

    params = wire.ConnectParams.model_validate(connect["params"])
    assert connect["method"] == "connect"
    assert (params.min_protocol, params.max_protocol, params.role) == (3, 4, "node")
    assert (params.commands, params.permissions) == (("location.get",), {"location": True})
    assert params.auth.token == "gateway-token"
    assert params.device is not None
    assert (params.device.signed_at, params.device.nonce) == (77, "nonce-1")
    key = wire.decode_base64url(params.device.public_key, 32)
    signature = wire.decode_base64url(params.device.signature, 64)
    Ed25519PublicKey.from_public_bytes(key).verify(signature, params.signed_text("v3").encode())


def test_hello_makes_it_ready_and_hands_over_the_issued_token() -> None:
    node = fresh()
    connect = frame_of(node.receive(challenge(), 0))

    assert node.receive(hello(connect["id"]), 10) == [Connected("c1", 1_000, "issued")]
    assert node.deadline_ms == 2_010


def test_a_hello_for_another_request_counts_for_nothing() -> None:
    node = fresh()
    node.receive(challenge(), 0)

    assert node.receive(hello("other"), 0) == []
    assert node.state is State.AWAITING_HELLO


def test_a_version_that_we_do_not_speak_closes_with_1002() -> None:
    node = fresh()
    connect = frame_of(node.receive(challenge(), 0))

    (close,) = node.receive(hello(connect["id"], protocol=9), 0)

    assert isinstance(close, Close)
    assert close.code == 1002


def test_a_refusal_is_told_with_its_details_and_closes() -> None:
    node = fresh()
    connect = frame_of(node.receive(challenge(), 0))
    error = wire.Error(
        code="NOT_PAIRED", message="no", details=wire.PairingRequiredDetails(request_id="r").wire(), retry_after_ms=5
    )

    actions = node.receive(json.dumps(wire.Response(id=connect["id"], ok=False, error=error).wire()), 0)

    assert actions == [Refused(error), Close(1008, "connect failed")]
    assert node.state is State.CLOSED


def test_an_invoke_is_handed_over_once_and_answered_once() -> None:
    node = ready()

    assert node.receive(invoke(), 0) == [Invoke("i1", "location.get", {"maxAgeMs": 0}, 4_000)]
    assert node.receive(invoke(), 0) == []
    params = frame_of(node.finish("i1", {"lat": 1.5}))["params"]
    assert params == {"id": "i1", "nodeId": IDENTITY.device_id, "ok": True, "payloadJSON": '{"lat": 1.5}'}
    assert node.finish("i1", {"lat": 1.5}) == []
    assert node.fail("i1", "X", "x") == []


def test_null_parameters_are_none() -> None:
    assert ready().receive(invoke(paramsJSON=None), 0) == [Invoke("i1", "location.get", None, 4_000)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodeId": "another"}, "nodeId mismatch"),
        ({"command": "camera.snap"}, "unknown command"),
        ({"paramsJSON": "{"}, "paramsJSON is not JSON"),
    ],
)
def test_what_cannot_be_done_is_refused_at_once(changes: dict[str, Any], message: str) -> None:
    node = ready()

    params = frame_of(node.receive(invoke(**changes), 0))["params"]

    assert (params["ok"], params["error"]) == (False, {"code": "INVALID_REQUEST", "message": message})
    assert node.open_invokes == frozenset()


def test_a_flood_of_invokes_is_refused_beyond_the_limit() -> None:
    node = ready()
    for n in range(MAX_OPEN_INVOKES):
        node.receive(invoke(f"i{n}"), 0)

    params = frame_of(node.receive(invoke("one-more"), 0))["params"]

    assert params["error"] == {"code": "UNAVAILABLE", "message": "too many open requests"}
    assert len(node.open_invokes) == MAX_OPEN_INVOKES


def test_a_cancelled_invoke_is_not_answered() -> None:
    node = ready()
    node.receive(invoke(), 0)

    cancel = event("node.invoke.cancel", {"invokeId": "i1", "nodeId": IDENTITY.device_id})

    assert node.receive(cancel, 0) == [CancelInvoke("i1")]
    assert node.receive(cancel, 0) == []
    assert node.finish("i1", {}) == []


def test_the_end_of_the_socket_cancels_what_is_open() -> None:
    node = ready()
    node.receive(invoke("a"), 0)
    node.receive(invoke("b"), 0)

    assert node.closed() == [CancelInvoke("a"), CancelInvoke("b")]
    assert node.receive(invoke("c"), 0) == []
    assert node.deadline_ms is None


def test_silence_of_twice_the_tick_interval_closes_with_4000() -> None:
    node = ready(tick_ms=1_000)

    assert node.advance(1_999) == []
    node.receive(event("tick", {"ts": 1}), 1_500)
    assert node.advance(3_499) == []
    assert node.advance(3_500) == [Close(4000, "tick timeout")]
    assert node.advance(9_999) == []


@pytest.mark.parametrize("steps", [0, 1])
def test_a_handshake_that_hangs_is_given_up(steps: int) -> None:
    node = fresh(now_ms=100)
    if steps:
        node.receive(challenge(), 100)

    assert node.advance(15_099) == []
    (close,) = node.advance(15_100)
    assert isinstance(close, Close)
    assert close.code == 1008


def test_nothing_is_done_before_hello() -> None:
    node = fresh()

    assert node.receive(invoke(), 0) == []
    node.receive(challenge(), 0)
    assert node.receive(invoke(), 0) == []


def test_a_request_from_the_gateway_gets_the_documented_error() -> None:
    answer = frame_of(ready().receive('{"type":"req","id":"g1","method":"what"}', 0))

    assert answer == {
        "type": "res",
        "id": "g1",
        "ok": False,
        "error": {"code": "INVALID_REQUEST", "message": "unknown method"},
    }


def test_actions_do_not_show_what_they_carry() -> None:
    node = ready()
    node.receive(invoke(), 0)

    assert "48.2" not in repr(node.finish("i1", {"lat": 48.2}))
    assert "gateway-token" not in repr(fresh().receive(challenge(), 0))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)
NAMES = st.sampled_from(["connect.challenge", "tick", "node.invoke.request", "node.invoke.cancel", "other"])


def holed(example: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The example with any of its fields missing or replaced by anything."""
    return st.fixed_dictionaries({}, optional={key: st.just(value) | JSON_VALUES for key, value in example.items()})


INBOUND = st.one_of(
    st.text(max_size=20),
    st.binary(max_size=20),
    JSON_VALUES.map(json.dumps),
    st.builds(event, NAMES, JSON_VALUES),
    st.builds(event, st.just("connect.challenge"), holed({"nonce": "n", "ts": 1})),
    st.builds(
        event,
        st.just("node.invoke.request"),
        holed(
            {
                "id": "i",
                "nodeId": IDENTITY.device_id,
                "command": "location.get",
                "paramsJSON": "{}",
                "timeoutMs": 1,
                "idempotencyKey": "k",
            }
        ),
    ),
    st.builds(event, st.just("node.invoke.cancel"), holed({"invokeId": "i", "nodeId": "n"})),
    holed({"type": "res", "id": "n1", "ok": True, "payload": json.loads(hello("n1"))["payload"]}).map(json.dumps),
    st.just(challenge()),
    st.just(hello("n1")),
)


@given(st.lists(st.tuples(INBOUND, st.integers(0, 20_000)), max_size=12), st.booleans())
def test_nothing_that_arrives_raises(steps: list[tuple[str | bytes, int]], from_ready: bool) -> None:
    node = ready() if from_ready else fresh()
    now_ms = 0
    for text, wait_ms in steps:
        now_ms += wait_ms
        for action in [*node.receive(text, now_ms), *node.advance(now_ms)]:
            if isinstance(action, Send):
                wire.parse_frame(action.text)
            if isinstance(action, Invoke):
                assert action.id in node.open_invokes
        assert (node.state is State.CLOSED) == (node.deadline_ms is None)
