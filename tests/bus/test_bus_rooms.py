"""Directory, journal and records, in every place."""

import asyncio
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hereabouts.bus import keys
from hereabouts.bus.directory import DIRECTORY_TTL_MS
from hereabouts.schemas.bus_messages import JournalEntry, JournalKind
from hereabouts.schemas.errors import SealBroken
from hereabouts.schemas.ids import new_correlation_id
from hereabouts.schemas.limits import CODE_TTL_MS, JOURNAL_TTL_MS
from hereabouts.schemas.records import (
    ClientRecord,
    PageCode,
    PairingRecord,
    PairingState,
    Role,
    SessionRecord,
    TenantRecord,
)
from hereabouts.schemas.tools import Tool

ANY_TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
NO_FIXTURE_CHECK = [HealthCheck.function_scoped_fixture]


def record(bus, connection="c1", **changes):
    fields = {
        "tenant": "acme", "session": "s1", "user": "u1", "kind": "tab", "client_id": "tab1", "connection": connection,
        "edge": bus.instance, "epoch": bus.epoch, "since_ms": 1, "active_at_ms": 1,
        "tools": [Tool(name="location_get")],
    }  # fmt: skip
    return ClientRecord(**{**fields, **changes})


# --- directory ---


async def test_tabs_of_the_session_and_nodes_of_the_user_are_found(place, start):
    edge, _ = await start(place)
    tab, node = record(edge), record(edge, "c2", kind="node", session=None, client_id="node1")
    others = [
        record(edge, "c3", session="s2"),
        record(edge, "c4", kind="node", session=None, user="u2"),
        record(edge, "c5", tenant="other"),
    ]
    await asyncio.gather(*(edge.directory.put(each) for each in (tab, node, *others)))
    found = edge.directory.clients
    assert sorted(each.connection for each in await found("acme", "s1", "u1")) == ["c1", "c2"]
    assert await found("acme", "s1", None) == [tab]
    assert await found("acme", None, "u1") == [node]
    assert await found("acme", None, None) == []
    await edge.directory.remove(tab)
    assert await found("acme", "s1", "u1") == [node]


async def test_only_the_newest_connection_of_a_client_counts(place, start):
    edge, _ = await start(place)
    for number in (2, 3, 1):
        await edge.directory.put(record(edge, f"c{number}", since_ms=number))
    assert [each.connection for each in await edge.directory.clients("acme", "s1", None)] == ["c3"]


async def test_a_record_is_replaced_by_its_connection(place, start):
    edge, _ = await start(place)
    await edge.directory.put(record(edge))
    await edge.directory.put(record(edge, visibility="hidden"))
    (found,) = await edge.directory.clients("acme", "s1", None)
    assert found.visibility == "hidden"


async def test_records_of_the_dead_and_of_old_epochs_are_dropped_on_sight(place, start, wait_until):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    await brain.directory.put(record(edge, "dead", edge="edge_gone"))
    await brain.directory.put(record(edge, "old", client_id="tab2", epoch=0))
    await brain.directory.put(record(edge, "live", client_id="tab3"))
    place.raw("HSET", keys.clients("acme", "s1"), "broken", "{")
    assert [each.connection for each in await brain.directory.clients("acme", "s1", None)] == ["live"]
    await wait_until(lambda: len(place.raw("HGETALL", keys.clients("acme", "s1"))) in (1, 2), "only the live one")


async def test_a_record_written_anew_survives_a_reader_that_saw_the_old_one(place, start):
    edge, _ = await start(place)
    old, new = record(edge, epoch=0), record(edge)
    await edge.directory.put(old)
    value = old.model_dump_json(exclude_defaults=True).encode()
    await edge.directory.put(new)
    edge.directory._drop(keys.clients("acme", "s1"), b"c1", value)
    assert await edge.directory.clients("acme", "s1", None) == [new]


async def test_touch_renews_and_needs_no_record(place, start):
    edge, _ = await start(place)
    await edge.directory.put(record(edge))
    key = keys.clients("acme", "s1")
    place.raw("PEXPIRE", key, 5_000)
    await edge.directory.touch([record(edge), record(edge, "c9", session="nobody")])
    assert DIRECTORY_TTL_MS - 5_000 < place.names()[key] <= DIRECTORY_TTL_MS


async def test_a_tab_without_session_and_a_node_without_user_have_no_place(place, start):
    edge, _ = await start(place)
    with pytest.raises(ValueError):
        edge.directory.put(record(edge, session=None))
    with pytest.raises(ValueError):
        edge.directory.remove(record(edge, kind="node", user=None))


# --- journal ---


def line(bus, correlation_id, kind=JournalKind.ASKED, tenant="acme", **changes):
    return JournalEntry(
        kind=kind,
        correlation_id=correlation_id,
        tenant=tenant,
        at_ms=changes.pop("at_ms", bus.now_ms()),
        by="brain",
        **changes,
    )


