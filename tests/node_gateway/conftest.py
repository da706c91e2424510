"""A device with a real Ed25519 key, and one socket's dialect driven by hand."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hereabouts.edge.dialect import Action, Close, Invoke, Question, Send
from hereabouts.node_gateway.dialect import Gateway, NodeDialect
from hereabouts.node_gateway.questions import Admitted
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.node_wire import LOCATION_GET, base64url, device_id, signature_payload

WALL_MS = 1_790_000_000_000
TENANT, USER = "acme", "ada"


@dataclass
class Device:
    """Makes the parameters of `connect`, right unless told otherwise."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def raw_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    @property
    def id(self) -> str:
        return device_id(self.raw_key)

    def connect_params(
        self,
        nonce: str,
        *,
        token: str | None = "gateway-token",
        version: str = "v3",
        role: str = "node",
        scopes: list[str] | None = None,
        signed_at: int = WALL_MS,
        platform: str = "iOS",
        device_family: str | None = "iPhone",
        commands: list[str] | None = None,
        min_protocol: int = 3,
        max_protocol: int = 4,
        device_token: str | None = None,
        display_name: str = "Ada's phone",
    ) -> dict[str, Any]:
        text = signature_payload(
            "v3" if version == "v3" else "v2",
            device_id=self.id,
            client_id="openclaw-ios",
            client_mode="node",
            role=role,
            scopes=scopes or [],
            signed_at_ms=signed_at,
            token=token or "",
            nonce=nonce,
            platform=platform,
            device_family=device_family,
        )
        client = {
            "id": "openclaw-ios",
            "displayName": display_name,
            "version": "2026.9.1",
            "platform": platform,
            "deviceFamily": device_family,
            "mode": "node",
        }
        return {
            "minProtocol": min_protocol,
            "maxProtocol": max_protocol,
            "client": client,
            "role": role,
            "scopes": scopes or [],
            "caps": ["location"],
            "commands": [LOCATION_GET, "camera.snap"] if commands is None else commands,
            "auth": {"token": token, "deviceToken": device_token},
            "device": {
                "id": self.id,
                "publicKey": base64url(self.raw_key),
                "signature": base64url(self.key.sign(text.encode())),
                "signedAt": signed_at,
                "nonce": nonce,
            },
        }


class Line:
    """One socket: what it was told, as actions and as frames."""

    def __init__(self) -> None:
        self.dialect = NodeDialect(Gateway(version="0.1.0", started_wall_ms=WALL_MS - 5_000))
        self.now_ms = 1_000.0
        self.wall_ms = WALL_MS
        self.last: list[Action] = self.dialect.opened(self.now_ms, self.wall_ms)
        self.challenge = self.frames()[0]

    @property
    def nonce(self) -> str:
        return str(self.challenge["payload"]["nonce"])

    def send(self, frame: Any) -> list[Action]:
        text = frame if isinstance(frame, str) else json.dumps(frame)
        self.last = self.dialect.received(text, self.now_ms, self.wall_ms)
        return self.last

    def request(self, method: str, params: Any = None, request_id: str = "r1") -> list[Action]:
        return self.send({"type": "req", "id": request_id, "method": method, "params": params})

    def resolve(self, answer: Any) -> list[Action]:
        self.last = self.dialect.resolved(self.question.number, answer, self.now_ms, self.wall_ms)
        return self.last

    def ask(self, **fields: Any) -> Invoke:
        invoke = Invoke(
            **{
                "correlation_id": new_correlation_id(),
                "tool": "location_get",
                "params": {},
                "budget_ms": 4_700,
                "may_prompt": False,
                "traceparent": "",
            }
            | fields
        )
        self.last = self.dialect.ask(invoke, self.now_ms)
        return invoke

    def frames(self) -> list[dict[str, Any]]:
        return [json.loads(action.text) for action in self.last if isinstance(action, Send)]

    @property
    def frame(self) -> dict[str, Any]:
        (only,) = self.frames()
        return only

    @property
    def question(self) -> Question:
        (only,) = [action for action in self.last if isinstance(action, Question)]
        return only

    @property
    def close(self) -> Close | None:
        return next((action for action in self.last if isinstance(action, Close)), None)


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture(scope="session")
def new_device() -> type[Device]:
    return Device


@pytest.fixture(scope="session")
def new_line() -> type[Line]:
    return Line


@pytest.fixture
def connected(device: Device) -> Callable[..., Line]:
    """A line that was let in; `approved` commands, and what `connect_params` takes."""

    def connect(approved: tuple[str, ...] = (LOCATION_GET,), **options: Any) -> Line:
        made = Line()
        made.request("connect", device.connect_params(made.nonce, **options))
        made.resolve(Admitted(TENANT, USER, approved, "hd_token"))
        return made

    return connect
