"""What may be asked on a connection, by role and scope, and what comes of anything else."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hereabouts.edge.dialect import Answered, Question, Registration, Rejected, Send
from hereabouts.node_gateway.questions import (
    Admitted,
    DecidePairing,
    DescribeNode,
    ListNodes,
    ListPairings,
    Seen,
)
from hereabouts.schemas.node_wire import Error, NodeEventReply, NodeList

ALL_SCOPES = ["operator.read", "operator.write", "operator.pairing"]
OPERATOR_METHODS = [
    "node.list",
    "node.describe",
    "node.invoke",
    "node.pair.list",
    "node.pair.approve",
    "node.pair.reject",
]


@pytest.fixture
def operator(connected: Callable[..., Any]) -> Any:
    return connected(role="operator", scopes=ALL_SCOPES, approved=())


def test_an_operator_is_in_no_directory(operator: Any) -> None:
    assert not [action for action in operator.last if isinstance(action, Registration)]
    assert operator.frame["payload"]["auth"] == {"role": "operator", "scopes": ALL_SCOPES, "deviceToken": "hd_token"}


@pytest.mark.parametrize("method", OPERATOR_METHODS)
def test_a_node_is_no_operator(connected: Callable[..., Any], method: str) -> None:
    line = connected()
    line.request(method, {"nodeId": "x", "requestId": "x"})
    assert line.frame["error"] == {"code": "INVALID_REQUEST", "message": "unauthorized role: node"}


@pytest.mark.parametrize("method", ["node.invoke.result", "node.event"])
def test_an_operator_is_no_node(operator: Any, method: str) -> None:
    operator.request(method, {})
    assert operator.frame["error"]["message"] == "unauthorized role: operator"


@pytest.mark.parametrize("role", ["node", "operator"])
@pytest.mark.parametrize("method", ["agent.run", "node.pending.drain", "\u202e" * 3 + "x" * 500])
def test_an_unknown_method(connected: Callable[..., Any], role: str, method: str) -> None:
    line = connected(role=role)
    line.request(method)
    error = line.frame["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert error["message"].startswith("unknown method")
    assert len(error["message"]) < 100


def test_a_second_connect(connected: Callable[..., Any]) -> None:
    line = connected()
    line.request("connect", {})
    assert line.frame["error"]["code"] == "INVALID_REQUEST"
    assert line.dialect.authenticated


@pytest.mark.parametrize(
    ("method", "params", "query"),
    [
        ("node.list", None, ListNodes("acme", "ada")),
        ("node.list", {}, ListNodes("acme", "ada")),
        ("node.describe", {"nodeId": "n"}, DescribeNode("acme", "ada", "n")),
        ("node.pair.list", {}, ListPairings("acme", "ada")),
        ("node.pair.approve", {"requestId": "r"}, DecidePairing("acme", "ada", "r", True)),
        ("node.pair.reject", {"requestId": "r"}, DecidePairing("acme", "ada", "r", False)),
    ],
)
def test_an_operators_question_is_of_its_tenant_and_user(operator: Any, method: str, params: Any, query: Any) -> None:
    operator.request(method, params)
    assert operator.question.about == query


def test_the_answer_to_a_question_has_the_requests_id(operator: Any) -> None:
    operator.request("node.list", None, "q-9")
    operator.resolve(NodeList(ts=5))
    assert operator.frame == {"type": "res", "id": "q-9", "ok": True, "payload": {"ts": 5, "nodes": []}}


def test_an_error_for_an_answer(operator: Any) -> None:
    operator.request("node.describe", {"nodeId": "n"})
    operator.resolve(Error(code="INVALID_REQUEST", message="unknown nodeId"))
    assert operator.frame["error"]["message"] == "unknown nodeId"


def test_a_bus_that_is_away(operator: Any) -> None:
    operator.request("node.list")
    operator.last = operator.dialect.unresolved(operator.question.number, operator.now_ms)
    assert operator.frame["error"]["code"] == "UNAVAILABLE"
    assert operator.dialect.authenticated


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        ([], set()),
        (["operator.read"], {"node.list", "node.describe"}),
        (["operator.write"], {"node.list", "node.describe", "node.invoke"}),
        (["operator.pairing"], {"node.pair.list", "node.pair.approve", "node.pair.reject"}),
        (["operator.admin"], set(OPERATOR_METHODS)),
        (["operator.nonsense"], set()),
    ],
)
def test_scopes(connected: Callable[..., Any], scopes: list[str], allowed: set[str]) -> None:
    line = connected(role="operator", scopes=scopes)
    passed = set()
    for method in OPERATOR_METHODS:
        line.request(method, {"nodeId": "n", "requestId": "r", "command": "location.get", "idempotencyKey": "k"})
        if Rejected("scope") not in line.last:
            passed.add(method)
        else:
            assert line.frame["error"]["message"].startswith("missing scope: operator.")
    assert passed == allowed


def test_invoking_says_precisely_that_it_is_not_supported(operator: Any) -> None:
    operator.request("node.invoke", {"nodeId": "n", "command": "location.get", "idempotencyKey": "k"})
    error = operator.frame["error"]
    assert (error["code"], error["details"], error["retryable"]) == ("UNAVAILABLE", {"code": "NOT_SUPPORTED"}, False)


@pytest.mark.parametrize("params", [None, {}, {"requestId": ""}, {"requestId": 5}, []])
def test_parameters_that_are_none(operator: Any, params: Any) -> None:
    operator.request("node.pair.approve", params)
    assert operator.frame["error"]["code"] == "INVALID_REQUEST"
    assert "requestId" in operator.frame["error"]["message"] or not isinstance(params, dict)


# --- events of a node -----------------------------------------------------------------------------------------------


def test_a_sign_of_life_is_looked_up_once_a_minute(connected: Callable[..., Any], device: Any) -> None:
    line = connected()
    line.request("node.event", {"event": "node.presence.alive", "payloadJSON": '{"trigger":"timer"}'})
    assert line.question.about == Seen("acme", "ada", device.id)
    line.resolve(NodeEventReply(event="node.presence.alive", handled=True))
    assert line.frame["payload"] == {"ok": True, "event": "node.presence.alive", "handled": True}
    line.request("node.event", {"event": "node.presence.alive", "payload": None})
    assert line.frame["payload"]["handled"] is True
    line.now_ms += 60_000
    line.request("node.event", {"event": "node.presence.alive"})
    assert line.question


@pytest.mark.parametrize("name", ["location.update", "whatever"])
def test_other_events_are_acknowledged_and_not_kept(connected: Callable[..., Any], name: str) -> None:
    line = connected()
    line.request("node.event", {"event": name, "payload": {"lat": 48.20849, "lon": 16.37208}})
    assert line.frame["payload"] == {"ok": True, "event": name, "handled": False}


# --- frames that are none -------------------------------------------------------------------------------------------


def test_ten_unreadable_frames_end_a_connection(connected: Callable[..., Any]) -> None:
    line = connected()
    for _ in range(9):
        assert line.send("no json") == [Rejected("not_json")]
    line.send("no json")
    assert line.close.code == 1008
    assert line.request("node.event", {"event": "x"}) == []


def test_a_frame_that_is_no_request_is_told_so_by_its_id(connected: Callable[..., Any]) -> None:
    line = connected()
    line.send({"type": "req", "id": "x7", "method": ""})
    assert line.frame["id"] == "x7"
    assert line.frame["error"]["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("frame", [{"type": "event", "event": "x"}, {"type": "res", "id": "1", "ok": True}])
def test_events_and_responses_are_tolerated(connected: Callable[..., Any], frame: dict[str, Any]) -> None:
    assert connected().send(frame) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
METHODS = [
    "connect",
    *OPERATOR_METHODS,
    "node.invoke.result",
    "node.event",
    "node.pending.drain",
]
FRAMES = (
    st.text()
    | JSON.map(json.dumps)
    | st.fixed_dictionaries(
        {
            "type": st.sampled_from(["req", "res", "event"]) | JSON,
            "id": JSON,
            "method": st.sampled_from(METHODS) | JSON,
        },
        optional={"params": JSON, "ok": JSON, "event": JSON, "payload": JSON, "error": JSON},
    ).map(json.dumps)
    | st.fixed_dictionaries(
        {
            "id": JSON,
            "nodeId": JSON,
            "ok": st.booleans(),
        },
        optional={"payload": JSON, "payloadJSON": st.text() | JSON.map(json.dumps), "error": JSON},
    ).map(lambda params: json.dumps({"type": "req", "id": "1", "method": "node.invoke.result", "params": params}))
)


def drive(line: Any, texts: list[str]) -> None:
    """Feed frames, answering questions with "the bus is away", and check what must always hold."""
    for text in texts:
        closed = line.close is not None
        actions = line.send(text)
        if closed:
            assert not [action for action in actions if isinstance(action, Send | Registration | Question | Answered)]
        for frame in line.frames():
            assert frame["type"] in ("res", "event")
        for action in [action for action in actions if isinstance(action, Question)]:
            line.last = line.dialect.unresolved(action.number, line.now_ms)
        assert line.dialect.wake_at_ms is None or line.close is None
        if line.close is not None:
            return


@given(texts=st.lists(FRAMES, max_size=12))
def test_no_frame_of_a_stranger_raises(new_line: Any, texts: list[str]) -> None:
    line = new_line()
    drive(line, texts)
    assert not line.dialect.authenticated


@given(texts=st.lists(FRAMES, max_size=12), role=st.sampled_from(["node", "operator"]))
def test_no_frame_of_a_client_raises(new_line: Any, new_device: Any, texts: list[str], role: str) -> None:
    line, device = new_line(), new_device()
    line.request("connect", device.connect_params(line.nonce, role=role, scopes=ALL_SCOPES))
    line.resolve(Admitted("acme", "ada", ("location.get",), "hd_x"))
    invoke = line.ask()
    drive(line, texts)
    result = {"id": invoke.correlation_id, "nodeId": device.id, "ok": False}
    line.last = line.dialect.received(
        json.dumps({"type": "req", "id": "r", "method": "node.invoke.result", "params": result}), 1.0, 1
    )
    still_up = line.dialect.authenticated and role == "node"
    assert bool([action for action in line.last if isinstance(action, Answered)]) is still_up


@given(params=JSON, value=JSON)
def test_no_parameter_of_connect_raises(new_line: Any, new_device: Any, params: Any, value: Any) -> None:
    device = new_device()
    for where in ("minProtocol", "client", "auth", "device", "role", "scopes", "commands", "permissions"):
        line = new_line()
        line.request("connect", device.connect_params(line.nonce) | {where: value})
    line = new_line()
    line.request("connect", params)
    assert line.close is not None
