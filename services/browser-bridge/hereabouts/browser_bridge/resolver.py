"""Answers the dialect's questions from the records on the bus."""

import asyncio
from typing import Any

from hereabouts.bus.port import Bus
from hereabouts.schemas.records import SessionRecord, TenantRecord

from .questions import SessionAnswer, SessionQuestion


class Resolver:
    """Looks up sessions and tenants; both at once, since a page waits."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._tenants = bus.records(TenantRecord)
        self._sessions = bus.records(SessionRecord)

    async def __call__(self, about: Any) -> SessionAnswer:
        """The answer to a SessionQuestion.

        Raises:
            BusUnavailable: the records cannot be read.
        """
        if not isinstance(about, SessionQuestion):
            raise TypeError(f"no answer for a {type(about).__name__}")
        tenant, session = await asyncio.gather(
            self._tenants.get(about.tenant), self._sessions.get(f"{about.tenant}/{about.session}")
        )
        if tenant is None or session is None or session.expires_at_ms <= self._bus.now_ms():
            return SessionAnswer(None)
        return SessionAnswer(tuple(tenant.allowed_origins))
