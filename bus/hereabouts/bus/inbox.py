"""The inbox reader on FastStream: the one file that knows its batch subscriber's internals (FastStream 0.7.8).

FastStream connects, reads, retries and ends; what a read returned goes straight from `consume_one` to us. Its handler
pipeline (contexts, middlewares, message objects, a deep copy of the subscription for each log line) would cost more
than the hop itself, 0.2 ms for a lone message, and has nothing to do here: entries are flat, plain and never
acknowledged.

Why these settings: a poll of 2 s, since redis-py gives a socket 5 s; read from "0-0" of a stream that is unique to this
process start, since "$" is sent anew with each poll and loses first messages; the retry, since FastStream otherwise
sleeps 5 s after a lost connection; `apply_types=False`, since anything else inspects the handler.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from faststream.redis import RedisBroker, StreamSub
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError

from hereabouts.schemas.errors import BusUnavailable

from . import metrics
from .commands import Entry
from .topology import CONNECT_TIMEOUT_S, Topology

POLL_MS = 2_000
MAX_RECORDS = 64
"""One read's worth: at 64 open calls a read returns them all; more would only make a turn of the loop long."""

DEAF_S = 5.0
"""Two polls and a second. A reader from which no read has returned for so long tries in vain: behind Sentinel, redis-py's
retry (8.1) can hold on to a connection of the old master for half a minute after a failover."""

STOP_TIMEOUT_S = 1.0
"""For the read that is cancelled; it waits for nothing but its own cleaning up."""

_RETRIES = 60
"""Half a minute of trying with a back-off that ends at half a second; then the watch starts a new reader."""

_log = logging.getLogger("hereabouts.bus")


class Inbox:
    """Reads one stream and hands over what each read returned. Watched from outside through `running`."""

    def __init__(self, topology: Topology, stream: str, on_entries: Callable[[Sequence[Entry]], None]) -> None:
        self._topology = topology
        self._stream = stream
        self._on_entries = on_entries
        self._broker: RedisBroker | None = None
        self._subscriber: Any = None
        self._read_at = 0.0

    @property
    def running(self) -> bool:
        """Whether the reader is at work: not ended (it does by itself on NOGROUP), and not deaf."""
        subscriber = self._subscriber
        return bool(
            subscriber is not None
            and subscriber.running
            and any(not task.done() for task in subscriber.tasks)
            and time.monotonic() - self._read_at < DEAF_S
        )

    async def start(self) -> None:
        """Begin to read.

        Raises:
            BusUnavailable: Redis cannot be reached.
        """
        broker = self._topology.broker(
            apply_types=False,
            logger=None,  # its lines hold inbox names and, with errors, whole commands
            graceful_timeout=STOP_TIMEOUT_S,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=0.5), _RETRIES),
        )
        subscriber = broker.subscriber(
            stream=StreamSub(
                self._stream, batch=True, last_id="0-0", polling_interval=POLL_MS, max_records=MAX_RECORDS
            ),
            no_reply=True,
        )
        subscriber(_pipeline)
        setattr(subscriber, "consume_one", self._consume)  # noqa: B010 - a method, replaced on purpose
        read = subscriber._get_msgs

        async def get_messages(*args: Any) -> None:
            await read(*args)
            self._read_at = time.monotonic()

        setattr(subscriber, "_get_msgs", get_messages)  # noqa: B010 - likewise
        self._read_at = time.monotonic()
        self._broker, self._subscriber = broker, subscriber
        try:
            await broker.start()
        except (RedisError, OSError, TimeoutError):
            await self.stop()
            raise BusUnavailable from None

    async def stop(self) -> None:
        """End reading. What a read had already returned is handed over first."""
        broker, subscriber, self._broker, self._subscriber = self._broker, self._subscriber, None, None
        if broker is None:
            return
        # FastStream cancels its read without waiting for it, and closes the pool under it: a connection that is just
        # being made would stay open.
        subscriber.running = False
        reads = [task for task in subscriber.tasks if not task.done()]
        for task in reads:
            task.cancel()
        if reads:
            await asyncio.wait(reads, timeout=STOP_TIMEOUT_S)
        try:
            await self._topology.release(broker)
            await broker.stop()
        except (RedisError, OSError, TimeoutError) as error:
            _log.warning("the inbox reader ended with %s", type(error).__name__)

    async def restart(self) -> None:
        """A new reader from the stream's beginning: what was consumed is deleted, so only the rest comes again.

        Raises:
            BusUnavailable: Redis cannot be reached.
        """
        metrics.READER_RESTARTS.inc()
        await self.stop()
        await self.start()

    async def _consume(self, read: Any) -> None:
        self._on_entries(list(zip(read["message_ids"], read["data"], strict=True)))
        # What came of it (answers, frames, commands) leaves before redis-py's way to the next read, 0.1 ms of it, begins.
        await asyncio.sleep(0)


async def _pipeline(_: Any) -> None:
    """Stands for the handler that FastStream wants before it reads; nothing reaches it."""
    raise NotImplementedError
