"""Calls through the HTTP API, over the bus, to a scripted edge."""

import asyncio
from typing import Any

import pytest

from hereabouts.brain import call
from hereabouts.schemas.answers import LOCATION_ANSWER
from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.outcomes import Reason
from hereabouts.schemas.tools import Tool


async def test_a_granted_position_reaches_the_caller(house: Any, fix: Any) -> None:
    session = (await house.session())["session_id"]
    tab = await house.edge.register(session, time_zone="Europe/Vienna", languages=["de-AT", "en"], label="My <tab>")
    house.edge.on_ask = house.edge.answer

    answer = await house.invoke(session, purpose="weather", arguments={"desired_accuracy": "coarse"})

    LOCATION_ANSWER.validate_python(answer)
    assert answer["status"] == "GRANTED"
    assert (answer["latitude"], answer["longitude"], answer["accuracy"]) == (48.2, 16.37, 20.0)
    assert answer["answered_by"] == {"kind": "tab", "client_id": tab.client_id}
    assert (answer["time_zone"], answer["language_region"]) == ("Europe/Vienna", "AT")
    assert answer["untrusted"] == {"label": "My <tab>"}
    assert answer["dispatched"] is True
    assert answer["budget_ms"] == 5_000
    assert answer["timestamp"].endswith("Z")
    _, ask = house.edge.asks[0]
    assert ask.params == {"desired_accuracy": "coarse"}
    assert ask.purpose == "weather"
    assert 0 < ask.budget_ms <= 5_000


async def test_without_a_client_the_answer_waits_for_no_timer(house: Any) -> None:
    session = (await house.session())["session_id"]
    answer = await house.invoke(session)
    assert (answer["status"], answer["reason"], answer["dispatched"]) == ("UNAVAILABLE", "no_client", False)


async def test_an_approximate_choice_of_the_person_moves_the_position_to_its_cell(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, precision="approximate")
    house.edge.on_ask = house.edge.answer
    answer = await house.invoke(session)
    assert answer["precision"] == "approximate"
    assert answer["accuracy"] == 2_000
    assert answer["latitude"] != 48.2
    assert abs(answer["latitude"] - 48.2) < 0.02


@pytest.mark.parametrize("reason", [Reason.DENIED, Reason.PROMPT_OPEN, Reason.POSITION_UNAVAILABLE])
async def test_a_refusal_is_an_answer(house: Any, reason: Reason) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = lambda message, ask: house.edge.answer(message, ask, reason=reason)
    answer = await house.invoke(session)
    assert answer["reason"] == reason.value
    assert "latitude" not in answer


async def test_a_silent_edge_is_answered_for_by_the_last_resort(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "BRAIN_BUDGET_MS", 600)
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    answer = await house.invoke(session, timeout_ms=500)
    assert (answer["status"], answer["reason"], answer["budget_ms"]) == ("UNAVAILABLE", "deadline", 500)
    await house.edge.until(lambda: len(house.edge.cancels) == 1)
    assert house.edge.cancels[0].reason == "deadline"


async def test_a_reported_prompt_makes_the_last_resort_pending(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call, "BRAIN_BUDGET_MS", 600)
    session = (await house.session())["session_id"]
    await house.edge.register(session, permission="prompt")
    house.edge.on_ask = lambda message, ask: house.edge.report(message, ask, ClientState.PROMPT_OPEN)
    answer = await house.invoke(session, timeout_ms=500)
    assert (answer["status"], answer["reason"]) == ("PENDING", "prompt_open")
    assert house.edge.asks[0][1].may_prompt is True


