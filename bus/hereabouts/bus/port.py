"""The bus as the rest of the house sees it. Two adapters speak it: Redis and the in-memory twin; one suite tests both.

A bus belongs to one process start (an *instance*). It has an inbox that others send to, a lease that says the process
lives, and the records that all processes share. Nothing above this file knows Redis.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hereabouts.schemas.base import Model
from hereabouts.schemas.bus_messages import JournalEntry, Kind
from hereabouts.schemas.records import ClientRecord, Role

R = TypeVar("R", bound=Model)


@dataclass(frozen=True, slots=True)
class Message:
    """One stream entry.

    `body` is JSON as the receiver's model reads it; bodies of results are sealed on the stream and opened before a
    handler sees them. `expires_at_ms` is on Redis's clock; 0 means never. `entry_id` is set on what was received: its
    first part is Redis's clock when the entry was written, so the queue time of a hop costs nothing.
    """

    kind: Kind
    correlation_id: str
    tenant: str
    body: bytes
    reply_to: str = ""
    expires_at_ms: int = 0
    traceparent: str = ""
    entry_id: str = ""

    def __repr__(self) -> str:
        return f"Message(kind={self.kind.value}, correlation_id={self.correlation_id}, {len(self.body)} bytes)"

    @property
    def queued_at_ms(self) -> int:
        """When Redis took the entry, in its own milliseconds."""
        return int(self.entry_id.split("-", 1)[0])


MessageHandler = Callable[[Sequence[Message]], None]
"""Called with all that one read returned. Must not block and must not raise for one bad entry."""


class Directory(Protocol):
    """Who is connected where, with which tools."""

    def put(self, record: ClientRecord) -> "asyncio.Future[None]":
        """Write or replace the record of `record.connection`."""

    def remove(self, record: ClientRecord) -> "asyncio.Future[None]":
        """Take a connection out."""

    async def clients(self, tenant: str, session: str | None, user: str | None) -> list[ClientRecord]:
        """The live tabs of a session and the live nodes of a user, newest registration of each client_id only.

        Live means: its edge's lease exists and has the record's epoch. Dead records are dropped on sight.
        """

    async def touch(self, records: Sequence[ClientRecord]) -> None:
        """Renew the time to live of the keys these records stand in (each edge, every few minutes)."""


class Leases(Protocol):
    """Which instances live."""

    async def epoch_of(self, instance: str) -> int | None:
        """The epoch of a live instance; None when its lease has lapsed."""

    def watch(self, instance: str, on_lost: Callable[[str], None]) -> None:
        """Look at this instance's lease every LEASE_WATCH_MS until it lapses (then `on_lost` once) or `unwatch`.

        Several callbacks may watch one instance; the same callback counts once for each `watch`.
        """

    def unwatch(self, instance: str, on_lost: Callable[[str], None]) -> None:
        """Take back one `watch`."""

    async def instances(self) -> dict[str, int]:
        """Every live instance with its epoch."""


class Journal(Protocol):
    """Each call's story: 16 streams, partitioned by correlation id, kept JOURNAL_TTL_MS."""

    def write(self, entry: JournalEntry) -> "asyncio.Future[None]":
        """Append one line."""

    async def read(self, correlation_id: str) -> list[JournalEntry]:
        """All lines of one call in order; empty when there are none (any more)."""

    async def recent(self, tenant: str | None, limit: int) -> list[JournalEntry]:
        """The newest `settled` lines over all partitions, newest first."""


class Records(Protocol, Generic[R]):
    """One kind of record under string keys, each with a time to live (or, for the listed few, without)."""

    async def put(self, key: str, record: R, ttl_ms: int | None = None) -> None:
        """Write or replace. `ttl_ms` None takes the kind's own time to live."""

    async def add(self, key: str, record: R, ttl_ms: int | None = None) -> bool:
        """Write only if there is none; whether it was written."""

    async def get(self, key: str) -> R | None:
        """The record, or None."""

    async def take(self, key: str) -> R | None:
        """The record, deleted in the same step: only one taker gets it."""

    async def delete(self, key: str) -> bool:
        """Whether there was one."""

    async def list(self, prefix: str) -> list[R]:
        """All records whose key begins with `prefix` (for tenants and pairings: few, and off the hot path)."""


class Bus(Protocol):
    """One process's end of the bus."""

    @property
    def instance(self) -> str:
        """Unique to this process start: `brain_…` or `edge_…`."""

    @property
    def role(self) -> Role:
        """What this process is."""

    @property
    def inbox(self) -> str:
        """The name of this instance's stream; goes into `Message.reply_to`."""

    @property
    def epoch(self) -> int:
        """This instance's current epoch. Rises by one when its lease had lapsed or Redis lost it."""

    @property
    def directory(self) -> Directory: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def journal(self) -> Journal: ...

    def records(self, kind: type[R]) -> Records[R]:
        """The records of TenantRecord, SessionRecord, PageCode (sealed) or PairingRecord.

        Keys: tenants by tenant; sessions by `tenant/session`; page codes by the code's SHA-256 in hex;
        pairings by `tenant/device_id`.
        """

    def inbox_of(self, instance: str) -> str:
        """The stream name of another instance's inbox."""

    def now_ms(self) -> int:
        """Redis's clock, estimated from its own answers; milliseconds since the epoch."""

    def send(self, to: str, message: Message) -> "asyncio.Future[str]":
        """Put a message on another's inbox; all of a loop turn's commands leave in one write.

        Returns:
            A future with the entry id. It may be ignored: its exception then raises no warning.

        Raises:
            BusOverloaded: MAX_OUTBOX_COMMANDS are waiting already.
        """

    async def start(
        self,
        on_messages: MessageHandler,
        *,
        on_new_epoch: Callable[[int], Awaitable[None]] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """Connect, take the lease, and read the inbox.

        `on_new_epoch(epoch)`: the lease had lapsed, or Redis came back without our keys: register everything again.
        `on_lost()`: the bus does not answer, or lost data: open calls can only be answered honestly now.

        Raises:
            BusUnavailable: Redis cannot be reached.
        """

    async def stop(self) -> None:
        """Flush what was sent, give the lease back, delete the inbox. Never raises."""

    def problem(self) -> str | None:
        """Why this end is not ready (for `/readyz`), or None."""
