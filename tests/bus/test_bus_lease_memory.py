"""A lease that was just seen need not be asked for; a memory never speaks against a record."""

from hereabouts.bus import keys
from hereabouts.schemas.records import ClientRecord, Role


def tab(bus, connection, epoch):
    return ClientRecord(
        tenant="acme",
        session="s1",
        user=None,
        kind="tab",
        client_id="tab",
        connection=connection,
        edge=bus.instance,
        epoch=epoch,
        since_ms=epoch,
        active_at_ms=1,
        tools=[],
    )


async def test_a_lease_is_held_only_as_it_was_seen(place, start):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    assert not brain.leases.held(edge.instance, edge.epoch)
    await brain.leases.epoch_of(edge.instance)
    assert brain.leases.held(edge.instance, edge.epoch)
    assert not brain.leases.held(edge.instance, edge.epoch + 1)
    await edge.stop()
    await brain.leases.epoch_of(edge.instance)
    assert not brain.leases.held(edge.instance, 1)


async def test_a_record_of_a_newer_epoch_than_the_remembered_one_is_found_and_kept(place, start):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    await brain.directory.put(tab(edge, "old", 1))
    assert [each.connection for each in await brain.directory.clients("acme", "s1", None)] == ["old"]
    place.raw("SET", keys.lease(edge.instance), "2", "PX", 60_000)
    await brain.directory.put(tab(edge, "new", 2))
    assert [each.connection for each in await brain.directory.clients("acme", "s1", None)] == ["new"]
