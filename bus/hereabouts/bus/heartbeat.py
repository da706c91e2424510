"""The heartbeat: renews the lease and the keys of this instance each second, and sees what Redis has lost."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.limits import LEASE_MS, LEASE_RENEW_MS, STREAM_RETENTION_MS

from . import keys, metrics
from .clock import Clock, local_ms, time_reply_ms
from .commands import Commands
from .errors import CommandRefused

ANSWER_TIMEOUT_S = 1.0
"""Without an answer for this long, open calls are told that the bus is lost."""

INSTANCE_TTL_MS = 60_000
"""How long an instance's inbox and epoch outlive its last heartbeat: a process that was suspended finds them again."""

_log = logging.getLogger("hereabouts.bus")


@dataclass(frozen=True, slots=True)
class Beat:
    """What the replies to one heartbeat say."""

    lapsed: bool
    lost: bool
    wrong_type: bool


def read_beat(lease: Any, epoch: Any, inbox: Any, trim: Any) -> Beat:
    """Read the replies to SET XX, PEXPIRE, PEXPIRE and XTRIM.

    Raises:
        HereaboutsError: Redis did not answer one of them, or refused it for a reason that a beat cannot mend.
    """
    wrong_type = isinstance(trim, CommandRefused) and trim.word == "WRONGTYPE"
    for reply in (lease, epoch, inbox, trim):
        if isinstance(reply, BaseException) and not (wrong_type and reply is trim):
            raise reply
    return Beat(lapsed=lease is None, lost=epoch == 0 or inbox == 0 or wrong_type, wrong_type=wrong_type)


class Heartbeat:
    """Keeps one instance alive on the bus.

    Args:
        commands: where commands go.
        instance: whose heart this is.
        clock: learns Redis's time with every beat.
        on_epoch: called after a new epoch was taken, with whether Redis lost data (or may have).
        on_silence: Redis has not answered for ANSWER_TIMEOUT_S; called once until it answers again.
        on_beat: called after each beat that was answered.
    """

    def __init__(
        self,
        commands: Commands,
        instance: str,
        clock: Clock,
        *,
        on_epoch: Callable[[int, bool], None],
        on_silence: Callable[[], None],
        on_beat: Callable[[], None],
    ) -> None:
        self._commands = commands
        self._instance = instance
        self._clock = clock
        self._on_epoch = on_epoch
        self._on_silence = on_silence
        self._on_beat = on_beat
        self._lease = keys.lease(instance)
        self._epoch_key = keys.epoch(instance)
        self._inbox = keys.inbox(instance)
        self._wake = asyncio.Event()
        self._suspect = False
        self._task: asyncio.Task[None] | None = None
        self.epoch = 0
        self.silent = False
        self.refused: str | None = None

    async def start(self) -> None:
        """Take the first epoch, and beat from now on.

        Raises:
            BusUnavailable: Redis does not answer.
        """
        await self._ask_time()
        await self._take_epoch(wrong_type=False)
        self._task = asyncio.create_task(self._run(), name="bus heartbeat")

    async def stop(self) -> None:
        """Stop beating. The lease is left to whoever deletes it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """Beat at once."""
        self._wake.set()

    def suspect(self) -> None:
        """Redis may have lost the last second (a restart, a failover): the next beat takes a new epoch."""
        self._suspect = True
        self.wake()

    async def _run(self) -> None:
        while True:
            # Not wait_for: before Python 3.12 it drops a cancellation that comes in the same turn as the wake-up.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEASE_RENEW_MS / 1000):
                    await self._wake.wait()
            self._wake.clear()
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    beat = await self._beat()
            except (HereaboutsError, TimeoutError) as error:
                self.refused = str(error) if isinstance(error, CommandRefused) else None
                if not self.silent:
                    self.silent = True
                    _log.warning("the bus does not answer")
                    self._on_silence()
                continue
            self.refused = None
            self.silent = False
            try:
                await self._mend(beat)
                self._on_beat()
            except Exception as error:
                _log.error("the heartbeat could not be mended: %s", type(error).__name__)

    async def _mend(self, beat: Beat) -> None:
        lost = beat.lost or self._suspect
        if not lost and not beat.lapsed:
            return
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await self._take_epoch(beat.wrong_type)
        self._suspect = False
        metrics.EPOCHS.labels("lost" if lost else "lapsed").inc()
        _log.warning("epoch %d: %s", self.epoch, "the bus lost data" if lost else "the lease had lapsed")
        self._on_epoch(self.epoch, lost)

    async def _beat(self) -> Beat:
        call = self._commands.call
        now_ms = self._clock.now_ms()
        asked_ms = local_ms()
        replies = await asyncio.gather(
            call("TIME", urgent=True),
            call("SET", self._lease, self.epoch, "PX", LEASE_MS, "XX", urgent=True),
            call("PEXPIRE", self._epoch_key, INSTANCE_TTL_MS, urgent=True),
            call("PEXPIRE", self._inbox, INSTANCE_TTL_MS, urgent=True),
            call("XTRIM", self._inbox, "MINID", "~", now_ms - STREAM_RETENTION_MS, urgent=True),
            *self._enlist(now_ms),
            return_exceptions=True,
        )
        now, *answers = replies
        beat = read_beat(*answers[:4])
        if not isinstance(now, BaseException):
            self._clock.observe(time_reply_ms(now), asked_ms, local_ms())
        metrics.LEASE_RENEWED.set(time.time())
        return beat

    def _enlist(self, now_ms: int) -> list["asyncio.Future[Any]"]:
        """Stand in the list of instances, and take out those who have not beaten for long."""
        call = self._commands.call
        return [
            call("ZADD", keys.INSTANCES, now_ms, self._instance, urgent=True),
            call("ZREMRANGEBYSCORE", keys.INSTANCES, "-inf", now_ms - INSTANCE_TTL_MS, urgent=True),
            call("PEXPIRE", keys.INSTANCES, INSTANCE_TTL_MS, urgent=True),
        ]

    async def _ask_time(self) -> None:
        asked_ms = local_ms()
        reply = await self._commands.call("TIME", urgent=True)
        self._clock.observe(time_reply_ms(reply), asked_ms, local_ms())

    async def _take_epoch(self, wrong_type: bool) -> None:
        """Write lease, epoch and inbox anew. A consumer group made and destroyed is how an empty stream is created."""
        call = self._commands.call
        epoch = self.epoch + 1
        clean = [call("DEL", self._inbox, urgent=True)] if wrong_type else []
        await asyncio.gather(
            *clean,
            call("XGROUP", "CREATE", self._inbox, "make", "0", "MKSTREAM", urgent=True, resend=False),
            call("XGROUP", "DESTROY", self._inbox, "make", urgent=True),
            call("PEXPIRE", self._inbox, INSTANCE_TTL_MS, urgent=True),
            call("SET", self._epoch_key, epoch, "PX", INSTANCE_TTL_MS, urgent=True),
            call("SET", self._lease, epoch, "PX", LEASE_MS, urgent=True),
            *self._enlist(self._clock.now_ms()),
        )
        self.epoch = epoch
