"""Signed tokens (JWT, HS256) and API keys."""

import hashlib
import hmac
import secrets
import time

import jwt

from hereabouts.schemas.claims import Claims, TokenKind
from hereabouts.schemas.errors import Unauthorized

from .keyring import KeyRing

ALGORITHM = "HS256"
API_KEY_PREFIX = "hb_"
API_KEY_BYTES = 32

MAX_TOKEN_CHARS = 4_096
"""Our tokens have about 400; a longer text is none of ours and is not worth the hashing."""

MAX_REMEMBERED = 4_096
"""Tokens whose signature was found good are remembered by hash: an agent shows the same one with each call, and the
check costs 56 µs of CPU, a tenth of a call. Half a megabyte when full."""

_WORDS = {
    TokenKind.CLIENT: "a client token",
    TokenKind.AGENT: "an agent token",
    TokenKind.GATEWAY: "a gateway token",
}


class Tokens:
    """Signs and verifies the tokens of one deployment."""

    def __init__(self, keyring: KeyRing) -> None:
        self._keyring = keyring
        self._verified: dict[bytes, Claims] = {}

    def sign(
        self,
        kind: TokenKind,
        tenant: str,
        session: str | None = None,
        user: str | None = None,
        *,
        ttl_s: float,
        auto_approve: bool = False,
    ) -> str:
        """A token of `kind` that holds for `ttl_s` seconds from now."""
        now = int(time.time())
        claims = Claims(
            kind=kind,
            tenant=tenant,
            session=session,
            user=user,
            iat=now,
            exp=now + int(ttl_s),
            jti=secrets.token_hex(8),
            auto_approve=auto_approve,
        )
        return jwt.encode(
            claims.model_dump(mode="json", exclude_none=True),
            self._keyring.token_key,
            algorithm=ALGORITHM,
            headers={"kid": self._keyring.token_key_id},
        )

    def verify(self, text: str, kind: TokenKind) -> Claims:
        """The claims of a token that is ours, of this kind, and not expired.

        Raises:
            Unauthorized: says which of these it is not; never repeats the token.
        """
        if len(text) > MAX_TOKEN_CHARS:
            raise Unauthorized(problem="The token is malformed.")
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        claims = self._verified.get(name)
        if claims is None:
            claims = self._checked(text)
            if len(self._verified) >= MAX_REMEMBERED:
                del self._verified[next(iter(self._verified))]  # the oldest
            self._verified[name] = claims
        elif claims.exp <= time.time():
            del self._verified[name]
            raise Unauthorized(problem="The token has expired.")
        if claims.kind is not kind:
            raise Unauthorized(problem=f"This is {_WORDS[claims.kind]}; {_WORDS[kind]} is needed here.")
        return claims

    def _checked(self, text: str) -> Claims:
        """The claims of a token whose signature and time hold, whatever its kind."""
        try:
            key = self._keyring.token_keys.get(str(jwt.get_unverified_header(text).get("kid")))
            if key is None:
                raise Unauthorized(problem="The token was signed with a key that this deployment does not have.")
            # iat is not compared with the clock: another machine's clock may run a little ahead.
            content = jwt.decode(
                text,
                key,
                algorithms=[ALGORITHM],
                options={"require": ["exp", "iat", "jti"], "verify_iat": False},
            )
            return Claims.model_validate(content)
        except jwt.ExpiredSignatureError:
            raise Unauthorized(problem="The token has expired.") from None
        except jwt.InvalidSignatureError:
            raise Unauthorized(problem="The token's signature is wrong.") from None
        except (jwt.PyJWTError, ValueError):  # ValueError covers pydantic's and UnicodeError
            raise Unauthorized(problem="The token is malformed.") from None


def new_api_key() -> str:
    """A tenant's key: `hb_` and 256 random bits in base64url."""
    return API_KEY_PREFIX + secrets.token_urlsafe(API_KEY_BYTES)


def api_key_sha256(key: str) -> str:
    """What is kept of a key. It is random, so a slow hash would protect nothing."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def api_key_matches(key: str, sha256s: list[str]) -> bool:
    """Whether a key is one of those kept, in a time that does not tell which."""
    presented = api_key_sha256(key)
    matches = [hmac.compare_digest(presented, kept) for kept in sha256s]
    return any(matches)
