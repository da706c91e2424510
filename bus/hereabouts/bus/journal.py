"""Each call's story in 16 streams, partitioned by correlation id."""

import asyncio
import logging
from typing import Any

from pydantic import ValidationError

from hereabouts.schemas.bus_messages import JournalEntry, JournalKind, JournalLine
from hereabouts.schemas.ids import is_correlation_id, time_of
from hereabouts.schemas.limits import JOURNAL_PARTITIONS, JOURNAL_TTL_MS

from . import keys
from .clock import Clock, local_ms
from .commands import Commands, Entry, entries_of

PAGE = 1_000
"""Entries in one XRANGE: some 300 KiB, a few milliseconds."""

MAX_RECENT_PAGES = 10
"""How far back `recent` looks in a partition for lines of one tenant."""

SKEW_MS = 5_000
"""How far a brain's clock, which is in the correlation id, may be ahead of Redis's."""

EXPIRE_EVERY_MS = 60_000
"""How often a writer renews a partition's time to live, instead of with each line."""

_log = logging.getLogger("hereabouts.bus")


class Journal:
    """Implements port.Journal."""

    def __init__(self, commands: Commands, clock: Clock) -> None:
        self._commands = commands
        self._clock = clock
        self._renewed_at_ms: dict[str, float] = {}

    def write(self, entry: JournalEntry) -> "asyncio.Future[None]":
        """See port.Journal."""
        key = keys.journal_of(entry.correlation_id)
        future: asyncio.Future[None] = self._commands.call(
            "XADD", key, "MINID", "~", self._clock.now_ms() - JOURNAL_TTL_MS, "*",
            "c", entry.correlation_id, "t", entry.tenant, "k", entry.kind.value,
            "b", entry.model_dump_json(exclude_defaults=True),
            convert=_nothing,
        )  # fmt: skip
        if local_ms() - self._renewed_at_ms.get(key, float("-inf")) > EXPIRE_EVERY_MS:
            self._renewed_at_ms[key] = local_ms()
            self._expire(key)
        return future

    def renew(self) -> None:
        """Give every partition its time to live, after Redis came back without it."""
        self._renewed_at_ms.clear()  # a partition that is gone is made anew by its next line, which must then renew it
        for partition in range(JOURNAL_PARTITIONS):
            self._expire(keys.journal(partition))

    async def read(self, correlation_id: str) -> list[JournalEntry]:
        """See port.Journal. A text that is no correlation id has no lines."""
        if not is_correlation_id(correlation_id):
            return []
        key, wanted = keys.journal_of(correlation_id), correlation_id.encode()
        start = str(time_of(correlation_id) - SKEW_MS)
        lines: list[JournalEntry] = []
        while True:
            page = entries_of(await self._commands.call("XRANGE", key, start, "+", "COUNT", PAGE))
            lines += [line for entry in page if entry[1].get(b"c") == wanted and (line := _line(entry))]
            if len(page) < PAGE:
                return lines
            start = "(" + page[-1][0].decode()

    async def recent(self, tenant: str | None, limit: int) -> list[JournalEntry]:
        """See port.Journal."""
        found = await asyncio.gather(
            *(self._recent_of(keys.journal(number), tenant, limit) for number in range(JOURNAL_PARTITIONS))
        )
        lines = sorted((line for part in found for line in part), key=lambda line: line.at_ms, reverse=True)
        return lines[:limit]

    async def _recent_of(self, key: str, tenant: str | None, limit: int) -> list[JournalEntry]:
        wanted = None if tenant is None else tenant.encode()
        lines: list[JournalEntry] = []
        end = "+"
        size = min(PAGE, max(16, 4 * limit))
        for _ in range(MAX_RECENT_PAGES):
            page = entries_of(await self._commands.call("XREVRANGE", key, end, "-", "COUNT", size))
            for entry in page:
                fields = entry[1]
                settled = fields.get(b"k") == JournalKind.SETTLED.value.encode()
                if settled and wanted in (None, fields.get(b"t")) and (line := _line(entry)):
                    lines.append(line)
            if len(lines) >= limit or len(page) < size:
                break
            end = "(" + page[-1][0].decode()
        return lines[:limit]

    def _expire(self, key: str) -> None:
        # Twice the time that lines are kept: MINID takes out lines, this takes out a partition nobody writes to.
        self._commands.call("PEXPIRE", key, 2 * JOURNAL_TTL_MS)


def _line(entry: Entry) -> JournalEntry | None:
    try:
        return JournalLine.model_validate_json(entry[1][b"b"]).entry()
    except (KeyError, ValidationError):
        _log.warning("skipped a journal line that cannot be read")
        return None


def _nothing(_: Any) -> None:
    return None
