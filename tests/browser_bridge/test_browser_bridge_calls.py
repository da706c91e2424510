"""Asks that travel bus → bridge → socket → bus, with a real server and real sockets."""

import asyncio
import itertools
import json

from hereabouts.edge.protocol import EdgeProtocol
from hereabouts.schemas.bus_messages import ClientState, JournalKind
from hereabouts.schemas.marks import Service, TraceContext
from hereabouts.schemas.outcomes import Reason, Status
from hereabouts.testing.replies import Silent, deny, grant
from tests.support.waiting import until

from .conftest import House


async def test_an_ask_reaches_the_tab_and_its_position_comes_back(house: House) -> None:
    tab = await house.tab()
    tab.then(grant(52.52, 13.405, accuracy=20))
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client, purpose="the weather")
        result = await house.brain.result(call)

        assert result.status is Status.GRANTED
        assert result.fix is not None
        assert (result.fix.latitude, result.fix.longitude, result.fix.accuracy) == (52.52, 13.405, 20)
        assert result.epoch == house.bridge.edge.bus.epoch
        assert await tab.acked(call) == {"accepted": True}
        invoke = await tab.asked()
        assert 4_000 < invoke.budget_ms <= 4_700
        assert invoke.purpose == "the weather"
        assert [line.kind for line in result.journal] == [JournalKind.DELIVERED, JournalKind.ANSWERED]
        assert "52.5" not in "".join(line.model_dump_json() for line in result.journal)
        assert len(house.bridge.edge.asks) == 0


async def test_the_spans_of_the_hop_and_of_the_tab_ride_on_the_result(house: House) -> None:
    tab = await house.tab()
    tab.then(grant(1.0, 2.0))
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        result = await house.brain.result(house.brain.ask(client))
        invoke = await tab.asked()

    edge = next(mark for mark in result.marks if mark.name == "ask tab")
    told = TraceContext.parse(invoke.traceparent)
    assert told is not None
    assert told.span_id == edge.span_id
    assert edge.service is Service.BROWSER_BRIDGE
    above = next(mark for mark in result.marks if mark.span_id == edge.parent_id)
    assert above.name.startswith("process")
    assert all(mark.start_ns <= mark.end_ns for mark in result.marks)
    answer = next(message for message in house.brain.messages if message.kind.value == "result")
    assert TraceContext.parse(answer.traceparent) == told


async def test_a_silent_tab_is_answered_for_by_the_guard(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client, budget_ms=300)
        result = await house.brain.result(call)
        assert (result.status, result.reason, result.by_guard) == (Status.UNAVAILABLE, Reason.CLIENT_SILENT, True)
        await tab.was_cancelled(call)

        late = house.brain.line(call, JournalKind.LATE)
        await tab.answer(call, grant(1.0, 2.0))
        assert await tab.acked(call) == {"ignored": True}
        line = await late
        assert line.status == "GRANTED"
        assert len([1 for name, _ in house.brain.results if name == call]) == 1


async def test_a_tab_that_reported_its_prompt_is_pending_and_its_late_decision_is_written_down(house: House) -> None:
    tab = await house.tab(otherwise=Silent((ClientState.PROMPT_OPEN,)))
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client, budget_ms=400)
        result = await house.brain.result(call)
        assert (result.status, result.reason) == (Status.PENDING, Reason.PROMPT_OPEN)
        assert await house.brain.states(call) == ["prompt_open"]
        assert (await house.brain.line(call, JournalKind.PROGRESS)).state is ClientState.PROMPT_OPEN

        await tab.decide_late(call, "DECLINED")
        assert (await house.brain.line(call, JournalKind.LATE)).status == "DECLINED"


async def test_a_duplicate_of_an_answered_ask_gets_the_same_answer_and_the_tab_is_not_asked_again(house: House) -> None:
    tab = await house.tab()
    tab.then(deny())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        first = await house.brain.result(call)
        house.brain.ask(client, correlation_id=call)
        second = await house.brain.result(call, 2)
        assert (first.status, first.reason) == (second.status, second.reason) == (Status.DECLINED, Reason.DENIED)
        assert len(tab.invokes) == 1


