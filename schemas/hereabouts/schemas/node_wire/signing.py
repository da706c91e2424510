"""Who a device is, and what it signs: Ed25519 over the connect parameters and the server's nonce."""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Literal

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64

# What JavaScript's String.trim removes, and only that: both ends must sign the same text.
_JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def signature_payload(
    version: Literal["v2", "v3"],
    *,
    device_id: str,
    client_id: str,
    client_mode: str,
    role: str,
    scopes: Sequence[str],
    signed_at_ms: int,
    token: str,
    nonce: str,
    platform: str | None = None,
    device_family: str | None = None,
) -> str:
    """The text a device signs.

    v3 is ``v3|deviceId|clientId|clientMode|role|scopes,…|signedAtMs|token|nonce|platform|deviceFamily``; v2 is the
    same without the last two. The token is auth.token, else auth.bootstrapToken, else empty.
    """
    parts = [version, device_id, client_id, client_mode, role, ",".join(scopes), str(signed_at_ms), token, nonce]
    if version == "v3":
        parts += [normalise_metadata(platform), normalise_metadata(device_family)]
    return "|".join(parts)


def normalise_metadata(value: str | None) -> str:
    """Platform and device family as they are signed and compared: trimmed, ASCII letters in lower case."""
    return (value or "").strip(_JS_SPACE).translate(_ASCII_LOWER)


def device_id(public_key_raw: bytes) -> str:
    """A device's id: SHA-256 of its raw Ed25519 public key, 64 hex digits."""
    return hashlib.sha256(public_key_raw).hexdigest()


def base64url(data: bytes) -> str:
    """Base64url without padding, as keys and signatures travel."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str, expected_bytes: int) -> bytes:
    """The bytes of a key or signature; padding and the standard alphabet are tolerated.

    Raises:
        ValueError: not base64, or not of the expected length.
    """
    try:
        body = text.rstrip("=").replace("+", "-").replace("/", "_").encode("ascii")
        if not all(byte in _BASE64URL for byte in body):
            raise ValueError("not base64url")
        data = base64.urlsafe_b64decode(body + b"=" * (-len(body) % 4))
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64url") from None
    if len(data) != expected_bytes:
        raise ValueError(f"not {expected_bytes} bytes")
    return data


_BASE64URL = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
