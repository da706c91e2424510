"""This edge's part of the directory: written once per loop turn, again under each new epoch, and kept alive."""

import asyncio

from hereabouts.bus.port import Bus
from hereabouts.runtime.logs import get_logger
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.records import ClientRecord

from . import metrics

TOUCH_EVERY_S = 120.0
"""How often the directory's keys are renewed: their time to live is a multiple of this, since one try may fail."""

RETRY_AFTER_S = 1.0
"""A write that failed is tried again after this; a lost bus calls `new_epoch` anyway."""

NEW_EPOCH_WAIT_S = 2.0
"""How long the bus waits for a new epoch's registrations before it goes on."""

_log = get_logger("hereabouts.edge.registration")


class Registrar:
    """Writes records of this edge's clients. The newest record of a connection is the one that counts."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._records: dict[str, ClientRecord] = {}
        self._dirty: dict[str, asyncio.Future[None]] = {}
        self._removed: dict[str, ClientRecord] = {}
        self._flushing = False
        self._retry: asyncio.TimerHandle | None = None
        self._touching: asyncio.Task[None] | None = None

    def put(self, connection: str, record: ClientRecord) -> "asyncio.Future[None]":
        """Write or replace a client's record; `edge`, `epoch`, `connection` and `since_ms` are filled in here.

        Returns:
            A future that ends when brains can see it. Its exception may be ignored.
        """
        before = self._records.get(connection)
        same_place = before is not None and (before.tenant, before.session) == (record.tenant, record.session)
        if before is not None and not same_place:
            self._removed[connection] = before
        since_ms = before.since_ms if before is not None and same_place else self._bus.now_ms()
        self._records[connection] = record.model_copy(
            update={
                "connection": connection,
                "edge": self._bus.instance,
                "epoch": self._bus.epoch,
                "since_ms": since_ms,
                "active_at_ms": record.active_at_ms or since_ms,
            }
        )
        return self._mark_dirty(connection)

    def remove(self, connection: str) -> None:
        """Take a client out: a closed tab disappears at once."""
        record = self._records.pop(connection, None)
        written = self._dirty.pop(connection, None)
        if written is not None and not written.done():
            written.cancel()
        if record is not None:
            self._removed.setdefault(connection, record)
            self._schedule()

    def record(self, connection: str) -> ClientRecord | None:
        """What the directory says of a connection, or is about to say."""
        return self._records.get(connection)

    async def new_epoch(self, epoch: int) -> None:
        """The bus forgot us or declared us dead: say everything again, under the new epoch."""
        for connection, record in self._records.items():
            self._records[connection] = record.model_copy(update={"epoch": epoch})
        futures = [self._mark_dirty(connection) for connection in self._records]
        if futures:
            await asyncio.wait(futures, timeout=NEW_EPOCH_WAIT_S)  # the rest is tried again by itself

    def start(self) -> None:
        """Begin to renew."""
        self._touching = asyncio.get_running_loop().create_task(self._touch(), name="directory-touch")

    async def stop(self) -> None:
        """Take every client out and stop."""
        for connection in list(self._records):
            self.remove(connection)
        self._flush()
        if self._retry is not None:
            self._retry.cancel()
        if self._touching is not None:
            self._touching.cancel()
            await asyncio.gather(self._touching, return_exceptions=True)

    def _mark_dirty(self, connection: str) -> "asyncio.Future[None]":
        future = self._dirty.get(connection)
        if future is None or future.done():
            future = self._dirty[connection] = asyncio.get_running_loop().create_future()
        self._schedule()
        return future

    def _schedule(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        removed, self._removed = self._removed, {}
        dirty, self._dirty = self._dirty, {}
        for connection, record in removed.items():
            self._try(self._bus.directory.remove, record, None, connection)
        for connection, told in dirty.items():
            current = self._records.get(connection)
            if current is not None:
                self._try(self._bus.directory.put, current, told, connection)
            elif not told.done():
                told.cancel()

    def _try(self, write: object, record: ClientRecord, told: "asyncio.Future[None] | None", connection: str) -> None:
        def written(future: "asyncio.Future[None]") -> None:
            failed = future.cancelled() or future.exception() is not None
            if failed:
                self._failed(connection, record, told)
            elif told is not None and not told.done():
                told.set_result(None)

        try:
            write(record).add_done_callback(written)  # type: ignore[operator]
        except HereaboutsError:
            self._failed(connection, record, told)

    def _failed(self, connection: str, record: ClientRecord, told: "asyncio.Future[None] | None") -> None:
        metrics.DIRECTORY_FAILURES.inc()
        if told is None:
            if self._touching is not None and not self._touching.done():
                self._removed.setdefault(connection, record)
        else:
            newer = self._dirty.setdefault(connection, told)
            if newer is not told and not told.done():
                newer.add_done_callback(lambda _: _finish(told))
        if self._retry is None and self._touching is not None and not self._touching.done():
            self._retry = asyncio.get_running_loop().call_later(RETRY_AFTER_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._schedule()

    async def _touch(self) -> None:
        while True:
            await asyncio.sleep(TOUCH_EVERY_S)
            try:
                await self._bus.directory.touch(self._all())
            except HereaboutsError as problem:
                _log.warning("the directory could not be renewed", error=problem.code)

    def _all(self) -> list[ClientRecord]:
        return list(self._records.values())


def _finish(told: "asyncio.Future[None]") -> None:
    if not told.done():
        told.set_result(None)
