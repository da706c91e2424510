"""Who is asking: a tenant by its API key, or an agent by its session's token."""

import asyncio
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from hereabouts.bus.port import Bus
from hereabouts.runtime.tokens import API_KEY_PREFIX, Tokens, api_key_sha256
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import Forbidden, Unauthorized
from hereabouts.schemas.records import TenantRecord

TENANT_CACHE_S = 5.0
"""How long tenants are remembered: a removed key is refused everywhere within it."""

TENANT_REFRESH_S = 0.25
"""An unknown key makes the list be read again (the tenant may be new), but no oftener than this: whoever guesses waits,
and Redis does not feel it."""

MAX_HEADER_CHARS = 8_192


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking. `session` is set for an agent: it may use that one only."""

    tenant: str
    session: str | None = None
    user: str | None = None
    """The session's user as an agent's token names them."""

    def must_be_tenant(self) -> None:
        """Raise unless an API key was shown.

        Raises:
            Forbidden: an agent's token was.
        """
        if self.session is not None:
            raise Forbidden(problem="An agent token may only use its own session; this needs the tenant's API key.")

    def must_reach(self, session: str) -> None:
        """Raise unless this session is the caller's to use (its tenant is checked by where it is looked up).

        Raises:
            Forbidden: the agent's token is for another session.
        """
        if self.session is not None and self.session != session:
            raise Forbidden(problem="This agent token is for another session.")


class Callers:
    """Turns an `Authorization` header into a caller."""

    def __init__(self, bus: Bus, tokens: Tokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._tenants = bus.records(TenantRecord)
        self._tokens = tokens
        self._clock = clock
        self._by_key: dict[str, str] = {}
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def identify(self, header: str | None) -> Caller:
        """The caller of a request.

        Raises:
            Unauthorized: no header, an unknown scheme, or a key or token that does not hold.
            BusUnavailable: tenants cannot be read.
        """
        if header is None:
            raise Unauthorized(problem="There is no `Authorization` header.")
        scheme, _, credential = header.partition(" ")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential or len(header) > MAX_HEADER_CHARS:
            raise Unauthorized(problem="The `Authorization` header is not of the form `Bearer <key or token>`.")
        if credential.startswith(API_KEY_PREFIX):
            return Caller(await self._tenant_of(credential))
        claims = self._tokens.verify(credential, TokenKind.AGENT)
        if claims.session is None:
            raise Unauthorized(problem="The agent token names no session.")
        return Caller(claims.tenant, claims.session, claims.user)

    async def _tenant_of(self, key: str) -> str:
        presented = api_key_sha256(key)
        if self._clock() - self._read_at > TENANT_CACHE_S or presented not in self._by_key:
            await self._refresh()
        # The lookup is by hash, which tells nothing of the key; the comparison is in constant time all the same.
        for kept, tenant in self._by_key.items() if presented in self._by_key else ():
            if hmac.compare_digest(kept, presented):
                return tenant
        raise Unauthorized(problem="The API key is not known.")

    async def _refresh(self) -> None:
        """Read all tenants; whoever wants it at the same time shares one reading, and readings keep their distance."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="read tenants")
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        await asyncio.sleep(max(0.0, self._read_at + TENANT_REFRESH_S - self._clock()))
        records = await self._tenants.list("")
        self._by_key = {kept: record.tenant for record in records for kept in record.api_key_sha256}
        self._read_at = self._clock()
