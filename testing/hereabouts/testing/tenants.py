"""Tenants as an operator makes them: a record on the bus, with the hash of an API key."""

import time

from hereabouts.bus.port import Bus
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.runtime.keyring import KeyRing
from hereabouts.runtime.tokens import api_key_matches, api_key_sha256
from hereabouts.schemas.records import Role, TenantRecord


async def put_tenant(
    redis_url: str, keyring: KeyRing, tenant: str, api_key: str, origins: list[str] | None = None
) -> bool:
    """Make a tenant, or let this key in too when it is there; whether anything had to be written.

    Args:
        origins: exact origins of the tenant's pages; none: the bridge's own pages only.

    Raises:
        BusUnavailable: Redis does not answer.
    """
    bus: Bus = RedisBus(redis_url, Role.BRAIN, Sealer(keyring.sealing_keys, keyring.sealing_key_id))
    await bus.start(lambda _: None)
    try:
        records = bus.records(TenantRecord)
        found = await records.get(tenant)
        if found is not None and api_key_matches(api_key, found.api_key_sha256):
            return False
        if found is None:
            found = TenantRecord(
                tenant=tenant,
                name=tenant,
                api_key_sha256=[],
                allowed_origins=origins or [],
                created_at_ms=int(time.time() * 1000),
            )
        keys = [*found.api_key_sha256, api_key_sha256(api_key)]
        await records.put(tenant, found.model_copy(update={"api_key_sha256": keys}))
        return True
    finally:
        await bus.stop()
