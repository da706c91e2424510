"""Messages from inbox to inbox, in every place."""

import asyncio
import gc
import logging

import pytest

from hereabouts.bus.errors import InboxGone
from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.errors import BusOverloaded
from hereabouts.schemas.limits import MAX_OUTBOX_COMMANDS
from hereabouts.schemas.records import Role

SECRET = b'{"fix":{"latitude":47.070714,"longitude":15.439504}}'


async def test_a_request_is_answered(place, start, wait_until, make_ask):
    brain, at_brain = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    asked = make_ask(brain, traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01", tenant="Zürich:{x}")

    entry_id = await brain.send(edge.inbox, asked)
    got = (await wait_until(lambda: at_edge.messages, "the ask"))[0]
    assert got.entry_id == entry_id
    assert (got.kind, got.correlation_id, got.tenant, got.body, got.traceparent) == (
        Kind.ASK, asked.correlation_id, asked.tenant, asked.body, asked.traceparent,
    )  # fmt: skip
    assert abs(got.queued_at_ms - brain.now_ms()) < 60_000

    edge.send(got.reply_to, make_ask(kind=Kind.RESULT, correlation_id=got.correlation_id, body=SECRET))
    back = (await wait_until(lambda: at_brain.messages, "the result"))[0]
    assert (back.correlation_id, back.body) == (asked.correlation_id, SECRET)
    assert "47.07" not in repr(back)


async def test_messages_come_in_the_order_they_were_sent(place, start, wait_until, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    sent = [make_ask(brain, body=str(number).encode()) for number in range(300)]
    for message in sent[:200]:
        brain.send(edge.inbox, message)
    await asyncio.sleep(0)
    for message in sent[200:]:
        brain.send(edge.inbox, message)
    await wait_until(lambda: len(at_edge.messages) >= 300, "all of them")
    assert [message.body for message in at_edge.messages] == [message.body for message in sent]


async def test_what_was_consumed_is_deleted(place, start, wait_until, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    for _ in range(5):
        brain.send(edge.inbox, make_ask())
    await wait_until(lambda: len(at_edge.messages) == 5, "five messages")
    await wait_until(lambda: not place.raw("XRANGE", edge.inbox, "-", "+"), "an empty inbox")


async def test_a_message_to_nobody_fails_and_leaves_no_key(place, start, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    gone = brain.inbox_of("edge_" + "0" * 32)
    with pytest.raises(InboxGone):
        await brain.send(gone, make_ask())
    assert gone not in place.names()


async def test_an_ignored_failure_raises_no_warning(place, start, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    problems = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    brain.send(brain.inbox_of("edge_gone"), make_ask())
    with pytest.raises(InboxGone):
        await brain.send(brain.inbox_of("edge_gone"), make_ask())
    gc.collect()
    await asyncio.sleep(0)
    assert not problems


async def test_an_expired_message_is_not_handed_over(place, start, wait_until, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    brain.send(edge.inbox, make_ask(body=b"late", expires_at_ms=brain.now_ms() - 5_000))
    brain.send(edge.inbox, make_ask(body=b"in time", expires_at_ms=brain.now_ms() + 60_000))
    await wait_until(lambda: at_edge.messages, "the message in time")
    assert [message.body for message in at_edge.messages] == [b"in time"]


GOOD = ["v", "1", "k", "ask", "c", "x", "t", "t", "r", "", "x", "0", "p", "", "b", "{}"]


@pytest.mark.parametrize(
    "fields",
    [
        ["nonsense", "47.070714"],
        [*GOOD[:1], "2", *GOOD[2:]],
        [*GOOD[:3], "dance", *GOOD[4:]],
        [*GOOD[:11], "soon", *GOOD[12:]],
        [*GOOD[:5], b"\xff\xfe", *GOOD[6:]],
        GOOD[:-2],
        [*GOOD[:3], "result", *GOOD[4:-1], "not sealed at all"],
    ],
)
async def test_a_malformed_entry_does_not_stop_the_others(place, start, wait_until, make_ask, caplog, fields):
    edge, at_edge = await start(place)
    await edge.send(edge.inbox, make_ask(body=b"before"))
    place.raw("XADD", edge.inbox, "*", *fields)
    await edge.send(edge.inbox, make_ask(body=b"after"))
    await wait_until(lambda: len(at_edge.messages) == 2, "the two good ones")
    assert [message.body for message in at_edge.messages] == [b"before", b"after"]
    await wait_until(lambda: not place.raw("XRANGE", edge.inbox, "-", "+"), "an empty inbox")
    assert "dropped an entry" in caplog.text
    assert "47.07" not in caplog.text
    assert edge.problem() is None


async def test_a_handler_that_raises_is_called_again_and_its_error_is_not_told(
    place, start, wait_until, make_ask, caplog
):
    got = []

    def handler(messages):
        got.extend(messages)
        raise ValueError(SECRET.decode())

    edge, _ = await start(place, on_messages=handler)
    await edge.send(edge.inbox, make_ask())
    await wait_until(lambda: len(got) == 1, "the first")
    await edge.send(edge.inbox, make_ask())
    await wait_until(lambda: len(got) == 2, "the second")
    assert "ValueError" in caplog.text
    assert "47.07" not in caplog.text


async def test_results_are_sealed_in_the_stream_and_bound_to_their_call(place, start, wait_until, make_ask):
    edge, at_edge = await start(place)
    nobody = "brain:{i:brain_nobody}"
    place.raw("XGROUP", "CREATE", nobody, "make", "0", "MKSTREAM")
    place.raw("PEXPIRE", nobody, 60_000)
    await edge.send(nobody, make_ask(kind=Kind.RESULT, body=SECRET))
    ((_, flat),) = [(i, f) for i, f in raw_entries(place, nobody)]
    assert b"47.07" not in b"".join(flat)
    assert all(value.isascii() for value in flat)

    # The same body under another correlation id does not open.
    moved = list(flat)
    moved[moved.index(b"c") + 1] = make_ask().correlation_id.encode()
    place.raw("XADD", edge.inbox, "*", *moved)
    place.raw("XADD", edge.inbox, "*", *flat)
    await wait_until(lambda: at_edge.messages, "the untouched one")
    assert [message.body for message in at_edge.messages] == [SECRET]


def raw_entries(place, stream):
    for entry_id, fields in place.raw("XRANGE", stream, "-", "+"):
        yield entry_id, [part for pair in fields.items() for part in pair] if isinstance(fields, dict) else fields


async def test_no_append_only_file_holds_a_result_in_clear(live, start, wait_until, make_ask):
    edge, at_edge = await start(live)
    await edge.send(edge.inbox, make_ask(kind=Kind.RESULT, body=SECRET, tenant="findable-tenant"))
    await wait_until(lambda: at_edge.messages, "the result")
    written = b"".join(path.read_bytes() for path in live.data_dir.rglob("*.aof"))
    assert b"findable-tenant" in written
    assert b"47.07" not in written


async def test_a_process_that_cannot_get_rid_of_its_commands_fails_fast(place, start, wait_until, make_ask):
    brain, heard = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    await place.silence(brain)
    try:
        futures = [brain.send(edge.inbox, make_ask()) for _ in range(MAX_OUTBOX_COMMANDS)]
        with pytest.raises(BusOverloaded):
            brain.send(edge.inbox, make_ask())
        await wait_until(lambda: heard.lost, "the word that the bus does not answer")
        assert brain.problem()
    finally:
        await place.answer(brain)
    await asyncio.gather(*futures, return_exceptions=True)
    await wait_until(lambda: brain.problem() is None, "the bus to be well again")
    await brain.send(edge.inbox, make_ask(body=b"again"))
    await wait_until(lambda: at_edge.messages and at_edge.messages[-1].body == b"again", "a message")


async def test_stopping_hands_over_what_came_and_deletes_the_inbox(place, start, make_ask):
    brain, _ = await start(place, Role.BRAIN)
    edge, at_edge = await start(place)
    sent = [brain.send(edge.inbox, make_ask(body=str(number).encode())) for number in range(100)]
    await asyncio.gather(*sent)
    await edge.stop()
    assert [int(message.body) for message in at_edge.messages] == list(range(100))
    assert not [name for name in place.names() if edge.instance in name]
    assert edge.problem() is not None
    await edge.stop()
    with pytest.raises(InboxGone):
        await brain.send(edge.inbox, make_ask())


async def test_a_started_bus_is_well_and_quiet(place, start, caplog):
    caplog.set_level(logging.INFO)
    edge, _ = await start(place)
    assert edge.problem() is None
    await edge.stop()
    assert not [record for record in caplog.records if record.name != "asyncio"]
