"""The bus in one process, for tests of the rooms above and wherever no Redis is wanted.

All of the bus runs for real (sealing, entries, times to live, leases, epochs); only the store is a dictionary.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from hereabouts.schemas.records import Role

from . import keys
from .clock import Clock
from .commands import Entry
from .end import BusEnd
from .memory_store import MemoryCommands, MemoryStore
from .sealing import Sealer

_TEST_KEY = {"memory": bytes(range(32))}


class MemoryHub:
    """What the buses of one process share, and where a test breaks things.

    Args:
        clock: milliseconds since the epoch; the wall clock by default. Leases of living buses do not depend on it.
    """

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._ahead_ms = 0
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self.store = MemoryStore(self.now_ms)
        self._buses: dict[str, MemoryBus] = {}

    def now_ms(self) -> int:
        """The store's clock."""
        return self._clock() + self._ahead_ms

    def advance(self, ms: int) -> None:
        """Put the store's clock forward: what has expired by then is gone. Leases of the living stay."""
        self._ahead_ms += ms

    def lose_data(self) -> None:
        """Redis comes back empty: every bus takes a new epoch and is told that data was lost."""
        self.store.clear()
        for bus in self._buses.values():
            bus.beat()

    def kill(self, instance: str) -> None:
        """The process ends without a word: its lease is gone, its inbox is read by nobody."""
        self._buses.pop(instance).die()
        for key in (keys.lease(instance), keys.epoch(instance), keys.inbox(instance)):
            self.store.pinned.discard(key.encode())
        self.store.execute(("DEL", keys.lease(instance)))

    def silence(self, instance: str) -> None:
        """This bus gets no answers any more, until `answer`."""
        self._buses[instance].away(True)

    def answer(self, instance: str) -> None:
        """This bus gets answers again."""
        self._buses[instance].away(False)

    def join(self, bus: "MemoryBus") -> None:
        """A bus starts."""
        self._buses[bus.instance] = bus
        self.store.pinned |= _own_keys(bus.instance)

    def leave(self, bus: "MemoryBus") -> None:
        """A bus has stopped."""
        self._buses.pop(bus.instance, None)
        self.store.pinned -= _own_keys(bus.instance)


def _own_keys(instance: str) -> set[bytes]:
    names = (keys.lease(instance), keys.epoch(instance), keys.inbox(instance), keys.INSTANCES)
    return {name.encode() for name in names[:3]}


class _HubClock(Clock):
    """The store's clock itself: nothing to estimate, and it moves when a test moves it."""

    def __init__(self, hub: MemoryHub) -> None:
        super().__init__()
        self._hub = hub

    def at(self, now_local_ms: float) -> int:
        return self._hub.now_ms()


class _MemoryReader:
    """Hands over what is written to a stream, all of one loop turn together."""

    def __init__(self, store: MemoryStore, stream: str, on_entries: Callable[[Sequence[Entry]], None]) -> None:
        self._store = store
        self._stream = stream.encode()
        self._on_entries = on_entries
        self._last = (0, 0)
        self._planned = False
        self.running = False

    async def start(self) -> None:
        self.running = True
        self._last = (0, 0)
        self._store.readers[self._stream] = self._plan
        self._plan()

    async def stop(self) -> None:
        self.running = False
        self._store.readers.pop(self._stream, None)

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def _plan(self) -> None:
        if not self._planned:
            self._planned = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._planned = False
        if not self.running:
            return
        entries = self._store.entries_after(self._stream, self._last)
        if entries:
            ms, _, sequence = entries[-1][0].partition(b"-")
            self._last = (int(ms), int(sequence))
            self._on_entries(entries)


class MemoryBus(BusEnd):
    """Implements port.Bus on a hub.

    Args:
        hub: shared by the buses of a test.
        role: what this process is.
        sealer: all buses of a hub must share its keys; a fixed one by default.
    """

    def __init__(self, hub: MemoryHub, role: Role, sealer: Sealer | None = None) -> None:
        self._hub = hub
        self._memory = MemoryCommands(hub.store)

        def make_reader(stream: str, on_entries: Callable[[Sequence[Entry]], None]) -> _MemoryReader:
            return _MemoryReader(hub.store, stream, on_entries)

        super().__init__(self._memory, role, sealer or Sealer(_TEST_KEY, "memory"), make_reader, _HubClock(hub))

    def beat(self) -> None:
        """Let the heartbeat look at once."""
        self._heartbeat.wake()

    def die(self) -> None:
        """End like a killed process: nothing is read, nothing is written any more."""
        self._memory.closed = True
        if self._reader is not None:
            self._hub.store.readers.pop(self._inbox.encode(), None)

    def away(self, away: bool) -> None:
        """Whether the store answers this bus."""
        self._memory.away = away
        if not away:
            self._memory.flush()
        self._heartbeat.wake()

    async def _open(self) -> None:
        self._hub.join(self)

    async def _close(self) -> None:
        self._memory.closed = True
        self._hub.leave(self)
