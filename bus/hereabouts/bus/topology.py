"""The single point that knows what stands behind a bus URL: one server, or Sentinel's current master.

| URL | meaning |
|---|---|
| `unix:///path?db=0` | one server on this machine |
| `redis://[user:password@]host[:port][/db]`, `rediss://…` | one server; with TLS |
| `redis+sentinel://[user:password@]host:port,host:port/service[?db=0]` | the master that the sentinels name |

Keys carry hash tags, so that a Cluster stays possible; its URL is refused until it is spoken here.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from faststream.redis import RedisBroker
from faststream.redis.broker.sentinel_broker import RedisSentinelBroker
from redis.asyncio.sentinel import Sentinel
from redis.exceptions import RedisError

from .errors import UnsupportedUrl

CONNECT_TIMEOUT_S = 1.0
"""A server of one's own network that has not accepted by then is down; the next try comes soon anyway."""


@dataclass(frozen=True, slots=True)
class Topology:
    """What a URL says. The password is kept out of the repr."""

    url: str
    scheme: str
    db: int
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    username: str | None = None
    password: str | None = None
    service: str = ""
    verify: bool = True

    def __repr__(self) -> str:
        return f"Topology({self.scheme}, db={self.db})"

    def greeting(self) -> list[tuple[str, ...]]:
        """The commands that a new connection begins with."""
        commands: list[tuple[str, ...]] = []
        if self.password is not None:
            commands.append(("AUTH", *([self.username] if self.username else []), self.password))
        if self.db:
            commands.append(("SELECT", str(self.db)))
        return commands

    async def connect(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.BaseTransport:
        """A connection to the server that takes writes.

        Raises:
            OSError: nobody is there (also when no sentinel knows a master).
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if self.path:
                transport, _ = await loop.create_unix_connection(protocol, self.path)
                return transport
            host, port = self.hosts[0]
            if self.service:
                host, port = await self._master()
            stream, _ = await loop.create_connection(protocol, host, port, ssl=self._tls())
            return stream

    async def _master(self) -> tuple[str, int]:
        sentinel: Any = Sentinel(list(self.hosts), socket_timeout=CONNECT_TIMEOUT_S / 2)  # type: ignore[no-untyped-call]
        try:
            host, port = await sentinel.discover_master(self.service)
        except RedisError:
            raise ConnectionError("no sentinel names a master") from None
        finally:
            for client in sentinel.sentinels:
                await client.aclose()
        return str(host), int(port)

    def _tls(self) -> ssl.SSLContext | None:
        if self.scheme != "rediss":
            return None
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def broker(self, **options: Any) -> RedisBroker:
        """A FastStream broker for the same server."""
        if not self.service:
            return RedisBroker(self.url, **options)
        who = f"{quote(self.username or '', safe='')}:{quote(self.password, safe='')}@" if self.password else ""
        return RedisSentinelBroker(
            f"redis://{who}master/{self.db}",
            sentinels=list(self.hosts),
            sentinel_master_name=self.service,
            **options,
        )

    @staticmethod
    async def release(broker: RedisBroker) -> None:
        """Close what a broker's own stop leaves open: its connections to the sentinels (FastStream 0.7.8)."""
        state: Any = broker.config.broker_config.connection
        manager = getattr(state.client.connection_pool, "sentinel_manager", None) if state else None
        for client in getattr(manager, "sentinels", ()):
            await client.aclose()


def parse(url: str) -> Topology:
    """Read a bus URL.

    Raises:
        UnsupportedUrl: the scheme or the form is not one of the table above. The text never repeats the URL: it may
            hold a password.
    """
    try:
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        user, _, address = parts.netloc.rpartition("@")
        username, _, password = user.partition(":")
        db = int(query.get("db") or (parts.path.strip("/") if parts.scheme in ("redis", "rediss") else "") or 0)
        default_port = 26379 if parts.scheme == "redis+sentinel" else 6379
        hosts = tuple(_host(text, default_port) for text in address.split(",")) if address else ()
    except ValueError:
        raise UnsupportedUrl(problem="The bus URL cannot be read.") from None
    known = Topology(
        url=url,
        scheme=parts.scheme,
        db=db,
        hosts=hosts,
        username=unquote(username) or None,
        password=unquote(password) if password else None,
        verify=query.get("ssl_cert_reqs") != "none",
    )
    match parts.scheme:
        case "unix" if parts.path:
            # The user's part of a unix URL stands in its query, as redis-py reads it, or before an "@".
            return replace(
                known,
                path=unquote(parts.path),
                username=known.username or query.get("username"),
                password=known.password or query.get("password"),
            )
        case "redis" | "rediss" if len(hosts) <= 1:
            return known if hosts else replace(known, hosts=(("localhost", 6379),))
        case "redis+sentinel" if hosts and parts.path.strip("/"):
            return replace(known, service=unquote(parts.path.strip("/")))
        case "redis+cluster":
            raise UnsupportedUrl(problem="Redis Cluster is not supported yet; use one server or redis+sentinel://.")
    raise UnsupportedUrl(
        problem="The bus URL must be redis://, rediss://, unix:///path or redis+sentinel://host:port,…/service."
    )


def _host(text: str, default_port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or default_port