async def test_a_new_socket_with_the_secret_takes_over_what_is_open(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        await tab.asked()
        await tab.drop()

        again = await house.tab(client_id=tab.client_id, resume=tab.resume)
        again.then(grant(1.0, 2.0))
        async with again:
            result = await house.brain.result(call)
            assert result.status is Status.GRANTED
            assert result.connection == again.connection_id


async def test_a_new_socket_without_the_secret_inherits_nothing(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client, budget_ms=600)
        await tab.asked()
        await tab.drop()

        stranger = await house.tab(client_id=tab.client_id, resume="guessed")
        async with stranger:
            await stranger.answer(call, grant(1.0, 2.0))
            assert await stranger.acked(call) == {"ignored": True}
            result = await house.brain.result(call)
            assert (result.status, result.reason) == (Status.PENDING, Reason.NOT_READY)
            assert stranger.invokes == []


async def test_a_newer_socket_closes_the_older_and_gets_its_asks(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        await tab.asked()
        again = await house.tab(client_id=tab.client_id, resume=tab.resume)
        again.then(grant(1.0, 2.0))
        async with again:
            assert await tab.closed() == 1000
            assert (await house.brain.result(call)).status is Status.GRANTED
            [now] = await house.brain.clients(house.tenant, "s_1")
            assert now.connection == again.connection_id


async def test_two_tabs_that_say_the_same_name_are_asked_as_two_clients(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    copy = await house.tab(client_id=tab.client_id, otherwise=grant(1.0, 2.0))
    async with tab, copy:
        clients = {client.connection: client for client in await house.brain.clients(house.tenant, "s_1", 2)}
        first, second = clients[str(tab.connection_id)], clients[str(copy.connection_id)]
        assert first.client_id == tab.client_id != second.client_id
        call = house.brain.ask(first)
        await tab.asked()
        house.brain.ask(second, correlation_id=call)
        result = await house.brain.result(call)
        assert (result.status, result.client_id) == (Status.GRANTED, second.client_id)
        assert (len(tab.invokes), len(copy.invokes)) == (1, 1)
        house.brain.cancel(first, call)
        await tab.was_cancelled(call)


async def test_another_tab_cannot_answer(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    stranger = await house.tab("s_2", otherwise=Silent())
    async with tab, stranger:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        await tab.asked()
        await stranger.answer(call, grant(9.0, 9.0))
        assert await stranger.acked(call) == {"ignored": True}
        await tab.answer(call, grant(1.0, 2.0))
        result = await house.brain.result(call)
        assert result.fix is not None
        assert result.fix.latitude == 1.0


async def test_an_ask_for_a_socket_that_is_gone_is_not_ready_at_once(house: House) -> None:
    tab = await house.tab()
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
    await house.brain.clients(house.tenant, "s_1", 0)
    result = await house.brain.result(house.brain.ask(client, budget_ms=60_000))
    assert (result.status, result.reason) == (Status.PENDING, Reason.NOT_READY)


async def test_a_tool_that_was_taken_back_is_answered_no_client(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        await tab.asked()
        await tab.unregister("location_get")
        result = await house.brain.result(call)
        assert (result.status, result.reason) == (Status.UNAVAILABLE, Reason.NO_CLIENT)


async def test_a_cancel_reaches_the_tab_and_nothing_is_sent_back(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client)
        await tab.asked()
        house.brain.cancel(client, call)
        await tab.was_cancelled(call)
        await tab.answer(call, grant(1.0, 2.0))
        assert await tab.acked(call) == {"ignored": True}
        assert house.brain.results == []
        assert len(house.bridge.edge.asks) == 0


async def test_an_expired_ask_is_answered_at_once_and_the_tab_never_sees_it(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        expired = house.brain.ask(client, budget_ms=0)
        live = house.brain.ask(client)
        assert (await tab.asked()).correlation_id == live
        result = await house.brain.result(expired)
        assert (result.status, result.reason, result.by_guard) == (Status.UNAVAILABLE, Reason.CLIENT_SILENT, True)
        assert len(tab.invokes) == 1


async def test_a_tab_that_floods_costs_the_others_nothing(house: House) -> None:
    flooder, tab = await house.tab("s_1"), await house.tab("s_2", otherwise=grant(1.0, 2.0))
    async with flooder, tab:
        [client] = await house.brain.clients(house.tenant, "s_2")
        epoch = house.bridge.edge.bus.epoch
        states = [json.dumps({"type": "client-state", "data": {"focused": on}}) for on in (True, False)]

        async def flood() -> None:
            for text in itertools.cycle(states):
                await flooder.send_raw(text)

        flooding = asyncio.create_task(flood())
        try:
            protocol = next(
                c._socket for c in house.bridge.edge._connections.values() if c.name == flooder.connection_id
            )
            assert isinstance(protocol, EdgeProtocol)

            async def over_budget() -> bool:
                return protocol.read_paused

            await until(over_budget, "the flood to be held back")
            for _ in range(20):
                result = await house.brain.result(house.brain.ask(client, budget_ms=1_500))
                assert result.status is Status.GRANTED
            assert house.bridge.edge.bus.epoch == epoch
            assert house.bridge.edge.problem() is None
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)
            await flooder.drop()


async def test_a_drain_answers_what_is_open_and_sends_tabs_elsewhere(house: House) -> None:
    tab = await house.tab(otherwise=Silent())
    async with tab:
        [client] = await house.brain.clients(house.tenant, "s_1")
        call = house.brain.ask(client, budget_ms=700)
        await tab.asked()
        await house.bridge.edge.drain()
        result = await house.brain.result(call)
        assert result.by_guard
        assert await tab.closed() == 1012
        assert house.bridge.edge.connections == 0
