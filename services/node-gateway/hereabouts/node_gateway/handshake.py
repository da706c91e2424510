"""The first request: what must be true of it before anything is looked up. Pure; every failure of the wire's table.

The order is OpenClaw's: shape, protocol, device, identity, age, nonce, signature. A client that fails twice is thus
told the same thing by either gateway.
"""

from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from hereabouts.schemas.node_wire import (
    MIN_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    PUBLIC_KEY_BYTES,
    SIGNATURE_BYTES,
    SIGNATURE_SKEW_MS,
    CloseCode,
    ConnectParams,
    DetailCode,
    Error,
    ErrorCode,
    PairingRequiredDetails,
    ProtocolMismatchDetails,
    base64url,
    decode_base64url,
    device_id,
    validation_problems,
)

RESTART_RETRY_MS = 1_000
"""When a device may come back after the bus was away: leases and connections are back by then or it asks again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A handshake that ends: the error for the client, then the close."""

    error: Error
    close_code: CloseCode
    cause: str
    close_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Proven:
    """A device that holds the key it names. Who it belongs to is not known yet."""

    params: ConnectParams
    device_id: str
    public_key: str
    """Raw Ed25519 key, base64url without padding, whatever spelling the client used."""
    protocol: int


NOT_CONNECT = Refusal(
    Error(code=ErrorCode.INVALID_REQUEST, message="invalid handshake: first request must be connect"),
    CloseCode.POLICY_VIOLATION,
    "not_connect",
)


def check_connect(raw: Any, nonce: str, wall_ms: int) -> Proven | Refusal:
    """Judge the parameters of `connect`.

    Args:
        raw: the request's `params` as they came.
        nonce: what the challenge of this very socket said.
        wall_ms: the gateway's clock, milliseconds since the epoch.
    """
    try:
        params = ConnectParams.model_validate(raw)
    except ValidationError as error:
        return _invalid(f"invalid connect params: {validation_problems(error)}", None, "bad_connect")
    if params.min_protocol > PROTOCOL_VERSION or params.max_protocol < MIN_PROTOCOL_VERSION:
        return _protocol_mismatch(params)
    device = params.device
    if device is None:
        return Refusal(
            Error(
                code=ErrorCode.NOT_PAIRED,
                message="device identity required",
                details={"code": DetailCode.DEVICE_IDENTITY_REQUIRED.value},
            ),
            CloseCode.POLICY_VIOLATION,
            "no_device",
        )
    try:
        key = decode_base64url(device.public_key, PUBLIC_KEY_BYTES)
    except ValueError:
        return _invalid("device public key invalid", DetailCode.DEVICE_AUTH_PUBLIC_KEY_INVALID, "public_key")
    if device_id(key) != device.id:
        return _invalid("device identity mismatch", DetailCode.DEVICE_AUTH_DEVICE_ID_MISMATCH, "device_id")
    if abs(wall_ms - device.signed_at) > SIGNATURE_SKEW_MS:
        return _invalid("device signature expired", DetailCode.DEVICE_AUTH_SIGNATURE_EXPIRED, "signature_expired")
    if device.nonce != nonce:
        return _invalid("device nonce mismatch", DetailCode.DEVICE_AUTH_NONCE_MISMATCH, "nonce")
    if not _signed(params, key):
        return _invalid("device signature invalid", DetailCode.DEVICE_AUTH_SIGNATURE_INVALID, "signature")
    return Proven(params, device.id, base64url(key), min(params.max_protocol, PROTOCOL_VERSION))


def credential_refused(code: DetailCode) -> Refusal:
    """No token, or none that this deployment made for this device."""
    message = {
        DetailCode.AUTH_TOKEN_MISSING: "unauthorized: gateway token missing",
        DetailCode.AUTH_TOKEN_MISMATCH: "unauthorized: gateway token mismatch",
        DetailCode.AUTH_DEVICE_TOKEN_MISMATCH: "unauthorized: device token mismatch",
    }[code]
    return _invalid(message, code, "credential")


def pairing_required(request_id: str) -> Refusal:
    """The device must wait for a person. Without the advice in the details the reference client would stop for ever."""
    return Refusal(
        Error(
            code=ErrorCode.NOT_PAIRED,
            message="pairing required: device is not approved yet",
            details=PairingRequiredDetails(request_id=request_id).wire(),
        ),
        CloseCode.POLICY_VIOLATION,
        "pairing_required",
        f"pairing required (requestId: {request_id})",
    )


def not_ready() -> Refusal:
    """The gateway cannot look anything up now. The reason's name is the one the reference client retries on."""
    return Refusal(
        Error(
            code=ErrorCode.UNAVAILABLE,
            message="gateway starting",
            details={"reason": "startup-sidecars"},
            retryable=True,
            retry_after_ms=RESTART_RETRY_MS,
        ),
        CloseCode.STARTING,
        "not_ready",
    )


def _invalid(message: str, code: DetailCode | None, cause: str) -> Refusal:
    details = {"code": code.value} if code else None
    return Refusal(
        Error(code=ErrorCode.INVALID_REQUEST, message=message, details=details), CloseCode.POLICY_VIOLATION, cause
    )


def _protocol_mismatch(params: ConnectParams) -> Refusal:
    details = ProtocolMismatchDetails(client_min_protocol=params.min_protocol, client_max_protocol=params.max_protocol)
    return Refusal(
        Error(code=ErrorCode.INVALID_REQUEST, message="protocol mismatch", details=details.wire()),
        CloseCode.PROTOCOL_MISMATCH,
        "protocol",
    )


def _signed(params: ConnectParams, key: bytes) -> bool:
    assert params.device is not None
    try:
        signature = decode_base64url(params.device.signature, SIGNATURE_BYTES)
        public_key = Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        return False
    for version in ("v3", "v2"):
        try:
            public_key.verify(signature, params.signed_text(version).encode("utf-8", "surrogatepass"))
        except InvalidSignature:
            continue
        return True
    return False
