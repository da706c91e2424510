"""The deployment's secret, the keys made of it, and the tokens signed with them."""

import stat
import threading
import time
from pathlib import Path

import jwt
import pytest

from hereabouts.runtime import tokens as tokens_module
from hereabouts.runtime.keyring import KeyRing, SecretMissing, SecretTooShort, load_keyring
from hereabouts.runtime.settings import ServiceSettings
from hereabouts.runtime.tokens import Tokens, api_key_matches, api_key_sha256, new_api_key
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import Unauthorized

SECRET = "a" * 40
OTHER = "b" * 40


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(KeyRing.derive(SECRET))


def test_an_embedded_deployment_makes_its_secret_once_and_keeps_it_private(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path / "new")
    first = load_keyring(settings)
    file = tmp_path / "new" / "secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_keyring(settings) == first
    assert list(file.parent.iterdir()) == [file]


def test_processes_that_start_at_once_end_up_with_one_secret(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path)
    start = threading.Barrier(8)
    found: list[KeyRing] = []

    def load() -> None:
        start.wait()
        found.append(load_keyring(settings))

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({ring.token_key for ring in found}) == 1


def test_a_redis_by_url_needs_a_secret_and_says_which_setting(tmp_path: Path) -> None:
    settings = ServiceSettings(data_dir=tmp_path, redis_url="redis://example.test/0")
    with pytest.raises(SecretMissing, match="HEREABOUTS_SECRET"):
        load_keyring(settings)
    assert not list(tmp_path.iterdir())


def test_a_supervised_process_finds_the_secret_its_supervisor_made(tmp_path: Path) -> None:
    made = load_keyring(ServiceSettings(data_dir=tmp_path))
    assert load_keyring(ServiceSettings(data_dir=tmp_path, redis_url="unix:///some.sock")) == made


def test_a_short_secret_is_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(SecretTooShort) as refused:
        load_keyring(ServiceSettings(data_dir=tmp_path, secret="hunter2"))
    assert "hunter2" not in str(refused.value)


def test_each_use_has_a_key_of_its_own_and_repr_shows_none() -> None:
    ring = KeyRing.derive(SECRET)
    sealing = ring.sealing_keys[ring.sealing_key_id]
    assert len(sealing) == len(ring.token_key) == 32
    assert sealing != ring.token_key
    assert ring.token_key.hex() not in repr(ring)
    assert str(ring.token_key) not in repr(ring)


def test_after_a_rotation_old_tokens_verify_and_new_ones_use_the_new_key(tokens: Tokens) -> None:
    old = tokens.sign(TokenKind.AGENT, "dev", "s_1", ttl_s=60)
    rotated = Tokens(KeyRing.derive(OTHER, previous=SECRET))
    assert rotated.verify(old, TokenKind.AGENT).session == "s_1"
    new = rotated.sign(TokenKind.AGENT, "dev", "s_2", ttl_s=60)
    with pytest.raises(Unauthorized, match="a key that this deployment does not have"):
        tokens.verify(new, TokenKind.AGENT)
    assert Tokens(KeyRing.derive(OTHER)).verify(new, TokenKind.AGENT).session == "s_2"


def test_a_token_says_what_was_signed(tokens: Tokens) -> None:
    claims = tokens.verify(
        tokens.sign(TokenKind.GATEWAY, "dev", user="u_1", ttl_s=60, auto_approve=True), TokenKind.GATEWAY
    )
    assert (claims.tenant, claims.user, claims.session, claims.auto_approve) == ("dev", "u_1", None, True)
    assert claims.exp - claims.iat == 60


def test_an_expired_token_is_said_to_be_expired(tokens: Tokens) -> None:
    text = tokens.sign(TokenKind.AGENT, "dev", "s_1", ttl_s=-1)
    refused(tokens, text, "has expired")


def test_a_token_that_was_good_before_still_expires(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tokens.sign(TokenKind.AGENT, "dev", "s_1", ttl_s=60)
    assert tokens.verify(text, TokenKind.AGENT) is tokens.verify(text, TokenKind.AGENT)
    with pytest.raises(Unauthorized, match="a client token is needed"):
        tokens.verify(text, TokenKind.CLIENT)
    now = time.time()
    monkeypatch.setattr(tokens_module.time, "time", lambda: now + 61)
    refused(tokens, text, "has expired")


def test_what_is_remembered_of_tokens_is_bounded(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "MAX_REMEMBERED", 3)
    texts = [tokens.sign(TokenKind.AGENT, "dev", f"s_{n}", ttl_s=60) for n in range(5)]
    for text in texts:
        tokens.verify(text, TokenKind.AGENT)
    assert len(tokens._verified) == 3
    assert tokens.verify(texts[0], TokenKind.AGENT).session == "s_0"


def test_one_kind_never_passes_for_another(tokens: Tokens) -> None:
    text = tokens.sign(TokenKind.CLIENT, "dev", "s_1", ttl_s=60)
    refused(tokens, text, "This is a client token; an agent token is needed")


def test_a_changed_token_has_a_wrong_signature(tokens: Tokens) -> None:
    head, _, signature = tokens.sign(TokenKind.AGENT, "dev", "s_1", ttl_s=60).split(".")
    _, other_body, _ = tokens.sign(TokenKind.AGENT, "victim", "s_1", ttl_s=60).split(".")
    refused(tokens, f"{head}.{other_body}.{signature}", "signature is wrong")


def test_the_algorithm_is_ours_to_choose(tokens: Tokens) -> None:
    ring = KeyRing.derive(SECRET)
    now = int(time.time())
    content = {"kind": "agent", "tenant": "dev", "iat": now, "exp": now + 60, "jti": "x"}
    refused(tokens, jwt.encode(content, None, algorithm="none", headers={"kid": ring.token_key_id}), "malformed")
    longer = ring.token_key + bytes(32)
    refused(tokens, jwt.encode(content, longer, algorithm="HS512", headers={"kid": ring.token_key_id}), "malformed")


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "é.é.é", "\ud800", "hb_" + "x" * 43, "x" * 100_000, "...."])
def test_any_other_text_is_malformed(tokens: Tokens, text: str) -> None:
    refused(tokens, text, "malformed")


def test_a_token_without_an_end_is_malformed(tokens: Tokens) -> None:
    ring = KeyRing.derive(SECRET)
    text = jwt.encode(
        {"kind": "agent", "tenant": "dev"},
        ring.token_key,
        algorithm=tokens_module.ALGORITHM,
        headers={"kid": ring.token_key_id},
    )
    refused(tokens, text, "malformed")


def test_api_keys_are_kept_as_hashes_and_compared_whole() -> None:
    key, other = new_api_key(), new_api_key()
    assert key.startswith("hb_")
    assert len(key) == 46
    assert api_key_matches(key, [api_key_sha256(other), api_key_sha256(key)])
    assert not api_key_matches(key[:-1], [api_key_sha256(key)])
    assert not api_key_matches(key, [])


def refused(tokens: Tokens, text: str, problem: str) -> None:
    with pytest.raises(Unauthorized, match=problem) as error:
        tokens.verify(text, TokenKind.AGENT)
    assert not text or text not in str(error.value).replace("`Authorization: Bearer <API key or agent token>`", "")
    assert error.value.__cause__ is None
