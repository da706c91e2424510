"""What the twin offers to tests beyond the contract: a clock to move, processes to kill, answers to withhold."""

from hereabouts.bus.memory import MemoryBus, MemoryHub
from hereabouts.schemas.limits import CODE_TTL_MS
from hereabouts.schemas.records import PageCode, Role

CODE = PageCode(tenant="acme", session="s", user=None, token="t")


class AtHub:
    """Start buses at a given hub."""

    def __init__(self, hub):
        self.hub = hub

    def bus(self, role):
        return MemoryBus(self.hub, role)


async def test_records_expire_when_the_clock_is_moved_and_leases_do_not(start):
    hub = MemoryHub(clock=lambda: 1_000_000)
    bus, _ = await start(AtHub(hub))
    codes = bus.records(PageCode)
    await codes.put("hash", CODE)
    hub.advance(CODE_TTL_MS - 1)
    assert await codes.get("hash") == CODE
    hub.advance(1)
    assert await codes.get("hash") is None
    assert await bus.leases.epoch_of(bus.instance) == 1
    assert bus.now_ms() == 1_000_000 + CODE_TTL_MS


async def test_a_killed_bus_is_lost_to_its_watchers_and_reads_nothing(start, wait_until, make_ask):
    hub = MemoryHub()
    brain, _ = await start(AtHub(hub), Role.BRAIN)
    edge, at_edge = await start(AtHub(hub))
    told = []
    brain.leases.watch(edge.instance, told.append)
    hub.kill(edge.instance)
    await brain.send(edge.inbox, make_ask())
    await wait_until(lambda: told == [edge.instance], "the watcher")
    assert not at_edge.messages
    assert await brain.leases.instances() == {brain.instance: 1}


async def test_what_a_silenced_bus_sent_arrives_when_it_is_answered(start, wait_until, make_ask):
    hub = MemoryHub()
    brain, _ = await start(AtHub(hub), Role.BRAIN)
    edge, at_edge = await start(AtHub(hub))
    hub.silence(brain.instance)
    brain.send(edge.inbox, make_ask())
    await edge.leases.epoch_of(edge.instance)
    assert not at_edge.messages
    hub.answer(brain.instance)
    await wait_until(lambda: at_edge.messages, "the message")


async def test_a_message_expires_on_the_hubs_clock(start, wait_until, make_ask):
    hub = MemoryHub()
    brain, _ = await start(AtHub(hub), Role.BRAIN)
    edge, at_edge = await start(AtHub(hub))
    hub.silence(brain.instance)
    brain.send(edge.inbox, make_ask(body=b"old", expires_at_ms=brain.now_ms() + 60_000))
    brain.send(edge.inbox, make_ask(body=b"new", expires_at_ms=brain.now_ms() + 180_000))
    hub.advance(120_000)
    hub.answer(brain.instance)
    await wait_until(lambda: at_edge.messages, "the one that has time left")
    assert [message.body for message in at_edge.messages] == [b"new"]
