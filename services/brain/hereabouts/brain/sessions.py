"""Sessions: one conversation of a user, with the tokens and addresses that go with it."""

import hashlib
import secrets
import time

from hereabouts.bus.port import Bus
from hereabouts.runtime.settings import socket_url
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import NotFound
from hereabouts.schemas.http import ClientSeen, SessionCreated, SessionView
from hereabouts.schemas.ids import new_id
from hereabouts.schemas.limits import CODE_TTL_MS, SESSION_TTL_MS, TOKEN_TTL_MS
from hereabouts.schemas.records import ClientRecord, PageCode, SessionRecord

from .routing import preference

CODE_BYTES = 16
"""128 bits: nobody finds a page's code by trying within its ten minutes."""

MAX_SESSION_CHARS = 64
"""A longer id is none of ours and does not become part of a key."""


class Sessions:
    """Creates, finds and ends sessions. Everything is found under its tenant only."""

    def __init__(self, bus: Bus, tokens: Tokens, browser_url: str) -> None:
        self._records = bus.records(SessionRecord)
        self._codes = bus.records(PageCode)
        self._tokens = tokens
        self._browser_url = browser_url.rstrip("/")

    async def create(self, tenant: str, user: str | None) -> SessionCreated:
        """A new session, its two tokens, and a page address with a one-time code."""
        now_ms = int(time.time() * 1000)
        session = SessionRecord(
            tenant=tenant,
            session=new_id("s"),
            user=user,
            created_at_ms=now_ms,
            expires_at_ms=now_ms + SESSION_TTL_MS,
        )
        ttl_s = min(TOKEN_TTL_MS, SESSION_TTL_MS) / 1000
        client_token, agent_token = (
            self._tokens.sign(kind, tenant, session.session, user, ttl_s=ttl_s)
            for kind in (TokenKind.CLIENT, TokenKind.AGENT)
        )
        code = secrets.token_urlsafe(CODE_BYTES)
        await self._records.put(_key(tenant, session.session), session, SESSION_TTL_MS)
        await self._codes.put(
            hashlib.sha256(code.encode()).hexdigest(),
            PageCode(tenant=tenant, session=session.session, user=user, token=client_token),
            CODE_TTL_MS,
        )
        return SessionCreated(
            session_id=session.session,
            user=user,
            client_token=client_token,
            agent_token=agent_token,
            socket_url=socket_url(self._browser_url, "/ws"),
            page_url=f"{self._browser_url}/chat#code={code}",
            expires_at_ms=session.expires_at_ms,
        )

    async def get(self, tenant: str, session: str) -> SessionRecord:
        """A live session of this tenant.

        Raises:
            NotFound: there is none; another tenant's looks the same.
        """
        found = await self._records.get(_key(tenant, session)) if _is_id(session) else None
        if found is None or found.expires_at_ms <= time.time() * 1000:
            raise NotFound(what="session")
        return found

    async def end(self, tenant: str, session: str) -> None:
        """End a session: its tokens and its page's code are worth nothing from now on.

        Raises:
            NotFound: there is none.
        """
        if not _is_id(session) or not await self._records.delete(_key(tenant, session)):
            raise NotFound(what="session")


def view(record: SessionRecord, clients: list[ClientRecord]) -> SessionView:
    """A session as its caller sees it; clients best first, without their own words."""
    return SessionView(
        session_id=record.session,
        user=record.user,
        created_at_ms=record.created_at_ms,
        expires_at_ms=record.expires_at_ms,
        clients=[
            ClientSeen(
                kind=client.kind,
                client_id=client.client_id,
                since_ms=client.since_ms,
                tools=[tool.name for tool in client.tools],
                visibility=client.visibility,
                focused=client.focused,
                permission=client.permission,
            )
            for client in sorted(clients, key=preference)
        ],
    )


def _key(tenant: str, session: str) -> str:
    return f"{tenant}/{session}"


def _is_id(text: str) -> bool:
    return 0 < len(text) <= MAX_SESSION_CHARS and text.isascii() and text.replace("_", "").isalnum()
