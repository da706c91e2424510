"""Tenants, sessions, page codes and pairings: one Redis string each."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from hereabouts.schemas.base import Model
from hereabouts.schemas.limits import CODE_TTL_MS
from hereabouts.schemas.records import PageCode, PairingRecord, PairingState, SessionRecord, TenantRecord

from . import keys
from .clock import Clock
from .commands import Commands
from .sealing import Sealer

R = TypeVar("R", bound=Model)

PAIRING_REQUEST_TTL_MS = 5 * 60_000
"""A request that nobody approves within five minutes of the device's last try is forgotten."""

_SCAN_COUNT = 1_000
_GLOB = str.maketrans({character: f"\\{character}" for character in "*?[]\\"})


@dataclass(frozen=True, slots=True)
class RecordKind:
    """How one kind of record is kept. `ttl_ms(record, now_ms)` is None for what stands for good."""

    prefix: str
    ttl_ms: Callable[[Any, int], int | None]
    sealed: bool = False


KINDS: dict[type[Model], RecordKind] = {
    TenantRecord: RecordKind("tenant", lambda record, now_ms: None),
    SessionRecord: RecordKind("session", lambda record, now_ms: record.expires_at_ms - now_ms),
    PageCode: RecordKind("code", lambda record, now_ms: CODE_TTL_MS, sealed=True),
    PairingRecord: RecordKind(
        "pairing",
        lambda record, now_ms: None if record.state is PairingState.APPROVED else PAIRING_REQUEST_TTL_MS,
    ),
}


class Records(Generic[R]):
    """Implements port.Records for one kind.

    Raises:
        KeyError: the type is not one of KINDS.
    """

    def __init__(self, commands: Commands, clock: Clock, sealer: Sealer, model: type[R]) -> None:
        self._commands = commands
        self._clock = clock
        self._sealer = sealer
        self._model = model
        self._kind = KINDS[model]

    async def put(self, key: str, record: R, ttl_ms: int | None = None) -> None:
        """See port.Records."""
        await self._set(key, record, ttl_ms, only_new=False)

    async def add(self, key: str, record: R, ttl_ms: int | None = None) -> bool:
        """See port.Records."""
        return await self._set(key, record, ttl_ms, only_new=True)

    async def get(self, key: str) -> R | None:
        """See port.Records."""
        name = self._name(key)
        return self._read(name, await self._commands.call("GET", name))

    async def take(self, key: str) -> R | None:
        """See port.Records. Never sent twice: a take whose reply was lost fails, and the record is gone."""
        name = self._name(key)
        return self._read(name, await self._commands.call("GETDEL", name, resend=False))

    async def delete(self, key: str) -> bool:
        """See port.Records."""
        return bool(await self._commands.call("DEL", self._name(key)))

    async def list(self, prefix: str) -> "list[R]":
        """See port.Records. Walks the whole key space: off the hot path only."""
        pattern = keys.record_prefix(self._kind.prefix, prefix).translate(_GLOB) + "*"
        names: dict[bytes, None] = {}  # SCAN may name a key twice
        cursor: bytes = b"0"
        while True:
            cursor, page = await self._commands.call("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            names.update(dict.fromkeys(page))
            if cursor == b"0":
                break
        ordered = sorted(names)
        values = await asyncio.gather(*(self._commands.call("GET", name) for name in ordered))
        found = (self._read(name.decode(), value) for name, value in zip(ordered, values, strict=True))
        return [record for record in found if record is not None]

    async def _set(self, key: str, record: R, ttl_ms: int | None, *, only_new: bool) -> bool:
        name = self._name(key)
        body = record.model_dump_json().encode()
        if self._kind.sealed:
            body = self._sealer.seal(body, name.encode())
        if ttl_ms is None:
            ttl_ms = self._kind.ttl_ms(record, self._clock.now_ms())
        # A time that has passed already becomes the shortest that Redis knows.
        life = () if ttl_ms is None else ("PX", max(1, ttl_ms))
        reply = await self._commands.call("SET", name, body, *life, *(("NX",) if only_new else ()), resend=not only_new)
        return reply is not None

    def _name(self, key: str) -> str:
        return keys.record(self._kind.prefix, key)

    def _read(self, name: str, value: bytes | None) -> R | None:
        if value is None:
            return None
        if self._kind.sealed:
            value = self._sealer.open(value, name.encode())
        return self._model.model_validate_json(value)