async def test_a_session_that_ends_takes_its_open_calls_with_it(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    asked = asyncio.Event()
    house.edge.on_ask = lambda message, ask: asked.set()
    calling = asyncio.create_task(house.invoke(session))
    await asked.wait()
    assert (await house.http.delete(f"/v1/sessions/{session}")).status_code == 204
    answer = await calling
    assert (answer["status"], answer["reason"]) == ("UNAVAILABLE", "cancelled")
    await house.edge.until(lambda: len(house.edge.cancels) == 1)
    message, ask = house.edge.asks[0]
    house.edge.answer(message, ask)  # too late for anybody


async def test_a_killed_edge_is_pending_edge_lost(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = lambda message, ask: house.hub.kill(house.edge.bus.instance)
    answer = await house.invoke(session)
    assert (answer["status"], answer["reason"]) == ("PENDING", "edge_lost")


async def test_a_silent_bus_is_pending_bus_lost(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = lambda message, ask: house.brain.calls.on_lost()
    answer = await house.invoke(session)
    assert (answer["status"], answer["reason"]) == ("PENDING", "bus_lost")


async def test_data_loss_ends_open_calls(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = lambda message, ask: house.hub.lose_data()
    answer = await house.invoke(session)
    assert answer["status"] == "PENDING"
    assert answer["reason"] in ("bus_lost", "edge_lost")


async def test_a_drain_waits_for_accepted_calls_and_takes_no_new_ones(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    call = asyncio.create_task(house.invoke(session))
    await house.edge.until(lambda: len(house.edge.asks) == 1)

    draining = asyncio.create_task(house.brain.drain())
    await asyncio.sleep(0)
    refused = await house.post(session, {"tool": "location_get"})
    assert (refused.status_code, refused.json()["code"]) == (503, "draining")
    assert (await house.http.get("/readyz")).status_code == 503
    assert not draining.done()

    house.edge.answer(*house.edge.asks[0])
    assert (await call)["status"] == "GRANTED"
    await draining


async def test_one_trace_goes_through_and_only_after_authentication(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = house.edge.answer
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    response = await house.post(session, {"tool": "location_get"}, traceparent=f"00-{trace_id}-b7ad6b7169203331-01")
    assert response.json()["trace_id"] == trace_id
    assert trace_id in house.edge.asks[0][0].traceparent
    broken = await house.post(session, {"tool": "location_get"}, traceparent="00-zz-b7ad6b7169203331-01")
    assert len(broken.json()["trace_id"]) == 32


async def test_the_journal_alone_tells_the_story(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = house.edge.answer
    answer = await house.invoke(session, purpose="weather")

    view = (await house.http.get(f"/v1/invocations/{answer['correlation_id']}")).json()

    assert (view["state"], view["status"], view["tool"]) == ("settled", "GRANTED", "location_get")
    assert [line["kind"] for line in view["timeline"]] == ["asked", "settled"]
    assert view["trace_id"] == answer["trace_id"]
    assert view["timeline"][0]["deadline_ms"] == view["timeline"][1]["deadline_ms"]
    assert view["timeline"][1]["accuracy_bucket"] == "≤25 m"
    names = [mark["name"] for mark in view["timeline"][1]["marks"]]
    assert names[0] == "execute_tool location_get"
    assert "48.2" not in str(view)
    assert "16.37" not in str(view)


async def test_a_second_result_and_a_strangers_do_not_count(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    other = await house.edge.register("another-session", name="tab-9")

    def answer(message: Any, ask: Any) -> None:
        house.edge.answer(message, ask.model_copy(update={"connection": other.connection}), reason=Reason.DENIED)
        house.edge.answer(message, ask, epoch=99, reason=Reason.DENIED)
        house.edge.answer(message, ask)
        house.edge.answer(message, ask, reason=Reason.DENIED)

    house.edge.on_ask = answer
    assert (await house.invoke(session))["status"] == "GRANTED"


async def test_a_fast_call_costs_few_commands(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session)
    house.edge.on_ask = house.edge.answer
    await house.invoke(session)
    counted: list[str] = []
    execute = house.hub.store.execute

    def counting(command: tuple[Any, ...]) -> Any:
        counted.append(str(command[0]))
        return execute(command)

    house.hub.store.execute = counting
    await house.invoke(session)
    del house.hub.store.execute
    assert len(counted) <= 10, counted


# --- other tools -----------------------------------------------------------------------------------------------------


async def test_another_tool_goes_to_exactly_one_client(house: Any, silent_tool: Tool) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, "behind", tools=[silent_tool], focused=False, visibility="hidden")
    await house.edge.register(session, "before", tools=[silent_tool])
    house.edge.on_ask = lambda message, ask: house.edge.answer(message, ask, fix=None, payload={"title": "Hi"})
    answer = await house.invoke(session, "page_title", arguments={"language": "de"})
    assert (answer["status"], answer["untrusted_result"]) == ("OK", {"title": "Hi"})
    assert answer["budget_ms"] == 10_000
    assert [ask.client_id for _, ask in house.edge.asks] == ["before"]


async def test_route_all_asks_every_client(house: Any, silent_tool: Tool) -> None:
    session = (await house.session())["session_id"]
    for name in ("a", "b", "c"):
        await house.edge.register(session, name, tools=[silent_tool])
    house.edge.on_ask = lambda message, ask: house.edge.answer(message, ask, fix=None, payload=ask.client_id)
    answer = await house.invoke(session, "page_title", arguments={"language": "de"}, route="all")
    assert answer["status"] == "OK"
    assert {ask.client_id for _, ask in house.edge.asks} == {"a", "b", "c"}
    assert {entry["untrusted_result"] for entry in answer["each"]} == {"a", "b", "c"}


async def test_a_named_client_alone_is_asked(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, "tab-a")
    await house.edge.register(session, "tab-b", focused=False)
    house.edge.on_ask = house.edge.answer
    answer = await house.invoke(session, route="tab-b")
    assert answer["answered_by"]["client_id"] == "tab-b"
    assert len(house.edge.asks) == 1
    assert (await house.invoke(session, route="nobody"))["reason"] == "no_client"


async def test_an_ambiguous_name_lists_the_candidates(house: Any) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, "tab-a", label="Phone")
    await house.edge.register(session, "tab-b", label="phone")
    response = await house.post(session, {"tool": "location_get", "route": "phone"})
    assert (response.status_code, response.json()["code"]) == (409, "ambiguous_client")
    assert {c["client_id"] for c in response.json()["details"]["candidates"]} == {"tab-a", "tab-b"}
    assert house.edge.asks == []


async def test_arguments_are_checked_by_the_clients_schema(house: Any, silent_tool: Tool) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, tools=[silent_tool])
    response = await house.post(session, {"tool": "page_title", "arguments": {"language": "SECRET", "where": 1}})
    assert response.status_code == 422
    assert {p["at"] for p in response.json()["details"]["problems"]} == {"arguments.language", "arguments"}
    assert "SECRET" not in response.text
    assert house.edge.asks == []


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/x.json"}, {"properties": {"a": {"pattern": "("}}}]
)
async def test_an_invalid_schema_is_the_clients_fault(house: Any, schema: dict[str, Any]) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, tools=[Tool(name="broken", params_schema=schema)])
    response = await house.post(session, {"tool": "broken", "arguments": {}})
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "broken" in response.json()["message"]


async def test_a_pattern_that_backtracks_without_end_is_stopped(house: Any) -> None:
    session = (await house.session())["session_id"]
    schema = {"properties": {"a": {"type": "string", "pattern": "^(?:(?=a)a+)+$"}}}
    await house.edge.register(session, tools=[Tool(name="evil", params_schema=schema)])
    response = await house.post(session, {"tool": "evil", "arguments": {"a": "a" * 60 + "b"}})
    assert response.status_code == 422


async def test_a_result_that_is_too_large_is_not_handed_on(house: Any, silent_tool: Tool) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, tools=[silent_tool])
    house.edge.on_ask = lambda message, ask: house.edge.answer(message, ask, fix=None, payload="x" * 50_000)
    answer = await house.invoke(session, "page_title", arguments={"language": "de"})
    assert (answer["status"], answer["reason"]) == ("ERROR", "client_error")
    assert "untrusted_result" not in answer


async def test_tools_of_a_session_each_name_once(house: Any, silent_tool: Tool) -> None:
    session = (await house.session())["session_id"]
    await house.edge.register(session, "a")
    await house.edge.register(session, "b", tools=[silent_tool, *[]])
    await house.edge.register(session, "c")
    tools = (await house.http.get(f"/v1/sessions/{session}/tools")).json()["tools"]
    assert sorted(tool["name"] for tool in tools) == ["location_get", "page_title"]
