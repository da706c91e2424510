"""What must not be left behind, and where it is looked for."""

import struct
from pathlib import Path

import httpx
from redis.asyncio import Redis

from hereabouts.bus.keys import WITHOUT_TTL
from hereabouts.testing.collector import Collector
from hereabouts.testing.stack import Stack

SENTINELS = ((47.070714, 15.439504), (-33.867487, 151.206991), (64.146582, -21.942636))
"""Places that tests send: far apart, and with digits that nothing else has."""


def _forms(degrees: float) -> list[bytes]:
    """A coordinate as it could stand in a file: decimal, rounded to four digits, as a float of either byte order."""
    return [
        f"{degrees}".encode(),
        f"{abs(degrees):.4f}".encode()[:7],
        struct.pack("<d", degrees),
        struct.pack(">d", degrees),
    ]


FORMS = [form for place in SENTINELS for degrees in place for form in _forms(degrees)]


async def open_calls(brain_url: str) -> float:
    """The brain's own gauge."""
    async with httpx.AsyncClient(trust_env=False) as http:
        text = (await http.get(f"{brain_url}/metrics")).text
    values = [
        float(line.split()[-1]) for line in text.splitlines() if line.startswith("hereabouts_") and "open_calls" in line
    ]
    assert values, "the brain has no gauge of open calls"
    return sum(values)


async def keys_without_ttl(redis_url: str) -> list[str]:
    """Every key that would stay for good and is not on the list of those that may."""
    async with Redis.from_url(redis_url, decode_responses=True) as redis:
        return [
            key
            async for key in redis.scan_iter(count=1_000)
            if await redis.ttl(key) == -1 and not key.startswith(WITHOUT_TTL)
        ]


async def coordinates_in(stack: Stack, collector: Collector) -> list[str]:
    """Names of files, spans and pages in which one of the sentinel places stands in clear."""
    async with Redis.from_url(stack.redis_url) as redis:
        await redis.config_get("appendonly")  # a round trip: what was written before is in the file's buffers now
        dumped = b"".join([await redis.dump(key) or b"" async for key in redis.scan_iter(count=1_000)])
    async with httpx.AsyncClient(trust_env=False) as http:
        pages = {url: (await http.get(f"{url}/metrics")).content for url in (stack.brain_url, stack.browser_url)}
    places = {str(path.relative_to(stack.data_dir)): path.read_bytes() for path in _files(stack.data_dir)}
    places |= {"exported spans": collector.raw, "Redis": dumped, **pages}
    return [place for place, content in places.items() if any(form in content for form in FORMS)]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
