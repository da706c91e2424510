"""One process's end of the bus: the parts put together. Redis and the twin differ only in what is handed in."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hereabouts.schemas.base import Model
from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.ids import new_id
from hereabouts.schemas.records import Role

from . import keys, metrics
from .clock import Clock
from .commands import Commands, Entry, entries_of
from .directory import Directory
from .entries import encode
from .errors import InboxGone
from .heartbeat import ANSWER_TIMEOUT_S, Heartbeat
from .journal import Journal
from .leases import Leases
from .port import Bus, Message, MessageHandler
from .receiver import Receiver
from .records import Records
from .sealing import Sealer

R = TypeVar("R", bound=Model)

_log = logging.getLogger("hereabouts.bus")


class Reader(Protocol):
    """What reads the inbox."""

    @property
    def running(self) -> bool: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def restart(self) -> None: ...


class BusEnd:
    """Implements port.Bus on a store's commands and a reader.

    Args:
        commands: where commands go; opened and closed by the adapter.
        role: what this process is.
        sealer: seals results and page codes.
        make_reader: given the inbox's name and where its entries go.
        clock: the store's, where it need not be estimated.
    """

    def __init__(
        self,
        commands: Commands,
        role: Role,
        sealer: Sealer,
        make_reader: Callable[[str, Callable[[Sequence[Entry]], None]], Reader],
        clock: Clock | None = None,
    ) -> None:
        self._commands = commands
        self._role = role
        self._sealer = sealer
        self._make_reader = make_reader
        self._instance = new_id(role.value)
        self._inbox = keys.inbox(self._instance)
        self._clock = clock or Clock()
        self._heartbeat = Heartbeat(
            commands,
            self._instance,
            self._clock,
            on_epoch=self._new_epoch,
            on_silence=self._silence,
            on_beat=self._after_beat,
        )
        self._leases = Leases(commands, self._instance, self._heartbeat.wake)
        self._directory = Directory(commands, self._leases)
        self._journal = Journal(commands, self._clock)
        self._reader: Reader | None = None
        self._receiver: Receiver | None = None
        self._on_new_epoch: Callable[[int], Awaitable[None]] | None = None
        self._on_lost: Callable[[], None] | None = None
        self._sends: dict[tuple[str, Kind], Any] = {}
        self._registering: asyncio.Task[None] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._started = False
        self._stopped = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._instance})"

    @property
    def instance(self) -> str:
        """See port.Bus."""
        return self._instance

    @property
    def role(self) -> Role:
        """See port.Bus."""
        return self._role

    @property
    def inbox(self) -> str:
        """See port.Bus."""
        return self._inbox

    @property
    def epoch(self) -> int:
        """See port.Bus."""
        return self._heartbeat.epoch

    @property
    def directory(self) -> Directory:
        """See port.Bus."""
        return self._directory

    @property
    def leases(self) -> Leases:
        """See port.Bus."""
        return self._leases

    @property
    def journal(self) -> Journal:
        """See port.Bus."""
        return self._journal

    def records(self, kind: type[R]) -> Records[R]:
        """See port.Bus."""
        return Records(self._commands, self._clock, self._sealer, kind)

    def inbox_of(self, instance: str) -> str:
        """See port.Bus."""
        return keys.inbox(instance)

    def now_ms(self) -> int:
        """See port.Bus."""
        return self._clock.now_ms()

    def send(self, to: str, message: Message) -> "asyncio.Future[str]":
        """See port.Bus. The future fails with InboxGone when `to` does not exist (any more).

        NOMKSTREAM: a message to a process that has ended must not leave a stream without a time to live.
        """
        future: asyncio.Future[str] = self._commands.call(
            "XADD", to, "NOMKSTREAM", "*", *encode(message, self._sealer), convert=_entry_id
        )
        template = keys.template_of(to)
        counter = self._sends.get((template, message.kind))
        if counter is None:
            counter = self._sends[template, message.kind] = metrics.SENDS.labels(template, message.kind.value)
        counter.inc()
        return future

    async def start(
        self,
        on_messages: MessageHandler,
        *,
        on_new_epoch: Callable[[int], Awaitable[None]] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """See port.Bus."""
        if self._started:
            raise RuntimeError("a bus starts once")
        self._started = True
        self._on_new_epoch, self._on_lost = on_new_epoch, on_lost
        try:
            await self._open()
            self._receiver = Receiver(self._inbox, self._commands, self._sealer, self._clock, on_messages)
            await self._heartbeat.start()
            self._reader = self._make_reader(self._inbox, self._receiver.take)
            await self._reader.start()
            self._leases.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """See port.Bus."""
        if self._stopped:
            return
        self._stopped = True
        for step in (self._heartbeat.stop, self._end_tasks, self._leases.stop, self._drain, self._close):
            try:
                await step()
            except Exception as error:
                _log.warning("stopping the bus: %s", type(error).__name__)

    def problem(self) -> str | None:
        """See port.Bus."""
        if not self._started or self._stopped:
            return "the bus is not started"
        if self._heartbeat.refused:
            return self._heartbeat.refused
        if self._heartbeat.silent:
            return "the message bus does not answer"
        if self._reader is None or not self._reader.running:
            return "the inbox reader is not running"
        return None

    async def _open(self) -> None:
        """Connect. Adapters override it."""

    async def _close(self) -> None:
        """Disconnect. Adapters override it."""

    async def _drain(self) -> None:
        """Give the lease back so that nobody sends any more, hand over what has come, delete the inbox."""
        if self._reader is None or self._receiver is None:
            return
        call = self._commands.call
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await asyncio.gather(
                    call("DEL", keys.lease(self._instance), urgent=True),
                    call("ZREM", keys.INSTANCES, self._instance, urgent=True),
                )
        except (TimeoutError, HereaboutsError):
            await self._reader.stop()
            return
        await self._reader.stop()
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            self._receiver.take(entries_of(await call("XRANGE", self._inbox, "-", "+", urgent=True)))
            await call("UNLINK", self._inbox, keys.epoch(self._instance), urgent=True)

    def _new_epoch(self, epoch: int, lost: bool) -> None:
        if lost:
            self._journal.renew()
            self._call_lost()
            # Its connection may be one to the old server, its place in the stream one that is still to come.
            self._restart_reader()
        if self._on_new_epoch is not None:
            # Beside the heartbeat: however long registering takes, the lease is renewed. A newer epoch takes over.
            if self._registering is not None:
                self._registering.cancel()
            self._registering = asyncio.create_task(self._register(self._on_new_epoch, epoch), name="bus epoch")

    async def _register(self, on_new_epoch: Callable[[int], Awaitable[None]], epoch: int) -> None:
        try:
            await on_new_epoch(epoch)
        except Exception as error:
            _log.error("on_new_epoch raised %s", type(error).__name__)

    def _after_beat(self) -> None:
        if self._reader is not None and not self._reader.running:
            self._restart_reader()

    def _restart_reader(self) -> None:
        if self._reader is None or (self._restarting is not None and not self._restarting.done()):
            return
        _log.warning("the inbox reader is started again")
        self._restarting = asyncio.create_task(self._restart(self._reader), name="bus reader restart")

    async def _restart(self, reader: Reader) -> None:
        try:
            await reader.restart()
        except HereaboutsError as error:
            _log.warning("the inbox reader did not start: %s", type(error).__name__)  # the next beat tries again

    async def _end_tasks(self) -> None:
        for task in (self._registering, self._restarting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _silence(self) -> None:
        self._call_lost()

    def _call_lost(self) -> None:
        if self._on_lost is not None:
            try:
                self._on_lost()
            except Exception as error:
                _log.error("on_lost raised %s", type(error).__name__)


def _entry_id(reply: bytes | None) -> str:
    if reply is None:
        raise InboxGone
    return reply.decode("ascii")


if TYPE_CHECKING:
    _AN_END_IS_A_BUS: type[Bus] = BusEnd