async def test_the_journal_tells_one_calls_story_in_order(place, start):
    brain, _ = await start(place, Role.BRAIN)
    edge, _ = await start(place)
    mine, other = new_correlation_id(), new_correlation_id()
    other = other[:-4] + mine[-4:]  # the same partition
    story = [JournalKind.ASKED, JournalKind.DELIVERED, JournalKind.PROGRESS, JournalKind.SETTLED, JournalKind.LATE]
    for kind in story:
        await (brain if kind is JournalKind.ASKED else edge).journal.write(line(brain, mine, kind))
        edge.journal.write(line(brain, other, kind))
    assert [each.kind for each in await brain.journal.read(mine)] == story
    assert await brain.journal.read(new_correlation_id()) == []
    assert await brain.journal.read("no id") == []


async def test_the_journal_reads_beyond_a_page(place, start, monkeypatch):
    monkeypatch.setattr("hereabouts.bus.journal.PAGE", 4)
    brain, _ = await start(place, Role.BRAIN)
    mine = new_correlation_id()
    noise = [new_correlation_id()[:-4] + mine[-4:] for _ in range(10)]
    for each in (*noise[:5], mine, *noise[5:], mine):
        await brain.journal.write(line(brain, each))
    assert len(await brain.journal.read(mine)) == 2
    assert len(await brain.journal.recent(None, 5)) == 0


async def test_recent_are_the_newest_settled_lines_of_a_tenant(place, start):
    brain, _ = await start(place, Role.BRAIN)
    for number in range(20):
        call = new_correlation_id()
        tenant = "acme" if number % 2 else "other"
        brain.journal.write(line(brain, call, at_ms=1_000 + number, tenant=tenant))
        brain.journal.write(line(brain, call, JournalKind.SETTLED, at_ms=1_000 + number, tenant=tenant))
    assert [each.at_ms for each in await brain.journal.recent("acme", 3)] == [1_019, 1_017, 1_015]
    assert [each.at_ms for each in await brain.journal.recent(None, 2)] == [1_019, 1_018]
    assert await brain.journal.recent("nobody", 2) == []


async def test_a_line_that_cannot_be_read_is_skipped_and_partitions_end(place, start):
    brain, _ = await start(place, Role.BRAIN)
    call = new_correlation_id()
    key = keys.journal_of(call)
    place.raw("XADD", key, "*", "c", call, "t", "acme", "k", "asked", "b", "{")
    await brain.journal.write(line(brain, call))
    assert [each.kind for each in await brain.journal.read(call)] == [JournalKind.ASKED]
    assert place.names()[key] > JOURNAL_TTL_MS


async def test_lines_older_than_ten_minutes_go(live, start):
    brain, _ = await start(live, Role.BRAIN)
    call = new_correlation_id()
    key = keys.journal_of(call)
    for number in range(300):  # "~" trims whole nodes of a hundred entries
        live.raw(
            "XADD", key, f"{brain.now_ms() - JOURNAL_TTL_MS - 60_000}-{number}", "c", call, "k", "asked", "b", "{}"
        )
    await brain.journal.write(line(brain, call))
    assert live.raw("XLEN", key) <= 101


async def test_after_lost_data_the_journal_has_a_time_to_live_again(place, start, wait_until):
    brain, heard = await start(place, Role.BRAIN)
    call = new_correlation_id()
    await brain.journal.write(line(brain, call))
    place.lose_data()
    brain.journal.write(line(brain, call, JournalKind.SETTLED))
    await wait_until(lambda: heard.epochs, "the new epoch")
    await wait_until(lambda: place.names().get(keys.journal_of(call)), "a time to live")
    assert len(await brain.journal.read(call)) == 1


async def test_a_partition_made_anew_after_lost_data_has_a_time_to_live(place, start, wait_until):
    brain, heard = await start(place, Role.BRAIN)
    call = new_correlation_id()
    await brain.journal.write(line(brain, call))
    place.lose_data()
    await wait_until(lambda: heard.epochs, "the new epoch")
    await brain.journal.write(line(brain, call, JournalKind.SETTLED))  # the first line since
    await wait_until(lambda: place.names().get(keys.journal_of(call)), "a time to live")


# --- records ---

TENANT = TenantRecord(tenant="acme", name="Acme", api_key_sha256=["ab"], created_at_ms=1)


def pairing(state=PairingState.PENDING, **changes):
    fields = {"tenant": "acme", "user": "u1", "device_id": "d1", "public_key": "k", "request_id": "r"}
    return PairingRecord(**{**fields, "requested_at_ms": 1, **changes}, state=state)


async def test_a_record_is_written_read_and_deleted(place, start):
    brain, _ = await start(place, Role.BRAIN)
    tenants = brain.records(TenantRecord)
    assert await tenants.get("acme") is None
    await tenants.put("acme", TENANT)
    assert await tenants.get("acme") == TENANT
    assert await tenants.add("acme", TENANT) is False
    assert await tenants.add("zeta", TENANT) is True
    assert await tenants.delete("acme") is True
    assert await tenants.delete("acme") is False


