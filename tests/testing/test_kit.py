"""The kit itself: each script of a tab, and what the agent gets from it; a stack that is killed and restarted."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hereabouts.client import Granted, Hereabouts
from hereabouts.schemas.bus_messages import ClientState
from hereabouts.schemas.http import SessionCreated
from hereabouts.testing import replies
from hereabouts.testing.replies import Disconnect, Error, Raw, Reply, Silent
from hereabouts.testing.stack import Stack
from hereabouts.testing.tabs import BridgeRefused, ScriptedTab

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

MakeTab = Callable[..., Awaitable[ScriptedTab]]


@pytest.fixture
async def hereabouts(hereabouts_stack: Stack) -> AsyncIterator[Hereabouts]:
    async with Hereabouts(hereabouts_stack.brain_url, hereabouts_stack.api_key) as client:
        yield client


@pytest.fixture
async def session(hereabouts: Hereabouts) -> SessionCreated:
    return await hereabouts.create_session()


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (replies.grant(1.25, 2.5, accuracy=20), "GRANTED", None),
        (replies.deny(), "DECLINED", "denied"),
        (replies.dismiss(), "DECLINED", "dismissed"),
        (replies.unavailable("position_unavailable"), "UNAVAILABLE", "position_unavailable"),
        (replies.pending(), "PENDING", "prompt_open"),
        (Error("TypeError: x is undefined"), "UNAVAILABLE", "client_error"),
    ],
    ids=str,
)
async def test_each_script_gives_the_agent_its_answer(
    hereabouts: Hereabouts,
    session: SessionCreated,
    scripted_tab: MakeTab,
    reply: Reply,
    status: str,
    reason: str | None,
) -> None:
    tab = (await scripted_tab(session)).then(reply)
    answer = await hereabouts.location(session.session_id, purpose="To test")
    assert answer.status == status
    assert getattr(answer, "reason", None) == reason
    assert tab.unused == []
    (invoke,) = tab.invokes
    assert (invoke.tool, invoke.purpose) == ("location_get", "To test")
    assert 0 < invoke.budget_ms <= 5_000
    if isinstance(answer, Granted):
        assert (answer.latitude, answer.longitude, answer.accuracy) == (1.25, 2.5, 20)
        assert (await tab.acked(invoke.correlation_id)) == {"accepted": True}


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        (Silent(), "UNAVAILABLE", "client_silent"),
        (Silent((ClientState.PROMPT_OPEN,)), "PENDING", "prompt_open"),
        (Raw('{"type":"client-tool-result","data":{"correlationId":"{correlationId}"'), "UNAVAILABLE", "client_silent"),
    ],
    ids=str,
)
async def test_who_does_not_answer_is_answered_for(
    hereabouts: Hereabouts,
    session: SessionCreated,
    scripted_tab: MakeTab,
    reply: Reply,
    status: str,
    reason: str,
) -> None:
    (await scripted_tab(session)).then(reply)
    answer = await hereabouts.location(session.session_id, timeout_ms=800)
    assert (answer.status, getattr(answer, "reason", None)) == (status, reason)


async def test_a_network_lost_in_mid_call_still_gives_an_answer(
    hereabouts: Hereabouts, session: SessionCreated, scripted_tab: MakeTab
) -> None:
    (await scripted_tab(session)).then(Disconnect())
    answer = await hereabouts.location(session.session_id)
    assert answer.status in ("PENDING", "UNAVAILABLE")
    assert answer.dispatched


async def test_a_later_answer_is_ignored(
    hereabouts: Hereabouts, session: SessionCreated, scripted_tab: MakeTab
) -> None:
    tab = (await scripted_tab(session)).then(replies.grant(1, 2))
    await hereabouts.location(session.session_id)
    invoke = await tab.asked()
    await tab.acked(invoke.correlation_id)
    tab.acks.clear()
    await tab.answer(invoke.correlation_id, replies.deny())
    assert (await tab.acked(invoke.correlation_id)) == {"ignored": True}


async def test_an_unbound_socket_may_not_register(session: SessionCreated) -> None:
    tab = ScriptedTab(session.socket_url, session.client_token, session.session_id)
    await tab.open()
    await tab.hello()
    with pytest.raises(BridgeRefused, match="requires a bound session"):
        await tab.register(*tab.tools)
    await tab.close()


async def test_an_answer_for_every_ask(hereabouts: Hereabouts, session: SessionCreated, scripted_tab: MakeTab) -> None:
    await scripted_tab(session, otherwise=lambda invoke: replies.grant(3, 4), permission="granted")
    answers = await asyncio.gather(*(hereabouts.location(session.session_id) for _ in range(8)))
    assert {answer.status.value for answer in answers} == {"GRANTED"}


def test_a_service_can_be_killed_and_started_again() -> None:
    from hereabouts.client import SyncHereabouts, Unreachable

    with Stack({"brain": {"HEREABOUTS_LOG_LEVEL": "DEBUG"}}) as stack:
        with SyncHereabouts(stack.brain_url, stack.api_key) as client:
            session = client.create_session().session_id
            stack.kill("brain")
            with pytest.raises(Unreachable):
                client.get_session(session)
            stack.restart("brain")
            assert client.get_session(session).session_id == session
        assert set(stack.logs()) == {"brain", "browser-bridge", "node-gateway"}
        assert stack.terminate("node-gateway") == 0
        folder = stack.data_dir
    assert not folder.exists()


def test_an_unknown_service_is_a_mistake_in_the_test() -> None:
    with pytest.raises(ValueError, match="no such service: brian"):
        Stack({"brian": {}})
