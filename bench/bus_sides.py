"""The two processes of a bus measurement, on Hereabouts' bus or on the floor: one asks, one answers.

`python -m bench.bus_sides {bus,floor} {ask,answer} URL [INBOX]`; the asking one reads rounds as JSON lines and answers
with figures.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import uvloop

from bench.floor_bus import FLOOR_BRAIN, FLOOR_EDGE, Outbox, read
from hereabouts.bus.port import Message
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.records import Role

BODY = json.dumps({"tool": "location_get", "filling": "x" * 300})[:298] + '"}'
"""300 bytes, as an ask has them."""

SEALER = Sealer({"bench": bytes(32)}, "bench")


class Asker(Protocol):
    """Sends requests; whoever waits for a correlation id is told when its reply is here."""

    waiting: dict[str, "asyncio.Future[None]"]

    def ask(self, correlation_id: str) -> None: ...


class BusAsker:
    """On Hereabouts' bus: asks go out in clear, results come back sealed."""

    def __init__(self, bus: RedisBus, to: str) -> None:
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self._bus = bus
        self._to = to
        self._body = BODY.encode()

    @classmethod
    async def open(cls, url: str, to: str) -> "BusAsker":
        bus = RedisBus(url, Role.BRAIN, SEALER)
        asker = cls(bus, to)
        await bus.start(asker._take)
        return asker

    def ask(self, correlation_id: str) -> None:
        expires = self._bus.now_ms() + 30_000
        self._bus.send(self._to, Message(Kind.ASK, correlation_id, "bench", self._body, self._bus.inbox, expires))

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            settle(self.waiting, message.correlation_id)


class FloorAsker:
    """On bare redis-py."""

    def __init__(self, outbox: Outbox) -> None:
        self.waiting: dict[str, asyncio.Future[None]] = {}
        self._outbox = outbox
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def open(cls, url: str) -> "FloorAsker":
        asker = cls(await Outbox.open(url))
        asker._tasks = [
            asyncio.create_task(asker._outbox.run()),
            asyncio.create_task(read(url, FLOOR_BRAIN, lambda fields: settle(asker.waiting, fields["c"]))),
        ]
        return asker

    def ask(self, correlation_id: str) -> None:
        self._outbox.add(FLOOR_EDGE, "c", correlation_id, "b", BODY)


def settle(waiting: dict[str, "asyncio.Future[None]"], correlation_id: str) -> None:
    """The reply is here."""
    future = waiting.pop(correlation_id, None)
    if future is not None and not future.done():
        future.set_result(None)


async def one_round(asker: Asker, callers: int, seconds: float, calls: int | None) -> dict[str, Any]:
    """Each caller asks again and again, for some time or a number of calls in all."""
    loop = asyncio.get_running_loop()
    taken_us: list[float] = []
    began, cpu = time.perf_counter(), time.process_time()
    each = -(-calls // callers) if calls is not None else None

    async def caller() -> None:
        done = 0
        while done < each if each is not None else time.perf_counter() - began < seconds:
            correlation_id = new_correlation_id()
            asker.waiting[correlation_id] = future = loop.create_future()
            asked = time.perf_counter()
            asker.ask(correlation_id)
            async with asyncio.timeout(10):
                await future
            taken_us.append((time.perf_counter() - asked) * 1e6)
            done += 1

    await asyncio.gather(*(caller() for _ in range(callers)))
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    taken_us.sort()
    return {
        "requests": len(taken_us),
        "p50_us": taken_us[len(taken_us) // 2],
        "p99_us": taken_us[min(len(taken_us) - 1, len(taken_us) * 99 // 100)],
        "requests_per_s": len(taken_us) / took,
        "ask_cpu_us": cpu * 1e6 / len(taken_us),
    }


async def ask(side: str, url: str, to: str) -> None:
    """Take rounds from standard input until it ends."""
    asker: Asker = await BusAsker.open(url, to) if side == "bus" else await FloorAsker.open(url)
    say({"ready": True})
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(await one_round(asker, **json.loads(line)))


async def answer(side: str, url: str) -> None:
    """Answer for ever."""
    if side == "floor":
        outbox = await Outbox.open(url)
        say({"inbox": FLOOR_EDGE})
        await asyncio.gather(
            outbox.run(), read(url, FLOOR_EDGE, lambda fields: outbox.add(FLOOR_BRAIN, "c", fields["c"], "b", BODY))
        )
        return
    bus = RedisBus(url, Role.EDGE, SEALER)
    body = BODY.encode()

    def take(messages: Sequence[Message]) -> None:
        for message in messages:
            bus.send(message.reply_to, Message(Kind.RESULT, message.correlation_id, message.tenant, body))

    await bus.start(take)
    say({"inbox": bus.inbox})
    await asyncio.Event().wait()


def say(what: Any) -> None:
    """One JSON line for the parent."""
    print(json.dumps(what), flush=True)


def main(side: str, part: str, url: str, *to: str) -> None:
    """One process."""
    run: Callable[[], Any] = (lambda: ask(side, url, *to)) if part == "ask" else (lambda: answer(side, url))
    uvloop.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
