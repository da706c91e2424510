"""One real stack for each worker, and what every test here must leave behind: nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpx
import pytest

from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.schemas.records import Role, TenantRecord
from hereabouts.testing.collector import Collector
from hereabouts.testing.stack import TENANT, Stack
from tests.support.leaks import coordinates_in, keys_without_ttl, open_calls
from tests.support.system import HTTP_LIMIT_S, Session, new_session
from tests.support.waiting import until


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    with Collector() as started:
        yield started


@pytest.fixture(scope="session")
def stack(collector: Collector) -> Iterator[Stack]:
    """Everything running, every trace exported."""
    environment = {**collector.environment, "HEREABOUTS_TRACE_RATIO": "1"}
    with Stack({"*": environment}) as started:
        yield started


@pytest.fixture
def browser_url(stack: Stack) -> str:
    return stack.browser_url


@pytest.fixture
async def http(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the brain with the tenant's API key."""
    async with httpx.AsyncClient(
        base_url=stack.brain_url,
        headers={"authorization": f"Bearer {stack.api_key}"},
        timeout=HTTP_LIMIT_S,
        trust_env=False,
    ) as client:
        yield client


@pytest.fixture
async def session(http: httpx.AsyncClient) -> Session:
    return await new_session(http)


@pytest.fixture
async def allow_origin(stack: Stack) -> Callable[[str], Awaitable[None]]:
    """Let pages of one more origin speak for the tenant."""

    async def allow(origin: str) -> None:
        bus = RedisBus(stack.redis_url, Role.BRAIN, Sealer(stack.keyring.sealing_keys, stack.keyring.sealing_key_id))
        await bus.start(lambda _: None)
        try:
            records = bus.records(TenantRecord)
            tenant = await records.get(TENANT)
            assert tenant is not None
            origins = [*tenant.allowed_origins, origin]
            await records.put(TENANT, tenant.model_copy(update={"allowed_origins": origins}))
        finally:
            await bus.stop()

    return allow


@pytest.fixture(autouse=True)
async def nothing_left(stack: Stack, collector: Collector) -> AsyncIterator[None]:
    """No open call, no key without a time to live, no coordinate in logs, spans, metrics or Redis's files."""
    yield

    async def closed() -> bool:
        return await open_calls(stack.brain_url) == 0

    await until(closed, "the gauge of open calls to be 0")
    assert await keys_without_ttl(stack.redis_url) == []
    assert await coordinates_in(stack, collector) == []
