"""A node's key: made once, for its user's eyes only."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hereabouts.node.errors import IdentityError
from hereabouts.node.identity import DeviceTokens, Identity
from hereabouts.schemas import node_wire as wire


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_made_on_first_start_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "new" / "identity.pem"

    first, second = Identity.load_or_create(file), Identity.load_or_create(file)

    assert first.device_id == second.device_id
    assert first.device_id == wire.device_id(wire.decode_base64url(first.public_key, 32))
    assert mode(file) == 0o600
    assert mode(file.parent) == 0o700
    assert [entry.name for entry in file.parent.iterdir()] == ["identity.pem"]


def test_a_key_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    file = tmp_path / "identity.pem"
    Identity.load_or_create(file)
    file.chmod(0o644)

    Identity.load_or_create(file)

    assert mode(file) == 0o600


def test_nodes_that_start_at_once_have_one_identity(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: Identity.load_or_create(tmp_path / "identity.pem").device_id, range(8))

    assert len(set(found)) == 1


def test_a_signature_can_be_checked(tmp_path: Path) -> None:
    identity = Identity.load_or_create(tmp_path / "identity.pem")

    signature = wire.decode_base64url(identity.sign("tëxt"), 64)

    key = Ed25519PublicKey.from_public_bytes(wire.decode_base64url(identity.public_key, 32))
    key.verify(signature, "tëxt".encode())


def test_a_file_that_is_no_key_is_an_error_and_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "identity.pem"
    file.write_text("not a key")

    with pytest.raises(IdentityError, match="no Ed25519 private key"):
        Identity.load_or_create(file)

    assert file.read_text() == "not a key"


def test_tokens_are_kept_by_gateway_and_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    tokens = DeviceTokens(file)

    tokens.put("ws://a/", "1")
    tokens.put("ws://b/", "2")
    tokens.put("ws://a/", None)

    assert DeviceTokens(file).get("ws://a/") is None
    assert DeviceTokens(file).get("ws://b/") == "2"
    assert mode(file) == 0o600
