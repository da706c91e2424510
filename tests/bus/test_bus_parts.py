"""The parts that need no server: sealing, entries, clock, URLs, marks."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hereabouts.bus.clock import Clock
from hereabouts.bus.entries import MalformedEntry, decode, encode
from hereabouts.bus.errors import CommandRefused, UnsupportedUrl
from hereabouts.bus.heartbeat import read_beat
from hereabouts.bus.marks import hop_marks
from hereabouts.bus.port import Message
from hereabouts.bus.sealing import Sealer
from hereabouts.bus.topology import parse
from hereabouts.schemas.bus_messages import Kind
from hereabouts.schemas.errors import BusUnavailable, SealBroken
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.marks import Service

KEYS = {"2026-11": os.urandom(32), "2026-10": os.urandom(32)}
SEALER = Sealer(KEYS, "2026-11")


@given(st.binary(max_size=300), st.binary(max_size=30))
def test_what_is_sealed_opens_with_the_same_binding_only(body, aad):
    sealed = SEALER.seal(body, aad)
    assert sealed.isascii()
    assert SEALER.open(sealed, aad) == body
    with pytest.raises(SealBroken):
        SEALER.open(sealed, aad + b"x")


@given(st.binary(max_size=80))
def test_garbage_never_opens_and_is_not_told(garbage):
    with pytest.raises(SealBroken) as caught:
        SEALER.open(garbage, b"aad")
    assert caught.value.__cause__ is None
    assert not caught.value.details


@given(st.data())
def test_a_changed_bit_breaks_the_seal(data):
    from base64 import b64decode, b64encode

    raw = bytearray(b64decode(SEALER.seal(b"47.070714", b"a")))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(SealBroken):
        SEALER.open(b64encode(bytes(raw)), b"a")


def test_an_older_key_still_opens_and_a_removed_one_does_not():
    sealed = Sealer(KEYS, "2026-10").seal(b"body", b"a")
    assert SEALER.open(sealed, b"a") == b"body"
    with pytest.raises(SealBroken):
        Sealer({"2026-11": KEYS["2026-11"]}, "2026-11").open(sealed, b"a")


@pytest.mark.parametrize(("ring", "current"), [({}, "a"), ({"a": b"short"}, "a"), ({"a" * 256: b"x" * 32}, "a" * 256)])
def test_a_bad_key_ring_is_refused(ring, current):
    with pytest.raises(ValueError):
        Sealer(ring, current)


def test_a_sealer_does_not_show_its_keys():
    assert "2026" not in repr(SEALER)


@given(
    st.sampled_from(Kind), st.text(max_size=10), st.binary(max_size=50), st.integers(0, 2**50),
    st.sampled_from(["", "brain:{i:brain_1}"]),
)  # fmt: skip
def test_a_message_survives_the_stream(kind, tenant, body, expires_at_ms, reply_to):
    message = Message(kind, new_correlation_id(), tenant, body, reply_to, expires_at_ms, "", "5-1")
    flat = [part if isinstance(part, bytes) else str(part).encode() for part in encode(message, SEALER)]
    assert decode(b"5-1", dict(zip(flat[::2], flat[1::2], strict=True)), SEALER) == message


@given(st.dictionaries(st.sampled_from([b"v", b"k", b"c", b"t", b"r", b"x", b"p", b"b"]), st.binary(max_size=5)))
def test_any_fields_are_a_message_or_malformed(fields):
    try:
        decode(b"1-1", {b"v": b"1", **fields}, SEALER)
    except (MalformedEntry, SealBroken):
        pass


def test_the_clock_takes_the_answer_it_is_surest_of():
    clock = Clock()
    clock.observe(1_000_000, 0, 100)  # ± 50 ms: offset 999 950
    clock.observe(1_000_202, 200, 202)  # ± 1 ms: offset 1 000 001
    clock.observe(1_000_300, 300, 340)
    assert clock.at(1_000) == 1_001_001


def test_the_clock_follows_a_step():
    clock = Clock()
    for now in range(0, 8_000, 1_000):
        clock.observe(1_000_000 + now, now, now + 1)
    clock.observe(5_009_000, 9_000, 9_001)
    assert clock.at(9_001) == 5_009_000


@given(st.lists(st.tuples(st.floats(0, 40), st.floats(0, 40)), min_size=1, max_size=30))
def test_the_estimate_is_within_the_best_answers_uncertainty(trips):
    clock = Clock()
    now = 0.0
    for there, back in trips:
        clock.observe(now + there + 7_000_000, now, now + there + back)
        now += 1_000
    best = min(there + back for there, back in trips[-8:]) / 2
    assert abs(clock.at(now) - (now + 7_000_000)) <= best + 1


def test_the_clock_is_never_behind_an_entry():
    clock = Clock()
    clock.observe(1_000, 0, 0)
    clock.observe_entry(5_000, 10)
    assert clock.at(10) == 5_000
    clock.observe_entry(100, 10)
    assert clock.at(10) == 5_000


@pytest.mark.parametrize(
    ("url", "hosts", "path", "db"),
    [
        ("unix:///run/x/server.sock?db=3", (), "/run/x/server.sock", 3),
        ("unix:///a%20b.sock", (), "/a b.sock", 0),
        ("redis://example", (("example", 6379),), "", 0),
        ("redis://u:p%40@example:7000/2", (("example", 7000),), "", 2),
        ("rediss://example", (("example", 6379),), "", 0),
        ("redis://", (("localhost", 6379),), "", 0),
        ("redis+sentinel://a:1,b/main?db=1", (("a", 1), ("b", 26379)), "", 1),
        ("redis://[::1]:6380/1", (("::1", 6380),), "", 1),
    ],
)
def test_urls_are_read(url, hosts, path, db):
    topology = parse(url)
    assert (topology.hosts, topology.path, topology.db) == (hosts, path, db)


def test_a_greeting_authenticates_first_and_a_repr_hides_the_password():
    topology = parse("redis://u:p%40@example:7000/2")
    assert topology.greeting() == [("AUTH", "u", "p@"), ("SELECT", "2")]
    assert parse("redis://:p@example").greeting() == [("AUTH", "p")]
    assert "p@" not in repr(topology)


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://h:1",
        "http://h",
        "unix://",
        "redis+sentinel://h:1",
        "",
        "redis://a,b",
        "redis://h:secret@x:port",
        "redis://h/x",
    ],
)
def test_other_urls_are_refused_without_repeating_them(url):
    with pytest.raises(UnsupportedUrl) as caught:
        parse(url)
    assert "secret" not in str(caught.value)


def test_a_beat_says_what_is_wrong():
    wrong = CommandRefused("WRONGTYPE")
    assert read_beat(b"OK", 1, 1, 0).lost is False
    assert read_beat(None, 1, 1, 0).lapsed
    assert read_beat(b"OK", 0, 1, 0).lost
    assert read_beat(b"OK", 1, 0, 0).lost
    assert read_beat(b"OK", 1, 1, wrong).wrong_type
    with pytest.raises(CommandRefused):
        read_beat(b"OK", 1, 1, CommandRefused("OOM"))
    with pytest.raises(BusUnavailable):
        read_beat(BusUnavailable(), 1, 1, 0)


def test_a_hop_has_two_marks_without_an_instances_name():
    message = Message(Kind.ASK, "cid", "acme", b"{}", entry_id="5-0")
    send, process = hop_marks(
        message, 10, 30, sender=Service.BRAIN, receiver=Service.BROWSER_BRIDGE, destination="edge:{i:edge_77}",
        parent_id="p", handled_at_ns=35,
    )  # fmt: skip
    assert (send.name, process.name) == ("send edge.inbox", "process edge.inbox")
    assert (send.parent_id, process.parent_id) == ("p", send.span_id)
    assert (send.start_ns, send.end_ns, process.start_ns, process.end_ns) == (10, 30, 30, 35)
    assert send.attributes["messaging.message.conversation_id"] == "cid"
    assert send.attributes["messaging.message.id"] == "5-0"
    assert "edge_77" not in str(send.attributes)
