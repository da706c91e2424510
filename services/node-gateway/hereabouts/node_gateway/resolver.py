"""Answers the dialect's questions from tokens, pairing records and the directory."""

import asyncio
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from hereabouts.bus.port import Bus, Records
from hereabouts.runtime.tokens import Tokens
from hereabouts.schemas.claims import TokenKind
from hereabouts.schemas.errors import Unauthorized
from hereabouts.schemas.node_wire import (
    PAIRING_REQUEST_TTL_MS,
    DetailCode,
    Error,
    ErrorCode,
    NodeDescribe,
    NodeEntry,
    NodeEventName,
    NodeEventReply,
    NodeList,
    PairingApproved,
    PairingList,
    PairingRejected,
)
from hereabouts.schemas.records import PairingRecord, PairingState

from .listing import node_entry, paired_node, pending_pairing
from .pairing import Bearer, approve, decide, read_device_token, record_key
from .questions import (
    Admission,
    AdmissionAnswer,
    CredentialRefused,
    DecidePairing,
    DescribeNode,
    ListNodes,
    ListPairings,
    QueryAnswer,
    Seen,
)

APPROVED, PENDING = PairingState.APPROVED, PairingState.PENDING


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Resolver:
    """See the module. One for the process."""

    def __init__(self, bus: Bus, tokens: Tokens, clock: Callable[[], int] = wall_clock_ms) -> None:
        self._bus = bus
        self._tokens = tokens
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, about: Any) -> AdmissionAnswer | QueryAnswer:
        """The answer to one question.

        Raises:
            BusUnavailable: the records cannot be read; the edge then says so to the dialect.
        """
        match about:
            case Admission():
                return await self._admit(about)
            case Seen():
                return await self._seen(about)
            case ListNodes():
                entries = await self._entries(about.tenant, about.user)
                return NodeList(ts=self._clock(), nodes=tuple(entries))
            case DescribeNode():
                return await self._describe(about)
            case ListPairings():
                return await self._pairings(about)
            case DecidePairing():
                return await self._decide(about)
            case _:
                raise TypeError(f"no question: {type(about).__name__}")

    # --- who comes in -----------------------------------------------------------------------------------------------

    async def _admit(self, admission: Admission) -> AdmissionAnswer:
        bearer = self._bearer(admission)
        if isinstance(bearer, DetailCode):
            return CredentialRefused(bearer)
        paired_key = self._key(bearer, admission, APPROVED)
        pending_key = self._key(bearer, admission, PENDING)
        # Two tries of one device at once would each make a request id; across processes a retry mends it.
        async with self._locked(paired_key):
            paired, pending = await asyncio.gather(self._records.get(paired_key), self._records.get(pending_key))
            decision = decide(admission, bearer, paired, pending, self._clock())
            if decision.pending is not None:
                await self._records.put(pending_key, decision.pending, PAIRING_REQUEST_TTL_MS)
            if decision.paired is not None:
                await self._records.put(paired_key, decision.paired)
            if decision.settled:
                await self._records.delete(pending_key)
        return decision.answer

    def _bearer(self, admission: Admission) -> Bearer | DetailCode:
        """For whom the credentials speak. The reference client shows a device token in either place, or in both."""
        problem = DetailCode.AUTH_TOKEN_MISSING
        for text in (admission.token, admission.device_token):
            if not text:
                continue
            found = read_device_token(text)
            if found is not None:
                return found
            try:
                claims = self._tokens.verify(text, TokenKind.GATEWAY)
            except Unauthorized:
                problem = DetailCode.AUTH_TOKEN_MISMATCH
                continue
            if claims.user:
                return Bearer(claims.tenant, claims.user, claims.auto_approve)
            problem = DetailCode.AUTH_TOKEN_MISMATCH
        return problem

    async def _seen(self, seen: Seen) -> QueryAnswer:
        key = record_key(seen.tenant, seen.user, seen.device_id, "node", APPROVED)
        async with self._locked(key):
            record = await self._records.get(key)
            if record is not None:
                await self._records.put(key, record.model_copy(update={"last_seen_at_ms": self._clock()}))
        return NodeEventReply(event=NodeEventName.PRESENCE_ALIVE.value, handled=record is not None)

    # --- what operators ask -----------------------------------------------------------------------------------------

    async def _entries(self, tenant: str, user: str) -> list[NodeEntry]:
        paired, connected = await asyncio.gather(
            self._of_user(tenant, user, APPROVED), self._bus.directory.clients(tenant, None, user)
        )
        live = {client.client_id: client for client in connected if client.kind == "node"}
        waiting = {record.device_id for record in await self._of_user(tenant, user, PENDING)}
        return [
            node_entry(record, live.get(record.device_id), record.device_id in waiting)
            for record in paired
            if record.role == "node"
        ]

    async def _describe(self, about: DescribeNode) -> QueryAnswer:
        for entry in await self._entries(about.tenant, about.user):
            if entry.node_id == about.node_id:
                return NodeDescribe(ts=self._clock(), **entry.model_dump())
        return Error(code=ErrorCode.INVALID_REQUEST, message="unknown nodeId")

    async def _pairings(self, about: ListPairings) -> QueryAnswer:
        pending, paired = await asyncio.gather(
            self._of_user(about.tenant, about.user, PENDING), self._of_user(about.tenant, about.user, APPROVED)
        )
        known = {(record.device_id, record.role) for record in paired}
        return PairingList(
            pending=tuple(pending_pairing(record, (record.device_id, record.role) in known) for record in pending),
            paired=tuple(paired_node(record) for record in paired if record.role == "node"),
        )

    async def _decide(self, about: DecidePairing) -> QueryAnswer:
        requests = await self._of_user(about.tenant, about.user, PENDING)
        request = next((record for record in requests if record.request_id == about.request_id), None)
        if request is None:
            return Error(code=ErrorCode.INVALID_REQUEST, message="unknown requestId")
        keys = {
            state: record_key(request.tenant, request.user, request.device_id, request.role, state)
            for state in PairingState
        }
        async with self._locked(keys[APPROVED]):
            # Taken, so that of two operators who decide at once only one does.
            taken = await self._records.take(keys[PENDING])
            if taken is None:
                return Error(code=ErrorCode.INVALID_REQUEST, message="unknown requestId")
            if not about.approve:
                return PairingRejected(request_id=taken.request_id, node_id=taken.device_id)
            record = approve(taken, await self._records.get(keys[APPROVED]), self._clock())
            await self._records.put(keys[APPROVED], record)
        return PairingApproved(request_id=record.request_id, node=paired_node(record))

    # --- records ----------------------------------------------------------------------------------------------------

    @property
    def _records(self) -> Records[PairingRecord]:
        return self._bus.records(PairingRecord)

    async def _of_user(self, tenant: str, user: str, state: PairingState) -> list[PairingRecord]:
        return [
            record for record in await self._records.list(f"{tenant}/") if record.user == user and record.state is state
        ]

    def _key(self, bearer: Bearer, admission: Admission, state: PairingState) -> str:
        return record_key(bearer.tenant, bearer.user, admission.device_id, admission.role.value, state)

    def _locked(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())