async def test_each_kind_has_its_own_time_to_live(place, start):
    brain, _ = await start(place, Role.BRAIN)
    now = brain.now_ms()
    session = SessionRecord(tenant="acme", session="s", user=None, created_at_ms=now, expires_at_ms=now + 500_000)
    code = PageCode(tenant="acme", session="s", user=None, token="findable-token")
    await brain.records(TenantRecord).put("acme", TENANT)
    await brain.records(SessionRecord).put("acme/s", session)
    await brain.records(PageCode).put("hash", code)
    await brain.records(PairingRecord).put("acme/d1", pairing())
    await brain.records(PairingRecord).put("acme/d2", pairing(PairingState.APPROVED))
    await brain.records(PairingRecord).put("acme/d3", pairing(), ttl_ms=7_000)
    names = place.names()
    assert names["tenant:{r:acme}"] is None
    assert 490_000 < names["session:{r:acme/s}"] <= 500_050
    assert CODE_TTL_MS - 10_000 < names["code:{r:hash}"] <= CODE_TTL_MS
    assert 290_000 < names["pairing:{r:acme/d1}"] <= 300_000
    assert names["pairing:{r:acme/d2}"] is None
    assert names["pairing:{r:acme/d3}"] <= 7_000


async def test_an_approval_that_is_taken_back_expires_again(place, start):
    brain, _ = await start(place, Role.BRAIN)
    pairings = brain.records(PairingRecord)
    await pairings.put("acme/d1", pairing(PairingState.APPROVED))
    await pairings.put("acme/d1", pairing())
    assert place.names()["pairing:{r:acme/d1}"] is not None


async def test_a_session_that_has_expired_is_gone(place, start, wait_until):
    brain, _ = await start(place, Role.BRAIN)
    sessions = brain.records(SessionRecord)
    past = SessionRecord(tenant="a", session="s", user=None, created_at_ms=1, expires_at_ms=2)
    await sessions.put("a/s", past)

    async def gone():
        return await sessions.get("a/s") is None

    await wait_until(gone, "the end of the session")


async def test_only_one_taker_gets_a_code_and_it_stands_sealed(place, start):
    brain, _ = await start(place, Role.BRAIN)
    codes = brain.records(PageCode)
    code = PageCode(tenant="acme", session="s", user=None, token="findable-token")
    await codes.put("hash", code)
    assert b"findable-token" not in place.raw("GET", "code:{r:hash}")
    taken = await asyncio.gather(*(codes.take("hash") for _ in range(20)))
    assert [each for each in taken if each is not None] == [code]


async def test_a_sealed_code_under_another_key_does_not_open(place, start):
    brain, _ = await start(place, Role.BRAIN)
    codes = brain.records(PageCode)
    await codes.put("one", PageCode(tenant="acme", session="s", user=None, token="t"))
    place.raw("SET", "code:{r:two}", place.raw("GET", "code:{r:one}"), "PX", 10_000)
    with pytest.raises(SealBroken):
        await codes.get("two")


async def test_listing_takes_prefixes_literally(place, start):
    brain, _ = await start(place, Role.BRAIN)
    pairings = brain.records(PairingRecord)
    for key in ("acme/d2", "acme/d1", "acme2/d", "ac*/d", "[ab]/d", "ü{}:/d"):
        await pairings.put(key, pairing(device_id=key))
    await brain.records(TenantRecord).put("acme/d1", TENANT)

    async def listed(prefix):
        return [each.device_id for each in await pairings.list(prefix)]

    assert await listed("acme/") == ["acme/d1", "acme/d2"]
    assert await listed("ac*") == ["ac*/d"]
    assert await listed("[ab]") == ["[ab]/d"]
    assert await listed("ü{}:") == ["ü{}:/d"]
    assert len(await listed("")) == 6


def test_a_kind_without_a_rule_is_refused(place):
    with pytest.raises(KeyError):
        place.bus(Role.BRAIN).records(ClientRecord)


# --- names ---


@given(ANY_TEXT, ANY_TEXT)
def test_no_part_breaks_out_of_its_key(one, two):
    for key in (keys.clients(one, two), keys.nodes(one, two), keys.record("code", one)):
        assert key.count("{") == key.count("}") == 1
        assert key.endswith("}")
        assert set(key) <= set(string.ascii_letters + string.digits + "{}:-._~%/")
    assert keys.clients(one, two).split(":")[3] == "s"


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_different_parts_have_different_keys(a, b, c, d):
    assert (keys.clients(a, b) == keys.clients(c, d)) == ((a, b) == (c, d))
    assert (keys.record("x", a) == keys.record("x", b)) == (a == b)
    assert keys.record("x", a + b).startswith(keys.record_prefix("x", a))


@settings(suppress_health_check=NO_FIXTURE_CHECK)
@given(st.uuids(version=4))
def test_every_call_has_one_partition(value):
    text = str(value)
    call = text[:14] + "7" + text[15:]
    assert keys.journal_of(call) in {keys.journal(number) for number in range(16)}


def test_templates_are_bounded():
    assert keys.template_of("edge:{i:edge_1}") == "edge.inbox"
    assert keys.template_of("brain:{i:brain_1}") == "brain.inbox"
    assert keys.template_of("anything") == "other"
