"""Calls through real processes, with scripted tabs on real sockets."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.http import SessionCreated
from hereabouts.testing import replies
from hereabouts.testing.plugin import MakeTab
from hereabouts.testing.stack import Stack
from hereabouts.testing.tabs import ScriptedTab
from tests.support.leaks import SENTINELS
from tests.support.system import Session, new_session
from tests.support.waiting import until

pytestmark = pytest.mark.system

PLACE, OTHER_PLACE, _ = SENTINELS


def created(session: Session) -> SessionCreated:
    return SessionCreated.model_validate(session.made)


async def test_without_a_client_the_answer_comes_at_once(session: Session) -> None:
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["dispatched"]) == ("UNAVAILABLE", "no_client", False)
    assert answer["elapsed_ms"] < 1_000, "no timer was waited for"
    story = await session.story(answer["correlation_id"])
    assert [entry["kind"] for entry in story["timeline"]] == ["settled"]


async def test_a_position_arrives_with_all_that_belongs_to_it(session: Session, scripted_tab: MakeTab) -> None:
    tab = await scripted_tab(created(session), permission="granted", otherwise=replies.grant(*PLACE, 12.5))
    await session.clients(1)
    answer = await session.invoke(purpose="to find a café", arguments={"desired_accuracy": "precise"})
    assert answer["status"] == "GRANTED"
    assert (answer["latitude"], answer["longitude"], answer["accuracy"]) == (*PLACE, 12.5)
    assert answer["time_zone"] == "Europe/Berlin"
    assert answer["language_region"] == "DE"
    assert answer["dispatched"] is True
    assert answer["budget_ms"] == 5_000
    asked = tab.invokes[0]
    assert asked.correlation_id == answer["correlation_id"]
    assert asked.purpose == "to find a café"
    assert asked.params["desired_accuracy"] == "precise"
    assert 0 < asked.budget_ms < 5_000
    assert asked.traceparent is not None
    assert asked.traceparent.split("-")[1] == answer["trace_id"]


async def test_the_journal_alone_tells_the_story(session: Session, scripted_tab: MakeTab) -> None:
    await scripted_tab(created(session), otherwise=replies.deny())
    await session.clients(1)
    answer = await session.invoke(purpose="to greet you")
    assert (answer["status"], answer["reason"]) == ("DECLINED", "denied")
    story = await session.story(answer["correlation_id"])
    assert story["state"] == "settled"
    assert (story["status"], story["reason"], story["trace_id"]) == ("DECLINED", "denied", answer["trace_id"])
    kinds = [entry["kind"] for entry in story["timeline"]]
    assert [k for k in ("asked", "delivered", "progress", "answered", "settled") if k in kinds] == [
        "asked",
        "delivered",
        "progress",
        "answered",
        "settled",
    ]
    assert kinds.index("asked") < kinds.index("delivered") < kinds.index("answered") < kinds.index("settled")


async def test_the_guard_answers_for_a_silent_client_within_the_budget(session: Session, scripted_tab: MakeTab) -> None:
    await scripted_tab(created(session))
    await session.clients(1)
    answer = await session.invoke()
    assert (answer["status"], answer["reason"], answer["retry"]) == ("UNAVAILABLE", "client_silent", "never")
    assert answer["elapsed_ms"] >= 4_000, "the client was given its time"
    story = await session.story(answer["correlation_id"])
    assert story["state"] == "settled"


@pytest.mark.parametrize(
    ("script", "state", "expected"),
    [
        (replies.Silent((ClientState.PROMPT_OPEN,)), {}, "prompt_open"),
        (replies.Silent((ClientState.ACQUIRING,)), {}, "acquiring"),
        (replies.Silent(), {"visibility": "hidden", "focused": False}, "tab_hidden"),
    ],
)
async def test_the_guard_answers_from_what_is_known_of_the_client(
    session: Session, scripted_tab: MakeTab, script: replies.Reply, state: dict[str, object], expected: str
) -> None:
    await scripted_tab(created(session), otherwise=script, **state)
    await session.clients(1)
    answer = await session.invoke(timeout_ms=1_500)
    assert (answer["status"], answer["reason"]) == ("PENDING", expected)
    assert answer["budget_ms"] == 1_500


async def test_a_socket_cut_and_re_attached_answers_the_next_call(session: Session, scripted_tab: MakeTab) -> None:
    tab = await scripted_tab(created(session), permission="granted", otherwise=replies.grant(*PLACE))
    await session.clients(1)
    assert (await session.invoke())["status"] == "GRANTED"
    await tab.drop()
    await session.no_clients()
    await tab.__aenter__()
    await session.clients(1)
    assert (await session.invoke())["status"] == "GRANTED"


async def test_a_tab_that_comes_back_within_the_call_answers_it(session: Session, scripted_tab: MakeTab) -> None:
    tab = await scripted_tab(created(session), permission="granted")
    await session.clients(1)
    call = asyncio.create_task(session.invoke())
    first = await tab.asked()
    await tab.drop()
    await tab.__aenter__()
    again = await tab.asked(2)
    assert again.correlation_id == first.correlation_id
    assert again.budget_ms <= first.budget_ms
    await tab.answer(again.correlation_id, replies.grant(*PLACE))
    assert (await call)["status"] == "GRANTED"


async def test_strangers_get_nothing(http: httpx.AsyncClient, session: Session, scripted_tab: MakeTab) -> None:
    """A result counts only from the connection that was asked."""
    asked = await scripted_tab(created(session), permission="granted")
    await session.clients(1)
    other_session = await new_session(http)
    stranger = await scripted_tab(created(other_session), permission="granted")
    await other_session.clients(1)
    call = asyncio.create_task(session.invoke(timeout_ms=2_000))
    invoke = await asked.asked()
    await stranger.answer(invoke.correlation_id, replies.grant(*OTHER_PLACE))
    assert (await stranger.acked(invoke.correlation_id)).get("ignored") is True
    await asked.answer(invoke.correlation_id, replies.grant(*PLACE))
    answer = await call
    assert (answer["latitude"], answer["longitude"]) == PLACE
    await asked.answer(invoke.correlation_id, replies.grant(*OTHER_PLACE))
    assert tab_errors(asked) == []


def tab_errors(tab: ScriptedTab) -> list[dict[str, object]]:
    return tab.errors


async def test_another_tool_goes_to_exactly_one_client(session: Session, scripted_tab: MakeTab) -> None:
    from hereabouts.schemas.tools import Tool

    tool = Tool(
        name="page_title",
        description="The page's title",
        params_schema={"type": "object", "properties": {"upper": {"type": "boolean"}}, "additionalProperties": False},
    )
    tabs = [
        await scripted_tab(created(session), tools=[tool], otherwise=replies.Result({"title": f"tab {n}"}))
        for n in range(2)
    ]

    async def both() -> bool:
        return len((await session.view())["clients"]) == 2

    await until(both, "both tabs to register")
    answer = await session.invoke("page_title", arguments={"upper": True})
    assert answer["status"] == "OK", answer
    assert answer["untrusted_result"]["title"] in ("tab 0", "tab 1")
    assert sum(len(tab.invokes) for tab in tabs) == 1
    wrong = await session.http.post(
        f"/v1/sessions/{session.id}/invocations",
        json={"tool": "page_title", "arguments": {"lower": True}},
        headers={"authorization": f"Bearer {session.made['agent_token']}"},
    )
    assert wrong.status_code == 422, wrong.text
    assert "upper" in wrong.json()["message"], "the error says what is allowed"


@pytest.mark.timeout(120)
class TestKilledServices:
    """On a stack of their own: others share theirs."""

    @pytest.fixture
    async def stack(self) -> AsyncIterator[Stack]:
        async with Stack() as own:
            yield own

    async def test_a_killed_bridge_ends_the_call_honestly(
        self, stack: Stack, session: Session, scripted_tab: MakeTab
    ) -> None:
        tab = await scripted_tab(created(session), permission="granted")
        await session.clients(1)
        call = asyncio.create_task(session.invoke())
        await tab.asked()
        await asyncio.to_thread(stack.kill, "browser-bridge")
        answer = await call
        assert (answer["status"], answer["reason"], answer["retry"]) == ("PENDING", "edge_lost", "after_wait")
        await asyncio.to_thread(stack.restart, "browser-bridge")
        back = await scripted_tab(created(session), permission="granted", otherwise=replies.grant(*PLACE))
        await session.clients(1)
        assert (await session.invoke())["status"] == "GRANTED"
        assert back.invokes

    async def test_a_killed_server_ends_the_call_honestly_and_everything_comes_back(
        self, stack: Stack, session: Session, scripted_tab: MakeTab
    ) -> None:
        tab = await scripted_tab(created(session), permission="granted")
        await session.clients(1)
        call = asyncio.create_task(session.invoke())
        await tab.asked()
        await asyncio.to_thread(stack.kill_server)
        answer = await call
        assert answer["status"] == "PENDING"
        assert answer["reason"] in ("bus_lost", "edge_lost")
        await asyncio.to_thread(stack.start_server)
        tab.otherwise = replies.grant(*PLACE)

        async def works() -> bool:
            response = await session.http.post(
                f"/v1/sessions/{session.id}/invocations",
                json={"tool": "location_get"},
                headers={"authorization": f"Bearer {session.made['agent_token']}"},
            )
            return response.status_code == 200 and response.json()["status"] == "GRANTED"

        await until(works, "calls to be granted again", 40)

    async def test_a_killed_brain_leaves_no_hang_and_a_new_one_answers(
        self, stack: Stack, session: Session, scripted_tab: MakeTab
    ) -> None:
        tab = await scripted_tab(created(session), permission="granted")
        await session.clients(1)
        call = asyncio.create_task(session.invoke())
        await tab.asked()
        await asyncio.to_thread(stack.kill, "brain")
        with pytest.raises(httpx.TransportError):
            await call
        await asyncio.to_thread(stack.restart, "brain")
        tab.otherwise = replies.grant(*PLACE)
        assert (await session.invoke())["status"] == "GRANTED"

    async def test_a_drain_answers_what_was_accepted(
        self, stack: Stack, session: Session, scripted_tab: MakeTab
    ) -> None:
        tab = await scripted_tab(created(session), permission="granted")
        await session.clients(1)
        call = asyncio.create_task(session.invoke())
        invoke = await tab.asked()
        ending = asyncio.create_task(asyncio.to_thread(stack.terminate, "brain"))
        await tab.answer(invoke.correlation_id, replies.grant(*PLACE))
        assert (await call)["status"] == "GRANTED"
        assert await ending == 0
        await asyncio.to_thread(stack.restart, "brain")
