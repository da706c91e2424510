"""Who this node is: an Ed25519 key in a file that only its user can read, and the tokens that gateways gave it."""

import json
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from platformdirs import user_data_path

from hereabouts.schemas import node_wire

from .errors import IdentityError


def default_state_dir() -> Path:
    """Where a node keeps its key: the platform's folder for user data."""
    return user_data_path("hereabouts", appauthor=False) / "node"


class Identity:
    """A device's key pair. Its id is the SHA-256 of the public key; nothing here shows the private one."""

    def __init__(self, private_key: Ed25519PrivateKey) -> None:
        self._private_key = private_key
        raw = private_key.public_key().public_bytes_raw()
        self.public_key = node_wire.base64url(raw)
        self.device_id = node_wire.device_id(raw)

    def __repr__(self) -> str:
        return f"Identity({self.device_id[:12]})"

    def sign(self, text: str) -> str:
        """The signature over a text's UTF-8, base64url."""
        return node_wire.base64url(self._private_key.sign(text.encode()))

    @classmethod
    def load_or_create(cls, path: Path) -> "Identity":
        """The identity in a PEM file; on first start it is made, with mode 0600.

        Raises:
            IdentityError: the file is no unencrypted Ed25519 key, or cannot be read or written.
        """
        try:
            if not path.exists():
                _publish(path, _pem(Ed25519PrivateKey.generate()))
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            data = path.read_bytes()
        except OSError as error:
            raise IdentityError(f"cannot use the identity file {path}: {error.strerror}") from None
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise IdentityError(f"{path} holds no Ed25519 private key; move it away to get a new identity")
        return cls(key)


class DeviceTokens:
    """The tokens that gateways issued to this device, by gateway URL, in a file with mode 0600."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, url: str) -> str | None:
        """The token for a gateway, or None."""
        token = self._read().get(url)
        return token if isinstance(token, str) and token else None

    def put(self, url: str, token: str | None) -> None:
        """Keep a gateway's token; None forgets it."""
        tokens = self._read()
        if tokens.get(url) == token:
            return
        tokens.pop(url, None)
        if token is not None:
            tokens[url] = token
        try:
            _write_private(self._path, json.dumps(tokens).encode())
        except OSError as error:
            raise IdentityError(f"cannot write {self._path}: {error.strerror}") from None

    def _read(self) -> dict[str, object]:
        try:
            tokens = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return tokens if isinstance(tokens, dict) else {}


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _draft(path: Path, data: bytes) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    return draft


def _publish(path: Path, data: bytes) -> None:
    """Create a whole file or leave the one that is there: two nodes started at once end up with one identity."""
    draft = _draft(path, data)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


def _write_private(path: Path, data: bytes) -> None:
    _draft(path, data).replace(path)
