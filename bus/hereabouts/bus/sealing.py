"""Sealing of what a person disclosed: AES-256-GCM, with the key's id in front so that keys can be changed.

A sealed body is base64 (entries are ASCII) of: length of the key id (1 byte), key id, nonce (12 bytes), ciphertext and
tag. Nonces are random: NIST SP 800-38D allows 2^32 of them for one key, so a deployment that seals a thousand bodies a
second changes its key within a month.
"""

import binascii
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hereabouts.schemas.errors import SealBroken

_NONCE_BYTES = 12
_KEY_BYTES = 32


class Sealer:
    """Seals with the current key, opens with any.

    Args:
        keys: key id (ASCII, at most 255 characters) → 32 bytes.
        current: the id of the key that seals.

    Raises:
        ValueError: a key is not 32 bytes, or the current one is missing.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str) -> None:
        if current not in keys:
            raise ValueError("the current key is not among the keys")
        if any(len(key) != _KEY_BYTES for key in keys.values()):
            raise ValueError("a key must have 32 bytes")
        if any(not 0 < len(key_id.encode("ascii")) < 256 for key_id in keys):
            raise ValueError("a key id must have 1 to 255 ASCII characters")
        self._ciphers = {key_id.encode(): AESGCM(key) for key_id, key in keys.items()}
        self._head = bytes([len(current)]) + current.encode()
        self._cipher = self._ciphers[current.encode()]

    def __repr__(self) -> str:
        return f"Sealer({len(self._ciphers)} keys)"

    def seal(self, body: bytes, aad: bytes) -> bytes:
        """`body` encrypted, openable only with the same `aad`."""
        nonce = os.urandom(_NONCE_BYTES)
        return b64encode(self._head + nonce + self._cipher.encrypt(nonce, body, aad))

    def open(self, sealed: bytes, aad: bytes) -> bytes:
        """What was sealed.

        Raises:
            SealBroken: unknown key, other `aad`, or altered bytes. The error holds none of it.
        """
        try:
            raw = b64decode(sealed, validate=True)
            start = 1 + raw[0]
            nonce, body = raw[start : start + _NONCE_BYTES], raw[start + _NONCE_BYTES :]
            return self._ciphers[raw[1:start]].decrypt(nonce, body, aad)
        except (binascii.Error, IndexError, KeyError, ValueError, InvalidTag):
            raise SealBroken from None
