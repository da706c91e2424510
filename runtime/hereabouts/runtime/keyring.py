"""The deployment's keys, all derived from one secret (HKDF-SHA256, RFC 5869)."""

import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hereabouts.schemas.errors import HereaboutsError

from .settings import ServiceSettings

SECRET_BYTES = 32
MIN_SECRET_CHARS = 32
"""HKDF stretches nothing: a short secret would be guessable from one token."""

SECRET_FILE = "secret"  # noqa: S105 - a name


class SecretMissing(HereaboutsError):
    code = "secret_missing"
    template = (
        "Processes that share a Redis must share a secret: set HEREABOUTS_SECRET to the same random text of at least "
        "{min_chars} characters for each of them (for example from `openssl rand -hex 32`)."
    )


class SecretTooShort(HereaboutsError):
    code = "secret_too_short"
    template = "{name} has {chars} characters; {min_chars} or more random ones are needed (`openssl rand -hex 32`)."


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Keys to seal bodies on the bus and to sign tokens. `repr` shows ids only."""

    sealing_key_id: str
    """Names the key that seals now."""
    sealing_keys: Mapping[str, bytes] = field(repr=False)
    """Key id → 32 bytes for AES-GCM; older ones still open."""
    token_key: bytes = field(repr=False)
    """32 bytes for HS256."""
    token_key_id: str
    token_keys: Mapping[str, bytes] = field(repr=False)
    """Key id → key; older ones still verify."""

    @classmethod
    def derive(cls, secret: str, previous: str | None = None) -> "KeyRing":
        """All keys of a deployment's secret, and the previous one's for what was made before a rotation."""
        generations = [secret, *([previous] if previous else [])]
        sealing = {_key_id(text, "seal"): _derive(text, "seal") for text in generations}
        tokens = {_key_id(text, "token"): _derive(text, "token") for text in generations}
        token_key_id = _key_id(secret, "token")
        return cls(
            sealing_key_id=_key_id(secret, "seal"),
            sealing_keys=sealing,
            token_key=tokens[token_key_id],
            token_key_id=token_key_id,
            token_keys=tokens,
        )


def load_keyring(settings: ServiceSettings) -> KeyRing:
    """The keys of this deployment.

    `secret` from the settings when it is set; else the file `<data_dir>/secret`, which is made on the first start when
    the server is the embedded one.

    Raises:
        SecretMissing: a Redis is named by URL, and there is neither a secret nor the file.
        SecretTooShort: the secret could be guessed.
    """
    previous = settings.previous_secret.get_secret_value() if settings.previous_secret else None
    if settings.secret is not None:
        secret = _checked("HEREABOUTS_SECRET", settings.secret.get_secret_value())
    else:
        path = settings.data_dir / SECRET_FILE
        found = _read(path)
        if found is None:
            if settings.redis_url is not None:
                raise SecretMissing(min_chars=MIN_SECRET_CHARS)
            found = _create(path)
        secret = _checked(str(path), found)
    if previous is not None:
        _checked("HEREABOUTS_PREVIOUS_SECRET", previous)
    return KeyRing.derive(secret, previous)


def _checked(name: str, secret: str) -> str:
    if len(secret) < MIN_SECRET_CHARS:
        raise SecretTooShort(name=name, chars=len(secret), min_chars=MIN_SECRET_CHARS)
    return secret


def _derive(secret: str, use: str, length: int = 32) -> bytes:
    kdf = HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=f"hereabouts/{use}/v1".encode())
    return kdf.derive(secret.encode())


def _key_id(secret: str, use: str) -> str:
    """Derived too: the same on every machine, and it tells nothing about the key."""
    return _derive(secret, f"{use}-id", 4).hex()


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None


def _create(path: Path) -> str:
    """Write a new secret unless another process was first; then the other's.

    A hard link of a complete file either appears or fails with EEXIST, so nobody reads half a secret.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".secret-")
    try:
        with os.fdopen(handle, "w") as file:  # mkstemp makes it 0600
            file.write(secrets.token_hex(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
    finally:
        os.unlink(temporary)
    return path.read_text().strip()
