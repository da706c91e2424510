"""A store in this process that carries out the few Redis commands that the bus uses, with their times to live.

It is the twin's floor: everything above it (directory, leases, journal, records, receiver) is the same code that runs
on Redis.
"""

import asyncio
import fnmatch
import re
from collections.abc import Callable
from typing import Any

from hereabouts.schemas.errors import BusOverloaded, BusUnavailable
from hereabouts.schemas.limits import MAX_OUTBOX_COMMANDS

from .commands import Argument, Entry, fail
from .errors import CommandRefused


class MemoryStore:
    """Keys, values and their expiry.

    Args:
        now_ms: the store's clock, milliseconds since the epoch.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.values: dict[bytes, Any] = {}
        self.expiry: dict[bytes, int] = {}
        self.pinned: set[bytes] = set()
        """Keys whose time does not run: leases of living twins, whatever a test does to the clock."""
        self.readers: dict[bytes, Callable[[], None]] = {}
        self._last: tuple[int, int] = (0, 0)

    def execute(self, command: tuple[Argument, ...]) -> Any:
        """Carry out one command; the reply as protocol 2 has it.

        Raises:
            CommandRefused: as Redis would refuse it.
        """
        name, *rest = command
        arguments = [value if isinstance(value, bytes) else str(value).encode() for value in rest]
        handler: Callable[..., Any] | None = getattr(self, f"_{str(name).lower()}", None)
        if handler is None:
            raise CommandRefused("ERR")
        return handler(*arguments)

    def clear(self) -> None:
        """Lose everything."""
        self.values.clear()
        self.expiry.clear()

    def living(self) -> list[bytes]:
        """Every key that has not expired."""
        return [key for key in list(self.values) if self._alive(key)]

    def ttl_ms(self, key: bytes) -> int | None:
        """What is left of a key's time; None when it stands for good."""
        return self.expiry[key] - self.now_ms() if self._alive(key) and key in self.expiry else None

    def entries_after(self, key: bytes, last: tuple[int, int]) -> list[Entry]:
        """What an XREAD from `last` would return."""
        return [(_text(i), fields) for i, fields in self._stream(key).items() if i > last]

    def _alive(self, key: bytes) -> bool:
        if key not in self.values:
            return False
        if key in self.pinned or key not in self.expiry or self.expiry[key] > self.now_ms():
            return True
        self._drop(key)
        return False

    def _drop(self, key: bytes) -> int:
        self.expiry.pop(key, None)
        return int(self.values.pop(key, None) is not None)

    def _get_typed(self, key: bytes, kind: type) -> Any:
        if not self._alive(key):
            return None
        value = self.values[key]
        if type(value) is not kind:
            raise CommandRefused("WRONGTYPE")
        return value

    def _stream(self, key: bytes) -> "Stream":
        found: Stream | None = self._get_typed(key, Stream)
        return Stream() if found is None else found

    # --- strings ---

    def _set(self, key: bytes, value: bytes, *options: bytes) -> bytes | None:
        words = [option.upper() for option in options]
        if (b"NX" in words and self._alive(key)) or (b"XX" in words and not self._alive(key)):
            return None
        self.values[key] = value
        self.expiry.pop(key, None)
        if b"PX" in words:
            self.expiry[key] = self.now_ms() + int(options[words.index(b"PX") + 1])
        return b"OK"

    def _get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._get_typed(key, bytes)
        return found

    def _getdel(self, key: bytes) -> bytes | None:
        value = self._get(key)
        if value is not None:
            self._drop(key)
        return value

    def _del(self, *keys: bytes) -> int:
        return sum(self._drop(key) for key in keys if self._alive(key))

    _unlink = _del

    def _exists(self, key: bytes) -> int:
        return int(self._alive(key))

    def _pexpire(self, key: bytes, ms: bytes) -> int:
        if not self._alive(key):
            return 0
        self.expiry[key] = self.now_ms() + int(ms)
        return 1

    def _time(self) -> list[bytes]:
        seconds, ms = divmod(self.now_ms(), 1000)
        return [str(seconds).encode(), str(ms * 1000).encode()]

    def _scan(self, cursor: bytes, *options: bytes) -> list[Any]:
        pattern = re.compile(fnmatch.translate(options[1].decode()))
        return [b"0", [key for key in self.living() if pattern.match(key.decode())]]

    # --- hashes and sorted sets ---

    def _hset(self, key: bytes, field: bytes, value: bytes) -> int:
        table = self._get_typed(key, dict)
        if table is None:
            table = self.values[key] = {}
        added = field not in table
        table[field] = value
        return int(added)

    def _hdel(self, key: bytes, *fields: bytes) -> int:
        table = self._get_typed(key, dict) or {}
        count = sum(table.pop(field, None) is not None for field in fields)
        if not table:
            self._drop(key)
        return count

    def _hgetall(self, key: bytes) -> list[bytes]:
        table = self._get_typed(key, dict) or {}
        return [part for pair in table.items() for part in pair]

    def _eval(self, script: bytes, _keys: bytes, key: bytes, field: bytes, value: bytes) -> int:
        # The one script of the bus: delete a field that still holds this value (directory.DELETE_IF_SAME).
        table = self._get_typed(key, dict) or {}
        return self._hdel(key, field) if table.get(field) == value else 0

    def _zadd(self, key: bytes, score: bytes, member: bytes) -> int:
        table = self._get_typed(key, Scores)
        if table is None:
            table = self.values[key] = Scores()
        added = member not in table
        table[member] = float(score)
        return int(added)

    def _zrem(self, key: bytes, *members: bytes) -> int:
        table = self._get_typed(key, Scores) or Scores()
        return sum(table.pop(member, None) is not None for member in members)

    def _zremrangebyscore(self, key: bytes, _low: bytes, high: bytes) -> int:
        table = self._get_typed(key, Scores) or Scores()
        return self._zrem(key, *[member for member, score in table.items() if score <= float(high)])

    def _zrange(self, key: bytes, *_range: bytes) -> list[bytes]:
        table = self._get_typed(key, Scores) or Scores()
        return sorted(table, key=table.__getitem__)

    # --- streams ---

    def _xadd(self, key: bytes, *rest: bytes) -> bytes | None:
        arguments = list(rest)
        if arguments[0] == b"NOMKSTREAM":
            del arguments[0]
            if not self._alive(key):
                return None
        if arguments[0] == b"MINID":
            self._xtrim(key, *arguments[:3])
            del arguments[:3]
        stream = self._stream(key)
        self.values[key] = stream
        now = self.now_ms()
        self._last = (now, 0) if now > self._last[0] else (self._last[0], self._last[1] + 1)
        stream[self._last] = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        if reader := self.readers.get(key):
            reader()
        return _text(self._last)

    def _xgroup(self, what: bytes, key: bytes, *rest: bytes) -> Any:
        if what == b"CREATE":
            self.values[key] = self._stream(key)
            return b"OK"
        self._stream(key)
        return 1

    def _xtrim(self, key: bytes, _minid: bytes, _about: bytes, threshold: bytes) -> int:
        stream = self._stream(key)
        old = [i for i in stream if i < _id(threshold)]
        for i in old:
            del stream[i]
        return len(old)

    def _xdel(self, key: bytes, *ids: bytes) -> int:
        stream = self._stream(key)
        return sum(stream.pop(_id(i), None) is not None for i in ids)

    def _xrange(self, key: bytes, start: bytes, end: bytes, *count: bytes) -> list[Any]:
        return self._between(key, start, end, reverse=False, count=count)

    def _xrevrange(self, key: bytes, end: bytes, start: bytes, *count: bytes) -> list[Any]:
        return self._between(key, start, end, reverse=True, count=count)

    def _between(self, key: bytes, start: bytes, end: bytes, *, reverse: bool, count: tuple[bytes, ...]) -> list[Any]:
        after, before = start.startswith(b"("), end.startswith(b"(")
        low = (0, 0) if start == b"-" else _id(start.lstrip(b"("))
        high = (1 << 63, 0) if end == b"+" else _id(end.lstrip(b"("), missing=1 << 63)
        found = [
            [_text(i), [part for pair in fields.items() for part in pair]]
            for i, fields in self._stream(key).items()
            if low <= i <= high and not (after and i == low) and not (before and i == high)
        ]
        if reverse:
            found.reverse()
        return found[: int(count[1])] if count else found


