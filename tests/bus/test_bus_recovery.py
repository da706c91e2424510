"""What only happens to a real server: it dies and returns, refuses for a while, stands still, or turns a key about."""

import asyncio
import gc
import os
import signal
import socket

import pytest

from hereabouts.bus import server
from hereabouts.bus.errors import CommandRefused
from hereabouts.bus.inbox import Inbox
from hereabouts.bus.outbox import Outbox
from hereabouts.bus.redis_bus import RedisBus
from hereabouts.bus.sealing import Sealer
from hereabouts.bus.topology import parse
from hereabouts.schemas.errors import BusUnavailable
from hereabouts.schemas.records import Role


async def works(brain, edge, at_edge, wait_until, make_ask):
    """A message goes through within the time that callers are given."""

    async def sent():
        try:
            await brain.send(edge.inbox, make_ask(body=b"again"))
        except BusUnavailable:
            return False
        return True

    at_edge.messages.clear()
    await wait_until(sent, "a message to be taken")
    await wait_until(lambda: at_edge.messages, "a message to come")


async def test_a_killed_server_that_returns_is_used_again(live, start, wait_until, make_ask):
    brain, at_brain = await start(live, Role.BRAIN)
    edge, at_edge = await start(live)
    live.kill()
    await wait_until(lambda: brain.problem(), "the brain to notice")
    waiting = brain.send(edge.inbox, make_ask())
    live.start()
    await wait_until(lambda: at_brain.epochs and at_edge.epochs, "new epochs: the last second may be lost")
    assert at_brain.lost >= 1
    assert at_edge.lost >= 1
    await asyncio.gather(waiting, return_exceptions=True)
    await works(brain, edge, at_edge, wait_until, make_ask)
    await wait_until(lambda: brain.problem() is None and edge.problem() is None, "both to be well")


async def test_commands_for_a_server_that_stays_away_fail(live, start, wait_until, make_ask):
    brain, heard = await start(live, Role.BRAIN)
    live.kill()
    with pytest.raises(BusUnavailable):
        await brain.send(brain.inbox, make_ask())
    with pytest.raises(BusUnavailable):
        await brain.directory.clients("acme", "s", "u")
    await wait_until(lambda: heard.lost == 1, "the word")
    await brain.stop()


async def test_a_server_that_stands_still_for_a_moment_loses_nothing(live, start, wait_until, make_ask):
    brain, heard = await start(live, Role.BRAIN)
    edge, at_edge = await start(live)
    os.kill(live.server.pid, signal.SIGSTOP)
    sent = [brain.send(edge.inbox, make_ask(body=str(number).encode())) for number in range(10)]
    await asyncio.sleep(0.1)
    os.kill(live.server.pid, signal.SIGCONT)
    await asyncio.gather(*sent)
    await wait_until(lambda: len(at_edge.messages) == 10, "all of them")
    assert [int(message.body) for message in at_edge.messages] == list(range(10))
    assert (heard.lost, heard.epochs) == (0, [])


