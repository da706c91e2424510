"""Leases, epochs and lost data, in every place."""

import asyncio

import pytest

from hereabouts.bus import keys
from hereabouts.schemas.errors import BusUnavailable
from hereabouts.schemas.limits import LEASE_MS
from hereabouts.schemas.records import Role


async def die(place, bus):
    """End a bus as a killed process would: no word to anybody."""
    await bus._heartbeat.stop()
    place.raw("DEL", keys.lease(bus.instance))


async def test_a_living_instance_has_its_epoch_until_it_stops(place, start):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    assert brain.instance.startswith("brain_")
    assert (brain.role, edge.role) == (Role.BRAIN, Role.EDGE)
    assert await brain.leases.epoch_of(edge.instance) == edge.epoch == 1
    assert await brain.leases.instances() == {brain.instance: 1, edge.instance: 1}
    await edge.stop()
    assert await brain.leases.epoch_of(edge.instance) is None
    assert await brain.leases.instances() == {brain.instance: 1}


async def test_a_lease_is_renewed(place, start):
    edge, _ = await start(place)
    place.raw("PEXPIRE", keys.lease(edge.instance), 1_500)
    await asyncio.sleep(0)
    for _ in range(500):
        if (place.names().get(keys.lease(edge.instance)) or 0) > 1_600:
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("the lease was not renewed")
    assert edge.epoch == 1
    assert place.names()[keys.lease(edge.instance)] <= LEASE_MS


async def test_each_watcher_is_told_once_that_an_instance_is_lost(place, start, wait_until):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    told, other = [], []
    brain.leases.watch(edge.instance, told.append)
    brain.leases.watch(edge.instance, told.append)
    brain.leases.watch(edge.instance, other.append)
    brain.leases.unwatch(edge.instance, told.append)
    await die(place, edge)
    await wait_until(lambda: told and other, "both watchers")
    await brain.leases.epoch_of(edge.instance)
    assert (told, other) == ([edge.instance], [edge.instance])


async def test_a_watch_that_was_taken_back_tells_nothing(place, start, wait_until):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    told, kept = [], []
    brain.leases.watch(edge.instance, told.append)
    brain.leases.watch(edge.instance, kept.append)
    brain.leases.unwatch(edge.instance, told.append)
    brain.leases.unwatch(edge.instance, told.append)
    brain.leases.unwatch("edge_unknown", told.append)
    await die(place, edge)
    await wait_until(lambda: kept, "the other watcher")
    assert not told


async def test_a_watcher_that_raises_does_not_keep_the_word_from_others(place, start, wait_until):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    told = []

    def broken(instance):
        raise RuntimeError(instance)

    brain.leases.watch(edge.instance, broken)
    brain.leases.watch(edge.instance, told.append)
    await die(place, edge)
    await wait_until(lambda: told, "the second watcher")


async def test_a_lapsed_lease_is_a_new_epoch_and_fences_the_old(place, start, wait_until, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    edge, heard = await start(place)
    told = []
    brain.leases.watch(edge.instance, told.append)
    await wait_until(lambda: brain.leases._watched[edge.instance].epoch, "the watch to have seen the first epoch")
    place.raw("DEL", keys.lease(edge.instance))
    await wait_until(lambda: heard.epochs == [2], "the new epoch")
    assert heard.lost == 0
    assert edge.epoch == await brain.leases.epoch_of(edge.instance) == 2
    await wait_until(lambda: told, "the watcher")
    await brain.send(edge.inbox, make_ask())
    await wait_until(lambda: heard.messages, "a message")


async def test_lost_data_is_a_new_epoch_for_all_and_calls_are_told(place, start, wait_until, make_ask):
    brain, at_brain = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    place.lose_data()
    await wait_until(lambda: (at_brain.epochs, at_edge.epochs) == ([2], [2]), "the new epochs")
    assert (at_brain.lost, at_edge.lost) == (1, 1)
    assert await brain.leases.instances() == {brain.instance: 2, edge.instance: 2}
    await brain.send(edge.inbox, make_ask())
    await wait_until(lambda: at_edge.messages, "a message")
    assert brain.problem() is None


async def test_the_living_are_not_declared_dead_when_all_leases_are_gone(place, start, wait_until):
    brain, at_brain = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    told = []
    # Not watched before: the watch knows no epoch yet, so only a missing lease can speak.
    place.lose_data()
    brain.leases.watch(edge.instance, told.append)
    await wait_until(lambda: at_brain.epochs and at_edge.epochs, "the new epochs")
    await asyncio.sleep(0.6)  # two looks of the watch
    assert not told


async def test_silence_is_told_once_and_ends(place, start, wait_until, make_ask):
    edge, heard = await start(place)
    await place.silence(edge)
    try:
        await wait_until(lambda: heard.lost, "the word")
        assert edge.problem()
    finally:
        await place.answer(edge)
    await wait_until(lambda: edge.problem() is None, "the end of the silence")
    await edge.send(edge.inbox, make_ask())
    await wait_until(lambda: heard.messages, "a message")


async def test_a_bus_starts_once(place, start):
    edge, _ = await start(place)
    with pytest.raises(RuntimeError):
        await edge.start(lambda _: None)


async def test_after_stop_nothing_can_be_sent(place, start, make_ask):
    edge, _ = await start(place)
    await edge.stop()
    with pytest.raises(BusUnavailable):
        edge.send(edge.inbox, make_ask())


async def test_registering_that_takes_long_does_not_cost_the_lease(place, wait_until):
    edge = place.bus(Role.EDGE)
    begun, ended = [], asyncio.Event()

    async def register(epoch):
        begun.append(epoch)
        await ended.wait()

    await edge.start(lambda _: None, on_new_epoch=register)
    try:
        place.raw("DEL", keys.lease(edge.instance))
        await wait_until(lambda: begun, "the new epoch")
        place.raw("PEXPIRE", keys.lease(edge.instance), 1_500)
        await wait_until(lambda: (place.names().get(keys.lease(edge.instance)) or 0) > 1_600, "the lease to be renewed")
        place.raw("DEL", keys.lease(edge.instance))
        await wait_until(lambda: begun == [2, 3], "a newer epoch to take over")
    finally:
        await edge.stop()
