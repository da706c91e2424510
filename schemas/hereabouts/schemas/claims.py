"""What a signed token says."""

from enum import StrEnum

from .base import Model


class TokenKind(StrEnum):
    """What a token is for; one kind never passes for another."""

    CLIENT = "client"
    AGENT = "agent"
    GATEWAY = "gateway"


class Claims(Model):
    """A token's content. Times are seconds since the epoch, as JWT has them (RFC 7519)."""

    kind: TokenKind
    tenant: str
    session: str | None = None
    user: str | None = None
    exp: int
    iat: int
    jti: str
    auto_approve: bool = False
    """Gateway tokens only: a device that shows it is paired at once (for a user's own set-up on one machine)."""
