"""Who is connected where: one hash per session and one per user, connection → record."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from pydantic import ValidationError

from hereabouts.schemas.records import ClientRecord

from . import keys
from .commands import Commands
from .leases import Leases

DIRECTORY_TTL_MS = 15 * 60_000
"""How long a hash stands without `touch`: edges touch every few minutes, and dead records go on sight anyway."""

DELETE_IF_SAME = (
    "if redis.call('HGET',KEYS[1],ARGV[1])==ARGV[2] then return redis.call('HDEL',KEYS[1],ARGV[1]) end return 0"
)
"""A record that its edge has just written anew, with its new epoch, must survive a reader that saw the old one."""

MAX_PARSED = 2_000
"""Records kept parsed, by their own text: a client's stays the same from call to call. Some 5 MiB when full."""

_log = logging.getLogger("hereabouts.bus")


def key_of(record: ClientRecord) -> str:
    """The hash that a record stands in.

    Raises:
        ValueError: a tab without a session, or a node without a user.
    """
    if record.kind == "tab" and record.session is not None:
        return keys.clients(record.tenant, record.session)
    if record.kind == "node" and record.user is not None:
        return keys.nodes(record.tenant, record.user)
    raise ValueError("a tab needs a session, a node needs a user")


class Directory:
    """Implements port.Directory."""

    def __init__(self, commands: Commands, leases: Leases) -> None:
        self._commands = commands
        self._leases = leases
        self._parsed: dict[bytes, ClientRecord] = {}

    def put(self, record: ClientRecord) -> "asyncio.Future[None]":
        """See port.Directory."""
        key = key_of(record)
        future: asyncio.Future[None] = self._commands.call(
            "HSET", key, record.connection, record.model_dump_json(exclude_defaults=True), convert=_nothing
        )
        self._commands.call("PEXPIRE", key, DIRECTORY_TTL_MS)
        return future

    def remove(self, record: ClientRecord) -> "asyncio.Future[None]":
        """See port.Directory."""
        return self._commands.call("HDEL", key_of(record), record.connection, convert=_nothing)

    def clients(self, tenant: str, session: str | None, user: str | None) -> "Coroutine[Any, Any, list[ClientRecord]]":
        """See port.Directory. Asked at once, so that what else this loop turn asks travels with it."""
        hashes = []
        if session is not None:
            hashes.append(keys.clients(tenant, session))
        if user is not None:
            hashes.append(keys.nodes(tenant, user))
        asked = [(key, self._commands.call("HGETALL", key)) for key in hashes]
        return self._clients(tenant, asked)

    async def _clients(self, tenant: str, asked: "list[tuple[str, asyncio.Future[Any]]]") -> list[ClientRecord]:
        found: list[tuple[str, bytes, bytes, ClientRecord]] = []
        for key, reply in asked:
            flat = await reply
            for field, value in zip(flat[::2], flat[1::2], strict=True):
                record = self._read(key, field, value)
                if record is not None and record.tenant == tenant:
                    found.append((key, field, value, record))
        # A memory may say yes and never no: by a remembered epoch a record that is newer would be dropped.
        unsure = {record.edge for *_, record in found if not self._leases.held(record.edge, record.epoch)}
        epochs = await self._leases.epochs_of(sorted(unsure)) if unsure else {}
        newest: dict[tuple[str, str], ClientRecord] = {}
        for key, field, value, record in found:
            if record.edge in unsure and epochs[record.edge] != record.epoch:
                self._drop(key, field, value)
                continue
            who = (record.kind, record.client_id)
            if who not in newest or newest[who].since_ms <= record.since_ms:
                newest[who] = record
        return list(newest.values())

    async def touch(self, records: Sequence[ClientRecord]) -> None:
        """See port.Directory."""
        hashes = {key_of(record) for record in records}
        await asyncio.gather(*(self._commands.call("PEXPIRE", key, DIRECTORY_TTL_MS) for key in hashes))

    def _read(self, key: str, field: bytes, value: bytes) -> ClientRecord | None:
        known = self._parsed.get(value)
        if known is not None:
            return known
        try:
            record = ClientRecord.model_validate_json(value)
        except ValidationError:
            _log.warning("dropped a directory record that cannot be read")
            self._drop(key, field, value)
            return None
        self._parsed[value] = record
        if len(self._parsed) > MAX_PARSED:
            del self._parsed[next(iter(self._parsed))]
        return record

    def _drop(self, key: str, field: bytes, value: bytes) -> None:
        self._commands.call("EVAL", DELETE_IF_SAME, "1", key, field, value)


def _nothing(_: Any) -> None:
    return None
