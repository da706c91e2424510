"""Which instances live, and the watch over those that hold open asks."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from hereabouts.schemas.errors import HereaboutsError
from hereabouts.schemas.limits import LEASE_RENEW_MS, LEASE_WATCH_MS

from . import keys
from .clock import local_ms
from .commands import Commands

_GRACE_TICKS = 2 * LEASE_RENEW_MS // LEASE_WATCH_MS
"""After Redis was away or lost its data, the living have two heartbeats to write their leases again."""

MAX_SEEN = 1_000
"""Leases that are remembered: more than a deployment has processes; names of ended ones go first."""

_log = logging.getLogger("hereabouts.bus")


class _Watch:
    """One watched instance: its callbacks, and the epoch that it had when it was first seen."""

    __slots__ = ("callbacks", "epoch")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str], None]] = []
        self.epoch: bytes | None = None


class Leases:
    """Implements port.Leases. Looks at all watched leases in one batch; sleeps when nothing is watched.

    Args:
        commands: where commands go.
        instance: this process; while its own lease is missing too, nobody is declared dead.
        on_own_lost: called then, so that the heartbeat looks at once.
    """

    def __init__(self, commands: Commands, instance: str, on_own_lost: Callable[[], None]) -> None:
        self._commands = commands
        self._own = keys.lease(instance)
        self._on_own_lost = on_own_lost
        self._watched: dict[str, _Watch] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._grace = 0
        self._some = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._task = asyncio.create_task(self._run(), name="bus lease watch")

    async def stop(self) -> None:
        """End the watch; no callback is called any more."""
        self._watched.clear()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def epoch_of(self, instance: str) -> int | None:
        """See port.Leases."""
        return self._note(instance, await self._commands.call("GET", keys.lease(instance)))

    def held(self, instance: str, epoch: int) -> bool:
        """Whether this lease was seen with this epoch within the last LEASE_WATCH_MS.

        The watch over open asks looks no oftener either, so asking Redis each time would find a death no sooner. False
        says nothing: then ask.
        """
        seen = self._seen.get(instance)
        return seen is not None and seen[0] == epoch and local_ms() - seen[1] < LEASE_WATCH_MS

    async def epochs_of(self, instances: list[str]) -> dict[str, int | None]:
        """The epochs of several instances, asked in one batch."""
        replies = await asyncio.gather(*(self._commands.call("GET", keys.lease(name)) for name in instances))
        return {name: self._note(name, reply) for name, reply in zip(instances, replies, strict=True)}

    def _note(self, name: str, reply: Any) -> int | None:
        if reply is None:
            self._seen.pop(name, None)
            return None
        self._seen[name] = (int(reply), local_ms())
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return int(reply)

    def watch(self, instance: str, on_lost: Callable[[str], None]) -> None:
        """See port.Leases."""
        self._watched.setdefault(instance, _Watch()).callbacks.append(on_lost)
        self._some.set()

    def unwatch(self, instance: str, on_lost: Callable[[str], None]) -> None:
        """See port.Leases."""
        watch = self._watched.get(instance)
        if watch is None:
            return
        with contextlib.suppress(ValueError):
            watch.callbacks.remove(on_lost)
        if not watch.callbacks:
            del self._watched[instance]
            if not self._watched:
                self._some.clear()

    async def instances(self) -> dict[str, int]:
        """See port.Leases."""
        names = [name.decode() for name in await self._commands.call("ZRANGE", keys.INSTANCES, "0", "-1")]
        return {name: epoch for name, epoch in (await self.epochs_of(names)).items() if epoch is not None}

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(LEASE_WATCH_MS / 1000)
            try:
                async with asyncio.timeout(LEASE_RENEW_MS / 1000):
                    await self._look()
            except (HereaboutsError, TimeoutError):
                self._grace = _GRACE_TICKS  # Redis is away: that says nothing about the others

    async def _look(self) -> None:
        names = list(self._watched)
        if not names:
            return
        get = self._commands.call
        own, *replies = await asyncio.gather(
            get("GET", self._own, urgent=True), *(get("GET", keys.lease(name), urgent=True) for name in names)
        )
        if own is None:
            self._grace = _GRACE_TICKS
            self._on_own_lost()
            return
        self._grace = max(0, self._grace - 1)
        for name, reply in zip(names, replies, strict=True):
            self._note(name, reply)
            self._judge(name, reply)

    def _judge(self, name: str, reply: Any) -> None:
        watch = self._watched.get(name)
        if watch is None:
            return
        if reply is not None and watch.epoch in (None, reply):
            watch.epoch = reply
            return
        if reply is None and self._grace:
            return
        # No lease, or that of a new epoch: what was asked in the old one is refused from now on.
        del self._watched[name]
        if not self._watched:
            self._some.clear()
        for on_lost in watch.callbacks:
            try:
                on_lost(name)
            except Exception as error:
                _log.error("a lease callback raised %s", type(error).__name__)