class Stream(dict[tuple[int, int], dict[bytes, bytes]]):
    """Entries by id, in order."""


class Scores(dict[bytes, float]):
    """A sorted set's members."""


def _id(text: bytes, missing: int = 0) -> tuple[int, int]:
    ms, _, sequence = text.partition(b"-")
    return int(ms), int(sequence) if sequence else missing


def _text(entry_id: tuple[int, int]) -> bytes:
    return f"{entry_id[0]}-{entry_id[1]}".encode()


class MemoryCommands:
    """Implements Commands on a store: like the outbox, everything of one loop turn goes out together."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._waiting: list[tuple[tuple[Argument, ...], asyncio.Future[Any], Callable[[Any], Any] | None]] = []
        self.closed = False
        self.away = False
        """Set by a test: Redis does not answer."""

    def call(
        self,
        *command: Argument,
        resend: bool = True,
        urgent: bool = False,
        lazy: bool = False,
        convert: Callable[[Any], Any] | None = None,
    ) -> "asyncio.Future[Any]":
        """See Commands.call."""
        if self.closed:
            raise BusUnavailable
        if not urgent and len(self._waiting) >= MAX_OUTBOX_COMMANDS:
            raise BusOverloaded
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self.flush)
        self._waiting.append((command, future, convert))
        return future

    def flush(self) -> None:
        """Carry out what waits (unless Redis is away)."""
        if self.away:
            return
        waiting, self._waiting = self._waiting, []
        for command, future, convert in waiting:
            if future.done():
                continue
            try:
                reply = self._store.execute(command)
                future.set_result(reply if convert is None else convert(reply))
            except Exception as error:
                fail(future, error)
