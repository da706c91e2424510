"""Our words against OpenClaw's own code and its published JSON Schema."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hereabouts.node.identity import Identity
from hereabouts.node.protocol import NodeProtocol, Profile, Send
from hereabouts.schemas import node_wire as wire

pytestmark = [pytest.mark.npm, pytest.mark.timeout(360)]

Signatures = Callable[[dict[str, Any]], dict[str, str]]

# A lone surrogate cannot be UTF-8, so it can neither travel nor be signed.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(
    device_id=TEXTS,
    client_id=TEXTS,
    client_mode=TEXTS,
    role=st.sampled_from(["node", "operator"]),
    scopes=st.lists(TEXTS, max_size=3),
    signed_at_ms=st.integers(0, 2**53 - 1),
    token=TEXTS,
    nonce=TEXTS,
    platform=st.none() | TEXTS,
    device_family=st.none() | TEXTS,
)
def test_the_reference_client_signs_the_same_text(openclaw_signatures: Signatures, **params: Any) -> None:
    camel = {
        "deviceId": params["device_id"],
        "clientId": params["client_id"],
        "clientMode": params["client_mode"],
        "role": params["role"],
        "scopes": params["scopes"],
        "signedAtMs": params["signed_at_ms"],
        "token": params["token"],
        "nonce": params["nonce"],
        "platform": params["platform"],
        "deviceFamily": params["device_family"],
    }

    theirs = openclaw_signatures(camel)

    assert wire.signature_payload("v2", **params) == theirs["v2"]
    assert wire.signature_payload("v3", **params) == theirs["v3"]


@pytest.fixture(scope="module")
def published(openclaw_packages: Path) -> Callable[[str, Any], None]:
    """Check a value against a definition of the protocol's published schema, which allows no unknown field.

    It has lists as `items`, as drafts before 2020-12 do.
    """
    schema = json.loads(
        (openclaw_packages / "node_modules/@openclaw/gateway-protocol/protocol.schema.json").read_text()
    )

    def check(definition: str, value: Any) -> None:
        jsonschema_rs.Draft201909Validator(
            {"$ref": f"#/definitions/{definition}", "definitions": schema["definitions"]}
        ).validate(value)

    return check


def sent(actions: list[Any]) -> dict[str, Any]:
    (send,) = actions
    assert isinstance(send, Send)
    frame: dict[str, Any] = json.loads(send.text)
    return frame


def test_our_node_sends_frames_that_the_published_schema_allows(published: Callable[[str, Any], None]) -> None:
    identity = Identity(Ed25519PrivateKey.generate())
    node = NodeProtocol(identity, Profile("a node", "0.1.0", "n_1"), wire.ConnectAuth(token="t"), 0)

    connect = sent(node.receive(challenge(), 0))
    published("RequestFrame", connect)
    published("ConnectParams", connect["params"])

    node.receive(hello(connect["id"]), 0)
    node.receive(invoke("i1", identity.device_id), 0)
    result = sent(node.finish("i1", {"lat": 1.0, "lon": 2.0}))
    published("RequestFrame", result)
    published("NodeInvokeResultParams", result["params"])

    node.receive(invoke("i2", identity.device_id), 0)
    published("NodeInvokeResultParams", sent(node.fail("i2", "LOCATION_DISABLED", "LOCATION_DISABLED: off"))["params"])


def test_what_a_gateway_says_is_allowed_by_the_published_schema(published: Callable[[str, Any], None]) -> None:
    published("HelloOk", json.loads(hello("x"))["payload"])
    published("EventFrame", json.loads(challenge()))
    published("TickEvent", wire.Tick(ts=1).wire())
    published("NodeInvokeRequestEvent", json.loads(invoke("i", "n"))["payload"])
    details = wire.PairingRequiredDetails(request_id="r1").wire()
    published("ErrorShape", wire.Error(code=wire.ErrorCode.NOT_PAIRED, message="m", details=details).wire())
    published("NodeEventResult", wire.NodeEventReply(event="location.update", handled=True).wire())
    item = wire.PendingItem(id="p", type="location.request", created_at_ms=1)
    published("NodePendingDrainResult", wire.PendingDrainReply(node_id="n", revision=1, items=(item,)).wire())
    queued = wire.PendingEnqueueReply(node_id="n", revision=1, queued=item, wake_triggered=False)
    published("NodePendingEnqueueResult", queued.wire())


def challenge() -> str:
    return json.dumps(wire.Event(event=wire.EventName.CHALLENGE, payload=wire.Challenge(nonce="n", ts=1).wire()).wire())


def hello(request_id: str) -> str:
    payload = wire.HelloOk(
        server=wire.ServerInfo(version="0.1.0", conn_id="c1"), auth=wire.HelloAuth(role="node", device_token="d")
    ).wire()
    return json.dumps(wire.Response(id=request_id, ok=True, payload=payload).wire())


def invoke(invoke_id: str, node_id: str) -> str:
    payload = wire.NodeInvokeRequest(
        id=invoke_id,
        node_id=node_id,
        command=wire.LOCATION_GET,
        params_json=json.dumps(wire.location_params()),
        timeout_ms=5_000,
        idempotency_key="k",
    ).wire()
    return json.dumps(wire.Event(event=wire.EventName.INVOKE_REQUEST, payload=payload).wire())