async def test_a_connection_that_was_cut_is_made_anew_and_messages_wait_for_it(live, start, wait_until, make_ask):
    brain, heard = await start(live, Role.BRAIN)
    edge, at_edge = await start(live)
    live.raw("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    sent = [brain.send(edge.inbox, make_ask()) for _ in range(10)]
    await asyncio.gather(*sent)
    await wait_until(lambda: len({message.correlation_id for message in at_edge.messages}) == 10, "all of them")
    assert (heard.lost, heard.epochs) == (0, [])


async def test_a_replica_that_refuses_writes_is_retried_until_it_is_a_master(live, start, wait_until, make_ask):
    brain, _ = await start(live, Role.BRAIN)
    edge, at_edge = await start(live)
    live.raw("REPLICAOF", "127.0.0.1", "1")
    waiting = brain.send(edge.inbox, make_ask())
    await wait_until(lambda: not brain._outbox.connected, "the refusal to count as a broken connection")
    assert not waiting.done()
    live.raw("REPLICAOF", "NO", "ONE")
    await waiting
    await wait_until(lambda: at_edge.messages, "the message")


async def test_an_inbox_of_another_type_is_made_anew(live, start, wait_until, make_ask):
    brain, _ = await start(live, Role.BRAIN)
    edge, heard = await start(live)
    live.raw("SET", edge.inbox, "nonsense", "PX", 60_000)
    await wait_until(lambda: heard.epochs, "a new epoch")
    assert heard.lost == 1
    await works(brain, edge, heard, wait_until, make_ask)
    await wait_until(lambda: edge.problem() is None, "the new reader")


async def test_a_reader_that_ended_is_started_again(live, start, wait_until, make_ask):
    brain, _ = await start(live, Role.BRAIN)
    edge, heard = await start(live)
    await edge._reader._subscriber.stop()
    assert edge.problem() == "the inbox reader is not running"
    sent = await brain.send(edge.inbox, make_ask())
    await wait_until(lambda: edge.problem() is None, "a new reader")
    await wait_until(lambda: heard.messages, "the message that came meanwhile")
    assert [message.entry_id for message in heard.messages] == [sent]


async def test_a_reader_that_has_gone_deaf_is_started_again(live, start, wait_until, make_ask, monkeypatch):
    monkeypatch.setattr("hereabouts.bus.inbox.DEAF_S", 2.5)
    brain, _ = await start(live, Role.BRAIN)
    edge, heard = await start(live)
    client = edge._reader._broker.config.broker_config.connection.client

    async def never(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(client, "xread", never)
    await brain.send(edge.inbox, make_ask(body=b"wakes the last good read"))
    await wait_until(lambda: heard.messages, "the last good read")
    await brain.send(edge.inbox, make_ask(body=b"waits"))
    await wait_until(lambda: edge.problem() == "the inbox reader is not running", "the deafness to be seen")
    await wait_until(lambda: heard.messages[-1].body == b"waits", "a new reader")
    assert heard.epochs == []


async def test_a_full_server_is_a_problem_and_not_a_death(live, start, wait_until, make_ask):
    edge, _ = await start(live)
    live.raw("CONFIG", "SET", "maxmemory", "1")
    await wait_until(lambda: edge.problem(), "the problem")
    assert "OOM" in edge.problem()
    with pytest.raises(CommandRefused):
        await edge.send(edge.inbox, make_ask())
    live.raw("CONFIG", "SET", "maxmemory", "0")
    await wait_until(lambda: edge.problem() is None, "the end of it")


async def test_nobody_there_is_said_at_start(tmp_path):
    sealer = Sealer({"k": bytes(32)}, "k")
    bus = RedisBus(f"unix://{tmp_path}/nobody.sock", Role.EDGE, sealer)
    with pytest.raises(BusUnavailable):
        await bus.start(lambda _: None)
    with pytest.raises(BusUnavailable):
        await RedisBus("redis://127.0.0.1:1/0", Role.EDGE, sealer).start(lambda _: None)
    with pytest.raises(BusUnavailable):
        await Inbox(parse("redis://127.0.0.1:1/0"), "edge:{i:edge_x}", lambda _: None).start()


async def test_a_password_and_another_database_over_tcp(live, start, wait_until, make_ask):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    live.raw("CONFIG", "SET", "port", port)
    live.raw("CONFIG", "SET", "requirepass", "sec:ret@")
    url = f"redis://:sec%3Aret%40@127.0.0.1:{port}/5"
    edge = RedisBus(url, Role.EDGE, live.sealer)
    got = []
    try:
        await edge.start(got.extend)
        await edge.send(edge.inbox, make_ask())
        await wait_until(lambda: got, "a message")
        live.raw("SELECT", 5)
        assert live.raw("EXISTS", edge.inbox)
        wrong = RedisBus(f"redis://:wrong@127.0.0.1:{port}/5", Role.EDGE, live.sealer)
        with pytest.raises(BusUnavailable):
            await wrong.start(got.extend)
    finally:
        await edge.stop()
        live.raw("CONFIG", "SET", "requirepass", "")


# --- the outbox by itself ---


@pytest.fixture
async def outbox(live):
    made = Outbox(parse(live.server.url))
    await made.open()
    yield made
    await made.close()


async def test_commands_of_one_turn_leave_in_one_write(outbox, monkeypatch):
    writes = []
    write = outbox._connection.write
    monkeypatch.setattr(outbox._connection, "write", lambda data: (writes.append(data), write(data)))
    replies = await asyncio.gather(*(outbox.call("ECHO", number) for number in range(50)))
    assert replies == [str(number).encode() for number in range(50)]
    assert len(writes) == 1


async def test_a_refused_command_fails_alone_and_its_arguments_are_not_told(outbox):
    bad, good = outbox.call("NONSENSE", "47.070714"), outbox.call("PING")
    assert await good == b"PONG"
    with pytest.raises(CommandRefused) as caught:
        await bad
    assert "47.07" not in str(caught.value)
    assert "47.07" not in repr(caught.value.details)


async def test_a_conversion_that_raises_fails_its_future_only(outbox):
    def convert(reply):
        raise KeyError(reply)

    bad, good = outbox.call("PING", convert=convert), outbox.call("PING", convert=len)
    assert await good == 4
    with pytest.raises(KeyError):
        await bad


async def test_a_command_whose_caller_gave_up_before_it_left_is_not_sent(outbox, live):
    future = outbox.call("SET", "tenant:x", "1")
    future.cancel()
    await outbox.call("PING")
    assert live.raw("EXISTS", "tenant:x") == 0


async def test_what_must_not_happen_twice_is_not_sent_again(live):
    outbox = Outbox(parse(live.server.url))
    await outbox.open()
    try:
        os.kill(live.server.pid, signal.SIGSTOP)
        once, again = outbox.call("INCR", "tenant:n", resend=False), outbox.call("SET", "tenant:x", "1")
        while len(outbox._in_flight) < 2:
            await asyncio.sleep(0)
        outbox._connection.abort()
        with pytest.raises(BusUnavailable):
            await once
        os.kill(live.server.pid, signal.SIGCONT)
        assert await again == b"OK"
    finally:
        await outbox.close()


async def test_closing_sends_what_was_given(live):
    outbox = Outbox(parse(live.server.url))
    await outbox.open()
    given = [outbox.call("RPUSH", "tenant:list", number) for number in range(100)]
    await outbox.close()
    assert [future.result() for future in given] == list(range(1, 101))
    assert outbox.depth == 0
    gc.collect()


async def test_closing_away_from_a_server_fails_what_waits(live):
    outbox = Outbox(parse(live.server.url))
    await outbox.open()
    live.kill()
    waiting = outbox.call("PING")
    await outbox.close(patience_s=0.01)
    with pytest.raises(BusUnavailable):
        await waiting
    assert server.embedded(live.data_dir, live.binary).started
